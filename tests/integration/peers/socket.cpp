#include "tests/integration/peers/socket.hpp"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/loopback.hpp"

namespace weir::integration {
namespace {

const sockaddr* generic(const auto& address) { return reinterpret_cast<const sockaddr*>(&address); }

sockaddr_un address_of(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.string().copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

std::string reason() { return std::strerror(errno); }

void set(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

/// Returns a socket that has this name of the system's own, which goes with its last descriptor; a closed one if
/// another has it.
Socket held_name(const std::string& name) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Socket holder(fd);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // A zero byte before it keeps it out of the files.
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd, generic(address), size) != 0) holder.close();
  return holder;
}

int open_tcp() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw std::runtime_error("cannot open a socket: " + reason());
  return fd;
}

}  // namespace

bool system_has_all(int fd) {
  int left = 0;
  pollfd broken{fd, 0, 0};
  return ::ioctl(fd, SIOCOUTQ, &left) != 0 || left == 0 || ::poll(&broken, 1, 0) != 0;
}

std::uint16_t free_port() {
  static std::mt19937 random{std::random_device{}()};
  // A port that was given before may have no listener yet. Other test programs see that by a name which lives as long
  // as this one.
  static std::map<std::uint16_t, Socket> given;
  std::uniform_int_distribution<int> ports(12'000, 31'999);
  for (int attempt = 0; attempt < 200; ++attempt) {
    const auto port = static_cast<std::uint16_t>(ports(random));
    const auto address = loopback(port);
    const int fd = open_tcp();
    const Socket owner(fd);
    if (::bind(fd, generic(address), sizeof address) != 0 || given.contains(port)) continue;
    if (Socket name = held_name("weir-test-port-" + std::to_string(port)); name.is_open()) {
      given.emplace(port, std::move(name));
      return port;
    }
  }
  throw std::runtime_error("found no free port");
}

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)), called_off_(other.called_off_) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  close();
  fd_ = std::exchange(other.fd_, -1);
  called_off_ = other.called_off_;
  return *this;
}

Socket Socket::listen(int called_off, std::uint16_t port, unsigned machine, int backlog) {
  Socket listener(open_tcp(), called_off);
  set(listener.fd_, SOL_SOCKET, SO_REUSEADDR, 1);
  const auto address = loopback(port, machine);
  if (::bind(listener.fd_, generic(address), sizeof address) != 0 || ::listen(listener.fd_, backlog) != 0)
    throw std::runtime_error("cannot listen: " + reason());
  return listener;
}

Socket Socket::listen(int called_off, const std::filesystem::path& path) {
  Socket listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), called_off);
  const auto address = address_of(path);
  if (::bind(listener.fd_, generic(address), sizeof address) != 0 || ::listen(listener.fd_, 256) != 0)
    throw std::runtime_error("cannot listen on " + path.string() + ": " + reason());
  return listener;
}

Socket Socket::connect(std::uint16_t port, int receive_buffer, unsigned from) {
  Socket socket(open_tcp());
  if (const auto own = loopback(0, from); from != 1 && ::bind(socket.fd_, generic(own), sizeof own) != 0)
    throw std::runtime_error("cannot connect from 127.0.0." + std::to_string(from) + ": " + reason());
  if (receive_buffer > 0) set(socket.fd_, SOL_SOCKET, SO_RCVBUF, receive_buffer);
  set(socket.fd_, IPPROTO_TCP, TCP_NODELAY, 1);
  const auto address = loopback(port);
  if (::connect(socket.fd_, generic(address), sizeof address) != 0)
    throw PeerGone("cannot connect to port " + std::to_string(port) + ": " + reason());
  return socket;
}

Socket Socket::connect(const std::filesystem::path& path) {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = address_of(path);
  if (::connect(socket.fd_, generic(address), sizeof address) != 0)
    throw PeerGone("cannot connect to " + path.string() + ": " + reason());
  return socket;
}

Socket Socket::accept() {
  if (!ready(POLLIN, std::chrono::hours(1))) throw TimedOut("a connection");
  const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) throw std::runtime_error("cannot accept: " + reason());
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  return Socket(fd, called_off_);
}

std::uint16_t Socket::port() const {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

bool Socket::ready(short events, std::chrono::milliseconds at_most) const {
  if (fd_ < 0) throw PeerGone("the connection is closed on this side");
  std::array<pollfd, 2> watched{pollfd{fd_, events, 0}, pollfd{called_off_, POLLIN, 0}};
  const auto deadline = Clock::now() + at_most;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int n = ::poll(watched.data(), watched.size(), static_cast<int>(left < 0 ? 0 : left));
    if (n < 0 && errno == EINTR) continue;
    if (watched[1].revents != 0) throw CalledOff();
    return n > 0;
  }
}

std::size_t Socket::send_some(std::string_view bytes, std::chrono::milliseconds at_most) {
  if (!ready(POLLOUT, at_most)) return 0;
  const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (n < 0) throw PeerGone("while sending: " + reason());
  return static_cast<std::size_t>(n);
}

void Socket::send(std::string_view bytes) {
  const auto deadline = Clock::now() + patience;
  while (!bytes.empty()) {
    bytes.remove_prefix(send_some(bytes, std::chrono::seconds(1)));
    if (Clock::now() > deadline) throw TimedOut("the peer to take " + std::to_string(bytes.size()) + " more bytes");
  }
}

std::size_t Socket::receive(char* to, std::size_t size) {
  if (!ready(POLLIN, patience)) throw TimedOut("bytes from the peer");
  const auto n = ::recv(fd_, to, size, 0);
  if (n < 0) throw PeerGone("while receiving: " + reason());
  return static_cast<std::size_t>(n);
}

bool Socket::has_bytes(std::chrono::milliseconds at_most) const { return ready(POLLIN, at_most); }

Clock::time_point Socket::wait_for_close() {
  std::array<char, 4096> ignored;
  try {
    while (receive(ignored.data(), ignored.size()) > 0) {
    }
  } catch (const PeerGone&) {
  }
  return Clock::now();
}

void Socket::wait_until_taken() const {
  look_until("the peer to take all that was sent", [this] { return system_has_all(fd_); });
}

void Socket::small_send_buffer() { set(fd_, SOL_SOCKET, SO_SNDBUF, 32 * 1024); }

void Socket::small_receive_buffer() { set(fd_, SOL_SOCKET, SO_RCVBUF, 32 * 1024); }

void Socket::finish_sending() { ::shutdown(fd_, SHUT_WR); }

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void Socket::reset() {
  const linger at_once{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

}  // namespace weir::integration
