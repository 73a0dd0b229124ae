// Reads the fixture of requests with true token counts (tests/data/corpus/README.md) through the inspector, and replays
// it through an estimator.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "balancer/estimate.hpp"
#include "metrics/wire/request/inspector.hpp"

namespace weir::bench {

inline constexpr std::array<std::string_view, 3> tokenizers{"o200k", "Llama 3", "Llama 2"};

struct CorpusRequest {
  std::string kind;
  metrics::wire::RequestFacts facts;
  double body_bytes = 0;
  std::array<balancer::Tokens, tokenizers.size()> tokens{};
};

inline std::vector<CorpusRequest> read_corpus(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file);
  std::vector<CorpusRequest> corpus;
  std::string line;
  while (std::getline(in, line)) {
    std::string_view rest = line;
    const auto next = [&rest] {
      const std::size_t tab = std::min(rest.find('\t'), rest.size());
      const std::string_view field = rest.substr(0, tab);
      rest.remove_prefix(std::min(tab + 1, rest.size()));
      return field;
    };
    CorpusRequest one;
    one.kind = next();
    const bool chat = next() == "openai.chat";
    for (balancer::Tokens& tokens : one.tokens) {
      const std::string_view field = next();
      std::from_chars(field.data(), field.data() + field.size(), tokens);
    }
    metrics::wire::RequestInspector inspector(chat ? metrics::Api::openai_chat : metrics::Api::openai_completions,
                                              "POST", chat ? "/v1/chat/completions" : "/v1/completions");
    inspector.feed(rest);
    one.facts = inspector.finish();
    one.body_bytes = static_cast<double>(rest.size());
    if (!one.facts.whole_json) throw std::runtime_error(file + ": a body that is no JSON object");
    corpus.push_back(std::move(one));
  }
  return corpus;
}

/// Adds up how wrong a run of guesses was.
class Errors {
 public:
  void add(double guess, double truth) {
    relative_.push_back(std::abs(guess - truth) / truth);
    wrong_ += std::abs(guess - truth);
    excess_ += guess - truth;
    truth_ += truth;
  }
  /// Returns a quantile of the relative errors; `q` 0.5 is the median.
  double quantile(double q) const {
    std::vector<double> sorted = relative_;
    std::ranges::sort(sorted);
    return sorted.empty() ? 0 : sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))];
  }
  double wape() const { return wrong_ / truth_; }   ///< Wrong tokens over all tokens, so large prompts count most.
  double bias() const { return excess_ / truth_; }  ///< Above 0 it means too many.

 private:
  std::vector<double> relative_;
  double wrong_ = 0, excess_ = 0, truth_ = 0;
};

/// The errors, grouped by how many answers the estimator had learned from.
struct Phases {
  Errors first_50, to_200, later;
  Errors& at(std::size_t learned) { return learned < 50 ? first_50 : learned < 200 ? to_200 : later; }
};

struct Replay {
  Phases fresh;    ///< Errors of a new estimator.
  Phases changed;  ///< Errors since the replicas changed to another tokenizer.
};

/// Plays all requests in random orders: one pass by the tokenizer `first`, then one by `second`.
template <class Guess, class Learn>
void replay(const std::vector<CorpusRequest>& corpus, std::size_t first, std::size_t second, std::uint64_t seed,
            Replay& into, Guess guess, Learn learn) {
  std::mt19937_64 random(seed);
  std::vector<const CorpusRequest*> order;
  for (const CorpusRequest& one : corpus) order.push_back(&one);
  const auto pass = [&](std::size_t tokenizer, Phases& phases) {
    // std::shuffle would not do, because its order depends on the library.
    for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random() % (i + 1)]);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const balancer::Tokens truth = order[i]->tokens[tokenizer];
      phases.at(i).add(guess(*order[i]), static_cast<double>(truth));
      learn(*order[i], truth);
    }
  };
  pass(first, into.fresh);
  pass(second, into.changed);
}

inline void replay_estimator(const std::vector<CorpusRequest>& corpus, std::size_t first, std::size_t second,
                             std::uint64_t seed, Replay& into) {
  balancer::TokenEstimator estimator;
  replay(
      corpus, first, second, seed, into,
      [&](const CorpusRequest& one) { return static_cast<double>(estimator.estimate(one.facts).tokens); },
      [&](const CorpusRequest& one, balancer::Tokens truth) { estimator.learn(one.facts, truth); });
}

}  // namespace weir::bench
