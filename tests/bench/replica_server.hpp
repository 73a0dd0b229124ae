// The common part of the replicas that benches run: a server on loopback with one thread, which reads requests, steps
// when it is due, and ends when it is asked to.
#pragma once

#include <sys/timerfd.h>

#include <memory>
#include <unordered_map>
#include <utility>

#include "tests/bench/relay_sockets.hpp"

namespace weir::bench {

/// The head of a streamed answer.
inline constexpr std::string_view stream_head =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
/// The beginning of a chat chunk as vLLM writes it, up to its choices.
inline constexpr std::string_view chunk_begin =
    R"({"id":"chatcmpl-0a1b2c3d4e5f60718293a4b5c6d7e8f9","object":"chat.completion.chunk","created":1779866853,)"
    R"("model":"bench","choices":[)";

/// A connection of a proxy or a client. At most one answer at a time is written on it.
struct Peer {
  explicit Peer(int descriptor) : fd(descriptor) {}
  ~Peer() { ::close(fd); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const int fd;
  std::string request;        ///< The bytes of a request that is not yet whole.
  std::uint64_t arrived = 0;  ///< When the kernel received its first bytes.
};

/// `Connection` is derived from Peer.
template <class Connection>
class ReplicaServer {
 public:
  /// Prints "listening on 127.0.0.1:PORT".
  explicit ReplicaServer(std::uint16_t port) : listener_(listen_on_loopback(port)) {
    stamp_arrivals(listener_);
    watch(set_, listener_, EPOLLIN, listener);
    watch(set_, timer_, EPOLLIN | EPOLLET, timer);
    watch(set_, termination_descriptor(), EPOLLIN, signals);
    std::printf("listening on 127.0.0.1:%u\n", unsigned{port});
    std::fflush(stdout);
  }
  virtual ~ReplicaServer() = default;

  void run() {
    epoll_event events[256];
    for (bool over = false; !over;) {
      const int count = ::epoll_wait(set_, events, 256, -1);
      step();
      for (int i = 0; i < count; ++i) {
        const auto tag = events[i].data.u64;
        if (tag == listener) accept_all();
        if (tag == signals) over = true;
        if (tag >= connections) ready(static_cast<int>(tag - connections), events[i].events);
      }
    }
  }

 protected:
  /// Comes before whatever else is ready, because the moment of a token is what is measured.
  virtual void step() {}
  /// Takes the body of an inference request. Returns false if the connection is to be closed.
  virtual bool asked(Connection& of, std::string_view body) = 0;
  /// Writes to a connection of which want_to_write() was told. Returns false if the connection is to be closed.
  virtual bool writable(Connection&) { return true; }

  void want_to_write(const Connection& of) {
    epoll_event wanted{};
    wanted.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP;
    wanted.data.u64 = connections + static_cast<std::uint64_t>(of.fd);
    checked(::epoll_ctl(set_, EPOLL_CTL_MOD, of.fd, &wanted), "epoll_ctl");
  }
  /// Has step() come at this moment, in nanoseconds of CLOCK_MONOTONIC.
  void step_at(std::uint64_t at) {
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(at / 1'000'000'000);
    when.it_value.tv_nsec = static_cast<long>(at % 1'000'000'000);
    checked(::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr), "timerfd_settime");
  }

  std::unordered_map<int, std::unique_ptr<Connection>> open_;

 private:
  enum Tag : std::uint64_t { listener, timer, signals, connections };

  void accept_all() {
    for (int fd; (fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
      no_delay(fd);
      open_.emplace(fd, std::make_unique<Connection>(fd));
      watch(set_, fd, EPOLLIN | EPOLLRDHUP, connections + static_cast<std::uint64_t>(fd));
    }
  }

  void ready(int fd, std::uint32_t events) {
    const auto found = open_.find(fd);
    if (found == open_.end()) return;
    auto& of = *found->second;
    const bool goes_on = (events & ~EPOLLOUT) == 0 || read(of);
    if (!goes_on || ((events & EPOLLOUT) != 0 && !writable(of))) open_.erase(fd);
  }

  bool read(Connection& of) {
    char bytes[16 * 1024];
    std::uint64_t at = 0;
    const auto size = read_stamped(of.fd, bytes, at);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    if (size == 0) return false;
    if (of.request.empty()) of.arrived = at;
    of.request.append(bytes, static_cast<std::size_t>(size));
    if (!whole_body(of.request)) return true;
    const auto request = std::exchange(of.request, {});
    const auto body = *whole_body(request);
    if (!body.empty()) return asked(of, body);
    constexpr std::string_view empty = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";  // For a health check.
    return ::send(of.fd, empty.data(), empty.size(), MSG_NOSIGNAL) > 0;
  }

  const int set_ = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  const int timer_ = checked(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create");
  const int listener_;
};

}  // namespace weir::bench
