// bench_bad_replica is a replica that misbehaves, so that a bench can show whom it harms.
//
// Usage: bench_bad_replica --does stall|reset|flood [--port 0] [--mib 0] It prints "listening on 127.0.0.1:PORT".
//   stall   takes requests and never answers
//   reset   resets the connection as soon as it has a request
//   flood   answers each request with token events without an end, as fast as they are taken, or MIB MiB a second in
//   all
// A request without a body gets an empty 200: it looks healthy to those who ask. The program has one thread, runs until
// it is ended, and says then how much it has sent.
#include <memory>
#include <unordered_map>

#include "tests/bench/relay_sockets.hpp"

namespace {

using namespace weir::bench;

enum class Does { stall, reset, flood };

struct Connection {
  explicit Connection(int descriptor) : fd(descriptor) {}
  ~Connection() { ::close(fd); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd;
  std::string request;  ///< It holds the bytes of a request that is not yet whole.
  bool floods = false;
  std::size_t at = 0;  ///< So much of the flood's round has been sent.
};

class BadReplica {
 public:
  BadReplica(std::uint16_t port, Does does, double mib_a_second);
  void run();

 private:
  enum Tag : std::uint64_t { listener, signals, connections };

  void accept_all();
  void ready(int fd, std::uint32_t events);
  bool asked(Connection& of);
  bool flood(Connection& of);
  /// True if the flood has sent more than it is to have by now.
  bool ahead() const {
    return bytes_a_ns_ > 0 && static_cast<double>(bytes_) > bytes_a_ns_ * static_cast<double>(monotonic_ns() - begun_);
  }

  const Does does_;
  const double bytes_a_ns_;  ///< A flood has so many; 0 means no limit.
  const std::uint64_t begun_ = monotonic_ns();
  int set_, listener_, signals_;
  std::unordered_map<int, std::unique_ptr<Connection>> open_;
  std::string round_;
  std::uint64_t requests_ = 0, bytes_ = 0;
};

BadReplica::BadReplica(std::uint16_t port, Does does, double mib_a_second)
    : does_(does), bytes_a_ns_(mib_a_second * 1024 * 1024 / 1e9) {
  constexpr std::string_view event =
      R"(data: {"id":"chatcmpl-0a1b2c3d4e5f60718293a4b5c6d7e8f9","object":"chat.completion.chunk","created":1779866853,)"
      R"("model":"bench","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]})"
      "\n\n";
  while (round_.size() < 64 * 1024) add_chunk(round_, event);
  set_ = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  listener_ = listen_on_loopback(port);
  watch(set_, listener_, EPOLLIN, listener);
  signals_ = termination_descriptor();
  watch(set_, signals_, EPOLLIN, signals);
  std::printf("listening on 127.0.0.1:%u\n", unsigned{port});
  std::fflush(stdout);
}

void BadReplica::run() {
  epoll_event events[256];
  constexpr timespec pause{0, 1'000'000};
  for (bool over = false; !over;) {
    if (ahead()) ::clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
    const int count = ::epoll_wait(set_, events, 256, -1);
    for (int i = 0; i < count; ++i) {
      const auto tag = events[i].data.u64;
      if (tag == listener) accept_all();
      if (tag == signals) over = true;
      if (tag >= connections) ready(static_cast<int>(tag - connections), events[i].events);
    }
  }
  std::printf("requests: %llu, MiB sent: %llu\n", static_cast<unsigned long long>(requests_),
              static_cast<unsigned long long>(bytes_ >> 20));
}

void BadReplica::accept_all() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    open_.emplace(fd, std::make_unique<Connection>(fd));
    watch(set_, fd, EPOLLIN | EPOLLRDHUP, connections + static_cast<std::uint64_t>(fd));
  }
}

void BadReplica::ready(int fd, std::uint32_t events) {
  const auto found = open_.find(fd);
  if (found == open_.end()) return;
  auto& of = *found->second;
  bool goes_on = true;
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
    char bytes[16 * 1024];
    const auto size = ::recv(fd, bytes, sizeof bytes, 0);
    if (size > 0) {
      of.request.append(bytes, static_cast<std::size_t>(size));
      goes_on = asked(of);
    } else {
      goes_on = size < 0 && (errno == EAGAIN || errno == EINTR);
    }
  }
  if (goes_on && of.floods && !ahead()) goes_on = flood(of);
  if (!goes_on) open_.erase(fd);
}

/// Returns false if the connection is to be closed.
bool BadReplica::asked(Connection& of) {
  const auto body = whole_body(of.request);
  if (!body) return true;
  const bool inference = !body->empty();
  of.request.clear();
  if (!inference) {
    constexpr std::string_view empty = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    return ::send(of.fd, empty.data(), empty.size(), MSG_NOSIGNAL) > 0;
  }
  ++requests_;
  if (does_ == Does::stall) return true;
  if (does_ == Does::reset) {
    const linger at_once{1, 0};
    ::setsockopt(of.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return false;
  }
  constexpr std::string_view head =
      "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
  if (::send(of.fd, head.data(), head.size(), MSG_NOSIGNAL) < 0) return false;
  of.floods = true;
  epoll_event wanted{};
  wanted.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP;
  wanted.data.u64 = connections + static_cast<std::uint64_t>(of.fd);
  checked(::epoll_ctl(set_, EPOLL_CTL_MOD, of.fd, &wanted), "epoll_ctl");
  return true;
}

bool BadReplica::flood(Connection& of) {
  const auto sent = ::send(of.fd, round_.data() + of.at, round_.size() - of.at, MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  of.at = (of.at + static_cast<std::size_t>(sent)) % round_.size();
  bytes_ += static_cast<std::uint64_t>(sent);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  raise_descriptor_limit();
  const std::string_view does = text_option(argc, argv, "--does", "");
  if (does != "stall" && does != "reset" && does != "flood")
    fail("bench_bad_replica: --does has to be stall, reset or flood");
  BadReplica(static_cast<std::uint16_t>(option(argc, argv, "--port", 0)),
             does == "stall"   ? Does::stall
             : does == "reset" ? Does::reset
                               : Does::flood,
             option(argc, argv, "--mib", 0))
      .run();
}
