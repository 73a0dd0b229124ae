// When an attempt asks for a retry, and when it says that none can follow.
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "balancer/pool.hpp"
#include "proxy/relay_machine.hpp"

namespace weir::proxy {
namespace {

constexpr Moment start{std::chrono::seconds(1000)};

/// One attempt on a pool of one replica, that counts what it asks for.
class Attempt {
 public:
  explicit Attempt(bool known_route = true) : pool_(balancer::Pool::make(config::Policy::round_robin, 0.05, 1)) {
    balancer::ReplicaSpec spec;
    spec.name = "a";
    pool_->set_replicas({&spec, 1}, start);
    auto offered = pool_->offer({}, start);
    RelayMachine::Options options{.limits = limits_};
    options.api = metrics::Api::openai_chat;
    options.stream = true;
    options.known_route = known_route;
    options.take_retry = [this] { return ++asked, true; };
    options.accepted = [this](unsigned) { ++accepted; };
    options.received = options.started = start;
    machine.emplace(options, std::move(std::get<balancer::Admitted>(offered).lease), shard_);
    machine->sent(start);
  }

  void arrives(std::string bytes) {
    const std::size_t size = bytes.size();
    bytes.append(metrics::StreamMeter::padding, '\0');
    machine->arrived({bytes.data(), size}, start, out_);
  }

  int asked = 0, accepted = 0;
  std::optional<RelayMachine> machine;

 private:
  config::Limits limits_;
  metrics::ReplicaShard shard_;
  std::shared_ptr<balancer::Pool> pool_;
  RelayOutput out_;
};

const std::string sse_head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

TEST(RetryRules, SaysOnceThatNoRetryCanFollow) {
  Attempt attempt;
  attempt.arrives(sse_head);
  EXPECT_EQ(attempt.accepted, 0);
  attempt.arrives("data: {\"choices\":[]}\n\n");
  EXPECT_EQ(attempt.accepted, 1);
  attempt.arrives("data: [DONE]\n\n");
  EXPECT_EQ(attempt.accepted, 1);
}

TEST(RetryRules, NeverSaysSoOfAnAttemptThatIsRetried) {
  Attempt attempt;
  attempt.arrives("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(attempt.machine->end(), AttemptEnd::retry);
  EXPECT_EQ(attempt.accepted, 0);
}

TEST(RetryRules, RetriesNotFoundOnlyWhereEveryEngineKnowsThePath) {
  for (const bool known : {true, false}) {
    Attempt attempt(known);
    attempt.arrives("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    EXPECT_EQ(attempt.asked, known ? 1 : 0);
    EXPECT_EQ(attempt.machine->end(), known ? AttemptEnd::retry : AttemptEnd::answered);
  }
}

}  // namespace
}  // namespace weir::proxy
