// A running comparison's pairs whose samples are gone, as far as verdicts need them. weir holds the last requests
// alone, but verdicts that may be looked at again and again are of all pairs since one beginning that stays.
//
// Counts and evidence are added up. The five looks (comparison.hpp) need the values of the first 160 minutes, which
// are kept; the confidence sequence and the search for a change need the median of each minute, kept for a week. So the
// verdicts are those that all samples at once would give.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "config/settings.hpp"
#include "metrics/compare/comparison/history.hpp"
#include "metrics/compare/pairs/divergence.hpp"
#include "metrics/compare/pairs/faults.hpp"
#include "metrics/compare/pairs/load.hpp"
#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/pairs/sameness.hpp"
#include "metrics/compare/pairs/values.hpp"
#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/sides/drops.hpp"
#include "metrics/compare/sides/selection.hpp"
#include "metrics/compare/statistics/effects.hpp"

namespace weir::metrics::compare::comparison {

/// Windows that are not declared are looked at after 10, 20, 40, 80 and 160 minutes, if a metric has no history: at any
/// other moment the verdict is that of the last look.
inline constexpr std::array<double, 5> look_seconds{600, 1200, 2400, 4800, 9600};

/// The metrics of which pairs have values of their own.
inline constexpr std::array<statistics::Metric, 5> metrics_of_pairs{
    statistics::Metric::ttft, statistics::Metric::tpot, statistics::Metric::output_tokens,
    statistics::Metric::longest_gap, statistics::Metric::freezes};

/// The values of a pair that looks need.
struct PairValues {
  std::int64_t at_us = 0;                                ///< As Pair has it.
  std::array<float, metrics_of_pairs.size()> a{}, b{};   ///< By metrics_of_pairs; NaN where the pair has no value.
  std::uint8_t judged = 0, missed_a = 0, missed_b = 0;  ///< A bit for each of Past::slos.
};

/// A Past is not changed once it is shared. It takes up to 0.3 MB for a week of minutes, and 56 bytes for each pair of
/// the first 160 minutes, of which most_early are kept: 11 MB.
struct Past {
  static constexpr std::size_t most_minutes = std::size_t{7} * 24 * 60;
  static constexpr std::size_t most_early = 200'000;
  static constexpr std::size_t most_slos = 8;
  static constexpr std::int64_t minute_us = 60'000'000;

  pairs::Mode mode = pairs::Mode::mirrored;
  double warm_up_s = 0;
  /// Misses of these are counted, of no others.
  std::vector<config::Slo> slos;
  /// The configuration, replica, [[shadow]] and role of the answers on each side.
  using Answer = std::tuple<samples::Names::Name, samples::Names::Name, samples::Names::Name, Role>;
  std::set<Answer> answers_a, answers_b;
  std::set<samples::Names::Name> pools;  ///< Of the primaries.

  /// All pairs that were dispatched before are here, but for those that ended too late or left in a burst of requests,
  /// and none later.
  std::int64_t until_us = std::numeric_limits<std::int64_t>::min();
  /// The beginning of the window, once a pair of warm shadows is here: `until_us` is a number of minutes later.
  std::optional<std::int64_t> from_us{};
  std::int64_t to_us = 0;  ///< The moment after the last pair.
  std::vector<PairValues> early;
  /// Before this moment `early` has all pairs of the window.
  std::int64_t early_until_us = 0;
  std::array<statistics::Minutes, metrics_of_minutes.size()> minutes;  ///< From `from_us` on, by metrics_of_minutes.
  std::array<std::uint64_t, metrics_of_pairs.size()> counts{};         ///< Pairs that have the metric.
  std::vector<pairs::TwoByTwo> met;                                    ///< By Past::slos.
  std::uint64_t pairs = 0, only_a = 0, only_b = 0;                     ///< In the window.
  pairs::Load load{};
  pairs::MirroredSides mirrored{};
  pairs::Durations durations{};

  std::uint64_t warming = 0;  ///< Pairs before the window.
  /// Faults, sameness and drops are of all pairs, whether the shadows were warm or not.
  pairs::Faults faults{};
  pairs::Sameness sameness{};
  sides::Drops dropped;   ///< As Comparison::dropped; empty once a pair has both answers.
  bool answered = false;  ///< A pair has both answers.

  /// The minutes of a week are full, so that none is added.
  bool is_over() const { return minutes[0].size() >= most_minutes; }
  /// Values that are not early are gone.
  bool has_gap() const { return from_us && until_us > early_until_us; }
  /// Returns the values of the early pairs; none of a metric of which pairs have none.
  statistics::SideValues early_values(statistics::Metric metric) const;
  /// Returns the same of misses of an objective, as pairs::attained() has them.
  statistics::SideValues early_misses(std::size_t slo) const;
  /// Returns the place of an objective in `slos`.
  std::optional<std::size_t> place_of(const config::Slo& slo) const;
  /// Returns the minutes of a metric of metrics_of_minutes.
  const statistics::Minutes& minutes_of(statistics::Metric metric) const;
  /// True if all that is here is of these sides, and so are the pairs of the samples that are held.
  bool suits(const sides::Selection& a, const sides::Selection& b, const pairs::Pairing& held) const;
  /// True if a side is this [[shadow]].
  bool is_of(samples::Names::Name shadow) const;
};

/// Returns `earlier` (null if there is none) with the pairs among the samples that were dispatched since, and before
/// `until_us` or the end of the window's minute that it lies in. `earlier` itself is returned if it does not suit them,
/// and `earlier` as long as no pair is there. Pairs whose second answer comes later are left out. Takes time n log n.
std::shared_ptr<const Past> with_leaving(const std::shared_ptr<const Past>& earlier,
                                         std::span<const samples::Sample> samples, const samples::Names& names,
                                         const sides::Selection& a, const sides::Selection& b,
                                         const pairs::WarmUp& warm_up, std::span<const config::Slo> slos,
                                         std::int64_t until_us);

}  // namespace weir::metrics::compare::comparison
