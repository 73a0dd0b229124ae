#include "proxy/serve/listener.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <spdlog/spdlog.h>

#include <cerrno>
#include <stdexcept>

#include "config/address.hpp"
#include "proxy/net/address.hpp"

namespace weir::proxy::serve {
namespace {

constexpr int backlog = 4096;

/// True if nobody waits any more: another process that has the socket took the client, or the client left.
bool is_gone(int error) { return error == EAGAIN || error == EINTR || error == ECONNABORTED || error == EPROTO; }

/// Says why weir cannot listen there, and what to do.
std::string reason(const boost::system::error_code& error, const std::string& key) {
  // A connection that goes out from the port, or waits there in TIME-WAIT, takes it as well as a listener does.
  if (error == boost::asio::error::address_in_use)
    return "the port is taken by another program (`ss -tanp`, as root, says which); end it, or give " + key +
           " another port";
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
    const auto endpoint = net::listen_endpoint(address);
    acceptor_.open(endpoint.protocol());
    if (address.unix_path.empty()) {
      acceptor_.set_option(boost::asio::socket_base::reuse_address(true));
      acceptor_.bind(endpoint);
      acceptor_.listen(backlog);
    } else {
      file_ = std::make_shared<SocketFile>(acceptor_.native_handle(), address.unix_path, backlog, key);
    }
    acceptor_.non_blocking(true);
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error(key + ": cannot listen on " + config::to_text(address) + ": " +
                             reason(error.code(), key));
  }
}

Listener::Listener(boost::asio::io_context& context, net::UniqueFd socket, Accepted accepted,
                   std::shared_ptr<SocketFile> file)
    : acceptor_(context), backoff_(context), accepted_(std::move(accepted)), file_(std::move(file)) {
  // Asio asks the protocol for no more than that it is a stream.
  acceptor_.assign(Protocol(AF_UNSPEC, 0), socket.get());
  socket.release();
  acceptor_.non_blocking(true);
}

/// Waits for the next client before this one is handled, which may throw.
void Listener::accept() {
  const auto take = [self = shared_from_this()](boost::system::error_code error) {
    if (!self->acceptor_.is_open()) return;
    net::UniqueFd client;
    if (!error) {
      client = self->take_one();
      if (!client && !is_gone(errno)) error = {errno, boost::system::system_category()};
    }
    if (error) return self->back_off(error);
    self->accept();
    if (client) self->accepted_(std::move(client));
  };
  acceptor_.async_wait(boost::asio::socket_base::wait_read, take);
}

net::UniqueFd Listener::take_one() {
  return net::UniqueFd(::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

void Listener::back_off(const boost::system::error_code& error) {
  backoff_.expires_after(std::chrono::milliseconds(50));
  backoff_.async_wait([self = shared_from_this()](boost::system::error_code ended) {
    if (!ended && self->acceptor_.is_open()) self->accept();
  });
  warn(error);
}

/// Without a descriptor nobody is accepted until one is free again; clients wait in the kernel's queue.
void Listener::warn(const boost::system::error_code& error) {
  const auto now = std::chrono::steady_clock::now();
  if (now < warned_) return;
  warned_ = now + std::chrono::minutes(1);
  spdlog::warn(
      "cannot accept a connection: {}; those that wait are tried again every 50 ms (said at most once a minute)",
      error.message());
}

void Listener::close(bool leave_waiting) {
  if (!acceptor_.is_open()) return;
  if (!leave_waiting) take_waiting();
  backoff_.cancel();
  // Asio leaves a closed descriptor to the kernel to forget, but the socket lives on where others hold it. So it is
  // taken from Asio first.
  boost::system::error_code error;
  net::UniqueFd(acceptor_.release(error)).reset();
  file_.reset();
}

/// Closing would reset the connections that wait to be accepted.
void Listener::take_waiting() {
  while (auto client = take_one()) accepted_(std::move(client));
}

net::UniqueFd Listener::duplicate() { return net::UniqueFd(::fcntl(acceptor_.native_handle(), F_DUPFD_CLOEXEC, 0)); }

}  // namespace weir::proxy::serve
