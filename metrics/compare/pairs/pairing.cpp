#include "metrics/compare/pairs/pairing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "metrics/compare/pairs/faults.hpp"
#include "metrics/compare/statistics/intervals.hpp"

namespace weir::metrics::compare::pairs {
namespace {

std::uint64_t joined(const Answers& a, const Answers& b) {
  std::uint64_t count = 0;
  const auto none = [](const samples::Sample&) {};
  a.join(b, [&](const samples::Sample& x, const samples::Sample& y) { count += &x != &y; }, none, none);
  return count;
}

/// True for a shadow that was dropped before a replica, and so a configuration, was chosen for it.
bool without_replica(const samples::Sample& sample, const sides::Selection& selection) {
  if (sample.role != Role::shadow || sample.drop_reason == 0 || sample.replica != 0) return false;
  return selection.by == sides::By::replica || (selection.by == sides::By::config && sample.config == 0);
}

/// The answers of one side, apart by role.
struct SideAnswers {
  Answers primaries, shadows;
  std::uint64_t repeated_primaries = 0, repeated_shadows = 0;

  SideAnswers(std::span<const samples::Sample> samples, const sides::Selection& selection) {
    std::set<samples::Names::Name> names;  // Of the [[shadow]]s on this side.
    for (const samples::Sample& sample : samples) {
      if (!selection.holds(sample)) continue;
      (sample.role == Role::primary ? primaries : shadows).add(sample);
      if (sample.role == Role::shadow) names.insert(sample.shadow);
    }
    for (const samples::Sample& sample : samples) {
      if (without_replica(sample, selection) && names.count(sample.shadow) > 0) shadows.add(sample);
    }
    repeated_primaries = primaries.settle();
    repeated_shadows = shadows.settle();
  }
};

Answers primaries_of(std::span<const samples::Sample> samples) {
  Answers primaries;
  for (const samples::Sample& sample : samples) {
    if (sample.role == Role::primary) primaries.add(sample);
  }
  primaries.settle();
  return primaries;
}

/// Returns the first moment of a pair whose shadows were sent once they were warm. A pair has the moment of its
/// primary, which was sent a little before its shadow.
std::int64_t first_warm(std::span<const Pair> pairs, std::int64_t warm_a, std::int64_t warm_b) {
  const auto first = std::find_if(pairs.begin(), pairs.end(), [&](const Pair& pair) {
    return pair.a->dispatched_us >= warm_a && pair.b->dispatched_us >= warm_b;
  });
  return first == pairs.end() ? std::max(warm_a, warm_b) : first->at_us;
}

/// True if both sides' shadows were first sent requests at about one time, so that their caches filled alike.
bool began_together(const Warm& a, const Warm& b) {
  constexpr std::int64_t most_us = 60'000'000;
  if (a.first_us == never_warm || b.first_us == never_warm) return false;
  return std::max(a.first_us, b.first_us) - std::min(a.first_us, b.first_us) <= most_us;
}

template <class Item>
void sort_by_time(std::vector<Item>& items) {
  // The sort is stable, and the join gave an order of its own, by key.
  std::stable_sort(items.begin(), items.end(), [](const Item& x, const Item& y) { return x.at_us < y.at_us; });
}

}  // namespace

Pairing pair_up(std::span<const samples::Sample> samples, const sides::Selection& a, const sides::Selection& b,
                const WarmUp& warm_up, const statistics::Window& asked) {
  const SideAnswers side_a(samples, a), side_b(samples, b);
  const std::uint64_t forth = joined(side_a.primaries, side_b.shadows), back = joined(side_a.shadows, side_b.primaries);
  const std::uint64_t beside = joined(side_a.shadows, side_b.shadows);

  Pairing pairing;
  const Answers *of_a = &side_a.primaries, *of_b = &side_b.primaries;
  if (beside > 0 && 2 * beside >= std::max(forth, back)) {
    pairing.mode = Mode::control;
    of_a = &side_a.shadows;
    of_b = &side_b.shadows;
  } else if (forth > 0 && forth >= back) {
    pairing.mode = Mode::mirrored;
    of_b = &side_b.shadows;
  } else if (back > 0) {
    pairing.mode = Mode::mirrored;
    of_a = &side_a.shadows;
  }
  const bool shadows_a = of_a == &side_a.shadows, shadows_b = of_b == &side_b.shadows;
  pairing.repeated = (shadows_a ? side_a.repeated_shadows : side_a.repeated_primaries) +
                     (shadows_b ? side_b.repeated_shadows : side_b.repeated_primaries);

  const Answers primaries = pairing.mode == Mode::control ? primaries_of(samples) : Answers{};
  const auto primary_of = [&](const samples::Sample& sample) {
    return sample.role == Role::primary ? &sample : primaries.find(sample.pair);
  };
  // A shadow without its primary's line counts from its own arrival.
  const auto dispatched = [](const samples::Sample* primary, const samples::Sample& sample) {
    return primary ? primary->dispatched_us : sample.received_us;
  };
  const auto both = [&](const samples::Sample& x, const samples::Sample& y) {
    if (&x == &y) return;
    const samples::Sample* const primary = primary_of(y.role == Role::primary ? y : x);
    pairing.pairs.push_back({&x, &y, dispatched(primary, x), primary});
  };
  const auto single = [&](const samples::Sample& sample) {
    const samples::Sample* const primary = primary_of(sample);
    return Single{&sample, dispatched(primary, sample), primary};
  };
  const auto only_a = [&](const samples::Sample& x) { pairing.only_a.push_back(single(x)); };
  const auto only_b = [&](const samples::Sample& y) { pairing.only_b.push_back(single(y)); };
  if (pairing.mode == Mode::split) {
    of_a->each(only_a);
    of_b->each(only_b);
  } else {
    of_a->join(*of_b, both, only_a, only_b);
  }
  sort_by_time(pairing.pairs);
  sort_by_time(pairing.only_a);
  sort_by_time(pairing.only_b);

  if (pairing.mode != Mode::split) {
    Mirrored here;
    if (!warm_up.mirrored) {
      for (const samples::Sample& sample : samples) here.add(sample);
    }
    const Mirrored& mirrored = warm_up.mirrored ? *warm_up.mirrored : here;
    const auto warm = [&](bool shadows, const sides::Selection& side, const samples::Sample* Pair::* answer) {
      if (!shadows) return Warm{.from_us = std::numeric_limits<std::int64_t>::min(), .first_us = never_warm};
      std::set<samples::Names::Name> deciding;
      for (const Pair& pair : pairing.pairs) {
        if (asked.holds(pair.at_us)) deciding.insert((pair.*answer)->shadow);
      }
      return mirrored.warm(side, deciding, warm_up.seconds, warm_up.kv_tokens);
    };
    pairing.warm_a = warm(shadows_a, a, &Pair::a);
    pairing.warm_b = warm(shadows_b, b, &Pair::b);
    if (pairing.mode == Mode::control && began_together(pairing.warm_a, pairing.warm_b)) {
      for (Warm* const side : {&pairing.warm_a, &pairing.warm_b}) *side = {side->first_us, side->first_us};
    }
    pairing.warm_us = first_warm(pairing.pairs, pairing.warm_a.from_us, pairing.warm_b.from_us);
  }
  return pairing;
}

bool finished(const samples::Sample& side, const samples::Sample& other) {
  if (side.drop_reason != 0) return false;
  if (side.served || side.outcome == Outcome::client_abort) return true;
  return side.outcome == Outcome::client_error && other.outcome == Outcome::client_error;
}

bool twins(std::span<const Pair> pairs) {
  // A primary that was tried again elsewhere has another replica, so a few pairs may differ.
  constexpr double nearly_all = 0.99;
  using Replicas = std::pair<samples::Names::Name, samples::Names::Name>;
  std::map<Replicas, std::uint64_t> together;
  std::uint64_t all = 0;
  for (const Pair& pair : pairs) {
    if (pair.a->replica == 0 || pair.b->replica == 0) continue;
    ++together[{pair.a->replica, pair.b->replica}];
    ++all;
  }
  std::map<samples::Names::Name, std::pair<std::uint64_t, samples::Names::Name>> most_of_a, most_of_b;
  for (const auto& [replicas, count] : together) {
    most_of_a[replicas.first] = std::max(most_of_a[replicas.first], {count, replicas.second});
    most_of_b[replicas.second] = std::max(most_of_b[replicas.second], {count, replicas.first});
  }
  std::uint64_t matched = 0;
  for (const auto& [replicas, count] : together) {
    const bool mutual =
        most_of_a[replicas.first].second == replicas.second && most_of_b[replicas.second].second == replicas.first;
    if (mutual) matched += count;
  }
  return static_cast<double>(matched) >= nearly_all * static_cast<double>(all);
}

namespace {

constexpr std::uint32_t least_tokens_of_tpot = 16;

std::optional<double> positive(double value) {
  if (std::isfinite(value) && value > 0) return value;
  return std::nullopt;
}

double seconds_of(const record::GapSketch::Bin& bin) { return seconds(record::GapSketch::middle_of(bin.index)); }

double frozen_s(const samples::Sample& sample) {
  constexpr double shortest_s = 0.25, times_the_median = 10;
  const auto is_long = [](const auto& bin) { return seconds_of(bin) > shortest_s; };
  if (std::ranges::none_of(sample.gaps, is_long)) return 0;
  statistics::GapCounts gaps;
  statistics::add(gaps, sample.gaps);
  const double most = std::max(shortest_s, times_the_median * statistics::quantile_of_gaps(gaps, 0.5));
  double sum = 0;
  for (const auto& bin : sample.gaps)
    if (seconds_of(bin) > most) sum += seconds_of(bin) * bin.count;
  return sum;
}

}  // namespace

std::optional<double> value_of(Quantity quantity, const samples::Sample& sample) {
  const bool tokens_known = sample.served && sample.output_tokens != samples::unknown_count;
  switch (quantity) {
    case Quantity::ttft:
      return positive(sample.ttft);
    case Quantity::tpot:
      if (!tokens_known || sample.output_tokens < least_tokens_of_tpot) return std::nullopt;
      return positive(sample.tpot);
    case Quantity::e2e:
      return sample.served && !sample.stream ? positive(sample.e2e) : std::nullopt;
    case Quantity::output_tokens:
      if (!tokens_known) return std::nullopt;
      return std::max(sample.output_tokens, 1u);
  }
  return std::nullopt;
}

double stalled_s(const samples::Sample& sample, double longest_ttft_s, double longest_e2e_s) {
  // A user who has waited for ten seconds has gone, and one hanging stream does not decide.
  constexpr double most_s = 10;
  const auto above = [](std::optional<double> value, double most) {
    return value && std::isfinite(most) ? std::max(0.0, *value - most) : 0.0;
  };
  auto first = value_of(Quantity::ttft, sample), whole = value_of(Quantity::e2e, sample);
  // A client that left without a token has waited as well.
  if (sample.outcome == Outcome::client_abort && !std::isfinite(sample.ttft))
    (sample.stream ? first : whole) = positive(sample.lasted);
  return std::min(most_s, above(first, longest_ttft_s) + above(whole, longest_e2e_s) + frozen_s(sample));
}

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
