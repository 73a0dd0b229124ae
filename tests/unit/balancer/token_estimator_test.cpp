#include "balancer/token_estimator.hpp"

#include <random>

#include "requests.hpp"

namespace weir::balancer {
namespace {

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
  estimator.learn(prompt_of(300), std::nullopt);  // The replica did not say, so the estimate stands.
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

TEST(TokenEstimator, WhatTheEngineKeptOrCountedTeachesNothing) {
  TokenEstimator estimator;
  const Tokens text = estimator.estimate(chat_of(4000)).tokens;
  RequestFacts kept = chat_of(4000);
  kept.stored_context = true;
  RequestFacts mixed = chat_of(4000);
  mixed.prompt_token_ids = 300;
  EXPECT_EQ(estimator.estimate(kept).tokens, text);
  EXPECT_EQ(estimator.estimate(mixed).tokens, text + 300);
  for (int i = 0; i < 100; ++i) {
    estimator.learn(kept, 50'000);
    estimator.learn(mixed, 50'000);
  }
  EXPECT_EQ(estimator.estimate(chat_of(4000)).tokens, text);
}

TEST(TokenEstimator, ModelsAndApisLearnApart) {
  TokenEstimator estimator;
  RequestFacts completion = chat_of(4000, "a");
  completion.api = metrics::Api::openai_completions;
  for (int i = 0; i < 200; ++i) {
    estimator.learn(chat_of(4000, "a"), 2000);
    estimator.learn(chat_of(4000, "b"), 600);
    estimator.learn(completion, 1200);
  }
  EXPECT_NEAR(static_cast<double>(estimator.estimate(chat_of(4000, "a")).tokens), 2000, 20);
  EXPECT_NEAR(static_cast<double>(estimator.estimate(chat_of(4000, "b")).tokens), 600, 6);
  EXPECT_NEAR(static_cast<double>(estimator.estimate(completion).tokens), 1200, 12);
}

TEST(TokenEstimator, WhatIsNewStartsFromItsNeighbours) {
  TokenEstimator estimator;
  const auto of = [&](const std::string& model, metrics::Api api) {
    RequestFacts facts = chat_of(4000, model);
    facts.api = api;
    return static_cast<double>(estimator.estimate(facts).tokens);
  };
  constexpr auto chat = metrics::Api::openai_chat;
  constexpr auto completions = metrics::Api::openai_completions;
  for (int i = 0; i < 200; ++i) estimator.learn(chat_of(4000, "a"), 2000);
  EXPECT_NEAR(of("new", chat), 2000, 20) << "by the API";
  EXPECT_NEAR(of("a", completions), 2000, 20) << "by the model";
  EXPECT_NEAR(of("new", completions), 2000, 20) << "by the pool";

  RequestFacts other = chat_of(4000, "b");
  other.api = completions;
  for (int i = 0; i < 200; ++i) estimator.learn(other, 600);
  EXPECT_NEAR(of("a", completions), 2000, 20) << "the model is nearer than the API";
  EXPECT_NEAR(of("b", chat), 600, 6);
}

TEST(TokenEstimator, FewAnswersOfAModelLeanOnItsNeighbours) {
  TokenEstimator estimator;
  for (int i = 0; i < 500; ++i) estimator.learn(chat_of(4000, "a"), 2000);
  const auto of_b = [&] { return static_cast<double>(estimator.estimate(chat_of(4000, "b")).tokens); };
  double last = of_b();
  const double before = last;
  for (int i = 0; i < 5; ++i) {
    estimator.learn(chat_of(4000, "b"), 600);
    EXPECT_LT(of_b(), last);
    EXPECT_GT(of_b(), 600 * 0.9);
    last = of_b();
  }
  EXPECT_LT(last, 0.7 * before);
}

// The estimator leaves out the rows above one that is wholly believed. A look at all of them comes to the same.
TEST(TokenEstimator, EstimatesAsIfItAskedEveryRow) {
  PerModel<TokenWeights> rows;
  const auto of_all_rows = [&](const RequestFacts& facts) {
    double tokens = TokenWeights{}.of(facts.text);
    for (const TokenWeights* row : rows.find(facts))
      if (row) tokens += belief(row->answers()) * (row->of(facts.text) - tokens);
    return tokens;
  };
  const auto below = [](const TokenWeights* above) { return above ? above->as_prior() : TokenWeights{}; };
  std::mt19937_64 random(7);
  TokenEstimator estimator;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    RequestFacts facts = chat_of(random() % 10'000, "model" + std::to_string(random() % (1 + i / 50)));
    if (random() % 4 == 0) facts.api = metrics::Api::openai_completions;
    facts.text.code_points[static_cast<std::size_t>(Script::cjk)] = random() % 3 == 0 ? random() % 3000 : 0;
    ASSERT_NEAR(static_cast<double>(estimator.estimate(facts).tokens), of_all_rows(facts), 0.5001) << i;
    const Tokens truth = 100 + random() % 5000;
    estimator.learn(facts, truth);
    for (TokenWeights* row : rows.find_or_make(facts, below)) row->learn(facts.text, static_cast<double>(truth));
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
  EXPECT_NEAR(static_cast<double>(estimator.estimate(chat_of(0)).tokens), 14, 1);
  for (int i = 0; i < 200; ++i) estimator.learn(chat_of(0), 60);
  EXPECT_NEAR(static_cast<double>(estimator.estimate(chat_of(0)).tokens), 60, 1);
}

TEST(TokenEstimator, ToolsTeachWhatTheirTemplateAdds) {
  TokenEstimator estimator;
  RequestFacts offering = chat_of(1000);
  offering.text.tool_bytes = 1500;
  for (int i = 0; i < 300; ++i) {
    estimator.learn(chat_of(1000), 270);
    estimator.learn(offering, 900);
  }
  EXPECT_NEAR(static_cast<double>(estimator.estimate(offering).tokens), 900, 20);
  EXPECT_NEAR(static_cast<double>(estimator.estimate(chat_of(1000)).tokens), 270, 10);
}

}  // namespace
}  // namespace weir::balancer
