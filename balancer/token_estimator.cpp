#include "balancer/token_estimator.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weir::balancer {

namespace {

using metrics::wire::RequestFacts;
using metrics::wire::TextFeatures;

constexpr double step_size = 0.18;
constexpr double step_bound = 0.5;                // Of the relative error.
constexpr double short_text = 2000;               // Code points below which the template's own tokens show.
constexpr Tokens teaches_nothing_below = 8;       // Tokens.
constexpr Tokens believable_prompt = 10'000'000;  // A report above it is cut: sums and rates stay sane.

double characters(const TextFeatures& text) {
  return static_cast<double>(std::accumulate(text.code_points.begin(), text.code_points.end(), Tokens{0}));
}

bool has_text(const RequestFacts& facts) { return facts.text.messages > 0 || characters(facts.text) > 0; }

}  // namespace

double TokenEstimator::Weights::of(const TextFeatures& text) const {
  double tokens = constant + message * text.messages;
  for (std::size_t s = 0; s < script.size(); ++s) tokens += script[s] * static_cast<double>(text.code_points[s]);
  return tokens;
}

void TokenEstimator::Weights::step(const TextFeatures& text, double truth) {
  const double error = std::clamp((truth - of(text)) / std::max(truth, 20.0), -step_bound, step_bound);
  const double all = characters(text);
  for (std::size_t s = 0; s < script.size() && all > 0; ++s) {
    const double share = static_cast<double>(text.code_points[s]) / all;
    script[s] = std::clamp(script[s] * (1 + step_size * share * error), 0.02, 2.5);
  }
  if (all < short_text) {
    message = std::clamp(message + 0.02 * error * text.messages, 0.0, 30.0);
    constant = std::clamp(constant + 0.3 * error, 0.0, 3000.0);
  }
}

TokenEstimator::Estimate TokenEstimator::estimate(const RequestFacts& facts) const {
  const Tokens images = facts.images * image_tokens;
  if (facts.prompt_token_ids) return {*facts.prompt_token_ids + images, true};
  if (has_text(facts)) {
    const Weights* learned = learned_.find(facts);
    const double text = (learned ? *learned : Weights{}).of(facts.text);
    return {std::max<Tokens>(1, static_cast<Tokens>(std::llround(text))) + images, true};
  }
  if (facts.images > 0) return {images, true};
  return {recent_.empty() ? unknown_before_any : recent_sum_ / recent_.size(), false};
}

void TokenEstimator::learn(const RequestFacts& facts, std::optional<Tokens> prompt_tokens) {
  const Estimate guess = estimate(facts);
  if (prompt_tokens || guess.known) remember(std::min(prompt_tokens.value_or(guess.tokens), believable_prompt));
  if (!prompt_tokens || *prompt_tokens < teaches_nothing_below) return;
  if (!has_text(facts) || facts.prompt_token_ids || facts.images > 0) return;
  if (Weights* weights = learned_.find_or_make(facts)) {
    weights->step(facts.text, static_cast<double>(std::min(*prompt_tokens, believable_prompt)));
  }
}

void TokenEstimator::remember(Tokens prompt) {
  recent_sum_ += prompt;
  if (recent_.size() < remembered_prompts) {
    recent_.push_back(prompt);
    return;
  }
  recent_sum_ -= recent_[oldest_];
  recent_[oldest_] = prompt;
  oldest_ = (oldest_ + 1) % remembered_prompts;
}

}  // namespace weir::balancer
