// Rollouts of a fleet, in made-up time: what the pool gets, what the file keeps, and what goes back.
#include "proxy/control/rollouts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>

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
    rollouts.reset();
    rollouts.emplace(context, fleet, history, slow, read_rollouts(path));
    rollouts->adopt(now);
    finish_writing(*rollouts);
  }
  void adopt(const config::Settings& wanted) {
    fleet.adopt(wanted);
    rollouts->adopt(now);
    finish_writing(*rollouts);
  }
  /// Says what an operator wants. The answer comes later.
  std::shared_ptr<std::optional<ApiAnswer>> wish(Wish wish, std::string_view body = {}) {
    const auto answer = std::make_shared<std::optional<ApiAnswer>>();
    rollouts->carry_out("fp8", wish, now, body,
                        boost::asio::bind_executor(context.get_executor(), [answer](ApiAnswer got) { *answer = got; }));
    return answer;
  }
  ApiAnswer answer_to(Wish wanted, std::string_view body = {}) {
    const auto answer = wish(wanted, body);
    finish_writing(*rollouts);
    return answer->value();
  }
  unsigned ask(Wish wanted) { return answer_to(wanted).status; }
  void finish_writing(const Rollouts& of) {
    do {
      context.restart();
      context.run_for(std::chrono::milliseconds(1));
    } while (of.is_writing());
    let_happen();
  }
  void let_happen() {
    context.restart();
    context.poll();
  }
  void finish_slow_answers() {
    for (; slow.under_way() > 0; context.restart()) context.run_for(std::chrono::milliseconds(1));
  }
  void tick() {
    tick_while_writing();
    finish_writing(*rollouts);
  }
  void tick_while_writing() {
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
  unsigned status = 0;
  rollouts->carry_out("fp9", Wish::start, now, "",
                      boost::asio::bind_executor(context.get_executor(), [&](ApiAnswer got) { status = got.status; }));
  let_happen();
  EXPECT_EQ(status, 404u);
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

TEST_F(RolloutsOfAFleet, RefusalsOfTheCandidateSendItBack) {
  begin();
  ask(Wish::start);
  tick();
  const auto& pool = *fleet.snapshot()->pools[0];
  for (std::uint64_t i = 1; i <= 4; ++i)
    pool.balancer->health().report(pool.replicas[1]->key, balancer::Sign::client_error, now, {}, {{}, true, i});
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
    auto offered = pool.balancer->offer(facts, now);
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
    auto offered = pool.balancer->offer(facts, now);
    held.push_back(std::move(std::get<balancer::Admitted>(offered).lease));
  }
  for (int i = 0; i < 60; ++i) tick();
  EXPECT_EQ(state(), "live");
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
  finish_writing(*rollouts);
  EXPECT_EQ(ask(Wish::abort), 409u) << "it is left to the next weir";
  const auto before = read_rollouts(path).rollouts.at("fp8");
  EXPECT_EQ(before.standing.share, 0.5);
  EXPECT_EQ(before.standing.in_step, 39);
  EXPECT_EQ(before.standing.failures.candidate, 10u);
  fleet::Fleet next(settings(), exposition, 2);
  Rollouts again(context, next, history, slow, read_rollouts(path));
  again.adopt(now);
  finish_writing(again);
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
  finish_writing(*rollouts);
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
  finish_writing(*rollouts);
  auto without = settings();
  without.rollouts.clear();
  fleet::Fleet next(without, exposition, 2);
  Rollouts again(context, next, history, slow, read_rollouts(path));
  again.adopt(now);
  finish_writing(again);
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

/// A directory in the place of the file beside it, so that it cannot be written, as on a full disk.
class RolloutsOnAFullDisk : public RolloutsOfAFleet {
 protected:
  void fill_disk() const { std::filesystem::create_directories(path / "rollouts.json.new" / "full"); }
  void make_room() const { std::filesystem::remove_all(path / "rollouts.json.new"); }
  double share_after_restart() {
    fleet::Fleet next(settings(), exposition, 2);
    Rollouts again(context, next, history, slow, read_rollouts(path));
    again.adopt(now);
    finish_writing(again);
    return *next.snapshot()->pools[0]->balancer->split().share;
  }
};

TEST_F(RolloutsOnAFullDisk, NothingMoreGoesToTheCandidateThanARestartWouldFind) {
  begin();
  ask(Wish::start);
  fill_disk();
  EXPECT_EQ(ask(Wish::promote), 503u);
  EXPECT_EQ(share(), 0.05);
  EXPECT_EQ(share_after_restart(), 0.05);
  make_room();
  EXPECT_EQ(ask(Wish::promote), 200u);
  EXPECT_EQ(share(), 0.5);
  EXPECT_EQ(share_after_restart(), 0.5);
}

TEST_F(RolloutsOnAFullDisk, AReturnIsNotDelayedAndARestartFindsIt) {
  begin();
  ask(Wish::start);
  ask(Wish::promote);
  tick();
  fill_disk();
  show(0, balancer::Sign::answered, 40);
  show(1, balancer::Sign::failed, 40);
  tick();
  EXPECT_EQ(state(), "returned");
  EXPECT_EQ(share(), 0);
  EXPECT_THAT(rollouts->list().body, HasSubstr("cannot be kept in "));
  EXPECT_EQ(read_rollouts(path).rollouts.at("fp8").standing.state, balancer::rollout::State::returned)
      << "it was written over the old one";
  EXPECT_EQ(share_after_restart(), 0);
  make_room();
  tick();
  tick();
  EXPECT_THAT(rollouts->list().body, HasSubstr("\"state_error\":null")) << "it is tried again each second";
}

TEST_F(RolloutsOnAFullDisk, APauseOutlastsARestart) {
  begin();
  ask(Wish::start);
  fill_disk();
  EXPECT_EQ(ask(Wish::pause), 200u);
  EXPECT_EQ(read_rollouts(path).rollouts.at("fp8").standing.state, balancer::rollout::State::paused);
  EXPECT_EQ(share_after_restart(), 0.05);
}

/// Anything in any order, on a disk that is full now and then: what the pool gives is never more than what a restart
/// finds, and what takes from the candidate is done at once.
TEST_F(RolloutsOnAFullDisk, TheShareIsNeverAboveThatOfTheFile) {
  std::mt19937_64 random(25);
  begin();
  std::map<std::string, int> states;
  for (int i = 0; i < 600; ++i) {
    switch (random() % 10) {
      case 0:
        fill_disk();
        break;
      case 1:
        make_room();
        break;
      case 2:
      case 3:
        ask(Wish::start);
        break;
      case 4:
        ask(Wish::promote);
        break;
      case 5:
        if (random() % 4 == 0) {
          ask(Wish::abort);
          ASSERT_EQ(share(), 0);
        }
        break;
      case 6:
        if (random() % 4 == 0) {
          show(1, balancer::Sign::failed, 60);
          show(0, balancer::Sign::answered, 60);
        }
        tick();
        break;
      case 7:
        ask(Wish::pause);
        break;
      default:
        tick();
    }
    ++states[state()];
    const auto kept = read_rollouts(path).rollouts;
    const auto found = kept.find("fp8");
    ASSERT_LE(*share(), found == kept.end() ? 0 : found->second.standing.share) << i;
    if (found != kept.end()) {
      ASSERT_GE(*share(), found->second.standing.share) << "what was taken is not given back by a restart; " << i;
      if (found->second.standing.state == balancer::rollout::State::live) {
        ASSERT_EQ(state(), "live") << "what was stopped does not go on after a restart; " << i;
      }
    }
  }
  for (const auto* name : {"live", "paused", "done", "aborted", "returned"}) EXPECT_GT(states[name], 0) << name;
}

/// The context does not run until finish_writing(), so nothing is known of what is on the disk: it is slow.
class RolloutsOnASlowDisk : public RolloutsOnAFullDisk {};

TEST_F(RolloutsOnASlowDisk, NothingMoreGoesToTheCandidateBeforeItIsOnTheDisk) {
  begin();
  const auto answer = wish(Wish::start);
  EXPECT_EQ(share(), 0);
  EXPECT_FALSE(answer->has_value());
  tick_while_writing();
  EXPECT_EQ(share(), 0);
  EXPECT_EQ(state(), "idle");
  finish_writing(*rollouts);
  EXPECT_EQ((*answer)->status, 200u);
  EXPECT_EQ(share(), 0.05);
  EXPECT_EQ(share_after_restart(), 0.05);
}

TEST_F(RolloutsOnASlowDisk, AReturnDoesNotWaitAndUndoesWhatWaits) {
  begin();
  ask(Wish::start);
  tick();
  const auto promoted = wish(Wish::promote);
  EXPECT_EQ(share(), 0.05);
  show(0, balancer::Sign::answered, 40);
  show(1, balancer::Sign::failed, 40);
  tick_while_writing();
  EXPECT_EQ(state(), "returned");
  EXPECT_EQ(share(), 0);
  finish_writing(*rollouts);
  EXPECT_EQ(state(), "returned");
  EXPECT_EQ((*promoted)->status, 409u);
  EXPECT_THAT((*promoted)->body, HasSubstr("it moved otherwise meanwhile: rollout 'fp8': 5% -> returned: "));
  EXPECT_EQ(share_after_restart(), 0);
}

TEST_F(RolloutsOnASlowDisk, AnAbortIsAnsweredAtOnceAndASecondPromotionIsNotHeard) {
  begin();
  ask(Wish::start);
  const auto promoted = wish(Wish::promote), again = wish(Wish::promote), aborted = wish(Wish::abort);
  EXPECT_EQ(share(), 0);
  finish_writing(*rollouts);
  EXPECT_EQ((*promoted)->status, 409u);
  EXPECT_EQ((*again)->status, 409u);
  EXPECT_THAT((*again)->body, HasSubstr("is about to move, once that is on the disk"));
  EXPECT_EQ((*aborted)->status, 200u);
  EXPECT_EQ(state(), "aborted");
  EXPECT_EQ(share_after_restart(), 0);
}

TEST_F(RolloutsOnASlowDisk, AnAbortOrAPauseTakesBackAStartThatWaits) {
  for (const Wish taken_back_by : {Wish::abort, Wish::pause}) {
    begin();
    const auto started = wish(Wish::start), taken_back = wish(taken_back_by);
    finish_writing(*rollouts);
    tick();
    ASSERT_TRUE(started->has_value() && taken_back->has_value());
    EXPECT_EQ((*started)->status, 409u);
    EXPECT_THAT((*started)->body, HasSubstr("it was taken back meanwhile"));
    EXPECT_EQ((*taken_back)->status, 200u);
    EXPECT_EQ(state(), "idle");
    EXPECT_EQ(share(), 0);
    EXPECT_EQ(share_after_restart(), 0);
  }
}

TEST_F(RolloutsOnASlowDisk, WhatHappensMeanwhileCountsWhenAPausedStepGoesOn) {
  begin();
  ask(Wish::start);
  ask(Wish::pause);
  const auto resumed = wish(Wish::start);
  show(1, balancer::Sign::answered, 7);
  tick_while_writing();
  EXPECT_EQ(state(), "paused");
  finish_writing(*rollouts);
  EXPECT_EQ((*resumed)->status, 200u);
  EXPECT_EQ(state(), "live");
  const auto counts = json::parse(rollouts->list().body).at("rollouts").at(0).at("failures");
  EXPECT_EQ(counts.at("candidate"), 7);
}

TEST_F(RolloutsOnASlowDisk, AReloadGivesUpWhatWaits) {
  begin();
  ask(Wish::start);
  const auto promoted = wish(Wish::promote);
  adopt(settings());
  EXPECT_EQ((*promoted)->status, 409u);
  EXPECT_THAT((*promoted)->body, HasSubstr("the settings were reloaded meanwhile; ask again"));
  EXPECT_EQ(share(), 0.05);
  EXPECT_EQ(share_after_restart(), 0.05);
}

TEST_F(RolloutsOnASlowDisk, AnEndWaitsForTheFileAndGivesUpWhatWaits) {
  begin();
  ask(Wish::start);
  const auto promoted = wish(Wish::promote);
  rollouts->end();
  rollouts.reset();
  let_happen();
  EXPECT_EQ((*promoted)->status, 409u);
  EXPECT_EQ(read_rollouts(path).rollouts.at("fp8").standing.share, 0.05);
}

TEST_F(RolloutsOnASlowDisk, AnotherDirectoryHasTheFileOnceTheReloadIsDone) {
  begin();
  ask(Wish::start);
  auto other = settings();
  other.admin.state = path / "other";
  std::filesystem::create_directories(other.admin.state);
  fleet.adopt(other);
  rollouts->adopt(now);
  EXPECT_EQ(read_rollouts(other.admin.state).rollouts.at("fp8").standing.share, 0.05);
}

/// Anything in any order, and what is on the disk is known some time later: the pool never gives more than a
/// restart finds, and what takes from the candidate is done at once.
TEST_F(RolloutsOnASlowDisk, TheShareIsNeverAboveThatOfTheFile) {
  std::mt19937_64 random(27);
  begin();
  std::map<unsigned, int> answers;
  std::vector<std::shared_ptr<std::optional<ApiAnswer>>> asked;
  for (int i = 0; i < 1500; ++i) {
    const auto before = share();
    switch (random() % 12) {
      case 0:
        finish_writing(*rollouts);
        fill_disk();
        break;
      case 1:
        finish_writing(*rollouts);
        make_room();
        break;
      case 2:
      case 3:
      case 4:
        asked.push_back(wish(Wish::start));
        ASSERT_EQ(share(), before);
        break;
      case 5:
      case 6:
        asked.push_back(wish(Wish::promote));
        ASSERT_EQ(share(), before);
        break;
      case 7:
        if (random() % 3 == 0) {
          wish(Wish::abort);
          ASSERT_EQ(share(), 0);
        }
        break;
      case 8:
        if (random() % 4 == 0) {
          show(1, balancer::Sign::failed, 60);
          show(0, balancer::Sign::answered, 60);
        }
        tick_while_writing();
        ASSERT_TRUE(state() != "live" || share() > 0);
        break;
      case 9:
        wish(Wish::pause);
        break;
      case 10:
        tick_while_writing();
        break;
      default:
        finish_writing(*rollouts);
        const auto kept = read_rollouts(path).rollouts;
        const auto found = kept.find("fp8");
        ASSERT_EQ(*share(), found == kept.end() ? 0 : found->second.standing.share) << i;
    }
  }
  finish_writing(*rollouts);
  for (const auto& one : asked) ++answers[one->value().status];
  for (const unsigned status : {200u, 409u, 503u}) EXPECT_GT(answers[status], 0) << status;
}

TEST_F(RolloutsOfAFleet, APromotionThatNamesWhereItStandsIsDoneOnce) {
  begin();
  ask(Wish::start);
  const auto promote = [&](std::string_view body) { return answer_to(Wish::promote, body); };
  for (int i = 0; i < 8; ++i) EXPECT_EQ(promote(R"({"from":"5%"})").status, i == 0 ? 200u : 409u);
  EXPECT_EQ(share(), 0.5);
  EXPECT_THAT(promote(R"({"from":"5%"})").body, HasSubstr("the rollout 'fp8' stands at 50%, and not at 5%"));
  EXPECT_THAT(promote(R"({"to":"25%"})").body, HasSubstr("has no step 25%; its steps are 5%, 50%, 100%"));
  EXPECT_EQ(promote(R"({"to":"50%"})").status, 409u);
  for (const auto* wrong : {"[]", "{\"from\":5}", "{\"step\":\"5%\"}", "x"})
    EXPECT_EQ(promote(wrong).status, 400u) << wrong;
  EXPECT_EQ(share(), 0.5);
  EXPECT_EQ(promote(R"({"from":"50%","to":"100%"})").status, 200u);
  EXPECT_EQ(share(), 1);
  ask(Wish::abort);
  ask(Wish::start);
  EXPECT_EQ(promote(R"({"to":"100%"})").status, 200u) << "a step may be left out";
  EXPECT_EQ(share(), 1);
}

TEST_F(RolloutsOfAFleet, TheShadowOfAnEndedRolloutIsTheOperators) {
  auto mirrored = settings();
  config::Shadow shadow;
  shadow.name = "mirror";
  shadow.of = "chat";
  shadow.twin = "old";
  shadow.replicas = {mirrored.pools[0].replicas[1]};
  shadow.replicas[0].name = "copy";
  mirrored.shadows = {shadow};
  auto& rollout = mirrored.rollouts[0];
  rollout.shadow = "mirror";
  rollout.steps.insert(rollout.steps.begin(), {true, 0, config::Seconds(60)});
  fleet.adopt(mirrored);
  begin();
  const auto is_on = [&] { return fleet.snapshot()->shadows.at(0)->state->on.load(); };
  ask(Wish::start);
  EXPECT_TRUE(is_on());
  adopt(mirrored);
  EXPECT_TRUE(is_on()) << "the shadow step goes on";
  ask(Wish::promote);
  EXPECT_FALSE(is_on());
  ask(Wish::abort);
  EXPECT_FALSE(is_on());
  fleet.snapshot()->shadows[0]->state->on = true;
  mirrored.limits.connect = config::Seconds(3);
  adopt(mirrored);
  EXPECT_TRUE(is_on()) << "an operator switched it on";
  ask(Wish::start);
  ask(Wish::promote);
  EXPECT_FALSE(is_on());
}

TEST_F(RolloutsOfAFleet, AReloadAsksTheGateAnew) {
  auto other = settings();
  other.rollouts[0].unknown_limit = config::Seconds(1e6);
  fleet.adopt(other);
  begin();
  ask(Wish::start);
  for (int i = 0; i < 90; ++i) tick();
  finish_slow_answers();
  EXPECT_THAT(rollouts->list().body, testing::Not(HasSubstr("no comparison of this step has been made yet")));
  adopt(other);
  EXPECT_THAT(rollouts->list().body, HasSubstr("no comparison of this step has been made yet"));
  tick();
  finish_slow_answers();
  EXPECT_THAT(rollouts->list().body, testing::Not(HasSubstr("no comparison of this step has been made yet")))
      << "at once, not after five seconds";
}

}  // namespace
}  // namespace weir::proxy::control
