#include "balancer/token_weights.hpp"

#include <algorithm>
#include <cmath>

namespace weir::balancer {

namespace {

/// A weight begins like this, and learns within these bounds, at this pace.
struct Prior {
  double weight, least, most, pace;
};

// A row for each feature, in their order. The strings of the tools count as text; a byte of the schema adds its
// punctuation.
constexpr std::array priors{
    Prior{.weight = 0.25, .least = 0.02, .most = 4, .pace = 0.1},  // Script::letters
    Prior{.weight = 0.33, .least = 0.02, .most = 4, .pace = 0.1},  // Script::punctuation
    Prior{.weight = 0.5, .least = 0.02, .most = 4, .pace = 0.1},   // Script::digits
    Prior{.weight = 0.33, .least = 0.02, .most = 4, .pace = 0.1},  // Script::latin_extended
    Prior{.weight = 0.5, .least = 0.02, .most = 4, .pace = 0.1},   // Script::cyrillic_greek
    Prior{.weight = 0.6, .least = 0.02, .most = 4, .pace = 0.1},   // Script::abjad_indic_thai
    Prior{.weight = 0.8, .least = 0.02, .most = 4, .pace = 0.1},   // Script::cjk
    Prior{.weight = 1.5, .least = 0.02, .most = 4, .pace = 0.1},   // Script::other
    Prior{.weight = 4, .least = 0.5, .most = 100, .pace = 1},      // message
    Prior{.weight = 10, .least = 1, .most = 3000, .pace = 1},      // constant
    Prior{.weight = 0.1, .least = 0.005, .most = 1, .pace = 1},    // tool_byte
    Prior{.weight = 40, .least = 1, .most = 3000, .pace = 1},      // tools
};

}  // namespace

TokenWeights::TokenWeights() {
  static_assert(priors.size() == count, "each script and each other feature has a row");
  std::ranges::transform(priors, weights_.begin(), &Prior::weight);
}

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
  // A larger share is a lie or an outlier. For a tiny prompt a few tokens too many are no large error.
  constexpr double most_error = 0.5, least_scale = 20;
  // An answer corrects about half of the error of a text of one script. More would follow the noise of the answers.
  constexpr double noise = 0.09;
  ++answers_;
  Vector share = features_of(text);
  double estimate = 0;
  for (std::size_t i = 0; i < count; ++i) estimate += share[i] *= weights_[i];
  const double scale = std::max({truth, estimate, least_scale});
  double all = noise;
  for (std::size_t i = 0; i < count; ++i) {
    share[i] /= scale;
    all += priors[i].pace * share[i] * share[i];
  }
  const double error = std::clamp((truth - estimate) / scale, -most_error, most_error) / all;
  for (std::size_t i = 0; i < count; ++i) {
    const double change = std::clamp(priors[i].pace * share[i] * error, -most_change, most_change);
    weights_[i] = std::clamp(weights_[i] * (1 + change), priors[i].least, priors[i].most);
  }
}

TokenWeights TokenWeights::as_prior() const {
  TokenWeights prior;
  prior.weights_ = weights_;
  return prior;
}

}  // namespace weir::balancer
