#include "balancer/token_weights.hpp"

#include <algorithm>

namespace weir::balancer {

namespace {

constexpr double noise = 0.1;             // Of a truth, relative: what no weights explain.
constexpr double doubt_regained = 0.005;  // Of the most there is, with each answer.
constexpr double most_error = 0.5;        // Of the larger of truth and estimate: more is a lie or an outlier.
constexpr double least_scale = 20;        // Tokens. Of tiny prompts a few tokens too many are no large error.

}  // namespace

TokenWeights::Vector TokenWeights::features_of(const metrics::wire::TextFeatures& text) {
  Vector features{};
  for (std::size_t s = 0; s < metrics::wire::script_count; ++s) features[s] = static_cast<double>(text.code_points[s]);
  features[message] = text.messages;
  features[constant] = 1;
  features[tool_byte] = static_cast<double>(text.tool_bytes);
  features[tools] = text.tool_bytes > 0 ? 1 : 0;
  return features;
}

double TokenWeights::of(const metrics::wire::TextFeatures& text) const {
  const Vector features = features_of(text);
  double tokens = 0;
  for (std::size_t i = 0; i < count; ++i) tokens += weights_[i] * features[i];
  return tokens;
}

void TokenWeights::learn(const metrics::wire::TextFeatures& text, double truth) {
  static constexpr Vector least{0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.5, 1, 0.005, 1};
  static constexpr Vector most{4, 4, 4, 4, 4, 4, 4, 4, 100, 3000, 1, 3000};

  Vector share = features_of(text);
  double estimate = 0;
  for (std::size_t i = 0; i < count; ++i) estimate += share[i] *= weights_[i];
  const double scale = std::max({truth, estimate, least_scale});
  const double error = std::clamp(truth - estimate, -most_error * scale, most_error * scale);

  double variance = noise * scale * noise * scale;  // Of the error, as far as it was to be expected.
  for (std::size_t i = 0; i < count; ++i) variance += doubt_[i] * share[i] * share[i];
  for (std::size_t i = 0; i < count; ++i) {
    const double gain = doubt_[i] * share[i] / variance;
    weights_[i] *= 1 + std::clamp(gain * error, -most_change, most_change);
    weights_[i] = std::clamp(weights_[i], least[i], most[i]);
    doubt_[i] = std::min(doubt_[i] * (1 - gain * share[i]) + doubt_regained * most_doubt[i], most_doubt[i]);
  }
  ++answers_;
}

TokenWeights TokenWeights::heir() const {
  TokenWeights heir;
  heir.weights_ = weights_;
  return heir;
}

}  // namespace weir::balancer
