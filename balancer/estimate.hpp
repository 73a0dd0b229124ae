// Estimates of a prompt's and an answer's tokens, learned from the usage that replicas report.
//
// Weights (TokenWeights) are learned per (model, API), per model, per API and for the pool (PerModel). A new
// model starts from what its neighbours have taught; a model that has been answered five times uses its own weights.
//
// Prompts given as token ids are counted. An image has a fixed cost. Requests with either teach nothing, nor do
// requests to which the engine adds what it has kept. If a body was not understood, its prompt is unknown, and the mean
// of the last 1000 known prompts replaces it.
//
// A Pool owns it and calls it under its mutex. An estimate costs well under a microsecond, and so does learning.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "balancer/tokens.hpp"
#include "metrics/wire/request/facts.hpp"

namespace weir::balancer {

/// The levels stand from the widest to the narrowest.
enum class Level : std::uint8_t { pool, api, model, model_and_api };
inline constexpr std::array<Level, 4> levels{Level::pool, Level::api, Level::model, Level::model_and_api};

/// Returns how far a row that has learned from so many answers is believed against the row above it: 0 to 1.
inline double belief(std::uint64_t answers) {
  constexpr std::uint64_t enough = 5;
  return static_cast<double>(std::min(answers, enough)) / static_cast<double>(enough);
}

template <class Value>
class PerModel {
 public:
  static constexpr std::size_t limit = 64;
  using Chain = std::array<const Value*, levels.size()>;  ///< By Level; null where there is no row.

  Chain find(const metrics::wire::RequestFacts& facts) const {
    Chain chain{};
    for (const Row& row : rows_) {
      if (row.covers(facts)) chain[static_cast<std::size_t>(row.level)] = &row.value;
    }
    return chain;
  }

  /// Returns the rows of a request, until the next call. Missing rows are made, and may take those of another model for
  /// that: `below` gets the row above and returns the value to begin with.
  template <class Below>
  std::array<Value*, levels.size()> find_or_make(const metrics::wire::RequestFacts& facts, Below below) {
    if (rows_.empty()) rows_.reserve(limit);  // Rows never move.
    ++uses_;
    std::array<Value*, levels.size()> chain{};
    for (Row& row : rows_) {
      if (!row.covers(facts)) continue;
      chain[static_cast<std::size_t>(row.level)] = &row.value;
      row.used = uses_;
    }
    const Value* above = nullptr;
    for (const Level level : levels) {
      Value*& value = chain[static_cast<std::size_t>(level)];
      if (!value) {
        Row made{level, facts.api, by_model(level) ? facts.model : "", below(above), uses_};
        value = &place_for(std::move(made)).value;
      }
      above = value;
    }
    return chain;
  }

 private:
  static bool by_model(Level level) { return level >= Level::model; }

  struct Row {
    Level level;
    metrics::Api api;
    std::string model;
    Value value;
    std::uint64_t used = 0;  ///< See uses_.

    bool covers(const metrics::wire::RequestFacts& facts) const {
      const bool api_fits = level == Level::pool || level == Level::model || api == facts.api;
      return api_fits && (!by_model(level) || model == facts.model);
    }
  };
  // The pool's row and those of the APIs stay: there are few of them.
  Row& place_for(Row made) {
    if (rows_.size() < limit) return rows_.emplace_back(std::move(made));
    const auto age = [](const Row& row) { return by_model(row.level) ? row.used : ~std::uint64_t{0}; };
    Row& oldest = *std::ranges::min_element(rows_, {}, age);
    oldest = std::move(made);
    return oldest;
  }

  std::vector<Row> rows_;
  std::uint64_t uses_ = 0;  ///< So many requests have asked for their rows to learn.
};

// Estimates how many tokens a text has, as a weighted sum over what is counted of it, and learns the weights.
//
//   tokens = sum over scripts of w * code points + w * messages + w + w * bytes of the tools + w, if there are tools
//
// An answer's relative error is shared among the weights by their part in the estimate (normalised least mean squares).
// A script's weight is known within a third or so before any answer, and what a chat template adds hardly at all: the
// latter move ten times as fast. Whatever an answer claims, no weight moves by more than 9 %. An estimate and a step
// cost a few multiplications a weight.

class TokenWeights {
 public:
  static constexpr double most_change = 0.09;  ///< An answer moves a weight by no larger share.

  TokenWeights();

  /// Returns the tokens of a text, which may be less than one.
  double of(const metrics::wire::TextFeatures& text) const;

  /// Learns that the text had `truth` tokens, > 0.
  void learn(const metrics::wire::TextFeatures& text, double truth);

  std::uint64_t answers() const { return answers_; }

  /// Returns the same weights, which have learned from no answer. A row below this one begins with them.
  TokenWeights as_prior() const;

 private:
  /// The scripts come first, in their order; the parts to which a chat template adds tokens follow.
  enum Feature : std::size_t { message = metrics::wire::script_count, constant, tool_byte, tools, count };
  using Vector = std::array<double, count>;

  static Vector features_of(const metrics::wire::TextFeatures& text);

  Vector weights_;
  std::uint64_t answers_ = 0;
};

class TokenEstimator {
 public:
  static constexpr Tokens image_tokens = 1000;        ///< Vision encoders give one image 256 to 2000.
  static constexpr Tokens unknown_before_any = 2048;  ///< An unknown prompt counts so much while no prompt is known.
  static constexpr std::size_t remembered_prompts = 1000;

  struct Estimate {
    Tokens tokens = 0;
    bool known = true;  ///< If false, `tokens` is only the mean of other prompts.
  };

  Estimate estimate(const metrics::wire::RequestFacts& facts) const;

  /// The caller gives successful answers only. `prompt_tokens` is the replica's own count, if it reported one.
  void learn(const metrics::wire::RequestFacts& facts, std::optional<Tokens> prompt_tokens);

 private:
  double text_tokens(const metrics::wire::RequestFacts& facts) const;
  void remember(Tokens prompt);

  PerModel<TokenWeights> learned_;
  std::vector<Tokens> recent_;  ///< A ring, once it is full.
  std::size_t oldest_ = 0;
  Tokens recent_sum_ = 0;
};

// Expects how many tokens an answer will have: the mean per choice of the model's earlier answers, times
// the choices asked for, and never more than the request allows. It learns per (model, API) and for the wider rows
// above that (PerModel). Older answers fade over about fifty.
//
// Before anything is learned, a chat or a completion counts 256 tokens a choice. An API that weir does not read counts
// none unless the request sets a limit or the API's own answers have taught otherwise: embeddings, rerank and score
// have no output at all, whatever the model's chats have.
//
// A Pool owns it and calls it under its mutex.

class ExpectedOutput {
 public:
  static constexpr Tokens before_any = 256;

  Tokens of(const metrics::wire::RequestFacts& facts) const;

  /// The caller gives successful answers only. `output_tokens` is the sum over all choices.
  void learn(const metrics::wire::RequestFacts& facts, Tokens output_tokens);

 private:
  struct Mean {
    double tokens = 0;
    std::uint64_t answers = 0;
  };
  PerModel<Mean> learned_;
};

}  // namespace weir::balancer
