// The common parts of a bench's two ends: sockets, the clock of the stamps, parts of HTTP, and failing with a sentence.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weir::bench {

/// Stands in front of the digits of a stamp, and nowhere else in an answer.
inline constexpr char stamp_mark = '@';

inline std::uint64_t nanoseconds(const timespec& t) {
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

inline std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return nanoseconds(now);
}

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

/// Returns `result` of a call that returns -1 with errno, or fails.
inline int checked(int result, const char* call) {
  if (result < 0) fail(std::string(call) + ": " + std::strerror(errno));
  return result;
}

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

inline void no_delay(int fd) {
  const int on = 1;
  checked(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
}

inline void watch(int set, int fd, std::uint32_t events, std::uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  checked(::epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

/// Asks the kernel to stamp what this socket, or one accepted from it, receives.
inline void stamp_arrivals(int fd) {
  const int on = 1;
  checked(::setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on), "SO_TIMESTAMPNS");
}

/// Reads as recv does; `at` becomes the moment on CLOCK_MONOTONIC when the kernel received the last of the bytes.
inline ssize_t read_stamped(int fd, std::span<char> bytes, std::uint64_t& at) {
  iovec piece{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(timespec))];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const auto size = ::recvmsg(fd, &message, MSG_DONTWAIT);
  at = monotonic_ns();
  const auto* const header = size > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_TIMESTAMPNS) {
    timespec stamp{}, wall{};
    std::memcpy(&stamp, CMSG_DATA(header), sizeof stamp);
    ::clock_gettime(CLOCK_REALTIME, &wall);
    at -= nanoseconds(wall) - nanoseconds(stamp);
  }
  return size;
}

/// Opens a listening socket on loopback; `port` 0 is replaced by the one that the system chose.
inline int listen_on_loopback(std::uint16_t& port) {
  const int fd = checked(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  auto address = loopback(port);
  checked(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
  checked(::listen(fd, 4096), "listen");
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  port = ntohs(address.sin_port);
  return fd;
}

/// Returns a descriptor that is readable once this process is asked to end.
inline int termination_descriptor() {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTERM);
  sigaddset(&mask, SIGINT);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  return checked(::signalfd(-1, &mask, SFD_CLOEXEC), "signalfd");
}

/// Returns the body of a request that has come whole. It takes only what proxies send here: a body with Content-Length,
/// or none.
inline std::optional<std::string_view> whole_body(std::string_view request) {
  const auto head_end = request.find("\r\n\r\n");
  if (head_end == std::string_view::npos) return std::nullopt;
  std::string lower(request.substr(0, head_end));
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto at = lower.find("content-length:");
  const std::size_t length = at == std::string::npos ? 0 : std::strtoul(lower.c_str() + at + 15, nullptr, 10);
  if (request.size() < head_end + 4 + length) return std::nullopt;
  return request.substr(head_end + 4, length);
}

/// Returns the number behind `"name":` in a JSON body that a bench wrote.
inline std::uint64_t json_number(std::string_view body, std::string_view name, std::uint64_t otherwise) {
  const auto at = body.find("\"" + std::string(name) + "\":");
  return at == std::string_view::npos ? otherwise : std::strtoul(body.data() + at + name.size() + 3, nullptr, 10);
}

inline void add_chunk(std::string& out, std::string_view bytes) {
  char size[20];
  const int length = std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  out.append(size, static_cast<std::size_t>(length)).append(bytes).append("\r\n");
}

/// Returns a request for a streamed chat of `tokens` tokens. `more` are further members of its body.
inline std::string chat_request(std::uint64_t tokens, std::string_view model = "bench", std::string_view more = "") {
  const std::string body = R"({"model":")" + std::string(model) + R"(","stream":true,"max_tokens":)" +
                           std::to_string(tokens) + std::string(more) +
                           R"(,"messages":[{"role":"user","content":"Count the tokens that pass."}]})";
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// Opens a connection to loopback whose bytes the kernel stamps.
inline int stamped_connection(std::uint16_t port) {
  const int fd = checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  no_delay(fd);
  stamp_arrivals(fd);
  const auto address = loopback(port);
  checked(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), "connect");
  return fd;
}

inline void send_whole(int fd, std::string_view request) {
  if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    fail("a request was not taken whole");
}

/// Calls `readable(tag)` for each socket that is ready, then rests for `rest` ns. A client that waited would be woken
/// by nearly every send of a proxy beside it.
template <class Readable>
void read_ready(int set, const Readable& readable, long rest) {
  epoll_event events[256];
  int count = 256;
  while (count == 256) {
    count = ::epoll_wait(set, events, 256, 0);
    for (int i = 0; i < count; ++i) readable(events[i].data.u64);
  }
  const timespec pause{0, rest};
  if (rest > 0) ::clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
}

/// Returns a quantile of sorted nanoseconds, in microseconds.
inline double quantile_us(std::span<const std::uint64_t> sorted, double q) {
  if (sorted.empty()) return 0;
  return static_cast<double>(sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))]) / 1000;
}

/// Raises the limit of descriptors as far as the system allows.
inline void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Returns the text behind `--NAME` on a command line of pairs.
inline const char* text_option(int argc, char** argv, std::string_view name, const char* otherwise) {
  for (int i = 1; i + 1 < argc; i += 2)
    if (argv[i] == name) return argv[i + 1];
  return otherwise;
}

inline double option(int argc, char** argv, std::string_view name, double otherwise) {
  const char* const text = text_option(argc, argv, name, nullptr);
  return text == nullptr ? otherwise : std::strtod(text, nullptr);
}

}  // namespace weir::bench
