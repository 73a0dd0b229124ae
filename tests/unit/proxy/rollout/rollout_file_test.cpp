#include "proxy/rollout/rollout_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/unit/proxy/said.hpp"

namespace weir::proxy::rollout {
namespace {

namespace ro = balancer::rollout;
using ::testing::HasSubstr;

class RolloutFile : public ::testing::Test {
 protected:
  RolloutFile() { std::filesystem::create_directories(path); }
  ~RolloutFile() override { std::filesystem::remove_all(path); }
  std::string file() const { return path / "rollouts.json"; }

  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("weir-rollouts-" + std::to_string(::getpid()));
};

/// Returns one of the shares that a rollout has in a state.
double share_in(ro::State state, std::uint64_t drawn) {
  const double below_all = static_cast<double>(drawn % 1000) / 1000;
  switch (state) {
    case ro::State::live:
      return below_all > 0 ? below_all : 0.5;
    case ro::State::paused:
      return below_all;
    case ro::State::done:
      return 1;
    default:
      return 0;
  }
}

KeptRollouts any(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  KeptRollouts kept;
  if (random() % 4 != 0) kept.conversation_key = metrics::SipKey{random(), random() % 3};
  for (auto left = random() % 4; left > 0; --left) {
    KeptRollout one;
    one.pool = "chat" + std::to_string(random() % 9);
    one.candidate = "a \"new\" one\n\xc3\xa9";
    one.standing.state = static_cast<ro::State>(random() % ro::state_names.size());
    one.standing.share = share_in(one.standing.state, random());
    one.standing.in_step = static_cast<double>(random()) / 1e12;
    one.standing.unknown = static_cast<double>(random() % 1000) / 7;
    one.standing.shadow_passed = random() % 2 == 0;
    one.standing.failures = {random() % 1000 + 10, random() % 10, random() % 1000 + 10, random() % 10};
    one.standing.misses = {random() % 1000 + 10, random() % 10, random() % 1000 + 10, random() % 10};
    one.standing.refusals = {random() % 100, random() % 1000};
    one.standing.hangs = {random() % 100, random() % 1000};
    one.standing.why = "because \\ of it";
    kept.rollouts.emplace("r" + std::to_string(random()), std::move(one));
  }
  return kept;
}

TEST_F(RolloutFile, GivesBackWhatItWasGiven) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto kept = any(seed);
    EXPECT_EQ(rollouts_in(text_of(kept)), kept) << text_of(kept);
  }
}

TEST_F(RolloutFile, WhetherItCanBeKeptIsTriedAndNothingIsLeft) {
  EXPECT_EQ(why_not_kept(path), "");
  EXPECT_TRUE(std::filesystem::is_empty(path));
  EXPECT_EQ(
      why_not_kept(path / "missing"),
      "the state of rollouts cannot be kept there: No such file or directory; make it a directory that weir's user "
      "may write and that has room");
  std::ofstream(path / "file") << "x";
  EXPECT_THAT(why_not_kept(path / "file"), HasSubstr("Not a directory"));
}

TEST_F(RolloutFile, OfAnEarlierWeirHasNoRefusalsAndNoHangs) {
  const auto kept = rollouts_in(
      R"({"conversation_key":null,"rollouts":[{"name":"fp8","pool":"chat","candidate":"new","state":"live",)"
      R"("share":0.05,"in_step_seconds":7,"unknown_seconds":0,"shadow_passed":true,)"
      R"("failures":{"candidate":9,"candidate_bad":1,"stable":90,"stable_bad":0},)"
      R"("misses":{"candidate":0,"candidate_bad":0,"stable":0,"stable_bad":0},"why":"the gate passed"}]})");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->rollouts.at("fp8").standing.refusals, ro::Drawn());
  EXPECT_EQ(kept->rollouts.at("fp8").standing.failures.candidate, 9u);
}

TEST_F(RolloutFile, LiesOnDiskForItsOwnerAlone) {
  EXPECT_EQ(read_rollouts(path), KeptRollouts()) << "there is none yet";
  EXPECT_EQ(read_rollouts(""), KeptRollouts());
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_EQ(write_rollouts(path, any(seed)), std::nullopt);
    EXPECT_EQ(read_rollouts(path), any(seed));
  }
  struct stat found{};
  ASSERT_EQ(::stat(file().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777u, 0600u) << "the key of the conversations is a secret";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path), {}), 1) << "nothing is left beside it";
}

/// All requests are with the candidate only where the rollout is done: no step follows.
TEST_F(RolloutFile, AStepUnderWayHasNoShareOfAll) {
  for (const auto state : {ro::State::shadow, ro::State::live, ro::State::paused, ro::State::done}) {
    KeptRollouts kept;
    kept.rollouts["fp8"].standing.state = state;
    kept.rollouts["fp8"].standing.share = 1;
    EXPECT_EQ(rollouts_in(text_of(kept)).has_value(), state == ro::State::done) << ro::name_of(state);
  }
}

/// Whatever a damaged file holds: weir starts, says so, and gives no candidate a request.
TEST_F(RolloutFile, DamageIsFoundAndMovedAside) {
  const auto text = text_of(any(6));
  for (std::size_t cut = 0; cut + 2 < text.size(); ++cut) EXPECT_EQ(rollouts_in(text.substr(0, cut)), std::nullopt);
  std::mt19937_64 random(9);
  for (int i = 0; i < 5000; ++i) {
    auto damaged = text;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    if (const auto read = rollouts_in(damaged))
      for (const auto& [name, one] : read->rollouts)
        EXPECT_TRUE(one.standing.share >= 0 && one.standing.share <= 1 && one.standing.in_step >= 0);
  }
  std::ofstream(file()) << text.substr(0, text.size() / 2);
  EXPECT_EQ(read_rollouts(path), KeptRollouts());
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_TRUE(std::filesystem::exists(file() + ".damaged"));
}

/// A live rollout with all requests would have no next step.
TEST_F(RolloutFile, AStateWithAShareThatItCannotHaveIsDamage) {
  for (const auto name : ro::state_names) {
    const auto state = static_cast<ro::State>(std::ranges::find(ro::state_names, name) - ro::state_names.begin());
    for (const double share : {0.0, 0.25, 1.0}) {
      KeptRollouts kept;
      auto& standing = kept.rollouts["fp8"].standing;
      standing.state = state;
      standing.share = share;
      const bool possible = state == ro::State::live     ? share > 0 && share < 1
                            : state == ro::State::paused ? share < 1
                            : state == ro::State::done   ? share == 1
                                                         : share == 0;
      EXPECT_EQ(rollouts_in(text_of(kept)).has_value(), possible) << name << " " << share;
    }
  }
}

TEST_F(RolloutFile, ACountBeyondBeliefIsDamage) {
  for (const std::uint64_t count : {std::uint64_t{1} << 40, std::uint64_t{1} << 60, ~std::uint64_t{0}}) {
    KeptRollouts failures, hangs;
    failures.rollouts["fp8"].standing.failures.candidate = count;
    hangs.rollouts["fp8"].standing.hangs.candidate = count;
    for (const auto& kept : {failures, hangs}) EXPECT_EQ(rollouts_in(text_of(kept)).has_value(), count >> 40 == 1);
  }
}

TEST_F(RolloutFile, ADirectoryInItsPlaceIsMovedAside) {
  std::filesystem::create_directory(file());
  EXPECT_EQ(read_rollouts(path), KeptRollouts());
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_TRUE(std::filesystem::is_directory(file() + ".damaged"));
}

TEST_F(RolloutFile, APipeInItsPlaceIsMovedAsideAndKeepsNobodyWaiting) {
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  Said said;
  EXPECT_EQ(read_rollouts(path), KeptRollouts());
  EXPECT_THAT(said.take(), HasSubstr("it is a pipe"));
  EXPECT_TRUE(std::filesystem::is_fifo(file() + ".damaged"));
  ASSERT_EQ(::mkfifo((file() + ".new").c_str(), 0600), 0);
  EXPECT_NE(write_rollouts(path, KeptRollouts()), std::nullopt);
  EXPECT_EQ(write_rollouts(path, KeptRollouts()), std::nullopt) << "what was in the way is gone";
}

TEST_F(RolloutFile, SaysWhyItCannotBeWritten) {
  const auto error = write_rollouts(path / "missing", any(1));
  ASSERT_TRUE(error);
  EXPECT_THAT(*error,
              HasSubstr("/missing' ([admin] state): No such file or directory; make it a directory that weir's"));
  std::filesystem::create_directory(file());
  EXPECT_THAT(*write_rollouts(path, any(1)), HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace weir::proxy::rollout
