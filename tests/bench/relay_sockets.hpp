// What the two ends of the relay bench share: sockets, the clock of the stamps, and failing with a sentence.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace weir::bench {

/// In front of the digits of a stamp, and nowhere else in an answer.
inline constexpr char stamp_mark = '@';

inline std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

/// `result` of a call that returns -1 with errno.
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

/// As many descriptors as the system allows.
inline void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// The value behind `--NAME` on a command line of pairs.
inline double option(int argc, char** argv, std::string_view name, double otherwise) {
  for (int i = 1; i + 1 < argc; i += 2)
    if (argv[i] == name) return std::strtod(argv[i + 1], nullptr);
  return otherwise;
}

}  // namespace weir::bench
