#include "balancer/token_estimator.hpp"

#include <algorithm>
#include <random>

#include "requests.hpp"

namespace weir::balancer {
namespace {

RequestFacts text_of(std::array<std::uint64_t, metrics::wire::script_count> code_points, std::uint32_t messages) {
  RequestFacts facts = chat_of(0);
  facts.text.code_points = code_points;
  facts.text.messages = messages;
  return facts;
}

TEST(TokenEstimator, StartsFromThePriors) {
  struct Row {
    Script script;
    double tokens_per_code_point;
  };
  const Row rows[] = {{Script::letters, 0.25},
                      {Script::punctuation, 0.33},
                      {Script::digits, 0.5},
                      {Script::latin_extended, 0.33},
                      {Script::cyrillic_greek, 0.5},
                      {Script::abjad_indic_thai, 0.6},
                      {Script::cjk, 0.8},
                      {Script::other, 1.5}};
  const TokenEstimator estimator;
  for (const Row& row : rows) {
    RequestFacts facts = chat_of(0);
    facts.text.code_points[static_cast<std::size_t>(row.script)] = 1000;
    facts.text.messages = 3;
    const auto estimate = estimator.estimate(facts);
    EXPECT_EQ(estimate.tokens, static_cast<Tokens>(std::llround(1000 * row.tokens_per_code_point + 3 * 4 + 10)));
    EXPECT_TRUE(estimate.known);
  }
}

TEST(TokenEstimator, CountsTokenIds) {
  TokenEstimator estimator;
  EXPECT_EQ(estimator.estimate(prompt_of(1234)).tokens, 1234u);
  estimator.learn(prompt_of(1234), 9999);
  EXPECT_EQ(estimator.estimate(prompt_of(1234)).tokens, 1234u);
}

TEST(TokenEstimator, AnImageCostsTheSameEverywhereAndTeachesNothing) {
  TokenEstimator estimator;
  const Tokens text = estimator.estimate(chat_of(4000)).tokens;
  RequestFacts facts = chat_of(4000);
  facts.images = 2;
  EXPECT_EQ(estimator.estimate(facts).tokens, text + 2 * TokenEstimator::image_tokens);
  for (int i = 0; i < 100; ++i) estimator.learn(facts, 50'000);
  EXPECT_EQ(estimator.estimate(chat_of(4000)).tokens, text);
}

TEST(TokenEstimator, AnUnknownPromptIsTheMeanOfTheLastThousandKnownOnes) {
  TokenEstimator estimator;
  EXPECT_EQ(estimator.estimate(unknown_request()).tokens, 2048u);
  EXPECT_FALSE(estimator.estimate(unknown_request()).known);

  estimator.learn(prompt_of(100), 100);
  estimator.learn(prompt_of(300), std::nullopt);  // The replica did not say; the estimate stands.
  estimator.learn(unknown_request(), std::nullopt);
  EXPECT_EQ(estimator.estimate(unknown_request()).tokens, 200u);
  estimator.learn(unknown_request(), 500);
  EXPECT_EQ(estimator.estimate(unknown_request()).tokens, 300u);

  for (int i = 0; i < 999; ++i) estimator.learn(prompt_of(7), 7);
  EXPECT_EQ(estimator.estimate(unknown_request()).tokens, (500 + 999 * 7) / 1000);
  estimator.learn(prompt_of(7), 7);
  EXPECT_EQ(estimator.estimate(unknown_request()).tokens, 7u);
  for (int i = 0; i < 1000; ++i) estimator.learn(prompt_of(9), 9);
  EXPECT_EQ(estimator.estimate(unknown_request()).tokens, 9u);
}

TEST(TokenEstimator, ModelsAndApisLearnApart) {
  TokenEstimator estimator;
  const Tokens before = estimator.estimate(chat_of(4000, "a")).tokens;
  for (int i = 0; i < 200; ++i) estimator.learn(chat_of(4000, "a"), 2000);
  EXPECT_NEAR(static_cast<double>(estimator.estimate(chat_of(4000, "a")).tokens), 2000, 20);
  EXPECT_EQ(estimator.estimate(chat_of(4000, "b")).tokens, before);
  RequestFacts completion = chat_of(4000, "a");
  completion.api = metrics::Api::openai_completions;
  EXPECT_EQ(estimator.estimate(completion).tokens, before);
}

TEST(TokenEstimator, OneFalseReportMovesAnEstimateByNinePercentAtMost) {
  for (const Tokens lie : {Tokens{8}, Tokens{1'000'000}, ~Tokens{0}}) {
    TokenEstimator estimator;
    const auto before = static_cast<double>(estimator.estimate(chat_of(100'000)).tokens);
    estimator.learn(chat_of(100'000), lie);
    const auto after = static_cast<double>(estimator.estimate(chat_of(100'000)).tokens);
    EXPECT_LE(std::abs(after / before - 1), 0.0901) << lie;
    EXPECT_NE(after, before);
  }
}

TEST(TokenEstimator, TinyReportsTeachNothing) {
  TokenEstimator estimator;
  const Tokens before = estimator.estimate(chat_of(4000)).tokens;
  estimator.learn(chat_of(4000), 7);
  estimator.learn(chat_of(4000), std::nullopt);
  EXPECT_EQ(estimator.estimate(chat_of(4000)).tokens, before);
}

TEST(TokenEstimator, ShortChatsTeachWhatTheTemplateAdds) {
  TokenEstimator estimator;
  EXPECT_EQ(estimator.estimate(chat_of(0)).tokens, 14u);
  for (int i = 0; i < 200; ++i) estimator.learn(chat_of(100'000), 30'000);
  EXPECT_EQ(estimator.estimate(chat_of(0)).tokens, 14u);
  for (int i = 0; i < 2000; ++i) estimator.learn(chat_of(0), 60);
  EXPECT_NEAR(static_cast<double>(estimator.estimate(chat_of(0)).tokens), 60, 1);
}

TEST(TokenEstimator, ClientsCannotMakeItGrowPast64Rows) {
  TokenEstimator estimator;
  const Tokens prior = estimator.estimate(chat_of(4000)).tokens;
  for (int m = 0; m < 100; ++m) {
    for (int i = 0; i < 200; ++i) estimator.learn(chat_of(4000, "model-" + std::to_string(m)), 2000);
  }
  int learned = 0;
  for (int m = 0; m < 100; ++m)
    learned += estimator.estimate(chat_of(4000, "model-" + std::to_string(m))).tokens != prior;
  EXPECT_EQ(learned, 64);
  EXPECT_EQ(estimator.estimate(chat_of(4000, "model-99")).tokens, prior);
}

// A tokenizer with other weights than the priors, on a mix of languages and lengths with 5 % of noise: what is asked of
// the estimator is that its error on long runs is far below that of the priors.
TEST(TokenEstimator, ConvergesOnATokenizerItDoesNotKnow) {
  constexpr std::array<double, metrics::wire::script_count> truth{0.17, 0.55, 0.9, 0.45, 0.3, 0.4, 1.2, 2.0};
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> length(7.5, 1);
  std::normal_distribution<double> noise(1, 0.05);
  TokenEstimator learning;
  const TokenEstimator prior;
  std::vector<double> errors, prior_errors;
  for (int i = 0; i < 5000; ++i) {
    const double all = std::min(length(random), 200'000.0);
    const std::size_t language = random() % 10;
    std::array<double, metrics::wire::script_count> mix{0.9, 0.07, 0.03, 0, 0, 0, 0, 0};
    if (language == 0) mix = {0.1, 0.05, 0.02, 0, 0, 0, 0.83, 0};
    if (language == 1) mix = {0.2, 0.07, 0.02, 0, 0.7, 0, 0, 0.01};
    if (language == 2) mix = {0.6, 0.25, 0.15, 0, 0, 0, 0, 0};
    std::array<std::uint64_t, metrics::wire::script_count> code_points{};
    const auto messages = static_cast<std::uint32_t>(1 + random() % 6);
    double tokens = 7.0 * messages + 25;
    for (std::size_t s = 0; s < mix.size(); ++s) {
      code_points[s] = static_cast<std::uint64_t>(all * mix[s]);
      tokens += truth[s] * static_cast<double>(code_points[s]);
    }
    const RequestFacts facts = text_of(code_points, messages);
    const auto counted = static_cast<Tokens>(std::llround(tokens * noise(random)));
    if (i >= 1000) {
      const auto y = static_cast<double>(counted);
      errors.push_back(std::abs(static_cast<double>(learning.estimate(facts).tokens) / y - 1));
      prior_errors.push_back(std::abs(static_cast<double>(prior.estimate(facts).tokens) / y - 1));
    }
    learning.learn(facts, counted);
  }
  std::ranges::sort(errors);
  std::ranges::sort(prior_errors);
  EXPECT_LT(errors[errors.size() / 2], 0.08);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.2);
  EXPECT_GT(prior_errors[prior_errors.size() / 2], 0.15);
}

}  // namespace
}  // namespace weir::balancer
