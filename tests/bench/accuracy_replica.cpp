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
#include <queue>

#include "tests/bench/accuracy_schedules.hpp"
#include "tests/bench/replica_server.hpp"

namespace {

using namespace weir::bench;

struct Write {
  std::uint64_t before, after;
  unsigned tokens;
};

struct Connection : Peer {
  using Peer::Peer;
  std::uint64_t generation = 0;  ///< The number of its answer: what is due for an earlier one is void.
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

class Replica : public ReplicaServer<Connection> {
 public:
  Replica(std::uint16_t port, const char* truth) : ReplicaServer(port), truth_(std::fopen(truth, "w")) {
    if (truth_ == nullptr) fail(std::string("bench_accuracy_replica: cannot write to ") + truth);
  }
  void end();

 private:
  bool asked(Connection& of, std::string_view body) override;
  void step() override;
  bool write(Connection& of);
  std::string text_of(const Connection& of, const Step& step) const;
  void note(const Connection& of);

  void due(const Connection& of) { due_.push({of.steps[of.next].at, of.generation, of.fd}); }

  std::FILE* truth_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::uint64_t generations_ = 0, written_ = 0, late_ = 0;
};

void Replica::end() {
  if (std::fclose(truth_) != 0) fail("bench_accuracy_replica: the truth could not be written whole");
  std::printf("writes: %llu, more than 1 ms late: %llu\n", static_cast<unsigned long long>(written_),
              static_cast<unsigned long long>(late_));
}

bool Replica::asked(Connection& of, std::string_view body) {
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
  if (::send(of.fd, stream_head.data(), stream_head.size(), MSG_NOSIGNAL) < 0) return false;
  due(of);
  step_at(due_.top().at);
  return true;
}

void Replica::step() {
  while (!due_.empty()) {
    const auto next = due_.top();
    const auto now = monotonic_ns();
    if (next.at > now) return step_at(next.at);
    due_.pop();
    const auto found = open_.find(next.fd);
    if (found == open_.end() || found->second->generation != next.generation) continue;
    ++written_;
    if (now - next.at > millisecond) ++late_;
    if (!write(*found->second)) open_.erase(found);
  }
}

/// Writes the next step of an answer. Returns false if the connection is to be closed.
bool Replica::write(Connection& of) {
  const auto& now = of.steps[of.next++];
  const auto text = text_of(of, now);
  const auto before = monotonic_ns();
  const auto sent = ::send(of.fd, text.data(), text.size(), MSG_NOSIGNAL);
  const auto after = monotonic_ns();
  // Bytes that the proxy does not take at once have no single moment. A few hundred bytes every 20 ms are always taken.
  if (sent != static_cast<ssize_t>(text.size())) return false;
  if (now.role) of.role = before;
  if (now.tokens > 0) of.writes.push_back({before, after, now.tokens});
  if (now.finish) {
    of.last = before;
    note(of);
  } else {
    due(of);
  }
  return true;
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

}  // namespace

int main(int argc, char** argv) {
  raise_descriptor_limit();
  const char* const truth = text_option(argc, argv, "--truth", nullptr);
  if (truth == nullptr) fail("bench_accuracy_replica: --truth FILE is needed");
  Replica replica(static_cast<std::uint16_t>(option(argc, argv, "--port", 0)), truth);
  replica.run();
  replica.end();
}
