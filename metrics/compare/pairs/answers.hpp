// The answers of one side, in order of the requests they are to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "metrics/compare/samples/sample.hpp"

namespace weir::metrics::compare::pairs {

/// Returns what two answers to one request have in common: the primary's id. Zeros are no id.
inline const samples::Id& key_of(const samples::Sample& sample) {
  return sample.role == Role::primary ? sample.id : sample.pair;
}

/// Answers are added, then settled, then read. The samples outlive them.
class Answers {
 public:
  void add(const samples::Sample& sample) {
    if (const samples::Id& key = key_of(sample); key != samples::Id{}) entries_.push_back({key, &sample});
  }

  /// Sorts by key and keeps the first answer of each. Returns how many others there were.
  std::uint64_t settle() {
    std::sort(entries_.begin(), entries_.end(), [](const Entry& x, const Entry& y) {
      if (x.key != y.key) return x.key < y.key;
      return std::tie(x.sample->received_us, x.sample->id) < std::tie(y.sample->received_us, y.sample->id);
    });
    const auto same_key = [](const Entry& x, const Entry& y) { return x.key == y.key; };
    const auto last = std::unique(entries_.begin(), entries_.end(), same_key);
    const auto repeated = static_cast<std::uint64_t>(entries_.end() - last);
    entries_.erase(last, entries_.end());
    return repeated;
  }

  /// Returns nullptr if there is none.
  const samples::Sample* find(const samples::Id& key) const {
    const auto at = std::lower_bound(entries_.begin(), entries_.end(), key,
                                     [](const Entry& entry, const samples::Id& id) { return entry.key < id; });
    return at != entries_.end() && at->key == key ? at->sample : nullptr;
  }

  template <class Visit>
  void each(Visit visit) const {
    for (const Entry& entry : entries_) visit(*entry.sample);
  }

  /// Calls one of the three for each key that both, only this or only `other` have, in order of the keys.
  template <class Both, class OnlyThis, class OnlyOther>
  void join(const Answers& other, Both both, OnlyThis only_this, OnlyOther only_other) const {
    auto x = entries_.begin(), y = other.entries_.begin();
    while (x != entries_.end() || y != other.entries_.end()) {
      if (y == other.entries_.end() || (x != entries_.end() && x->key < y->key)) {
        only_this(*x++->sample);
      } else if (x == entries_.end() || y->key < x->key) {
        only_other(*y++->sample);
      } else {
        both(*x++->sample, *y++->sample);
      }
    }
  }

 private:
  struct Entry {
    samples::Id key;  ///< Kept here as well, because sorting by what lies all over the memory is slow.
    const samples::Sample* sample;
  };
  std::vector<Entry> entries_;
};

}  // namespace weir::metrics::compare::pairs
