#include "proxy/serve/listener.hpp"

#include <cerrno>
#include <stdexcept>

#include "config/address.hpp"
#include "proxy/serve/port_owner.hpp"

namespace weir::proxy::serve {
namespace {

/// Says why weir cannot listen there, and what to do.
std::string reason(const boost::system::error_code& error, const std::string& key,
                   const config::ListenAddress& address) {
  if (error == boost::asio::error::address_in_use) {
    const auto owner = port_owner(address);
    return "the port is taken by " + (owner.empty() ? "another program (`ss -ltnp`, as root, says which)" : owner) +
           "; end it, or give " + key + " another port";
  }
  if (error == boost::asio::error::access_denied)
    return "this user may not listen on ports below 1024; give " + key +
           " a higher port, or weir the capability CAP_NET_BIND_SERVICE";
  if (error.value() == EADDRNOTAVAIL)
    return "this machine has no such address; give " + key + " one of its own (`ip address` lists them), or 0.0.0.0";
  return error.message();
}

}  // namespace

Listener::Listener(boost::asio::io_context& context, const std::string& key, const config::ListenAddress& address,
                   Accepted accepted)
    : acceptor_(context), backoff_(context), accepted_(std::move(accepted)) {
  try {
    const boost::asio::ip::tcp::endpoint endpoint(boost::asio::ip::make_address(address.host), address.port);
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(boost::asio::socket_base::reuse_address(true));
    acceptor_.bind(endpoint);
    acceptor_.listen(4096);
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error(key + ": cannot listen on " + config::to_text(address) + ": " +
                             reason(error.code(), key, address));
  }
}

void Listener::accept() {
  acceptor_.async_accept([this](boost::system::error_code error, boost::asio::ip::tcp::socket socket) {
    if (error == boost::asio::error::operation_aborted) return;
    if (!error) {
      const bool ipv6 = acceptor_.local_endpoint(error).protocol() == boost::asio::ip::tcp::v6();
      accepted_(net::UniqueFd(socket.release()), ipv6);
      return accept();
    }
    backoff_.expires_after(std::chrono::milliseconds(50));
    backoff_.async_wait([this](boost::system::error_code ended) {
      if (!ended) accept();
    });
  });
}

void Listener::close() {
  boost::system::error_code error;
  acceptor_.close(error);
  backoff_.cancel();
}

}  // namespace weir::proxy::serve
