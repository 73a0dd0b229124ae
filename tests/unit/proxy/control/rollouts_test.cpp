// Rollouts of a fleet, in made-up time: what the pool gets, what the file keeps, and what goes back.
#include "proxy/control/rollouts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <filesystem>

namespace weir::proxy::control {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;
using Wish = Rollouts::Wish;

class RolloutsOfAFleet : public ::testing::Test {
 protected:
  RolloutsOfAFleet() { std::filesystem::create_directories(path); }
  ~RolloutsOfAFleet() override { std::filesystem::remove_all(path); }

  config::Settings settings() const {
    config::Settings all;
    all.admin.state = path;
    config::Pool pool;
    pool.name = "chat";
    for (const std::string name : {"old", "new"}) {
      config::Replica replica;
      replica.name = name;
      replica.config = name;
      replica.url = {"127.0.0.1", 8000, "/" + name, "127.0.0.1:8000"};
      pool.replicas.push_back(replica);
    }
    all.pools = {pool};
    all.slos = {{"fast", "chat", config::Seconds(1), {}, {}, {}}};
    config::Rollout rollout;
    rollout.name = "fp8";
    rollout.pool = "chat";
    rollout.candidate = "new";
    rollout.slo = "fast";
    rollout.steps = {
        {false, 0.05, config::Seconds(60)}, {false, 0.5, config::Seconds(60)}, {false, 1, config::Seconds(0)}};
    all.rollouts = {rollout};
    return all;
  }
  void begin() {
    rollouts.emplace(fleet, history, slow, read_rollouts(path));
    rollouts->adopt(now);
  }
  void adopt(const config::Settings& wanted) {
    fleet.adopt(wanted);
    rollouts->adopt(now);
  }
  unsigned ask(Wish wish) { return rollouts->carry_out("fp8", wish, now).status; }
  void tick() {
    now += std::chrono::seconds(1);
    rollouts->tick(now);
  }
  std::optional<double> share() const { return fleet.snapshot()->pools[0]->balancer->split().share; }
  std::string state() const {
    return std::string(json::parse(rollouts->list().body).at("rollouts").at(0).at("state").as_string());
  }
  void show(std::size_t replica, balancer::Sign sign, int times) {
    const auto& pool = *fleet.snapshot()->pools[0];
    for (int i = 0; i < times; ++i) pool.balancer->health().report(pool.replicas[replica]->key, sign, now);
  }
  std::uint64_t moves(std::string_view reason) const {
    const auto all = rollouts->gauges();
    for (const auto& [name, count] : all.at(0).moves)
      if (name == reason) return count;
    return 0;
  }
  /// A request of the pool ended, after this time to the first token.
  void end_request(const std::string& config, std::chrono::milliseconds ttft,
                   metrics::Outcome outcome = metrics::Outcome::ok) {
    metrics::record::RequestRecord record;
    record.pool = "chat";
    record.replica = record.config = config;
    record.facts.stream = true;
    record.outcome = outcome;
    record.received = now;
    record.sent = now;
    record.answer.first_token = now + ttft;
    record.answer.end = now + ttft;
    finished.put(std::move(record));
  }

  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("weir-rollouts-of-a-fleet-" + std::to_string(::getpid()));
  boost::asio::io_context context{1};
  metrics::series::Exposition exposition{1, {"test", "test"}};
  fleet::Fleet fleet{settings(), exposition, 1};
  metrics::record::RequestLog log{"", "weir"};
  metrics::record::FinishedRecords finished;
  History history{log};
  SlowAnswers slow{context};
  std::optional<Rollouts> rollouts;
  metrics::Moment now = std::chrono::steady_clock::now();
};

TEST_F(RolloutsOfAFleet, ThePoolGetsTheShareOfTheStep) {
  EXPECT_EQ(share(), 0) << "the fleet itself closes the candidate";
  begin();
  EXPECT_EQ(share(), 0);
  EXPECT_EQ(ask(Wish::promote), 409u);
  EXPECT_EQ(ask(Wish::start), 200u);
  EXPECT_EQ(share(), 0.05);
  EXPECT_EQ(ask(Wish::start), 409u);
  EXPECT_EQ(ask(Wish::promote), 200u);
  EXPECT_EQ(share(), 0.5);
  EXPECT_EQ(ask(Wish::pause), 200u);
  EXPECT_EQ(share(), 0.5);
  EXPECT_EQ(ask(Wish::abort), 200u);
  EXPECT_EQ(share(), 0);
  EXPECT_EQ(rollouts->carry_out("fp9", Wish::start, now).status, 404u);
}

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

TEST_F(RolloutsOfAFleet, TheGateOfALiveStepCountsEmptyAnswers) {
  begin();
  ask(Wish::start);
  ask(Wish::promote);
  const auto gate = [&] {
    const auto snapshot = fleet.snapshot();
    return gate_of_split(*snapshot->pools[0], *snapshot, history, now)().gate;
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
  end("new", 30, metrics::Outcome::ok_empty);
  end("old", 30, metrics::Outcome::ok);
  EXPECT_EQ(gate().word, metrics::compare::comparison::Gate::worse);
  EXPECT_THAT(gate().worse, testing::Contains("empty: 40 of 70 of the candidate's answers are empty, 10 of 70 of the "
                                              "others'"));
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

TEST_F(RolloutsOfAFleet, TheFileKeepsTheStanding) {
  begin();
  ask(Wish::start);
  ask(Wish::promote);
  show(1, balancer::Sign::answered, 10);
  for (int i = 0; i < 40; ++i) tick();
  rollouts->end();
  EXPECT_EQ(ask(Wish::abort), 409u) << "it is left to the next weir";
  const auto before = read_rollouts(path).rollouts.at("fp8");
  EXPECT_EQ(before.standing.share, 0.5);
  EXPECT_EQ(before.standing.in_step, 39);
  EXPECT_EQ(before.standing.failures.candidate, 10u);
  fleet::Fleet next(settings(), exposition, 2);
  Rollouts again(next, history, slow, read_rollouts(path));
  again.adopt(now);
  EXPECT_EQ(next.snapshot()->pools[0]->balancer->split().share, 0.5);
  EXPECT_EQ(read_rollouts(path).rollouts.at("fp8"), before);
}

/// An answer of the step before turns out to be a failure once another replica has answered better.
TEST_F(RolloutsOfAFleet, AFailureThatIsKnownInTheNextStepDoesNoHarmToTheFile) {
  begin();
  ask(Wish::start);
  tick();
  show(1, balancer::Sign::client_error, 3);
  show(0, balancer::Sign::client_error, 3);
  tick();
  ask(Wish::promote);
  show(1, balancer::Sign::outdone, 3);
  show(0, balancer::Sign::outdone, 3);
  tick();
  rollouts->end();
  const auto kept = read_rollouts(path).rollouts;
  ASSERT_TRUE(kept.contains("fp8"));
  EXPECT_EQ(kept.at("fp8").standing.share, 0.5);
  EXPECT_EQ(kept.at("fp8").standing.failures, (balancer::rollout::Counts{3, 3, 3, 3}));
}

/// A weir that runs without the rollout forgets it, as a reload does.
TEST_F(RolloutsOfAFleet, WithoutItInTheSettingsAStartForgetsIt) {
  begin();
  ask(Wish::start);
  rollouts->end();
  auto without = settings();
  without.rollouts.clear();
  fleet::Fleet next(without, exposition, 2);
  Rollouts again(next, history, slow, read_rollouts(path));
  again.adopt(now);
  EXPECT_TRUE(read_rollouts(path).rollouts.empty());
}

TEST_F(RolloutsOfAFleet, ReloadsKeepItEndItOrBeginAnother) {
  begin();
  ask(Wish::start);
  auto other = settings();
  other.limits.connect = config::Seconds(3);
  adopt(other);
  EXPECT_EQ(share(), 0.05);
  other.rollouts[0].candidate = "old";
  adopt(other);
  EXPECT_EQ(share(), 0);
  EXPECT_EQ(state(), "idle");
  EXPECT_EQ(moves("settings"), 1u);
  other.rollouts.clear();
  adopt(other);
  EXPECT_EQ(share(), std::nullopt);
  EXPECT_TRUE(rollouts->gauges().empty());
  EXPECT_TRUE(read_rollouts(path).rollouts.empty());
  adopt(settings());
  EXPECT_EQ(share(), 0) << "what was forgotten does not come back";
  EXPECT_EQ(state(), "idle");
}

TEST_F(RolloutsOfAFleet, WithoutItsFileNothingStartsAndWhatRunsCanEnd) {
  begin();
  ask(Wish::start);
  std::filesystem::remove_all(path);
  EXPECT_EQ(ask(Wish::promote), 503u);
  EXPECT_EQ(share(), 0.05);
  EXPECT_THAT(rollouts->list().body, HasSubstr("\"state_error\":\"the state of rollouts cannot be kept in "));
  EXPECT_EQ(ask(Wish::abort), 200u) << "whatever takes requests from a candidate is always possible";
  EXPECT_EQ(share(), 0);
}

}  // namespace
}  // namespace weir::proxy::control
