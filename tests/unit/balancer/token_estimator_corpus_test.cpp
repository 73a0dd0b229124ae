// The estimator reads requests whose tokens real tokenizers have counted. The bounds lie a little above
// what bench_estimator measures (docs/benchmarks.md), so a change that makes the estimate worse fails here.
#include <gtest/gtest.h>

#include "tests/bench/corpus.hpp"

namespace weir::balancer {
namespace {

constexpr std::uint64_t orders = 10;

const std::vector<bench::CorpusRequest>& corpus() {
  static const auto read = bench::read_corpus(WEIR_TEST_DATA "/corpus/requests.tsv");
  return read;
}

bench::Replay replay_of(std::size_t first, std::size_t second) {
  bench::Replay all;
  for (std::uint64_t seed = 1; seed <= orders; ++seed) bench::replay_estimator(corpus(), first, second, seed, all);
  return all;
}

TEST(TokenEstimatorOnACorpus, ReadsAllOfIt) {
  EXPECT_GE(corpus().size(), 400U);
  for (const auto& one : corpus()) {
    EXPECT_GT(one.facts.text.chars(), 0U);
    for (const Tokens tokens : one.tokens) EXPECT_GT(tokens, 0U);
  }
}

TEST(TokenEstimatorOnACorpus, IsWithinSixAndAHalfPercentAfter200Answers) {
  for (std::size_t tokenizer = 0; tokenizer < bench::tokenizers.size(); ++tokenizer) {
    SCOPED_TRACE(bench::tokenizers[tokenizer]);
    const bench::Phases fresh = replay_of(tokenizer, tokenizer).fresh;
    EXPECT_LT(fresh.first_50.quantile(0.5), 0.12);
    EXPECT_LT(fresh.to_200.quantile(0.5), 0.075);
    EXPECT_LT(fresh.later.quantile(0.5), 0.065);
    EXPECT_LT(fresh.later.quantile(0.9), 0.16);
    EXPECT_LT(fresh.later.wape(), 0.065);
    EXPECT_LT(std::abs(fresh.later.bias()), 0.01);
  }
}

TEST(TokenEstimatorOnACorpus, FollowsAChangeOfTokenizer) {
  for (const auto& [from, to] : {std::pair<std::size_t, std::size_t>{0, 1}, {1, 0}, {1, 2}, {2, 1}}) {
    SCOPED_TRACE(std::string(bench::tokenizers[from]) + " to " + std::string(bench::tokenizers[to]));
    const bench::Phases changed = replay_of(from, to).changed;
    EXPECT_LT(changed.first_50.quantile(0.5), 0.13);
    EXPECT_LT(changed.to_200.quantile(0.5), 0.085);
    EXPECT_LT(changed.later.quantile(0.5), 0.065);
    EXPECT_LT(std::abs(changed.later.bias()), 0.02);
  }
}

}  // namespace
}  // namespace weir::balancer
