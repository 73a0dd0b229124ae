#include "metrics/compare/pairing.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace weir::metrics::compare {
namespace {

/// What two answers to one request have in common: the primary's id.
const Id& key_of(const Sample& sample) { return sample.role == Role::primary ? sample.id : sample.pair; }

/// The samples of one side and one role, in order of their keys.
class Answers {
 public:
  void add(const Sample& sample) {
    if (key_of(sample) != Id{}) samples_.push_back(&sample);
  }

  /// Sorts, and keeps one answer a key. Returns how many others there were.
  std::uint64_t settle() {
    const auto order = [](const Sample* s) {
      return std::tie(key_of(*s), s->received_us, s->replica, s->shadow, s->dispatched_us);
    };
    std::sort(samples_.begin(), samples_.end(), [&](auto* x, auto* y) { return order(x) < order(y); });
    const auto same_key = [](auto* x, auto* y) { return key_of(*x) == key_of(*y); };
    const auto last = std::unique(samples_.begin(), samples_.end(), same_key);
    const auto repeated = static_cast<std::uint64_t>(samples_.end() - last);
    samples_.erase(last, samples_.end());
    return repeated;
  }

  const std::vector<const Sample*>& in_order() const { return samples_; }

 private:
  std::vector<const Sample*> samples_;
};

/// Calls each of the three for every key that both, only `a` or only `b` have. All have been settled.
template <class Both, class OnlyA, class OnlyB>
void join(const Answers& a, const Answers& b, Both both, OnlyA only_a, OnlyB only_b) {
  auto at_a = a.in_order().begin(), at_b = b.in_order().begin();
  const auto end_a = a.in_order().end(), end_b = b.in_order().end();
  while (at_a != end_a || at_b != end_b) {
    if (at_b == end_b || (at_a != end_a && key_of(**at_a) < key_of(**at_b))) {
      only_a(**at_a++);
    } else if (at_a == end_a || key_of(**at_b) < key_of(**at_a)) {
      only_b(**at_b++);
    } else {
      both(**at_a++, **at_b++);
    }
  }
}

std::uint64_t joined(const Answers& a, const Answers& b) {
  std::uint64_t count = 0;
  const auto none = [](const Sample&) {};
  const auto both = [&](const Sample& x, const Sample& y) { count += &x != &y; };
  join(a, b, both, none, none);
  return count;
}

struct Side {
  Answers primaries, shadows;
  std::uint64_t repeated_primaries = 0, repeated_shadows = 0;

  explicit Side(std::span<const Sample> samples, const Selection& selection) {
    for (const Sample& sample : samples) {
      if (selection.holds(sample)) (sample.role == Role::primary ? primaries : shadows).add(sample);
    }
    repeated_primaries = primaries.settle();
    repeated_shadows = shadows.settle();
  }
};

bool sent(const Sample& shadow) { return shadow.drop_reason == 0; }

/// Returns the moment from which a shadow is warm, or nothing if it never was.
std::optional<std::int64_t> warm_from(const Answers& shadows, const Selection& selection, const WarmUp& warm_up) {
  std::vector<const Sample*> sent_ones;
  for (const Sample* shadow : shadows.in_order()) {
    if (sent(*shadow)) sent_ones.push_back(shadow);
  }
  std::sort(sent_ones.begin(), sent_ones.end(),
            [](auto* x, auto* y) { return std::tie(x->dispatched_us, x->id) < std::tie(y->dispatched_us, y->id); });
  if (sent_ones.empty()) return std::nullopt;
  const std::int64_t first = warm_up.first_request_us.value_or(sent_ones.front()->dispatched_us);
  const std::int64_t rested = first + static_cast<std::int64_t>(warm_up.seconds * 1e6);
  if (!selection.kv_tokens) return rested;
  std::uint64_t prefilled = 0;
  for (const Sample* shadow : sent_ones) {
    if (prefilled >= *selection.kv_tokens) return std::max(rested, shadow->dispatched_us);
    const bool answered = shadow->served || !std::isnan(shadow->ttft);
    if (!answered || shadow->prompt_tokens == unknown_count) continue;
    const std::uint32_t cached = shadow->cached_tokens == unknown_count ? 0 : shadow->cached_tokens;
    prefilled += shadow->prompt_tokens - std::min(cached, shadow->prompt_tokens);
  }
  return std::nullopt;
}

/// When the primaries were dispatched.
class Dispatches {
 public:
  explicit Dispatches(std::span<const Sample> samples) {
    for (const Sample& sample : samples) {
      if (sample.role == Role::primary) primaries_.add(sample);
    }
    primaries_.settle();
  }

  /// Returns the shadow's own arrival where the primary is not there.
  std::int64_t of(const Sample& sample) const {
    if (sample.role == Role::primary) return sample.dispatched_us;
    const auto& all = primaries_.in_order();
    const auto at = std::lower_bound(all.begin(), all.end(), sample.pair,
                                     [](const Sample* primary, const Id& id) { return primary->id < id; });
    return at != all.end() && (*at)->id == sample.pair ? (*at)->dispatched_us : sample.received_us;
  }

 private:
  Answers primaries_;
};

template <class Item>
void sort_by_time(std::vector<Item>& items) {
  // The sort is stable, and the join gave an order of its own, by key.
  std::stable_sort(items.begin(), items.end(), [](const Item& x, const Item& y) { return x.at_us < y.at_us; });
}

}  // namespace

Pairing pair_up(std::span<const Sample> samples, const Selection& a, const Selection& b, const WarmUp& warm_up) {
  const Side side_a(samples, a), side_b(samples, b);
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

  const Dispatches dispatches(samples);
  const auto both = [&](const Sample& x, const Sample& y) {
    if (&x != &y) pairing.pairs.push_back({&x, &y, dispatches.of(x)});
  };
  const auto only_a = [&](const Sample& x) { pairing.only_a.push_back({&x, dispatches.of(x)}); };
  const auto only_b = [&](const Sample& y) { pairing.only_b.push_back({&y, dispatches.of(y)}); };
  if (pairing.mode == Mode::split) {
    for (const Sample* x : of_a->in_order()) only_a(*x);
    for (const Sample* y : of_b->in_order()) only_b(*y);
  } else {
    join(*of_a, *of_b, both, only_a, only_b);
  }
  sort_by_time(pairing.pairs);
  sort_by_time(pairing.only_a);
  sort_by_time(pairing.only_b);

  const auto wait_for = [&](const Answers& shadows, const Selection& selection) {
    const auto warm = warm_from(shadows, selection, warm_up);
    pairing.warm_us = std::max(pairing.warm_us.value_or(0), warm.value_or(Pairing::never));
  };
  if (shadows_a) wait_for(side_a.shadows, a);
  if (shadows_b) wait_for(side_b.shadows, b);
  return pairing;
}

bool finished(const Sample& shadow, const Sample& other) {
  if (!sent(shadow)) return false;
  if (shadow.served || shadow.outcome == Outcome::client_abort) return true;
  return shadow.outcome == Outcome::client_error && other.outcome == Outcome::client_error;
}

bool twins(std::span<const Pair> pairs) {
  // A primary that was tried again elsewhere has another replica, so a few pairs may differ.
  constexpr double nearly_all = 0.99;
  using Names2 = std::pair<Names::Name, Names::Name>;
  std::map<Names2, std::uint64_t> together;
  std::uint64_t all = 0;
  for (const Pair& pair : pairs) {
    if (pair.a->replica == 0 || pair.b->replica == 0) continue;
    ++together[{pair.a->replica, pair.b->replica}];
    ++all;
  }
  std::map<Names::Name, std::pair<std::uint64_t, Names::Name>> most_of_a, most_of_b;
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
  return all > 0 && static_cast<double>(matched) >= nearly_all * static_cast<double>(all);
}

}  // namespace weir::metrics::compare
