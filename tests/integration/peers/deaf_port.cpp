#include "tests/integration/peers/deaf_port.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "tests/integration/peers/loopback.hpp"

namespace weir::integration {
namespace {

/// A backlog of 0 holds one or two connections. More than this means that it has no end.
constexpr std::size_t most_to_fill = 16;
/// The system takes a connection of the loopback interface within less, if at all.
constexpr int taken_ms = 50;

}  // namespace

DeafPort::DeafPort(std::uint16_t port) : listener_(Socket::listen(-1, port, 1, 0)) {
  const auto address = loopback(port);
  while (waiting_.size() < most_to_fill) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    waiting_.push_back(fd);
    ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    pollfd taken{fd, POLLOUT, 0};
    if (::poll(&taken, 1, taken_ms) == 0) return;
  }
  throw std::runtime_error("the backlog of port " + std::to_string(port) + " does not fill");
}

DeafPort::~DeafPort() {
  for (const int fd : waiting_) ::close(fd);
}

}  // namespace weir::integration
