// bench_estimator [ORDERS] tells how far off the estimate of a prompt is, over the requests of tests/data/corpus in
// ORDERS seeded random orders (default 50). It tests a new estimator, then the same one after the replicas' tokenizer
// has changed. Beside it stands what counting bytes or characters by four would
// say. tests/bench/results/estimator.txt has the table.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "corpus.hpp"

namespace {

using namespace weir;
using namespace weir::bench;

void row(const std::string& name, const Errors& errors) {
  std::printf("| %s | %.1f | %.1f | %.1f | %+.1f |\n", name.c_str(), 100 * errors.quantile(0.5),
              100 * errors.quantile(0.9), 100 * errors.wape(), 100 * errors.bias());
}

void rows(const std::string& name, const Phases& phases) {
  row(name + ", first 50", phases.first_50);
  row(name + ", 50 to 200", phases.to_200);
  row(name + ", after 200", phases.later);
}

void fixed(const std::vector<CorpusRequest>& corpus, std::size_t tokenizer, const char* name,
           double (*guess)(const CorpusRequest&)) {
  Errors errors;
  for (const CorpusRequest& one : corpus) errors.add(guess(one), static_cast<double>(one.tokens[tokenizer]));
  row(std::string(tokenizers[tokenizer]) + ": " + name, errors);
}

void head(const char* what) {
  std::printf("\n| %s | median %% | p90 %% | WAPE %% | bias %% |\n|---|---:|---:|---:|---:|\n", what);
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t orders = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 50;
  const auto corpus = read_corpus(WEIR_TEST_DATA "/corpus/requests.tsv");
  std::printf("%zu requests, %llu orders\n", corpus.size(), static_cast<unsigned long long>(orders));

  head("tokenizer: estimate");
  for (std::size_t t = 0; t < tokenizers.size(); ++t) {
    Replay all;
    for (std::uint64_t seed = 1; seed <= orders; ++seed) replay_estimator(corpus, t, t, seed, all);
    rows(std::string(tokenizers[t]), all.fresh);
    fixed(corpus, t, "bytes / 4", [](const CorpusRequest& one) { return one.body_bytes / 4; });
    fixed(corpus, t, "chars / 4",
          [](const CorpusRequest& one) { return static_cast<double>(one.facts.text.chars()) / 4; });
  }

  head("after a change of tokenizer");
  for (const auto& [from, to] : {std::pair<std::size_t, std::size_t>{0, 1}, {1, 0}, {1, 2}, {2, 1}}) {
    Replay all;
    for (std::uint64_t seed = 1; seed <= orders; ++seed) replay_estimator(corpus, from, to, seed, all);
    rows(std::string(tokenizers[from]) + " to " + std::string(tokenizers[to]), all.changed);
  }

  head("kind of request, Llama 3, after 200");
  std::map<std::string, Errors> kinds;
  for (std::uint64_t seed = 1; seed <= orders; ++seed) {
    balancer::TokenEstimator estimator;
    std::size_t learned = 0;
    Replay ignored;
    replay(
        corpus, 1, 1, seed, ignored,
        [&](const CorpusRequest& one) {
          const auto guess = static_cast<double>(estimator.estimate(one.facts).tokens);
          if (learned >= 200 && learned < corpus.size()) kinds[one.kind].add(guess, static_cast<double>(one.tokens[1]));
          return guess;
        },
        [&](const CorpusRequest& one, balancer::Tokens truth) { estimator.learn(one.facts, truth), ++learned; });
  }
  for (const auto& [kind, errors] : kinds) row(kind, errors);
}
