#include "metrics/compare/pairs/warm_up.hpp"

#include <algorithm>
#include <cmath>

namespace weir::metrics::compare::pairs {
namespace {

constexpr std::int64_t minute_us = 60'000'000;

std::uint32_t prefilled_by(const samples::Sample& shadow) {
  const bool answered = shadow.served || !std::isnan(shadow.ttft);
  if (!answered || shadow.prompt_tokens == samples::unknown_count) return 0;
  const std::uint32_t cached = shadow.cached_tokens == samples::unknown_count ? 0 : shadow.cached_tokens;
  return shadow.prompt_tokens - std::min(cached, shadow.prompt_tokens);
}

}  // namespace

void Mirrored::add(const samples::Sample& sample) {
  if (sample.role != Role::shadow || sample.drop_reason != 0) return;
  if (const auto since = since_.find(sample.shadow); since != since_.end() && sample.dispatched_us < since->second)
    return;
  // A shadow that has not prefilled its memory after so many minutes, 70 days, is not asked for more.
  constexpr std::size_t most_minutes = 100'000;
  auto& shadow = shadows_[{sample.config, sample.replica, sample.shadow}];
  shadow.first_us = std::min(shadow.first_us, sample.dispatched_us);
  const std::uint32_t tokens = prefilled_by(sample);
  if (tokens > 0 && shadow.prefilled.size() < most_minutes)
    shadow.prefilled[sample.dispatched_us / minute_us] += tokens;
}

void Mirrored::begin_anew(samples::Names::Name shadow, std::int64_t us) {
  std::erase_if(shadows_, [shadow](const auto& one) { return std::get<2>(one.first) == shadow; });
  since_[shadow] = us;
}

bool Mirrored::holds(const sides::Selection& side, const Key& key) {
  samples::Sample sample;
  sample.role = Role::shadow;
  std::tie(sample.config, sample.replica, sample.shadow) = key;
  return side.holds(sample);
}

std::set<std::pair<samples::Names::Name, samples::Names::Name>> Mirrored::replicas_of(
    const sides::Selection& side) const {
  std::set<std::pair<samples::Names::Name, samples::Names::Name>> replicas;
  for (const auto& [key, shadow] : shadows_) {
    if (holds(side, key)) replicas.emplace(std::get<1>(key), std::get<0>(key));
  }
  return replicas;
}

std::int64_t Mirrored::rested_from(const sides::Selection& side, double seconds) const {
  std::map<samples::Names::Name, std::int64_t> first_of;
  for (const auto& [key, shadow] : shadows_) {
    if (!holds(side, key)) continue;
    const auto [at, added] = first_of.emplace(std::get<2>(key), shadow.first_us);
    if (!added) at->second = std::min(at->second, shadow.first_us);
  }
  if (first_of.empty()) return never_warm;
  const auto last =
      std::ranges::max_element(first_of, {}, &std::pair<const samples::Names::Name, std::int64_t>::second);
  return last->second + static_cast<std::int64_t>(seconds * 1e6);
}

std::int64_t Mirrored::prefilled_from(const sides::Selection& side, std::uint64_t tokens) const {
  std::map<std::int64_t, std::uint64_t> together;
  for (const auto& [key, shadow] : shadows_) {
    if (!holds(side, key)) continue;
    for (const auto& [minute, prefilled] : shadow.prefilled) together[minute] += prefilled;
  }
  std::uint64_t sum = 0;
  for (const auto& [minute, prefilled] : together) {
    sum += prefilled;
    if (sum >= tokens) return (minute + 1) * minute_us;
  }
  return never_warm;
}

std::int64_t Mirrored::warm_from(const sides::Selection& side, double seconds) const {
  const std::int64_t rested = rested_from(side, seconds);
  const std::uint64_t tokens = side.kv_tokens.value_or(0);
  return tokens > 0 ? std::max(rested, prefilled_from(side, tokens)) : rested;
}

}  // namespace weir::metrics::compare::pairs
