#include "balancer/expected_output.hpp"

#include "requests.hpp"

namespace weir::balancer {
namespace {

RequestFacts asking(std::optional<std::uint64_t> max_tokens, std::uint32_t n,
                    metrics::Api api = metrics::Api::openai_chat) {
  RequestFacts facts;
  facts.api = api;
  facts.model = "m";
  facts.max_tokens = max_tokens;
  facts.n = n;
  return facts;
}

TEST(ExpectedOutput, BeforeAnyAnswerItIs256AtMostTheLimit) {
  const ExpectedOutput expected;
  EXPECT_EQ(expected.of(asking({}, 1)), 256u);
  EXPECT_EQ(expected.of(asking(100, 1)), 100u);
  EXPECT_EQ(expected.of(asking(4000, 1)), 256u);
  EXPECT_EQ(expected.of(asking(100, 3)), 300u);
  EXPECT_EQ(expected.of(asking(100, 0)), 100u);
  EXPECT_EQ(expected.of(asking(0, 1)), 0u);
  EXPECT_EQ(expected.of(asking(~std::uint64_t{0}, 1)), 256u);
}

TEST(ExpectedOutput, AnApiThatIsNotReadHasNoneUnlessTheRequestSetsALimit) {
  const ExpectedOutput expected;
  EXPECT_EQ(expected.of(asking({}, 1, metrics::Api::other)), 0u);
  EXPECT_EQ(expected.of(asking(100, 1, metrics::Api::other)), 100u);
}

TEST(ExpectedOutput, LearnsTheMeanPerChoice) {
  ExpectedOutput expected;
  expected.learn(asking({}, 1), 100);
  EXPECT_EQ(expected.of(asking({}, 1)), 100u);
  expected.learn(asking({}, 4), 1200);
  EXPECT_EQ(expected.of(asking({}, 1)), 200u);
  EXPECT_EQ(expected.of(asking({}, 2)), 400u);
  EXPECT_EQ(expected.of(asking(50, 2)), 100u);
  EXPECT_EQ(expected.of(asking({}, 1, metrics::Api::openai_completions)), 256u);
}

TEST(ExpectedOutput, FollowsAChange) {
  ExpectedOutput expected;
  for (int i = 0; i < 1000; ++i) expected.learn(asking({}, 1), 100);
  for (int i = 0; i < 200; ++i) expected.learn(asking({}, 1), 500);
  EXPECT_NEAR(static_cast<double>(expected.of(asking({}, 1))), 500, 10);
}

TEST(ExpectedOutput, AnAbsurdReportIsCut) {
  ExpectedOutput expected;
  expected.learn(asking({}, 1), ~Tokens{0});
  EXPECT_EQ(expected.of(asking({}, 1)), 1'000'000u);
}

}  // namespace
}  // namespace weir::balancer
