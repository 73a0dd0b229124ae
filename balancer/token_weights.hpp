// How many tokens a text has, as a sum over what is counted of it, and how that sum is learned.
//
//   tokens = sum over scripts of w * code points + w * messages + w + w * bytes of the tools + w, if there are tools
//
// Each weight comes with a doubt: the variance of its logarithm. An answer's error is shared out among the weights by
// their doubt and by what they contributed to the estimate, and those that took part are doubted less afterwards: a
// Kalman filter that keeps the diagonal only. So a weight that the traffic has settled holds still while a new one
// moves, and what a long text says of its letters does not touch what a template adds to a message. Doubt grows back a
// little with each answer, which is what lets the weights follow a change of tokenizer.
//
// Whatever an answer claims, no weight moves by more than 9 %. An estimate and a step cost a few multiplications a
// weight.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "metrics/wire/request/facts.hpp"

namespace weir::balancer {

class TokenWeights {
 public:
  static constexpr double most_change = 0.09;  ///< Of a weight, by one answer.

  /// Tokens of a text; may be less than one.
  double of(const metrics::wire::TextFeatures& text) const;

  /// The text had `truth` tokens, > 0.
  void learn(const metrics::wire::TextFeatures& text, double truth);

  std::uint64_t answers() const { return answers_; }

  /// The same weights, to be learned anew.
  TokenWeights heir() const;

 private:
  /// The scripts in their order, and behind them what a chat template adds to.
  enum Feature : std::size_t { message = metrics::wire::script_count, constant, tool_byte, tools, count };
  using Vector = std::array<double, count>;

  static Vector features_of(const metrics::wire::TextFeatures& text);

  // Per code point: letters, punctuation, digits, Latin extended, Cyrillic and Greek, Arabic to Thai, CJK, other.
  // Of the tools the strings count as text; per byte of the schema, its punctuation comes on top.
  Vector weights_{0.25, 0.33, 0.5, 0.33, 0.5, 0.6, 0.8, 1.5, 4, 10, 0.1, 40};
  Vector doubt_ = most_doubt;
  std::uint64_t answers_ = 0;

  // Priors for scripts are known within a third, say; what templates add, hardly at all.
  static constexpr Vector most_doubt{0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 1, 1, 1, 1};
};

}  // namespace weir::balancer
