#include <random>
#include <set>

#include "balancer/estimate.hpp"
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

constexpr auto chat = metrics::Api::openai_chat;
constexpr auto completions = metrics::Api::openai_completions;

RequestFacts asking(std::string model, metrics::Api api) {
  RequestFacts facts;
  facts.model = std::move(model);
  facts.api = api;
  return facts;
}

using Names = PerModel<std::string>;

/// Returns the names of a request's rows, "-" where there is none.
std::string chain_of(const Names& names, const RequestFacts& facts) {
  std::string chain;
  for (const std::string* name : names.find(facts)) chain += (chain.empty() ? "" : " ") + (name ? *name : "-");
  return chain;
}

TEST(PerModel, ARequestHasFourRowsWidestFirst) {
  Names names;
  int made = 0;
  const auto below = [&](const std::string* above) { return (above ? *above : "") + std::to_string(made++); };
  EXPECT_EQ(chain_of(names, asking("a", chat)), "- - - -");

  names.find_or_make(asking("a", chat), below);
  EXPECT_EQ(chain_of(names, asking("a", chat)), "0 01 012 0123") << "each is made below the one above it";
  EXPECT_EQ(chain_of(names, asking("b", chat)), "0 01 - -");
  EXPECT_EQ(chain_of(names, asking("a", completions)), "0 - 012 -");
  EXPECT_EQ(chain_of(names, asking("b", completions)), "0 - - -");

  names.find_or_make(asking("b", completions), below);
  EXPECT_EQ(chain_of(names, asking("b", completions)), "0 04 045 0456");
  EXPECT_EQ(chain_of(names, asking("b", chat)), "0 01 045 -");
  names.find_or_make(asking("a", chat), below);
  EXPECT_EQ(made, 7);
}

TEST(PerModel, HoldsNoMoreThan64RowsAndKeepsThoseInUse) {
  Names names;
  const auto below = [](const std::string* above) { return (above ? *above + "." : "") + "new"; };
  const auto set = [&](const RequestFacts& facts, const std::string& name) {
    for (std::string* row : names.find_or_make(facts, below)) *row = name;
  };
  set(asking("real", chat), "real");
  for (int i = 0; i < 1000; ++i) {
    names.find_or_make(asking("made up " + std::to_string(i), chat), below);
    if (i % 20 == 0) names.find_or_make(asking("real", chat), below);
  }
  EXPECT_EQ(chain_of(names, asking("real", chat)), "real real real real") << "one client's names do not push it out";
  EXPECT_EQ(chain_of(names, asking("made up 0", chat)), "real real - -");
  EXPECT_EQ(chain_of(names, asking("made up 999", chat)), "real real real.new real.new.new");
  std::size_t rows = 0;
  for (int i = 0; i < 1000; ++i)
    if (names.find(asking("made up " + std::to_string(i), chat))[2]) ++rows;
  EXPECT_LE(rows, Names::limit / 2);

  names.find_or_make(asking("another", completions), below);
  EXPECT_EQ(chain_of(names, asking("another", completions)), "real real.new real.new.new real.new.new.new")
      << "a model that comes later is learned, too";
}

TEST(PerModel, RowsOfOneRequestAreFourDifferentOnes) {
  Names names;
  const auto below = [](const std::string*) { return std::string(); };
  for (int i = 0; i < 300; ++i) {
    const auto rows = names.find_or_make(asking(std::to_string(i), i % 3 ? chat : completions), below);
    const std::set<std::string*> different(rows.begin(), rows.end());
    ASSERT_EQ(different.size(), 4u) << i;
    ASSERT_FALSE(different.contains(nullptr));
  }
}

TEST(Belief, GrowsOverFiveAnswers) {
  EXPECT_DOUBLE_EQ(belief(0), 0);
  EXPECT_DOUBLE_EQ(belief(2), 0.4);
  EXPECT_DOUBLE_EQ(belief(5), 1);
  EXPECT_DOUBLE_EQ(belief(1000), 1);
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

using metrics::wire::TextFeatures;

TextFeatures one(Script script, std::uint64_t code_points) {
  TextFeatures text;
  text.code_points[static_cast<std::size_t>(script)] = code_points;
  return text;
}

/// Returns what a code point of a script is estimated to cost.
double weight(const TokenWeights& weights, Script script) {
  return weights.of(one(script, 1)) - weights.of(TextFeatures{});
}

TEST(TokenWeights, NoReportMovesAWeightByMoreThanNinePercent) {
  std::mt19937_64 random(3);
  TokenWeights weights;
  for (int i = 0; i < 20'000; ++i) {
    TextFeatures text;
    for (std::uint64_t& n : text.code_points) n = random() % 3 == 0 ? random() % 5000 : 0;
    text.messages = static_cast<std::uint32_t>(random() % 30);
    text.tool_bytes = random() % 2 == 0 ? random() % 20'000 : 0;
    const TokenWeights before = weights;
    weights.learn(text, random() % 3 == 0 ? 1e7 : static_cast<double>(1 + random() % 10'000));
    for (std::size_t s = 0; s < metrics::wire::script_count; ++s) {
      const double was = weight(before, static_cast<Script>(s));
      const double is = weight(weights, static_cast<Script>(s));
      ASSERT_LE(std::abs(is - was), TokenWeights::most_change * was + 1e-9) << i;
      ASSERT_GE(is, 0.0199);
      ASSERT_LE(is, 4.001);
    }
    const double was = before.of(TextFeatures{});
    ASSERT_LE(std::abs(weights.of(TextFeatures{}) - was), TokenWeights::most_change * was + 1e-9);
  }
}

TEST(TokenWeights, WhatATextDoesNotHoldLearnsNothingFromIt) {
  TokenWeights weights;
  const double cjk = weight(weights, Script::cjk);
  for (int i = 0; i < 500; ++i) weights.learn(one(Script::cyrillic_greek, 2000), 600);
  EXPECT_NEAR(weight(weights, Script::cjk), cjk, 1e-9);
  EXPECT_NEAR(weight(weights, Script::cyrillic_greek), 0.3, 0.01);
}

TEST(TokenWeights, FollowAChangeOfTokenizer) {
  TokenWeights weights;
  for (int i = 0; i < 1000; ++i) weights.learn(one(Script::letters, 4000), 1010);
  EXPECT_NEAR(weights.of(one(Script::letters, 4000)), 1010, 20);
  for (int i = 0; i < 60; ++i) weights.learn(one(Script::letters, 4000), 2000);
  EXPECT_NEAR(weights.of(one(Script::letters, 4000)), 2000, 60);
}

TEST(TokenWeights, AnHeirEstimatesTheSame) {
  TokenWeights weights;
  for (int i = 0; i < 100; ++i) weights.learn(one(Script::letters, 4000), 1500);
  const TokenWeights as_prior = weights.as_prior();
  EXPECT_EQ(as_prior.answers(), 0U);
  EXPECT_DOUBLE_EQ(as_prior.of(one(Script::letters, 4000)), weights.of(one(Script::letters, 4000)));
}

}  // namespace
}  // namespace weir::balancer
