// The differences of two sides of one configuration, minute by minute: the noise that a comparison is judged by.
// weir gets such minutes free: a control beside its primary, and replicas of one configuration in one pool.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/sides/side_choice.hpp"
#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::comparison {

/// Minutes of A/A: each figure of each minute, on its scale, of couples that ran one configuration.
struct History {
  std::string source;   ///< "same against its primary"
  std::string pool;     ///< Whose requests these were; "" suits any pool.
  bool paired = false;  ///< The minutes are of pairs. A split varies more, so that they tell nothing of one.
  /// By figure, a series for each couple.
  std::array<std::vector<statistics::Minutes>, statistics::figure_count> minutes{};

  /// Returns the long-run variance of a figure's minute; nothing with less than eight hours of it.
  std::optional<double> variance(statistics::Figure figure) const;
  /// Returns how many hours of the figure there are, over all couples.
  double hours(statistics::Figure figure) const;
  /// True with eight hours of TTFT or TPOT.
  bool tells() const;
};

/// Two sides that ran one configuration.
struct Couple {
  using Minutes = std::map<std::int64_t, double>;  ///< By the minute since 1970.
  std::string source, pool;                        ///< As in History.
  bool paired = false;
  std::array<Minutes, statistics::figure_count> minutes{};
};

/// Returns the couples among samples: a primary and a twin of it with its own `config`, from when it is warm; and
/// replicas of one `config` in one pool, two by two. Takes time n log n.
std::vector<Couple> couples_of(std::span<const samples::Sample> samples, const samples::Names& names,
                               const pairs::WarmUp& warm_up);

/// The `config` of a primary and that of its shadow.
struct Configurations {
  samples::Names::Name primary = 0, shadow = 0;
};

/// Returns those of the first pair in which they are not the same; nothing if there is none. Takes time n log n.
std::optional<Configurations> different_configurations(std::span<const samples::Sample> samples);

/// Returns the couple of all pairs of two sides.
Couple couple_of(std::span<const samples::Sample> samples, const samples::Names& names, const sides::Selection& a,
                 const sides::Selection& b, const pairs::WarmUp& warm_up, std::string source);

/// Returns the history of each pool's couples that are of pairs, and that of its others, where there are eight hours of
/// TTFT or TPOT. That of pairs comes first.
std::vector<History> histories_of(std::span<const Couple> couples);

/// Returns the first history that tells something of a comparison of these pools, paired or not; those that are given
/// come before those among the samples. Takes time n log n where the samples reach over seven hours.
std::optional<History> history_for(std::span<const History> given, const std::set<samples::Names::Name>& pools,
                                   bool paired, std::span<const samples::Sample> samples, const samples::Names& names,
                                   const pairs::WarmUp& warm_up);

}  // namespace weir::metrics::compare::comparison
