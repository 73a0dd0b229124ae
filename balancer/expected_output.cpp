#include "balancer/expected_output.hpp"

#include <algorithm>
#include <cmath>

namespace weir::balancer {

namespace {

using metrics::wire::RequestFacts;

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
