// bench_upstream is a replica that does nothing but send, for measuring what stands between it and a client.
//
// Usage: bench_upstream [--port 0] [--rate 50] [--groups 2] It prints "listening on 127.0.0.1:PORT". It answers POST
// .../chat/completions with "max_tokens":N by a chunked stream of N chat chunks as vLLM writes them, each with the
// CLOCK_MONOTONIC nanoseconds of its send in its content. Streams are dealt to `groups` engines. All streams of one
// engine step together, `rate` times a second, as a batch does on a GPU. The program has one thread. At its end it says
// how many steps began more than 5 ms late: a bench with many of them measured this program.
#include <sys/timerfd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/bench/relay_sockets.hpp"

namespace {

using namespace weir::bench;

constexpr std::string_view head =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    "transfer-encoding: chunked\r\n\r\n";
constexpr std::string_view event_begin =
    R"(data: {"id":"chatcmpl-0a1b2c3d4e5f60718293a4b5c6d7e8f9","object":"chat.completion.chunk","created":1779866853,)"
    R"("model":"bench","choices":[{"index":0,"delta":{)";
constexpr std::string_view event_end = R"(},"logprobs":null,"finish_reason":null,"token_ids":null}]})";
constexpr std::string_view last_event_end = R"(},"logprobs":null,"finish_reason":"stop","token_ids":null}]})";

void add_event(std::string& out, std::string_view delta, std::string_view end = event_end) {
  std::string event;
  event.append(event_begin).append(delta).append(end).append("\n\n");
  add_chunk(out, event);
}

/// One client connection. At most one stream at a time runs on it.
struct Connection {
  explicit Connection(int descriptor) : fd(descriptor) {}
  ~Connection() { ::close(fd); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd;
  std::string request;  ///< It holds the bytes of a request that is not yet whole.
  std::string unsent;
  std::uint64_t tokens_left = 0, tokens = 0;
  bool wants_usage = false, streaming = false;
};

class Upstream {
 public:
  Upstream(std::uint16_t port, double rate, std::size_t groups);
  void run();

 private:
  enum Tag : std::uint64_t { listener, timer, signals, connections };

  void accept_all();
  void readable(int fd);
  void read_request(Connection& of);
  void begin(Connection& of, std::string_view body);
  void step(std::size_t group);
  void token(Connection& of);
  bool send(Connection& to, std::string_view bytes);
  void drop(int fd);
  void steps_due();
  void arm();

  int set_, listener_, timer_, signals_;
  std::uint64_t period_;
  std::unordered_map<int, std::unique_ptr<Connection>> open_;
  std::vector<std::vector<int>> groups_;  ///< They are descriptors of the streams that step together.
  std::vector<std::uint64_t> next_step_;
  std::size_t next_group_ = 0;
  std::uint64_t late_ = 0, steps_ = 0;
  std::string event_;
  bool over_ = false;
};

Upstream::Upstream(std::uint16_t port, double rate, std::size_t groups)
    : period_(static_cast<std::uint64_t>(1e9 / rate)), groups_(groups), next_step_(groups) {
  set_ = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  listener_ = listen_on_loopback(port);
  watch(set_, listener_, EPOLLIN, listener);

  timer_ = checked(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create");
  watch(set_, timer_, EPOLLIN, timer);
  const auto now = monotonic_ns();
  for (std::size_t i = 0; i < groups; ++i) next_step_[i] = now + period_ * (i + 1) / groups;
  arm();

  signals_ = termination_descriptor();
  watch(set_, signals_, EPOLLIN, signals);

  std::printf("listening on 127.0.0.1:%u\n", unsigned{port});
  std::fflush(stdout);
}

void Upstream::run() {
  epoll_event events[256];
  while (!over_) {
    const int count = ::epoll_wait(set_, events, 256, -1);
    // Tokens come first, because their moment is what is measured.
    steps_due();
    for (int i = 0; i < count; ++i) {
      const auto tag = events[i].data.u64;
      if (tag == listener) accept_all();
      if (tag == signals) over_ = true;
      if (tag >= connections) readable(static_cast<int>(tag - connections));
    }
  }
  std::printf("steps: %llu, more than 5 ms late: %llu\n", static_cast<unsigned long long>(steps_),
              static_cast<unsigned long long>(late_));
}

void Upstream::accept_all() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    no_delay(fd);
    open_.emplace(fd, std::make_unique<Connection>(fd));
    watch(set_, fd, EPOLLIN | EPOLLRDHUP, connections + static_cast<std::uint64_t>(fd));
  }
}

void Upstream::drop(int fd) { open_.erase(fd); }

void Upstream::readable(int fd) {
  const auto found = open_.find(fd);
  if (found == open_.end()) return;
  char bytes[16 * 1024];
  const auto size = ::recv(fd, bytes, sizeof bytes, 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return drop(fd);
  found->second->request.append(bytes, static_cast<std::size_t>(size));
  read_request(*found->second);
}

void Upstream::read_request(Connection& of) {
  if (!whole_body(of.request)) return;
  const auto request = std::exchange(of.request, {});
  begin(of, *whole_body(request));  // It may have closed the connection.
}

void Upstream::begin(Connection& of, std::string_view body) {
  if (body.empty()) {  // Somebody asks after its health.
    send(of, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    return;
  }
  of.tokens_left = json_number(body, "max_tokens", 16);
  of.tokens = of.tokens_left;
  of.wants_usage = body.find("\"include_usage\":true") != std::string_view::npos;
  of.streaming = true;
  std::string out(head);
  add_event(out, R"("role":"assistant","content":"")");
  if (!send(of, out)) return;
  groups_[next_group_].push_back(of.fd);
  next_group_ = (next_group_ + 1) % groups_.size();
}

void Upstream::arm() {
  const auto next = *std::min_element(next_step_.begin(), next_step_.end());
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(next / 1'000'000'000);
  when.it_value.tv_nsec = static_cast<long>(next % 1'000'000'000);
  checked(::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr), "timerfd_settime");
}

void Upstream::steps_due() {
  const auto now = monotonic_ns();
  bool any = false;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (next_step_[i] > now) continue;
    any = true;
    if (!groups_[i].empty()) {
      ++steps_;
      if (now - next_step_[i] > 5'000'000) ++late_;
    }
    step(i);
    next_step_[i] += period_;
  }
  if (any) arm();
}

void Upstream::step(std::size_t group) {
  auto& streams = groups_[group];
  std::erase_if(streams, [this](int fd) {
    const auto found = open_.find(fd);
    if (found == open_.end() || !found->second->streaming) return true;
    token(*found->second);
    // A send that failed has closed it.
    return !open_.contains(fd) || !found->second->streaming;
  });
}

void Upstream::token(Connection& of) {
  event_.clear();
  if (of.tokens_left > 0) {
    --of.tokens_left;
    char delta[64];
    const int size = std::snprintf(delta, sizeof delta, R"("content":"%c%016llu")", stamp_mark,
                                   static_cast<unsigned long long>(monotonic_ns()));
    add_event(event_, {delta, static_cast<std::size_t>(size)});
    send(of, event_);
    return;
  }
  of.streaming = false;
  add_event(event_, "", last_event_end);
  if (of.wants_usage) {
    const auto n = std::to_string(of.tokens);
    add_chunk(event_,
              R"(data: {"id":"chatcmpl-0a1b2c3d4e5f60718293a4b5c6d7e8f9","object":"chat.completion.chunk",)"
              R"("created":1779866853,"model":"bench","choices":[],"usage":{"prompt_tokens":20,"total_tokens":)" +
                  std::to_string(of.tokens + 20) + R"(,"completion_tokens":)" + n + "}}\n\n");
  }
  add_chunk(event_, "data: [DONE]\n\n");
  event_.append("0\r\n\r\n");
  send(of, event_);
}

/// Sends bytes. Returns false if the connection is gone. What the peer does not take at once goes with the next token.
bool Upstream::send(Connection& to, std::string_view bytes) {
  if (!to.unsent.empty()) {
    to.unsent.append(bytes);
    bytes = to.unsent;
  }
  const auto sent = ::send(to.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) {
    drop(to.fd);
    return false;
  }
  const auto taken = static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
  if (taken < bytes.size() || !to.unsent.empty()) to.unsent = std::string(bytes.substr(taken));
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  raise_descriptor_limit();
  const auto port = static_cast<std::uint16_t>(option(argc, argv, "--port", 0));
  const double rate = option(argc, argv, "--rate", 50);
  const double groups = option(argc, argv, "--groups", 2);
  if (rate <= 0 || groups < 1) fail("bench_upstream: --rate and --groups have to be above 0");
  Upstream(port, rate, static_cast<std::size_t>(groups)).run();
}
