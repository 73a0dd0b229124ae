// Estimates how many tokens a text has, as a weighted sum over what is counted of it, and learns the weights.
//
//   tokens = sum over scripts of w * code points + w * messages + w + w * bytes of the tools + w, if there are tools
//
// Each weight has a variance: that of its logarithm. An answer's error is shared among the weights by their variance
// and by their part in the estimate, and the variance of those that took part shrinks. This is a Kalman filter that
// keeps only the diagonal. So a weight that the traffic has settled holds still while a new one moves, and a long text
// that teaches the weights of its letters does not touch what a template adds to a message. The variance grows back a
// little with each answer, so that the weights can follow a change of tokenizer.
//
// While the errors are small, one answer in four teaches: the others would hardly move a weight. A larger mean error
// makes each answer teach again.
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
  static constexpr double most_change = 0.09;  ///< An answer moves a weight by no larger share.

  TokenWeights();

  /// Returns the tokens of a text, which may be less than one.
  double of(const metrics::wire::TextFeatures& text) const;

  /// Learns that the text had `truth` tokens, > 0, if this answer is to teach.
  void learn(const metrics::wire::TextFeatures& text, double truth);

  std::uint64_t answers() const { return answers_; }

  /// Returns the same weights with the variance of new ones. A row below this one begins with them.
  TokenWeights as_prior() const;

 private:
  /// The scripts come first, in their order; the parts to which a chat template adds tokens follow.
  enum Feature : std::size_t { message = metrics::wire::script_count, constant, tool_byte, tools, count };
  using Vector = std::array<double, count>;

  static Vector features_of(const metrics::wire::TextFeatures& text);

  Vector weights_, variance_;
  std::uint64_t answers_ = 0;
  double mean_error_ = 1;  ///< Of the answers that taught, relative to what they were taken relative to; fades.
};

}  // namespace weir::balancer
