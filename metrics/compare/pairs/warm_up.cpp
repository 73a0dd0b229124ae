#include "metrics/compare/pairs/warm_up.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

namespace weir::metrics::compare::pairs {
namespace {

/// Returns when the last of the shadows got its first request.
std::optional<std::int64_t> begun(const Answers& shadows) {
  std::map<samples::Names::Name, std::int64_t> first_of;
  shadows.each([&](const samples::Sample& shadow) {
    if (shadow.drop_reason != 0) return;
    const auto [at, added] = first_of.emplace(shadow.shadow, shadow.dispatched_us);
    if (!added) at->second = std::min(at->second, shadow.dispatched_us);
  });
  std::optional<std::int64_t> last;
  for (const auto& [name, first] : first_of) last = std::max(last.value_or(first), first);
  return last;
}

std::uint32_t prefilled_by(const samples::Sample& shadow) {
  const bool answered = shadow.served || !std::isnan(shadow.ttft);
  if (!answered || shadow.prompt_tokens == samples::unknown_count) return 0;
  const std::uint32_t cached = shadow.cached_tokens == samples::unknown_count ? 0 : shadow.cached_tokens;
  return shadow.prompt_tokens - std::min(cached, shadow.prompt_tokens);
}

/// Returns when the first request was dispatched before which so many tokens had been prefilled.
std::int64_t prefilled(const Answers& shadows, std::uint64_t tokens) {
  std::vector<const samples::Sample*> sent;
  shadows.each([&](const samples::Sample& shadow) {
    if (shadow.drop_reason == 0) sent.push_back(&shadow);
  });
  std::sort(sent.begin(), sent.end(),
            [](auto* x, auto* y) { return std::tie(x->dispatched_us, x->id) < std::tie(y->dispatched_us, y->id); });
  std::uint64_t sum = 0;
  for (const samples::Sample* shadow : sent) {
    if (sum >= tokens) return shadow->dispatched_us;
    sum += prefilled_by(*shadow);
  }
  return never_warm;
}

}  // namespace

std::int64_t warm_from(const Answers& shadows, std::optional<std::uint64_t> kv_tokens, const WarmUp& warm_up) {
  const auto first = warm_up.first_request_us ? warm_up.first_request_us : begun(shadows);
  if (!first) return never_warm;
  const std::int64_t rested = *first + static_cast<std::int64_t>(warm_up.seconds * 1e6);
  return kv_tokens ? std::max(rested, prefilled(shadows, *kv_tokens)) : rested;
}

}  // namespace weir::metrics::compare::pairs
