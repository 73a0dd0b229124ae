// When a shadow's answers begin to count: its caches and its batch were empty at first.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/sides/selection.hpp"

namespace weir::metrics::compare::pairs {

inline constexpr std::int64_t never_warm = std::numeric_limits<std::int64_t>::max();

/// Returns what the KV cache of a replica holds, by its name and its configuration; nothing if that is not known.
using KvTokens = std::function<std::optional<std::uint64_t>(samples::Names::Name replica, samples::Names::Name config)>;

/// When one side's shadows are warm.
struct Warm {
  std::int64_t from_us = never_warm;
  std::int64_t first_us = never_warm;  ///< The first request of the last of them to begin.
  std::uint64_t kv_tokens = 0;         ///< The tokens that they have to prefill; 0 if unknown, or without a warm-up.
  std::uint64_t prefilled = 0;         ///< The tokens that they have prefilled so far, or by `from_us`.

  bool lacks_tokens() const { return prefilled < kv_tokens; }
};

/// The prompt tokens that shadows were sent, by time, also outside the requests that a comparison looks at. The memory
/// is a number for each minute and each hour of each shadow.
class Mirrored {
 public:
  /// Takes note of a shadow's request that was sent. The order of the samples does not matter.
  void add(const samples::Sample& sample);
  /// The shadow was switched on at this moment: what it was sent before does not warm it.
  void begin_anew(samples::Names::Name shadow, std::int64_t us);
  /// A request of such a moment was never sent. The answer is the same for all moments of an hour.
  void leave_out(const std::function<bool(std::int64_t us)>& is_out);
  /// True for a shadow's request that was sent before the shadow was last switched on: it tells of another candidate.
  bool is_outdated(const samples::Sample& sample) const;

  /// Says when one side's shadows are warm: so many seconds after the first request of the last of them to begin, and
  /// not before the end of the minute in which they had prefilled what their replicas hold together. A replica of which
  /// that is not known is left out of both sums. With 0 seconds every request counts. Of the side's shadows those in
  /// `deciding` count; if it is empty, all do.
  Warm warm(const sides::Selection& side, const std::set<samples::Names::Name>& deciding, double seconds,
            const KvTokens& kv_tokens) const;

 private:
  using Key = std::tuple<samples::Names::Name, samples::Names::Name, samples::Names::Name>;
  struct Shadow {
    std::int64_t first_us = never_warm;
    std::map<std::int64_t, std::int64_t> first_of;    ///< The first dispatch of each hour since 1970.
    std::map<std::int64_t, std::uint64_t> prefilled;  ///< Tokens, by the minute of their dispatch since 1970.
  };
  static bool holds(const sides::Selection& side, const Key& key);

  std::map<samples::Names::Name, std::int64_t> since_;  ///< When a shadow began anew.
  std::map<Key, Shadow> shadows_;                       ///< The key is configuration, replica and [[shadow]].
};

struct WarmUp {
  double seconds = 600;                ///< After a shadow's first request. With 0 every pair counts.
  const Mirrored* mirrored = nullptr;  ///< Null if the samples hold all that the shadows were sent.
  KvTokens kv_tokens{};                ///< Null if nothing is known.
};

}  // namespace weir::metrics::compare::pairs
