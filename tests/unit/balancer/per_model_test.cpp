#include "balancer/per_model.hpp"

#include <set>

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

}  // namespace
}  // namespace weir::balancer
