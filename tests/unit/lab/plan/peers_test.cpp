#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <unordered_map>

#include "lab/engine/words.hpp"
#include "lab/plan/peers.hpp"

namespace weir::lab::plan {
namespace {

/// Requests to four equal replicas, of which one is chosen after the other.
class Peers : public testing::Test {
 protected:
  void start(Peer peer) {
    router_ = make_router(peer, engines_);
    for (const auto& settings : engines_) timed_.emplace_back(settings, 1);
  }

  /// Returns a request of `tokens` tokens, which begins as others of this family do for `shared` of them.
  static TracedRequest request(std::uint64_t family, std::uint64_t shared, std::uint64_t rest, std::uint64_t tokens) {
    TracedRequest request;
    request.prompt_tokens = tokens;
    request.output_tokens = 10;
    request.session = rest;
    engine::PromptBlocks blocks;
    for (std::uint64_t i = 0; i < tokens; ++i) blocks.add(i < shared ? family << 32 | i : ~rest << 32 | i);
    request.blocks = blocks.take();
    return request;
  }
  std::size_t choose(const TracedRequest& request) {
    const auto engine = [this](std::size_t r) -> const TimedEngine& { return timed_[r]; };
    const Fleet fleet{now_, candidates_, in_flight_, engine};
    const std::size_t chosen = router_->choose(next_++, request, fleet);
    EXPECT_THAT(candidates_, testing::Contains(chosen));
    return chosen;
  }

  std::vector<engine::EngineSettings> engines_ = four_engines();
  std::unique_ptr<Router> router_;
  double now_ = 0;
  std::vector<std::size_t> candidates_{0, 1, 2, 3};
  std::vector<std::uint32_t> in_flight_{0, 0, 0, 0};
  std::vector<TimedEngine> timed_;
  std::size_t next_ = 0;

  static std::vector<engine::EngineSettings> four_engines() { return std::vector<engine::EngineSettings>(4); }
};

TEST_F(Peers, CacheAwareGoesWhereTheTextWasAndElseToTheSmallestTree) {
  start(Peer::cache_aware);
  const std::size_t first = choose(request(1, 1'000, 1, 1'000));
  EXPECT_EQ(choose(request(1, 400, 2, 1'000)), first) << "0.4 of the text";
  const std::size_t other = choose(request(1, 200, 3, 1'000));
  EXPECT_NE(other, first) << "0.2 of the text";
  in_flight_ = {65, 65, 65, 65};
  in_flight_[first] = 130;
  EXPECT_NE(choose(request(1, 1'000, 4, 1'000)), first) << "out of balance";
  in_flight_[first] = 129;
  EXPECT_EQ(choose(request(1, 1'000, 5, 1'000)), first) << "not by more than 64";
}

TEST_F(Peers, BoundedHashStaysUntilTheReplicaHasAQuarterMoreThanTheMean) {
  start(Peer::bounded_hash);
  const TracedRequest one = request(1, 100, 77, 100);
  const std::size_t home = choose(one);
  EXPECT_EQ(choose(one), home);
  in_flight_ = {8, 8, 8, 8};
  EXPECT_EQ(choose(one), home) << "a quarter more than the mean of 33 requests are 11";
  in_flight_[home] = 12;
  const std::size_t next = choose(one);
  EXPECT_NE(next, home);
  in_flight_[home] = 8;
  std::erase(candidates_, home);
  EXPECT_EQ(choose(one), next) << "the next on the ring";
}

TEST_F(Peers, StickyKeepsASessionWhereItWas) {
  start(Peer::sticky);
  in_flight_ = {3, 1, 2, 2};
  EXPECT_EQ(choose(request(1, 0, 5, 100)), 1u);
  in_flight_[1] = 100;
  EXPECT_EQ(choose(request(2, 0, 5, 100)), 1u);
  EXPECT_EQ(choose(request(2, 0, 6, 100)), 2u);
  std::erase(candidates_, 1u);
  EXPECT_EQ(choose(request(2, 0, 5, 100)), 2u);
}

TEST_F(Peers, TokenLoadFiltersByHitAndTakesTheLeastUncachedTokens) {
  start(Peer::token_load);
  const std::size_t first = choose(request(1, 960, 1, 1'024));
  EXPECT_EQ(choose(request(1, 960, 2, 1'024)), first) << "960 of 1,024 tokens are more than 0.8";
  EXPECT_NE(choose(request(1, 512, 3, 1'024)), first) << "half of them, and it has the most in flight";
  router_->first_token(0);
  router_->ended(0);
  router_->first_token(1);
  std::map<std::size_t, int> chosen;
  for (std::uint64_t i = 0; i < 3; ++i) ++chosen[choose(request(10 + i, 0, 10 + i, 1'024))];
  EXPECT_EQ(chosen.size(), 3u);
}

TEST_F(Peers, TheOracleTakesTheEngineWhereAllTimesTogetherGrowLeast) {
  engines_[3].speed = 0.25;
  for (auto& settings : engines_) settings.prefix_caching = engine::PrefixCaching::blocks;
  start(Peer::oracle);
  const TracedRequest one = request(1, 900, 1, 4'000);
  EXPECT_EQ(choose(one), 0u);
  timed_[0].submit({0, one.prompt_tokens, one.output_tokens, one.blocks}, now_);
  EXPECT_EQ(choose(one), 1u) << "its prompt is not computed yet";
  while (timed_[0].step_ends() != never) {
    now_ = timed_[0].step_ends();
    timed_[0].end_step();
    timed_[0].begin_step(now_);
  }
  EXPECT_EQ(choose(one), 0u) << "it has the prompt";
  timed_[0].stall(now_, 2);
  EXPECT_EQ(choose(one), 1u) << "computing the prompt again takes less than the stall";
  for (std::size_t r = 0; r < 3; ++r) timed_[r].stall(now_, 3);
  EXPECT_EQ(choose(one), 3u) << "the slow one is done by then";
}

/// An engine without jitter, whose outlook can be held against what it does then.
class Outlooks : public testing::Test {
 protected:
  static engine::EngineSettings steady() {
    engine::EngineSettings settings;
    settings.jitter = 0;
    settings.knee = 4;
    settings.prefix_caching = engine::PrefixCaching::blocks;
    return settings;
  }
  void start(const engine::EngineSettings& settings) { line_.engines.emplace_back(settings, 1); }
  TimedEngine& engine() { return line_.engines.front(); }
  double now() const { return line_.now(); }

  /// Begins as others of its family do, for `shared` tokens.
  static engine::Sequence sequence(engine::SequenceId id, std::uint64_t prompt, std::uint64_t output,
                                   std::uint64_t family = 0, std::uint64_t shared = 0) {
    engine::PromptBlocks blocks;
    for (std::uint64_t i = 0; i < prompt + output; ++i) blocks.add(i < shared ? family << 32 | i : ~id << 32 | i);
    return {id, prompt, output, blocks.take()};
  }
  Outlook outlook() {
    return {engine(), now(), [this](engine::SequenceId id) { return finds_[id]; }};
  }
  void submit(const engine::Sequence& sequence) {
    finds_[sequence.id] = finds(engine().model(), sequence);
    engine().submit(sequence, now());
  }
  void run_until(double time) {
    line_.run_until(time, [this](std::size_t, const engine::TokenEvent& event) {
      if (event.last) sum_of_ends_ += now(), ++ended_;
    });
  }
  /// Returns what the outlook foretells of the sequences that do not end with the step that has begun, and checks it
  /// against what happens.
  void expect_truth() {
    const double foretold = outlook().sum_of_times(), from = now();
    const auto standing = engine().model().standing().size();
    const std::size_t ending = engine().model().occupancy().running + engine().model().occupancy().waiting - standing;
    const double step_ends = engine().step_ends();
    sum_of_ends_ = 0;
    ended_ = 0;
    run_until(now() + 1e3);
    ASSERT_EQ(ended_, standing + ending);
    const double took = sum_of_ends_ - static_cast<double>(ending) * step_ends - static_cast<double>(standing) * from;
    EXPECT_NEAR(foretold, took, 1e-5 * static_cast<double>(standing));
  }

  Timeline line_;
  std::unordered_map<engine::SequenceId, Finds> finds_;
  double sum_of_ends_ = 0;
  std::size_t ended_ = 0;
};

TEST_F(Outlooks, AnIdleEngineOwesNothing) {
  start(steady());
  EXPECT_EQ(outlook().sum_of_times(), 0);
}

TEST_F(Outlooks, AreWhatTheEngineDoesThen) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    line_ = {};
    auto settings = steady();
    settings.speed = 0.7;
    settings.max_batch = seed % 2 == 0 ? 5 : 64;
    start(settings);
    engine().set_pace([](double) { return 1.5; });
    engine::Random random(seed);
    for (engine::SequenceId id = 1; id <= 12; ++id) {
      submit(sequence(id, 100 + random.below(4'000), 1 + random.below(300)));
      run_until(now() + 0.5 * random.uniform());
    }
    expect_truth();
  }
}

TEST_F(Outlooks, KnowWhatASequenceFindsOfTheOneBeforeIt) {
  start(steady());
  submit(sequence(1, 5'000, 50, 7, 4'800));
  run_until(0.1);
  submit(sequence(2, 5'000, 50, 7, 4'800));
  submit(sequence(3, 5'000, 50, 7, 4'800));
  EXPECT_EQ(finds_[3].ahead, 1u);
  EXPECT_EQ(finds_[3].common, 4'800u);
  expect_truth();
  submit(sequence(4, 5'000, 50, 7, 4'800));
  EXPECT_EQ(finds_[4].tokens, 4'800u);
  expect_truth();
}

TEST_F(Outlooks, WaitForMemory) {
  auto settings = steady();
  settings.kv_tokens = 4'000;
  start(settings);
  for (engine::SequenceId id = 1; id <= 5; ++id) submit(sequence(id, 1'600, 100));
  expect_truth();
}

TEST_F(Outlooks, CountTheRestOfAStall) {
  start(steady());
  submit(sequence(1, 500, 20));
  run_until(0.01);
  engine().stall(now(), 3);
  submit(sequence(2, 500, 20));
  EXPECT_GT(outlook().sum_of_times(), 6);
  expect_truth();
  engine().stall(now(), 2);
  submit(sequence(3, 500, 20));
  EXPECT_GT(outlook().sum_of_times(), 2) << "of an engine that was idle";
  expect_truth();
}

TEST_F(Outlooks, NeverEndOnAnEngineThatHangs) {
  start(steady());
  submit(sequence(1, 500, 20));
  engine().stand_still();
  EXPECT_EQ(outlook().sum_of_times(), never);
}

}  // namespace
}  // namespace weir::lab::plan
