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
  for (int i = 0; i < 5; ++i) {
    expected.learn(asking({}, 1), 100);
    expected.learn(asking({}, 4), 1200);
  }
  EXPECT_EQ(expected.of(asking({}, 1)), 200u);
  EXPECT_EQ(expected.of(asking({}, 2)), 400u);
  EXPECT_EQ(expected.of(asking(50, 2)), 100u);
}

TEST(ExpectedOutput, LeansOnItsNeighboursWhileAnswersAreFew) {
  ExpectedOutput expected;
  for (int i = 0; i < 10; ++i) expected.learn(asking({}, 1), 1000);
  EXPECT_EQ(expected.of(asking({}, 1, metrics::Api::openai_completions)), 1000u) << "by the model";
  RequestFacts other = asking({}, 1);
  other.model = "other";
  EXPECT_EQ(expected.of(other), 1000u) << "by the API";
  other.api = metrics::Api::tgi_generate;
  EXPECT_EQ(expected.of(other), 1000u) << "by the pool";
  Tokens last = 1000;
  for (int i = 0; i < 5; ++i) {
    expected.learn(other, 50);
    EXPECT_LT(expected.of(other), last);
    last = expected.of(other);
  }
  EXPECT_EQ(last, 50u);
  EXPECT_EQ(expected.of(asking({}, 1)), 1000u);
}

TEST(ExpectedOutput, ChatsSayNothingOfWhatIsNotRead) {
  ExpectedOutput expected;
  const RequestFacts embedding = asking({}, 1, metrics::Api::other);
  for (int i = 0; i < 10; ++i) expected.learn(asking({}, 1), 1000);
  EXPECT_EQ(expected.of(embedding), 0u);
  EXPECT_EQ(expected.of(asking({}, 1, metrics::Api::openai_embeddings)), 0u);
  for (int i = 0; i < 10; ++i) expected.learn(embedding, 7);
  EXPECT_EQ(expected.of(embedding), 7u);
  EXPECT_EQ(expected.of(asking({}, 1)), 1000u);
}

TEST(ExpectedOutput, FollowsAChange) {
  ExpectedOutput expected;
  for (int i = 0; i < 1000; ++i) expected.learn(asking({}, 1), 100);
  for (int i = 0; i < 200; ++i) expected.learn(asking({}, 1), 500);
  EXPECT_NEAR(static_cast<double>(expected.of(asking({}, 1))), 500, 10);
}

TEST(ExpectedOutput, AnAbsurdReportIsCut) {
  ExpectedOutput expected;
  for (int i = 0; i < 5; ++i) expected.learn(asking({}, 1), ~Tokens{0});
  EXPECT_EQ(expected.of(asking({}, 1)), 1'000'000u);
}

}  // namespace
}  // namespace weir::balancer
