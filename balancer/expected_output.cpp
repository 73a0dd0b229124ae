#include "balancer/expected_output.hpp"

#include <algorithm>
#include <cmath>

namespace weir::balancer {

namespace {

constexpr double fade = 0.02;                    // Weight of the newest answer, once there are fifty.
constexpr Tokens believable_output = 1'000'000;  // Per choice; a report above it is cut.

Tokens choices(const metrics::wire::RequestFacts& facts) { return std::max<Tokens>(1, facts.n); }

}  // namespace

Tokens ExpectedOutput::of(const metrics::wire::RequestFacts& facts) const {
  const Tokens allowed = std::min(facts.max_tokens.value_or(believable_output), believable_output);
  Tokens choice = before_any;
  if (const Mean* learned = learned_.find(facts)) {
    choice = static_cast<Tokens>(std::llround(learned->tokens));
  } else if (facts.api == metrics::Api::other && !facts.max_tokens) {
    choice = 0;
  }
  return std::min(choice, allowed) * choices(facts);
}

void ExpectedOutput::learn(const metrics::wire::RequestFacts& facts, Tokens output_tokens) {
  Mean* mean = learned_.find_or_make(facts);
  if (!mean) return;
  const double choice = static_cast<double>(std::min(output_tokens / choices(facts), believable_output));
  mean->answers += 1;
  mean->tokens += (choice - mean->tokens) * std::max(fade, 1 / mean->answers);
}

}  // namespace weir::balancer
