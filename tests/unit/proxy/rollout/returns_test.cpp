// A rollout goes back by failures, misses, refusals, hangs and the gate, and by nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "proxy/shadows/live_comparison.hpp"
#include "tests/unit/proxy/rollout/rollouts_of_a_fleet.hpp"

namespace weir::proxy::rollout {
namespace {

namespace json = boost::json;

TEST_F(RolloutsOfAFleet, FailuresOfTheCandidateSendItBack) {
  begin();
  ask(Wish::start);
  ask(Wish::promote);
  tick();
  show(0, balancer::Sign::answered, 40);
  show(1, balancer::Sign::answered, 30);
  tick();
  EXPECT_EQ(state(), "live");
  for (int i = 0; i < 4; ++i) {
    show(1, balancer::Sign::failed, 3);
    show(1, balancer::Sign::answered, 1);
    show(0, balancer::Sign::answered, 4);
  }
  tick();
  EXPECT_EQ(state(), "returned");
  EXPECT_EQ(share(), 0);
  EXPECT_EQ(moves("failures"), 1u);
}

TEST_F(RolloutsOfAFleet, MissesOfTheCandidateSendItBackAndCountOnce) {
  begin();
  ask(Wish::start);
  ask(Wish::promote);
  tick();
  for (int i = 0; i < 4; ++i) end_request("new", std::chrono::seconds(2));
  for (int i = 0; i < 20; ++i) end_request("old", std::chrono::milliseconds(100));
  history.take(finished, now + std::chrono::milliseconds(1));
  for (int i = 0; i < 5; ++i) tick();
  EXPECT_EQ(state(), "live") << "four of four are not enough, however often they are looked at";
  const auto counts = json::parse(rollouts->list().body).at("rollouts").at(0).at("misses");
  EXPECT_EQ(counts.at("candidate_bad"), 4);
  EXPECT_EQ(counts.at("stable"), 20);
  for (int i = 0; i < 10; ++i) end_request("new", std::chrono::seconds(2));
  history.take(finished, now + std::chrono::milliseconds(1));
  tick();
  EXPECT_EQ(state(), "returned");
  EXPECT_EQ(moves("misses"), 1u);
}

TEST_F(RolloutsOfAFleet, RefusalsOfTheCandidateSendItBack) {
  begin();
  ask(Wish::start);
  tick();
  const auto& pool = *fleet.snapshot()->pools[0];
  for (std::uint64_t i = 1; i <= 4; ++i)
    pool.balancer->health().report(pool.replicas[1]->key, balancer::Sign::client_error, now, {},
                                   {.number = i, .refused_content = true});
  tick();
  EXPECT_EQ(state(), "returned");
  EXPECT_EQ(moves("refusals"), 1u);
}

/// A candidate that takes requests and answers none ends nothing: what is under way tells.
TEST_F(RolloutsOfAFleet, ACandidateThatHangsGoesBackOnceOthersWouldHaveAnswered) {
  const auto& pool = *fleet.snapshot()->pools[0];
  const auto send = [&](std::uint64_t conversation) {
    metrics::wire::RequestFacts facts;
    facts.api = metrics::Api::openai_chat;
    facts.stream = true;
    facts.conversation = conversation;
    auto offered = pool.balancer->offer({std::make_shared<const metrics::wire::RequestFacts>(facts)}, now);
    return std::move(std::get<balancer::Admitted>(offered).lease);
  };
  for (const auto ttft : {std::chrono::milliseconds(100), std::chrono::milliseconds(3000)}) {
    begin();
    ask(Wish::start);
    now += balancer::rollout::Follower::wait_window;
    tick();
    for (int i = 0; i < 30; ++i) end_request("old", ttft);
    history.take(finished, now);
    now += balancer::rollout::Follower::gate_every;
    tick();
    std::vector<balancer::Lease> held;
    for (std::uint64_t i = 1; i <= 5; ++i) held.push_back(send(i));
    const int longest = ttft == std::chrono::milliseconds(100) ? 10 : 30;
    for (int i = 0; i < longest; ++i) tick();
    EXPECT_EQ(state(), "live") << "ten times the p99 of the others, and 10 s at least";
    tick();
    EXPECT_EQ(state(), "returned");
    EXPECT_EQ(moves("hangs"), 1u);
    ask(Wish::abort);
    std::filesystem::remove(path / "rollouts.json");
  }
}

TEST_F(RolloutsOfAFleet, NothingHangsWhereNothingIsKnownOfTheOthers) {
  begin();
  ask(Wish::start);
  std::vector<balancer::Lease> held;
  const auto& pool = *fleet.snapshot()->pools[0];
  for (std::uint64_t i = 1; i <= 5; ++i) {
    metrics::wire::RequestFacts facts;
    facts.api = metrics::Api::openai_chat;
    facts.stream = true;
    facts.conversation = i;
    auto offered = pool.balancer->offer({std::make_shared<const metrics::wire::RequestFacts>(facts)}, now);
    held.push_back(std::move(std::get<balancer::Admitted>(offered).lease));
  }
  for (int i = 0; i < 60; ++i) tick();
  EXPECT_EQ(state(), "live");
}

TEST_F(RolloutsOfAFleet, TheGateOfALiveStepCountsEmptyAnswers) {
  begin();
  ask(Wish::start);
  ask(Wish::promote);
  const auto gate = [this, since = now] {
    const auto snapshot = fleet.snapshot();
    return shadows::gate_of_split(*snapshot->pools[0], *snapshot, history, since)().gate;
  };
  const auto end = [&](const std::string& config, int times, metrics::Outcome outcome) {
    for (int i = 0; i < times; ++i) end_request(config, std::chrono::milliseconds(100), outcome);
    history.take(finished, now);
  };
  for (const auto* config : {"old", "new"}) {
    end(config, 30, metrics::Outcome::ok);
    end(config, 10, metrics::Outcome::ok_empty);
  }
  EXPECT_EQ(gate().word, metrics::compare::comparison::Gate::unknown) << "both sides have some";
  // Faults of one minute have one cause.
  end("new", 30, metrics::Outcome::ok_empty);
  end("old", 30, metrics::Outcome::ok);
  EXPECT_EQ(gate().word, metrics::compare::comparison::Gate::unknown);
  for (int i = 0; i < 12; ++i) {
    now += std::chrono::minutes(1);
    end("new", 5, metrics::Outcome::ok_empty);
    end("old", 5, metrics::Outcome::ok);
  }
  EXPECT_EQ(gate().word, metrics::compare::comparison::Gate::worse) << testing::PrintToString(gate().unknown);
  EXPECT_THAT(
      gate().worse,
      testing::Contains(testing::StartsWith("empty: of 260 conversations, 100 of new and 10 of old have it: ")));
}

TEST_F(RolloutsOfAFleet, ACandidateThatIsDownGoesBackWithinASecond) {
  begin();
  ask(Wish::start);
  tick();
  show(1, balancer::Sign::probe_refused, 1);
  tick();
  EXPECT_EQ(state(), "returned");
  EXPECT_EQ(moves("out"), 1u);
}

}  // namespace
}  // namespace weir::proxy::rollout
