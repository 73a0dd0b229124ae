#include "balancer/estimate.hpp"

#include <algorithm>
#include <cmath>

namespace weir::balancer {

namespace {

using metrics::wire::RequestFacts;

constexpr Tokens teaches_nothing_below = 8;
/// A larger report is cut to this, so that sums and rates stay plausible.
constexpr Tokens believable_prompt = 10'000'000;

bool has_text(const RequestFacts& facts) { return facts.text.messages > 0 || facts.text.chars() > 0; }

/// True if all of the prompt is text that weir has seen.
bool teaches(const RequestFacts& facts) {
  return has_text(facts) && !facts.prompt_token_ids && facts.images == 0 && !facts.stored_context;
}

}  // namespace

double TokenEstimator::text_tokens(const RequestFacts& facts) const {
  const auto rows = learned_.find(facts);
  // A row that is wholly believed leaves nothing to those above it.
  const auto wholly = [](const TokenWeights* row) { return row && belief(row->answers()) >= 1; };
  std::size_t i = rows.size();
  while (i > 0 && !wholly(rows[i - 1])) --i;
  double tokens = i > 0 ? rows[i - 1]->of(facts.text) : TokenWeights{}.of(facts.text);
  for (; i < rows.size(); ++i) {
    if (rows[i]) tokens += belief(rows[i]->answers()) * (rows[i]->of(facts.text) - tokens);
  }
  return tokens;
}

TokenEstimator::Estimate TokenEstimator::estimate(const RequestFacts& facts) const {
  if (!facts.gives_work) return {0, true};
  Tokens tokens = facts.images * image_tokens + facts.prompt_token_ids.value_or(0);
  if (has_text(facts)) {
    tokens += std::max<Tokens>(1, static_cast<Tokens>(std::llround(text_tokens(facts))));
  } else if (facts.images == 0 && !facts.prompt_token_ids) {
    return {recent_.empty() ? unknown_before_any : recent_sum_ / recent_.size(), false};
  }
  return {tokens, true};
}

void TokenEstimator::learn(const RequestFacts& facts, std::optional<Tokens> prompt_tokens) {
  if (!prompt_tokens) {
    if (const Estimate guess = estimate(facts); guess.known) remember(guess.tokens);
    return;
  }
  remember(*prompt_tokens);
  if (*prompt_tokens < teaches_nothing_below || !teaches(facts)) return;
  const auto truth = static_cast<double>(std::min(*prompt_tokens, believable_prompt));
  const auto below = [](const TokenWeights* above) { return above ? above->as_prior() : TokenWeights{}; };
  for (TokenWeights* row : learned_.find_or_make(facts, below)) {
    if (row) row->learn(facts.text, truth);
  }
}

void TokenEstimator::remember(Tokens prompt) {
  prompt = std::min(prompt, believable_prompt);
  if (recent_.size() < remembered_prompts) {
    recent_.push_back(prompt);
    recent_sum_ += prompt;
    return;
  }
  recent_sum_ += prompt;
  recent_sum_ -= recent_[oldest_];
  recent_[oldest_] = prompt;
  oldest_ = (oldest_ + 1) % remembered_prompts;
}

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

namespace {

constexpr double fade = 0.02;                    // The newest answer has this weight, once there are fifty.
constexpr Tokens believable_output = 1'000'000;  // A report of more per choice is cut to this.

Tokens choices(const RequestFacts& facts) { return std::max<Tokens>(1, facts.n); }

/// An API that generates nothing, or that weir does not read, says nothing about chats, and chats nothing about it.
bool concerns(Level level, const RequestFacts& facts) {
  const bool shared = level == Level::pool || level == Level::model;
  return !shared || metrics::generates(facts.api);
}

}  // namespace

Tokens ExpectedOutput::of(const RequestFacts& facts) const {
  if (!facts.gives_work) return 0;
  const Tokens allowed = std::min(facts.max_tokens.value_or(believable_output), believable_output);
  const bool none = !metrics::generates(facts.api) && !facts.max_tokens;
  double choice = none ? 0 : static_cast<double>(before_any);
  const auto chain = learned_.find(facts);
  for (const Level level : levels) {
    const Mean* mean = chain[static_cast<std::size_t>(level)];
    if (mean && concerns(level, facts)) choice += belief(mean->answers) * (mean->tokens - choice);
  }
  return std::min(static_cast<Tokens>(std::llround(choice)), allowed) * choices(facts);
}

void ExpectedOutput::learn(const RequestFacts& facts, Tokens output_tokens) {
  const double choice = static_cast<double>(std::min(output_tokens / choices(facts), believable_output));
  const auto chain = learned_.find_or_make(facts, [](const Mean*) { return Mean{}; });
  for (const Level level : levels) {
    Mean* mean = chain[static_cast<std::size_t>(level)];
    if (!mean || !concerns(level, facts)) continue;
    ++mean->answers;
    mean->tokens += (choice - mean->tokens) * std::max(fade, 1 / static_cast<double>(mean->answers));
  }
}

}  // namespace weir::balancer
