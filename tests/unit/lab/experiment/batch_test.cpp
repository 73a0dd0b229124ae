#include "lab/experiment/batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::lab::experiment {
namespace {

using load::Course;
using testing::Each;
using testing::FloatNear;
using testing::SizeIs;

/// Returns a request that is sent at `sent`, has its first token at `first`, and `tokens` in all, `gap` apart; so many
/// events of `before` come before these.
Course course(double sent, double first, std::size_t tokens, double gap, std::vector<double> before = {}) {
  Course made{sent, std::move(before), 1, 100};
  for (std::size_t i = 0; i < tokens; ++i) made.events.push_back(first + gap * static_cast<double>(i));
  return made;
}

TEST(Batch, PrefillLastsFromTheFirstSendToTheLastFirstToken) {
  const auto batch = batch_of(std::vector{course(1.0, 1.5, 20, 0.1), course(1.01, 1.8, 20, 0.1)});
  EXPECT_NEAR(batch.prefill.seconds, 0.8, 1e-9);
  EXPECT_EQ(batch.prefill.tokens, 200);
  EXPECT_THAT(batch.prefill.latency, testing::ElementsAre(testing::FloatEq(0.5F), testing::FloatEq(0.79F)));
}

TEST(Batch, DecodesInTheTimeInWhichAllDo) {
  Course drafted = course(0, 1, 21, 0.3);
  drafted.tokens_per_event = 3;
  const struct {
    const char* what;
    std::vector<Course> courses;
    double seconds, tokens;
    std::size_t gaps;
  } cases[]{
      {"The first is alone from 1 to 2 and slower there; the second goes on alone after 4.",
       {course(0, 2.0, 21, 0.1, {1.0, 1.5}), course(0, 2.0, 31, 0.1)},
       2,
       40,
       40},
      {"A gap that began in others' prefill is no decode, though its token comes in the steady time.",
       {course(0, 2.05, 21, 0.1, {1.0}), course(0, 2.0, 21, 0.1)},
       2,
       40,
       39},
      {"Five events come at 2 in one read, then ten more, 0.1 s apart: ten a second each, for a second.",
       {course(0, 2, 11, 0.1, {2, 2, 2, 2}), course(0, 2, 11, 0.1)},
       1,
       20,
       20},
      {"Tokens of one event share its gap.", {drafted}, 6, 60, 20},
  };
  for (const auto& [what, courses, seconds, tokens, gaps] : cases) {
    const auto batch = batch_of(courses);
    ASSERT_TRUE(batch.decode) << what;
    EXPECT_NEAR(batch.decode->seconds, seconds, 1e-9) << what;
    EXPECT_NEAR(batch.decode->tokens, tokens, 1e-9) << what;
    EXPECT_THAT(batch.decode->latency, Each(FloatNear(0.1F, 1e-5F))) << what;
    EXPECT_THAT(batch.decode->latency, SizeIs(gaps)) << what;
  }
}

TEST(Batch, SaysWhyItHasNoDecode) {
  const auto too_short = [](std::size_t together) {
    const double begin = 1 + 0.1 * static_cast<double>(20 - together);
    return batch_of(std::vector{course(0, 1, 20, 0.1), course(0, begin - 0.001, 20, 0.1)}).unsteady;
  };
  EXPECT_EQ(too_short(least_events - 1), Unsteady::too_short);
  EXPECT_EQ(too_short(least_events), Unsteady::no);
  EXPECT_EQ(batch_of(std::vector{course(0, 1, 1, 0)}).unsteady, Unsteady::one_token);
  const auto apart = batch_of(std::vector{course(0, 1, 20, 0.1), course(0, 5, 20, 0.1)});
  EXPECT_FALSE(apart.decode);
  EXPECT_EQ(apart.unsteady, Unsteady::not_together);
  EXPECT_NEAR(apart.prefill.seconds, 5, 1e-9) << "the prefill counts all the same";
  Course late = course(0, 1, 10, 0.01);
  late.events.insert(late.events.end(), 10, 2.0);
  const auto one_moment = batch_of(std::vector{late, course(0, 1.5, 20, 0.1)});
  EXPECT_FALSE(one_moment.decode) << "the last ten events come in one read; before them the request was alone";
  EXPECT_EQ(one_moment.unsteady, Unsteady::too_short);
}

}  // namespace
}  // namespace weir::lab::experiment
