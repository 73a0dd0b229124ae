// bench_accuracy_replica is a replica that writes token events on a known schedule and notes when it did.
//
// Usage: bench_accuracy_replica --truth FILE [--port 0] It prints "listening on 127.0.0.1:PORT". It answers POST
// .../chat/completions for model SCHEDULE-NUMBER with max_tokens N by N tokens on that schedule
// (accuracy_schedules.hpp), as vLLM would write them. For each answer it adds a line to FILE:
//
//   {"model":"steady-000017","arrived":A,"role":C,"last":L,"n":N,"events":[[before,after,tokens],...]}
//
// Times are nanoseconds of CLOCK_MONOTONIC. At A the kernel received the request's first bytes. C and L are before the
// write of the role chunk and of the last event with a choice. before and after are around the send(2) of a token
// event; the kernel stamps the receiver's bytes within it. The program has one thread. At its end it says how many
// writes began more than 1 ms late: they do not make the truth less true, but the schedule.
#include <sys/timerfd.h>

#include <memory>
#include <queue>
#include <unordered_map>
#include <utility>

#include "tests/bench/accuracy_schedules.hpp"
#include "tests/bench/relay_sockets.hpp"

namespace {

using namespace weir::bench;

constexpr std::string_view head =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
constexpr std::string_view chunk_begin =
    R"({"id":"chatcmpl-0a1b2c3d4e5f60718293a4b5c6d7e8f9","object":"chat.completion.chunk","created":1779866853,)"
    R"("model":"bench","choices":[)";

struct Write {
  std::uint64_t before, after;
  unsigned tokens;
};

/// One connection of the proxy. At most one answer at a time is written on it.
struct Connection {
  explicit Connection(int descriptor) : fd(descriptor) {}
  ~Connection() { ::close(fd); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd;
  std::string request;  ///< It holds the bytes of a request that is not yet whole.
  std::uint64_t arrived = 0;
  std::uint64_t generation = 0;  ///< It is its answer's number: what is due for an earlier one is void.

  std::string model;
  bool wants_usage = false, counts = false;
  std::uint64_t tokens = 0;
  std::vector<Step> steps;
  std::size_t next = 0;
  std::uint64_t role = 0, last = 0;
  std::vector<Write> writes;
};

struct Due {
  std::uint64_t at, generation;
  int fd;
  bool operator>(const Due& other) const { return at != other.at ? at > other.at : generation > other.generation; }
};

class Replica {
 public:
  Replica(std::uint16_t port, const char* truth);
  void run();

 private:
  enum Tag : std::uint64_t { listener, timer, signals, connections };

  void accept_all();
  void readable(int fd);
  void begin(Connection& of, std::string_view body);
  void steps_due();
  void step(Connection& of);
  std::string text_of(const Connection& of, const Step& step) const;
  void note(const Connection& of);
  void arm();

  int set_, listener_, timer_, signals_;
  std::FILE* truth_;
  std::unordered_map<int, std::unique_ptr<Connection>> open_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::uint64_t generations_ = 0, written_ = 0, late_ = 0;
  bool over_ = false;
};

Replica::Replica(std::uint16_t port, const char* truth) {
  truth_ = std::fopen(truth, "w");
  if (truth_ == nullptr) fail(std::string("bench_accuracy_replica: cannot write to ") + truth);
  set_ = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  listener_ = listen_on_loopback(port);
  stamp_arrivals(listener_);
  watch(set_, listener_, EPOLLIN, listener);
  timer_ = checked(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create");
  watch(set_, timer_, EPOLLIN | EPOLLET, timer);
  signals_ = termination_descriptor();
  watch(set_, signals_, EPOLLIN, signals);
  std::printf("listening on 127.0.0.1:%u\n", unsigned{port});
  std::fflush(stdout);
}

void Replica::run() {
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
    arm();
  }
  if (std::fclose(truth_) != 0) fail("bench_accuracy_replica: the truth could not be written whole");
  std::printf("writes: %llu, more than 1 ms late: %llu\n", static_cast<unsigned long long>(written_),
              static_cast<unsigned long long>(late_));
}

void Replica::accept_all() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    no_delay(fd);
    open_.emplace(fd, std::make_unique<Connection>(fd));
    watch(set_, fd, EPOLLIN | EPOLLRDHUP, connections + static_cast<std::uint64_t>(fd));
  }
}

void Replica::readable(int fd) {
  const auto found = open_.find(fd);
  if (found == open_.end()) return;
  auto& of = *found->second;
  char bytes[16 * 1024];
  std::uint64_t at = 0;
  const auto size = read_stamped(fd, bytes, at);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return void(open_.erase(found));
  if (of.request.empty()) of.arrived = at;
  of.request.append(bytes, static_cast<std::size_t>(size));
  if (!whole_body(of.request)) return;
  const auto request = std::exchange(of.request, {});
  begin(of, *whole_body(request));
}

void Replica::begin(Connection& of, std::string_view body) {
  if (body.empty()) {  // Somebody asks after its health, or its models.
    constexpr std::string_view empty = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    if (::send(of.fd, empty.data(), empty.size(), MSG_NOSIGNAL) < 0) open_.erase(of.fd);
    return;
  }
  constexpr std::string_view model = R"("model":")";
  const auto from = body.find(model);
  of.model = from == std::string_view::npos
                 ? ""
                 : body.substr(from + model.size(), body.find('"', from + model.size()) - from - model.size());
  const auto dash = of.model.find('-');
  const auto* const schedule = schedule_of(std::string_view(of.model).substr(0, dash));
  of.tokens = json_number(body, "max_tokens", 0);
  if (schedule == nullptr || dash == std::string::npos || of.tokens < 2)
    fail("bench_accuracy_replica: a request for model '" + of.model + "' and " + std::to_string(of.tokens) + " tokens");
  of.wants_usage = body.find(R"("include_usage":true)") != std::string_view::npos;
  of.counts = schedule->continuous_usage;
  of.steps = steps_of(*schedule, std::strtoul(of.model.c_str() + dash + 1, nullptr, 10), of.tokens, of.arrived);
  of.next = 0;
  of.writes.clear();
  of.generation = ++generations_;
  if (::send(of.fd, head.data(), head.size(), MSG_NOSIGNAL) < 0) return void(open_.erase(of.fd));
  due_.push({of.steps.front().at, of.generation, of.fd});
}

void Replica::steps_due() {
  while (!due_.empty()) {
    const auto next = due_.top();
    const auto now = monotonic_ns();
    if (next.at > now) return;
    due_.pop();
    const auto found = open_.find(next.fd);
    if (found == open_.end() || found->second->generation != next.generation) continue;
    ++written_;
    if (now - next.at > millisecond) ++late_;
    step(*found->second);
  }
}

void Replica::step(Connection& of) {
  const auto& now = of.steps[of.next++];
  const auto text = text_of(of, now);
  const auto before = monotonic_ns();
  const auto sent = ::send(of.fd, text.data(), text.size(), MSG_NOSIGNAL);
  const auto after = monotonic_ns();
  // Bytes that the proxy does not take at once have no single moment. A few hundred bytes every 20 ms are always taken.
  if (sent != static_cast<ssize_t>(text.size())) return void(open_.erase(of.fd));
  if (now.role) of.role = before;
  if (now.tokens > 0) of.writes.push_back({before, after, now.tokens});
  if (!now.finish) return due_.push({of.steps[of.next].at, of.generation, of.fd});
  of.last = before;
  note(of);
}

std::string Replica::text_of(const Connection& of, const Step& step) const {
  std::uint64_t made = step.tokens;
  for (const auto& write : of.writes) made += write.tokens;
  const auto usage = [](std::uint64_t n) {
    return R"("usage":{"prompt_tokens":20,"total_tokens":)" + std::to_string(n + 20) + R"(,"completion_tokens":)" +
           std::to_string(n) + "}";
  };
  std::string out;
  const auto chunk = [&](std::string_view choice, std::uint64_t count) {
    std::string event = "data: ";
    event.append(chunk_begin).append(choice).append("]");
    if (of.counts) event.append(",").append(usage(count));
    add_chunk(out, event.append("}\n\n"));
  };
  if (step.comment) add_chunk(out, ": prefill\n\n");
  if (step.role)
    chunk(R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null})", 0);
  if (step.tokens > 0 || step.finish) {
    std::string content;
    for (unsigned i = 0; i < step.tokens; ++i) content += " word";
    chunk(R"({"index":0,"delta":{"content":")" + content + R"("},"logprobs":null,"finish_reason":)" +
              (step.finish ? R"("length")" : "null") + "}",
          made);
  }
  if (step.finish) {
    if (of.wants_usage) add_chunk(out, "data: " + std::string(chunk_begin) + "]," + usage(of.tokens) + "}\n\n");
    add_chunk(out, "data: [DONE]\n\n");
    out.append("0\r\n\r\n");
  }
  return out;
}

void Replica::note(const Connection& of) {
  const auto whole = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::fprintf(truth_, R"({"model":"%s","arrived":%llu,"role":%llu,"last":%llu,"n":%llu,"events":[)", of.model.c_str(),
               whole(of.arrived), whole(of.role), whole(of.last), whole(of.tokens));
  const char* comma = "";
  for (const auto& write : of.writes) {
    std::fprintf(truth_, "%s[%llu,%llu,%u]", comma, whole(write.before), whole(write.after), write.tokens);
    comma = ",";
  }
  std::fputs("]}\n", truth_);
}

void Replica::arm() {
  if (due_.empty()) return;
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(due_.top().at / 1'000'000'000);
  when.it_value.tv_nsec = static_cast<long>(due_.top().at % 1'000'000'000);
  checked(::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr), "timerfd_settime");
}

}  // namespace

int main(int argc, char** argv) {
  raise_descriptor_limit();
  const char* const truth = text_option(argc, argv, "--truth", nullptr);
  if (truth == nullptr) fail("bench_accuracy_replica: --truth FILE is needed");
  Replica(static_cast<std::uint16_t>(option(argc, argv, "--port", 0)), truth).run();
}
