#include "metrics/compare/pairs/warm_up.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weir::metrics::compare::pairs {
namespace {

constexpr std::int64_t minute_us = 60'000'000, hour_us = 60 * minute_us;

std::uint32_t prefilled_by(const samples::Sample& shadow) {
  const bool answered = shadow.served || !std::isnan(shadow.ttft);
  if (!answered || shadow.prompt_tokens == samples::unknown_count) return 0;
  const std::uint32_t cached = shadow.cached_tokens == samples::unknown_count ? 0 : shadow.cached_tokens;
  return shadow.prompt_tokens - std::min(cached, shadow.prompt_tokens);
}

}  // namespace

void Mirrored::add(const samples::Sample& sample) {
  if (sample.role != Role::shadow || sample.drop_reason != 0 || is_outdated(sample)) return;
  // A shadow that has not prefilled its memory after so many minutes, 70 days, is not asked for more.
  constexpr std::size_t most_minutes = 100'000;
  auto& shadow = shadows_[{sample.config, sample.replica, sample.shadow}];
  shadow.first_us = std::min(shadow.first_us, sample.dispatched_us);
  const auto hour = shadow.first_of.try_emplace(sample.dispatched_us / hour_us, sample.dispatched_us).first;
  hour->second = std::min(hour->second, sample.dispatched_us);
  const std::uint32_t tokens = prefilled_by(sample);
  if (tokens > 0 && shadow.prefilled.size() < most_minutes)
    shadow.prefilled[sample.dispatched_us / minute_us] += tokens;
}

void Mirrored::leave_out(const std::function<bool(std::int64_t us)>& is_out) {
  for (auto& [key, shadow] : shadows_) {
    std::erase_if(shadow.first_of, [&](const auto& one) { return is_out(one.second); });
    std::erase_if(shadow.prefilled, [&](const auto& one) { return is_out(one.first * minute_us); });
    shadow.first_us = shadow.first_of.empty() ? never_warm : shadow.first_of.begin()->second;
  }
  std::erase_if(shadows_, [](const auto& one) { return one.second.first_of.empty(); });
}

void Mirrored::begin_anew(samples::Names::Name shadow, std::int64_t us) {
  std::erase_if(shadows_, [shadow](const auto& one) { return std::get<2>(one.first) == shadow; });
  since_[shadow] = us;
}

bool Mirrored::is_outdated(const samples::Sample& sample) const {
  if (sample.role != Role::shadow) return false;
  const auto since = since_.find(sample.shadow);
  return since != since_.end() && sample.dispatched_us < since->second;
}

bool Mirrored::holds(const sides::Selection& side, const Key& key) {
  samples::Sample sample;
  sample.role = Role::shadow;
  std::tie(sample.config, sample.replica, sample.shadow) = key;
  return side.holds(sample);
}

Warm Mirrored::warm(const sides::Selection& side, const std::set<samples::Names::Name>& deciding, double seconds,
                    const KvTokens& kv_tokens) const {
  Warm warm;
  std::map<samples::Names::Name, std::int64_t> first_of;
  std::set<std::pair<samples::Names::Name, samples::Names::Name>> replicas;
  std::map<std::int64_t, std::uint64_t> together;
  for (const auto& [key, shadow] : shadows_) {
    const auto& [config, replica, name] = key;
    if (!holds(side, key) || (!deciding.empty() && !deciding.contains(name))) continue;
    const auto [at, added] = first_of.emplace(name, shadow.first_us);
    if (!added) at->second = std::min(at->second, shadow.first_us);
    const auto held = seconds > 0 && kv_tokens ? kv_tokens(replica, config) : std::nullopt;
    if (!held) continue;
    if (replicas.emplace(replica, config).second) warm.kv_tokens += *held;
    for (const auto& [minute, prefilled] : shadow.prefilled) together[minute] += prefilled;
  }
  if (first_of.empty()) return warm;
  const auto last =
      std::ranges::max_element(first_of, {}, &std::pair<const samples::Names::Name, std::int64_t>::second);
  warm.first_us = last->second;
  const std::int64_t rested = last->second + static_cast<std::int64_t>(seconds * 1e6);
  if (warm.kv_tokens == 0) {
    warm.from_us = rested;
    return warm;
  }
  for (const auto& [minute, prefilled] : together) {
    warm.prefilled += prefilled;
    if (warm.lacks_tokens()) continue;
    warm.from_us = std::max(rested, (minute + 1) * minute_us);
    break;
  }
  return warm;
}

}  // namespace weir::metrics::compare::pairs
