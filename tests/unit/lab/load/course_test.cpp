#include "lab/load/course.hpp"

#include <gtest/gtest.h>

#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::load {
namespace {

TEST(Course, FollowsTheMomentsOfTheStream) {
  const auto course = course_of(made_result({.sent = 3, .ttft = 0.5, .gap = 0.02, .events = 5, .prompt_tokens = 77}));
  ASSERT_TRUE(course);
  EXPECT_NEAR(course->events.front() - course->sent, 0.5, 1e-6);
  EXPECT_NEAR(course->events.back() - course->events.front(), 0.08, 1e-6);
  EXPECT_EQ(course->prompt_tokens, 77u);
  EXPECT_EQ(course->tokens_per_event, 1);
}

TEST(Course, KnowsByUsageHowManyTokensAnEventHad) {
  const std::pair<Made, double> cases[]{
      {{.events = 5, .output_tokens = 13}, 3},
      {{.events = 10, .output_tokens = 11, .closed_empty = true}, 1},  // An empty event at the end is no speculation.
      {{.events = 5, .output_tokens = 14, .closed_empty = true}, 3}};
  for (const auto& [made, tokens] : cases) EXPECT_DOUBLE_EQ(course_of(made_result(made))->tokens_per_event, tokens);
  EXPECT_FALSE(course_of(made_result({.events = 0}))) << "without a token there is none";
}

}  // namespace
}  // namespace weir::lab::load
