#include "balancer/story/retries.hpp"

namespace weir::balancer::story {
namespace {

constexpr std::uint32_t bit_of(metrics::Api api) { return std::uint32_t{1} << static_cast<unsigned>(api); }

}  // namespace

bool UsageOption::tells_counts(metrics::Api api) const {
  return (tells_counts_.load(std::memory_order_relaxed) & bit_of(api)) != 0;
}

metrics::wire::Ask UsageOption::ask(const Settings& settings, metrics::Api api) const {
  using metrics::wire::Ask;
  if (!settings.ask || is_refused()) return Ask::nothing;
  if (tells_counts(api)) return settings.on_every_chunk ? Ask::timings_on_every_chunk : Ask::nothing;
  return settings.on_every_chunk ? Ask::usage_on_every_chunk : Ask::usage;
}

bool UsageOption::was_taken(metrics::Api api) const {
  return (taken_.load(std::memory_order_relaxed) & bit_of(api)) != 0;
}

void UsageOption::note_taken(metrics::Api api) { taken_.fetch_or(bit_of(api), std::memory_order_relaxed); }

void UsageOption::learn(metrics::Api api, metrics::Outcome outcome, const metrics::record::Answer& answer) {
  const bool known = tells_counts(api);
  if (answer.timed && !known) {
    tells_counts_.fetch_or(bit_of(api), std::memory_order_relaxed);
  } else if (known && !answer.timed && outcome == metrics::Outcome::ok && answer.first_token && !answer.output_tokens) {
    tells_counts_.fetch_and(~bit_of(api), std::memory_order_relaxed);
  }
}

void UsageOption::ask_again() {
  refused_.store(false, std::memory_order_relaxed);
  taken_.store(0, std::memory_order_relaxed);
}

}  // namespace weir::balancer::story
