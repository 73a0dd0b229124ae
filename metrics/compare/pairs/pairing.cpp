#include "metrics/compare/pairs/pairing.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "metrics/compare/pairs/answers.hpp"

namespace weir::metrics::compare::pairs {
namespace {

std::uint64_t joined(const Answers& a, const Answers& b) {
  std::uint64_t count = 0;
  const auto none = [](const samples::Sample&) {};
  a.join(
      b, [&](const samples::Sample& x, const samples::Sample& y) { count += &x != &y; }, none, none);
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
    const auto warm = [&](bool shadows, const sides::Selection& side, const samples::Sample* Pair::*answer) {
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

}  // namespace weir::metrics::compare::pairs
