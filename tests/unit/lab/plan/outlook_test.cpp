#include "lab/plan/outlook.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unordered_map>

#include "lab/engine/random.hpp"

namespace weir::lab::plan {
namespace {

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
    const std::size_t ending = engine().model().running() + engine().model().waiting() - standing;
    const double step_ends = engine().step_ends();
    sum_of_ends_ = 0;
    ended_ = 0;
    run_until(now() + 1e3);
    ASSERT_EQ(ended_, standing + ending);
    const double took =
        sum_of_ends_ - static_cast<double>(ending) * step_ends - static_cast<double>(standing) * from;
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
