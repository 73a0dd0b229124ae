// Estimates how many tokens a text has, as a weighted sum over what is counted of it, and learns the weights.
//
//   tokens = sum over scripts of w * code points + w * messages + w + w * bytes of the tools + w, if there are tools
//
// An answer's relative error is shared among the weights by their part in the estimate (normalised least mean squares).
// A script's weight is known within a third or so before any answer, and what a chat template adds hardly at all: the
// latter move ten times as fast. Whatever an answer claims, no weight moves by more than 9 %. An estimate and a step
// cost a few multiplications a weight.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "metrics/wire/request/facts.hpp"

namespace weir::balancer {

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

}  // namespace weir::balancer
