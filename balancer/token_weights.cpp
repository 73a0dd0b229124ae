#include "balancer/token_weights.hpp"

#include <algorithm>
#include <cmath>

namespace weir::balancer {

namespace {

/// No weights explain a truth more exactly than this, relative to it.
constexpr double noise = 0.1;
/// Each answer gives back this share of the largest variance.
constexpr double variance_regained = 0.005;
/// An error above this share of the truth or the estimate, whichever is larger, is a lie or an outlier.
constexpr double most_error = 0.5;
/// Below so many tokens an error is taken relative to this, because a few tokens too many are no large error for a tiny
/// prompt.
constexpr double least_scale = 20;
/// While the mean error is below this, one answer in four teaches.
constexpr double small_error = 0.03;
/// The newest error has this weight in the mean.
constexpr double error_fade = 1.0 / 32;

/// A weight begins like this, and learns within these bounds.
struct Prior {
  double weight, least, most;
  double variance;  ///< No weight's variance exceeds the one that it begins with.
};

// A row for each feature, in their order. A script's weight is known within a third or so before any answer, what a
// template adds hardly at all. The strings of the tools count as text; a byte of the schema adds its punctuation.
constexpr std::array priors{
    Prior{.weight = 0.25, .least = 0.02, .most = 4, .variance = 0.1},  // Script::letters
    Prior{.weight = 0.33, .least = 0.02, .most = 4, .variance = 0.1},  // Script::punctuation
    Prior{.weight = 0.5, .least = 0.02, .most = 4, .variance = 0.1},   // Script::digits
    Prior{.weight = 0.33, .least = 0.02, .most = 4, .variance = 0.1},  // Script::latin_extended
    Prior{.weight = 0.5, .least = 0.02, .most = 4, .variance = 0.1},   // Script::cyrillic_greek
    Prior{.weight = 0.6, .least = 0.02, .most = 4, .variance = 0.1},   // Script::abjad_indic_thai
    Prior{.weight = 0.8, .least = 0.02, .most = 4, .variance = 0.1},   // Script::cjk
    Prior{.weight = 1.5, .least = 0.02, .most = 4, .variance = 0.1},   // Script::other
    Prior{.weight = 4, .least = 0.5, .most = 100, .variance = 1},      // message
    Prior{.weight = 10, .least = 1, .most = 3000, .variance = 1},      // constant
    Prior{.weight = 0.1, .least = 0.005, .most = 1, .variance = 1},    // tool_byte
    Prior{.weight = 40, .least = 1, .most = 3000, .variance = 1},      // tools
};

using Column = std::array<double, priors.size()>;

constexpr Column column(double Prior::* member) {
  Column values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = priors[i].*member;
  return values;
}

constexpr Column first_weight = column(&Prior::weight), least_weight = column(&Prior::least),
                 most_weight = column(&Prior::most), first_variance = column(&Prior::variance);

/// A loop with this is vectorised. In std::clamp the check of the bounds' order prevents that.
double bounded(double value, double least, double most) { return std::min(std::max(value, least), most); }

/// True for one number in four. The golden ratio spreads them so that no period of the traffic falls into step.
bool is_drawn(std::uint64_t answer) { return answer * 0x9e3779b97f4a7c15 >> 62 == 0; }

}  // namespace

TokenWeights::TokenWeights() : weights_(first_weight), variance_(first_variance) {
  static_assert(priors.size() == count, "each script and each other feature has a row");
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
  ++answers_;
  if (mean_error_ < small_error && !is_drawn(answers_)) return;
  Vector share = features_of(text);
  for (std::size_t i = 0; i < count; ++i) share[i] *= weights_[i];
  double estimate = 0;
  for (const double tokens : share) estimate += tokens;
  const double scale = std::max({truth, estimate, least_scale});
  const double error = std::clamp(truth - estimate, -most_error * scale, most_error * scale);
  mean_error_ += (std::abs(error) / scale - mean_error_) * error_fade;

  double error_variance = noise * scale * noise * scale;  // The error was expected to vary so much.
  for (std::size_t i = 0; i < count; ++i) error_variance += variance_[i] * share[i] * share[i];
  for (std::size_t i = 0; i < count; ++i) {
    const double gain = variance_[i] * share[i] / error_variance;
    const double weight = weights_[i] * (1 + bounded(gain * error, -most_change, most_change));
    weights_[i] = bounded(weight, least_weight[i], most_weight[i]);
    const double left = variance_[i] * (1 - gain * share[i]);
    variance_[i] = std::min(left + variance_regained * first_variance[i], first_variance[i]);
  }
}

TokenWeights TokenWeights::as_prior() const {
  TokenWeights prior;
  prior.weights_ = weights_;
  return prior;
}

}  // namespace weir::balancer
