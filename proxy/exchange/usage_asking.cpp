#include "proxy/exchange/usage_asking.hpp"

#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdint>

namespace weir::proxy::exchange {
namespace {

constexpr std::uint32_t bit_of(metrics::Api api) { return std::uint32_t{1} << static_cast<unsigned>(api); }

bool tells_counts(const fleet::ReplicaState& replica, metrics::Api api) {
  return (replica.tells_counts.load(std::memory_order_relaxed) & bit_of(api)) != 0;
}

}  // namespace

metrics::wire::Ask ask_of(const fleet::Replica& replica, metrics::Api api) {
  using metrics::wire::Ask;
  const auto& state = *replica.state;
  if (!replica.inject_usage || state.injection_disabled.load(std::memory_order_relaxed)) return Ask::nothing;
  const bool every_chunk = replica.inject_continuous_usage;
  if (tells_counts(state, api)) return every_chunk ? Ask::timings_on_every_chunk : Ask::nothing;
  return every_chunk ? Ask::usage_on_every_chunk : Ask::usage;
}

bool took_injection(const fleet::ReplicaState& replica, metrics::Api api) {
  return (replica.took_injection.load(std::memory_order_relaxed) & bit_of(api)) != 0;
}

void note_injection_taken(fleet::ReplicaState& replica, metrics::Api api) {
  replica.took_injection.fetch_or(bit_of(api), std::memory_order_relaxed);
}

void disable_injection(const fleet::Replica& replica) {
  if (replica.state->injection_disabled.exchange(true)) return;
  spdlog::warn("replica '{}' refuses stream_options: weir no longer asks it for usage, its token counts stay unknown",
               replica.settings.name);
}

void learn_counts(fleet::ReplicaState& replica, metrics::Api api, const AttemptResult& result) {
  const auto& answer = result.answer;
  const bool known = tells_counts(replica, api);
  if (answer.timed && !known) {
    replica.tells_counts.fetch_or(bit_of(api), std::memory_order_relaxed);
  } else if (known && !answer.timed && result.verdict.outcome == metrics::Outcome::ok && answer.first_token &&
             !answer.output_tokens) {
    replica.tells_counts.fetch_and(~bit_of(api), std::memory_order_relaxed);
  }
}

}  // namespace weir::proxy::exchange
