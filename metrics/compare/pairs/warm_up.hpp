// When a shadow's answers begin to count: its caches and its batch were empty at first.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/sides/selection.hpp"

namespace weir::metrics::compare::pairs {

inline constexpr std::int64_t never_warm = std::numeric_limits<std::int64_t>::max();

/// What shadows were sent by when: all of it, also where a comparison looks at a part of their requests. It costs a
/// number for each minute of each shadow.
class Mirrored {
 public:
  /// Takes note of a shadow's request that was sent. The order of the samples does not matter.
  void add(const samples::Sample& sample);
  /// The shadow was switched on at this moment: what it was sent before does not warm it.
  void begin_anew(samples::Names::Name shadow, std::int64_t us);

  /// Returns the moment from which one side's shadows are warm: so many seconds after the first request of the last of
  /// them to begin, and not before the end of the minute in which they had prefilled the side's `kv_tokens`.
  std::int64_t warm_from(const sides::Selection& side, double seconds) const;

  /// Returns the shadows' replicas on one side, each with its configuration.
  std::set<std::pair<samples::Names::Name, samples::Names::Name>> replicas_of(const sides::Selection& side) const;

 private:
  using Key = std::tuple<samples::Names::Name, samples::Names::Name, samples::Names::Name>;
  struct Shadow {
    std::int64_t first_us = never_warm;
    std::map<std::int64_t, std::uint64_t> prefilled;  ///< Tokens, by the minute of their dispatch since 1970.
  };
  static bool holds(const sides::Selection& side, const Key& key);
  std::int64_t rested_from(const sides::Selection& side, double seconds) const;
  std::int64_t prefilled_from(const sides::Selection& side, std::uint64_t tokens) const;

  std::map<samples::Names::Name, std::int64_t> since_;  ///< When a shadow began anew.
  std::map<Key, Shadow> shadows_;                       ///< By configuration, replica and [[shadow]].
};

struct WarmUp {
  double seconds = 600;                ///< After a shadow's first request.
  const Mirrored* mirrored = nullptr;  ///< Null if the samples hold all that the shadows were sent.
};

}  // namespace weir::metrics::compare::pairs
