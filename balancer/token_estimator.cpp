#include "balancer/token_estimator.hpp"

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

}  // namespace weir::balancer
