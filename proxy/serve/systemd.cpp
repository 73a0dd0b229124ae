#include "proxy/serve/systemd.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>

namespace weir::proxy::serve {
namespace {

constexpr int first_inherited = 3;

std::optional<int> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  int number = 0;
  const auto* const end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, number);
  return error == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

/// Returns where a socket accepts connections, if it does.
std::optional<config::ListenAddress> listens_on(int fd) {
  const auto option = [fd](int name) {
    int value = 0;
    socklen_t size = sizeof value;
    return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : 0;
  };
  if (option(SO_ACCEPTCONN) == 0 || option(SO_TYPE) != SOCK_STREAM) return std::nullopt;
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    return config::ListenAddress{text.data(), ntohs(address.sin_port)};
  }
  if (storage.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(storage);
    ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    return config::ListenAddress{text.data(), ntohs(address.sin6_port)};
  }
  if (storage.ss_family == AF_UNIX) {
    const auto& address = reinterpret_cast<const sockaddr_un&>(storage);
    config::ListenAddress place;
    place.unix_path.assign(address.sun_path, ::strnlen(address.sun_path, sizeof address.sun_path));
    if (place.unix_path.starts_with('/')) return place;
  }
  return std::nullopt;
}

}  // namespace

std::vector<InheritedSocket> take_inherited_sockets() {
  const auto process = number_in("LISTEN_PID"), count = number_in("LISTEN_FDS");
  for (const auto* variable : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(variable);
  std::vector<InheritedSocket> sockets;
  if (process != ::getpid()) return sockets;
  for (int fd = first_inherited; fd < first_inherited + count.value_or(0); ++fd) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    const auto address = listens_on(fd);
    if (!address)
      throw std::runtime_error(
          "LISTEN_FDS: descriptor " + std::to_string(fd) +
          " accepts no connections at an address or a path; the .socket unit may have ListenStream with these only");
    sockets.push_back({*address, net::UniqueFd(fd)});
  }
  return sockets;
}

ServiceManager::ServiceManager() {
  if (const char* const socket = std::getenv("NOTIFY_SOCKET")) socket_ = socket;
  ::unsetenv("NOTIFY_SOCKET");
}

void ServiceManager::ready(std::string_view status) const { tell("READY=1\nSTATUS=" + std::string(status)); }

void ServiceManager::reloading() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();  // CLOCK_MONOTONIC, as systemd asks for.
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  tell("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds) + "\nSTATUS=reloading");
}

void ServiceManager::stopping(std::string_view status) const { tell("STOPPING=1\nSTATUS=" + std::string(status)); }

void ServiceManager::status(std::string_view status) const { tell("STATUS=" + std::string(status)); }

/// A manager that does not listen is no reason to stop.
void ServiceManager::tell(const std::string& lines) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.size() < 2 || socket_.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_.front() == '@') address.sun_path[0] = '\0';
  const net::UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  if (fd)
    ::sendto(fd.get(), lines.data(), lines.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
             reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace weir::proxy::serve
