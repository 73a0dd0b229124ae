// bench_upstream is a replica that does nothing but send, for measuring what stands between it and a client.
//
// Usage: bench_upstream [--port 0] [--rate 50] [--groups 2] It prints "listening on 127.0.0.1:PORT". It answers POST
// .../chat/completions with "max_tokens":N by a chunked stream of N chat chunks as vLLM writes them, each with the
// CLOCK_MONOTONIC nanoseconds of its send in its content. Streams are dealt to `groups` engines. All streams of one
// engine step together, `rate` times a second, as a batch does on a GPU. The program has one thread. At its end it says
// how many steps began more than 5 ms late: a bench with many of them measured this program.
#include <vector>

#include "tests/bench/replica_server.hpp"

namespace {

using namespace weir::bench;

constexpr std::string_view event_end = R"(},"logprobs":null,"finish_reason":null,"token_ids":null}]})";
constexpr std::string_view last_event_end = R"(},"logprobs":null,"finish_reason":"stop","token_ids":null}]})";

void add_event(std::string& out, std::string_view delta, std::string_view end = event_end) {
  std::string event = "data: ";
  event.append(chunk_begin).append(R"({"index":0,"delta":{)").append(delta).append(end).append("\n\n");
  add_chunk(out, event);
}

struct Connection : Peer {
  using Peer::Peer;
  std::string unsent;
  std::uint64_t tokens_left = 0, tokens = 0;
  bool wants_usage = false, streaming = false;
};

class Upstream : public ReplicaServer<Connection> {
 public:
  Upstream(std::uint16_t port, double rate, std::size_t groups)
      : ReplicaServer(port), period_(static_cast<std::uint64_t>(1e9 / rate)), groups_(groups), next_step_(groups) {
    const auto now = monotonic_ns();
    for (std::size_t i = 0; i < groups; ++i) next_step_[i] = now + period_ * (i + 1) / groups;
    step_at(std::ranges::min(next_step_));
  }
  void end() const {
    std::printf("steps: %llu, more than 5 ms late: %llu\n", static_cast<unsigned long long>(steps_),
                static_cast<unsigned long long>(late_));
  }

 private:
  bool asked(Connection& of, std::string_view body) override;
  void step() override;
  void step_of(std::vector<int>& streams);
  bool token(Connection& of);
  static bool send(Connection& to, std::string_view bytes);

  std::uint64_t period_;
  std::vector<std::vector<int>> groups_;  ///< Descriptors of the streams that step together.
  std::vector<std::uint64_t> next_step_;
  std::size_t next_group_ = 0;
  std::uint64_t late_ = 0, steps_ = 0;
  std::string event_;
};

bool Upstream::asked(Connection& of, std::string_view body) {
  of.tokens_left = of.tokens = json_number(body, "max_tokens", 16);
  of.wants_usage = body.find("\"include_usage\":true") != std::string_view::npos;
  of.streaming = true;
  std::string out(stream_head);
  add_event(out, R"("role":"assistant","content":"")");
  if (!send(of, out)) return false;
  groups_[next_group_].push_back(of.fd);
  next_group_ = (next_group_ + 1) % groups_.size();
  return true;
}

void Upstream::step() {
  const auto now = monotonic_ns();
  bool any = false;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (next_step_[i] > now) continue;
    any = true;
    if (!groups_[i].empty()) {
      ++steps_;
      if (now - next_step_[i] > 5'000'000) ++late_;
    }
    step_of(groups_[i]);
    next_step_[i] += period_;
  }
  if (any) step_at(std::ranges::min(next_step_));
}

void Upstream::step_of(std::vector<int>& streams) {
  std::erase_if(streams, [this](int fd) {
    const auto found = open_.find(fd);
    if (found == open_.end() || !found->second->streaming) return true;
    if (token(*found->second)) return !found->second->streaming;
    open_.erase(found);
    return true;
  });
}

/// Returns false if the connection is gone.
bool Upstream::token(Connection& of) {
  event_.clear();
  if (of.tokens_left > 0) {
    --of.tokens_left;
    char delta[64];
    const int size = std::snprintf(delta, sizeof delta, R"("content":"%c%016llu")", stamp_mark,
                                   static_cast<unsigned long long>(monotonic_ns()));
    add_event(event_, {delta, static_cast<std::size_t>(size)});
    return send(of, event_);
  }
  of.streaming = false;
  add_event(event_, "", last_event_end);
  if (of.wants_usage) {
    add_chunk(event_, "data: " + std::string(chunk_begin) + R"(],"usage":{"prompt_tokens":20,"total_tokens":)" +
                          std::to_string(of.tokens + 20) + R"(,"completion_tokens":)" + std::to_string(of.tokens) +
                          "}}\n\n");
  }
  add_chunk(event_, "data: [DONE]\n\n");
  event_.append("0\r\n\r\n");
  return send(of, event_);
}

/// Sends bytes. Returns false if the connection is gone. What the peer does not take at once goes with the next token.
bool Upstream::send(Connection& to, std::string_view bytes) {
  if (!to.unsent.empty()) {
    to.unsent.append(bytes);
    bytes = to.unsent;
  }
  const auto sent = ::send(to.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) return false;
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
  Upstream upstream(port, rate, static_cast<std::size_t>(groups));
  upstream.run();
  upstream.end();
}
