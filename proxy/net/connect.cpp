#include "proxy/net/connect.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

#include "proxy/net/channel.hpp"
#include "proxy/net/tls/context.hpp"

namespace weir::proxy::net {

UniqueFd begin_connect(const Address& address) {
  const auto endpoint = address.endpoint();
  UniqueFd socket(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return socket;
  if (!address.is_path()) {
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  }
  const auto* to = reinterpret_cast<const sockaddr*>(endpoint.data());
  if (::connect(socket.get(), to, static_cast<socklen_t>(endpoint.size())) != 0 && errno != EINPROGRESS) {
    const int error = errno;
    socket.reset();
    errno = error;
  }
  return socket;
}

int error_of_several(int before, int error, const Address& at) {
  const auto has_no_way = [](int one) { return one == EAFNOSUPPORT || one == ENETUNREACH || one == EPROTONOSUPPORT; };
  if (error == EADDRNOTAVAIL && !at.is_path() && at.address().is_v6()) error = ENETUNREACH;
  if (before == 0) return error;
  if (has_no_way(error)) return before;
  return has_no_way(before) || before == ECONNREFUSED ? error : before;
}

std::string connect_error_text(int error) {
  if (error == name_unknown) return "its host name could not be resolved";
  return tls::is_failure(error) ? tls::failure_text(error) : std::generic_category().message(error);
}

bool is_local_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == EADDRNOTAVAIL || error == ENOBUFS || error == ENOMEM;
}

std::unique_ptr<Channel> SocketConnector::connect(const Destination& destination) {
  auto socket = begin_connect(destination.address);
  if (!socket) return nullptr;
  if (destination.tls) return tls::TlsChannel::to_replica(loop_, std::move(socket), destination.tls);
  return std::make_unique<SocketChannel>(loop_.poller, loop_.clock, std::move(socket));
}

}  // namespace weir::proxy::net
