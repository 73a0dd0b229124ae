// A rollout whose file is written slowly: nothing more goes to the candidate before it is on the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "tests/unit/proxy/control/rollouts/rollouts_of_a_fleet.hpp"

namespace weir::proxy::control {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

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

/// A step that would pass takes no promotion's place: its operator would get no answer.
TEST_F(RolloutsOnASlowDisk, AStepThatPassesMeanwhileLeavesAPromotionThatWaits) {
  for (const bool promote : {false, true}) {
    begin_about_to_pass();
    for (int i = 0; i < 8; ++i) tick();
    ASSERT_EQ(share(), 0.05);
    const auto promoted = promote ? wish(Wish::promote, R"({"to":"100%"})") : nullptr;
    for (int i = 0; i < 5; ++i) tick_while_writing();
    EXPECT_EQ(share(), 0.05);
    finish_writing(*rollouts);
    EXPECT_EQ(share(), promote ? 1 : 0.5);
    EXPECT_EQ(moves("promote"), promote ? 1u : 0u);
    EXPECT_EQ(moves("pass"), promote ? 0u : 1u);
    if (promote) {
      ASSERT_TRUE(promoted->has_value());
      EXPECT_EQ((*promoted)->status, 200u);
    }
  }
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

}  // namespace
}  // namespace weir::proxy::control
