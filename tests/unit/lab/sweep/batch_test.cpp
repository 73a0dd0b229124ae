#include "lab/sweep/batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::lab::sweep {
namespace {

using load::Course;
using testing::Each;
using testing::FloatNear;
using testing::SizeIs;

/// Returns a request that is sent at `sent`, has its first token at `first`, and `tokens` in all, `gap` apart.
Course course(double sent, double first, std::size_t tokens, double gap) {
  Course made;
  made.sent = sent;
  made.prompt_tokens = 100;
  for (std::size_t i = 0; i < tokens; ++i) made.events.push_back(first + gap * static_cast<double>(i));
  return made;
}

TEST(Batch, PrefillLastsFromTheFirstSendToTheLastFirstToken) {
  const auto batch = batch_of(std::vector{course(1.0, 1.5, 20, 0.1), course(1.01, 1.8, 20, 0.1)});
  EXPECT_NEAR(batch.prefill.seconds, 0.8, 1e-9);
  EXPECT_EQ(batch.prefill.tokens, 200u);
  ASSERT_THAT(batch.prefill.ttft, SizeIs(2));
  EXPECT_FLOAT_EQ(batch.prefill.ttft[0], 0.5F);
  EXPECT_FLOAT_EQ(batch.prefill.ttft[1], 0.79F);
}

TEST(Batch, DecodesInTheTimeInWhichAllDo) {
  // The first is alone from 1 to 2 and slower there; the second goes on alone after 4.
  Course first = course(0, 2.0, 21, 0.1);
  first.events.insert(first.events.begin(), {1.0, 1.5});
  const auto batch = batch_of(std::vector{first, course(0, 2.0, 31, 0.1)});
  ASSERT_TRUE(batch.decode);
  EXPECT_NEAR(batch.decode->seconds, 2.0, 1e-9);
  EXPECT_NEAR(batch.decode->tokens, 40, 1e-9);
  EXPECT_THAT(batch.decode->per_token, Each(FloatNear(0.1F, 1e-5F)));
  EXPECT_THAT(batch.decode->per_token, SizeIs(40));
}

TEST(Batch, AGapThatBeganInOthersPrefillIsNoDecode) {
  Course first = course(0, 2.05, 21, 0.1);
  first.events.insert(first.events.begin(), 1.0);  // Its next token comes in the steady time, after others' prefill.
  const auto batch = batch_of(std::vector{first, course(0, 2.0, 21, 0.1)});
  ASSERT_TRUE(batch.decode);
  EXPECT_THAT(batch.decode->per_token, Each(FloatNear(0.1F, 1e-5F)));
}

TEST(Batch, WhoseRequestsNeverAllDecodeHasNoDecode) {
  const auto batch = batch_of(std::vector{course(0, 1, 20, 0.1), course(0, 5, 20, 0.1)});
  EXPECT_FALSE(batch.decode);
  EXPECT_EQ(batch.unsteady, Unsteady::not_together);
  EXPECT_NEAR(batch.prefill.seconds, 5, 1e-9) << "the prefill counts all the same";
}

TEST(Batch, OfTooFewStepsTogetherHasNoDecode) {
  for (const std::size_t together : {least_events - 1, least_events}) {
    const double begin = 1 + 0.1 * static_cast<double>(20 - together);
    const auto batch = batch_of(std::vector{course(0, 1, 20, 0.1), course(0, begin - 0.001, 20, 0.1)});
    EXPECT_EQ(batch.decode.has_value(), together == least_events);
    EXPECT_EQ(batch.unsteady, together == least_events ? Unsteady::no : Unsteady::too_short);
  }
}

TEST(Batch, EventsOfOneReadShareItsMoment) {
  // The last ten events come in one read, at 2; before them the request was alone.
  Course late = course(0, 1, 10, 0.01);
  late.events.insert(late.events.end(), 10, 2.0);
  const auto one_moment = batch_of(std::vector{late, course(0, 1.5, 20, 0.1)});
  EXPECT_FALSE(one_moment.decode);
  EXPECT_EQ(one_moment.unsteady, Unsteady::too_short);

  // Five events come at 2, then ten more, 0.1 s apart.
  Course begun = course(0, 2, 11, 0.1);
  begun.events.insert(begun.events.begin(), 4, 2.0);
  const auto batch = batch_of(std::vector{begun, course(0, 2, 11, 0.1)});
  ASSERT_TRUE(batch.decode);
  EXPECT_NEAR(batch.decode->tokens, 20, 1e-9) << "ten a second each, for a second";
  EXPECT_THAT(batch.decode->per_token, SizeIs(20));
  EXPECT_THAT(batch.decode->per_token, Each(FloatNear(0.1F, 1e-5F)));
}

TEST(Batch, OfAnswersOfOneTokenHasNoDecode) {
  EXPECT_EQ(batch_of(std::vector{course(0, 1, 1, 0)}).unsteady, Unsteady::one_token);
}

TEST(Batch, TokensOfOneEventShareItsGap) {
  Course drafted = course(0, 1, 21, 0.3);
  drafted.tokens_per_event = 3;
  const auto batch = batch_of(std::vector{drafted});
  ASSERT_TRUE(batch.decode);
  EXPECT_NEAR(batch.decode->tokens, 60, 1e-9);
  EXPECT_THAT(batch.decode->per_token, Each(FloatNear(0.1F, 1e-5F)));
}

}  // namespace
}  // namespace weir::lab::sweep
