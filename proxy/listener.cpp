#include "proxy/listener.hpp"

#include <stdexcept>

namespace weir::proxy {
namespace {

std::string shown(const config::ListenAddress& address) {
  const bool ipv6 = address.host.find(':') != std::string::npos;
  return (ipv6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

}  // namespace

Listener::Listener(boost::asio::io_context& context, const config::ListenAddress& address, Accepted accepted)
    : acceptor_(context), backoff_(context), accepted_(std::move(accepted)) {
  try {
    const boost::asio::ip::tcp::endpoint endpoint(boost::asio::ip::make_address(address.host), address.port);
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(boost::asio::socket_base::reuse_address(true));
    acceptor_.bind(endpoint);
    acceptor_.listen(4096);
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error("cannot listen on " + shown(address) + ": " + error.code().message());
  }
}

void Listener::accept() {
  acceptor_.async_accept([this](boost::system::error_code error, boost::asio::ip::tcp::socket socket) {
    if (error == boost::asio::error::operation_aborted) return;
    if (!error) {
      const bool ipv6 = acceptor_.local_endpoint(error).protocol() == boost::asio::ip::tcp::v6();
      accepted_(UniqueFd(socket.release()), ipv6);
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

}  // namespace weir::proxy
