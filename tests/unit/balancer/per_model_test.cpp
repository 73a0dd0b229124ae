#include "balancer/per_model.hpp"

#include "requests.hpp"

namespace weir::balancer {
namespace {

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

TEST(PerModel, HoldsNoMoreThan64RowsAndKeepsThoseItHas) {
  Names names;
  int made = 0;
  const auto below = [&](const std::string*) { return std::to_string(made++); };
  const std::string first = "m0";
  for (int i = 0; i < 1000; ++i) {
    const auto rows = names.find_or_make(asking("m" + std::to_string(i), chat), below);
    EXPECT_NE(rows[0], nullptr);
    EXPECT_NE(rows[1], nullptr);
  }
  EXPECT_EQ(made, 64);
  EXPECT_EQ(chain_of(names, asking(first, chat)), "0 1 2 3");
  EXPECT_EQ(chain_of(names, asking("m999", chat)), "0 1 - -");
}

TEST(PerModel, RowsStayWhereTheyAre) {
  Names names;
  const auto below = [](const std::string*) { return std::string(); };
  const auto first = names.find_or_make(asking("a", chat), below);
  for (int i = 0; i < 100; ++i) names.find_or_make(asking(std::to_string(i), chat), below);
  EXPECT_EQ(names.find_or_make(asking("a", chat), below), first);
}

TEST(Belief, GrowsOverFiveAnswers) {
  EXPECT_DOUBLE_EQ(belief(0), 0);
  EXPECT_DOUBLE_EQ(belief(2), 0.4);
  EXPECT_DOUBLE_EQ(belief(5), 1);
  EXPECT_DOUBLE_EQ(belief(1000), 1);
}

}  // namespace
}  // namespace weir::balancer
