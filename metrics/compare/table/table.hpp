// A comparison's minutes, and what is counted beside them. The table is made of samples; a running weir makes it bit by
// bit, of requests that it is about to forget, and `weir compare` at once. A comparison is a function of its rows, one
// a minute; a week of rows takes 3 MB.
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
#include "metrics/compare/pairs/faults.hpp"
#include "metrics/compare/pairs/load.hpp"
#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/sides/side.hpp"
#include "metrics/compare/sides/side_choice.hpp"
#include "metrics/compare/statistics/intervals.hpp"
#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::table {

/// Sums of a quantity over a minute's requests: of pairs, of those of which both sides have it.
struct Sums {
  std::uint32_t count_a = 0, count_b = 0;
  float a = 0, b = 0;                ///< Values above ten times the usual one count as that.
  float log_a = 0, log_b = 0;        ///< Of the values' logarithms, and none is below a fiftieth of the usual one.
  float square_a = 0, square_b = 0;  ///< Of the squares of the values, which tell of the slow ones.
  /// The greater of a side's median and 0.3 of its 95th percentile, so that a tenth of the requests that take long by
  /// their nature are usual as well; the smaller of both sides. The usual value is the median of it over ten rows.
  /// 0 without values.
  float usual = 0;
};

/// Pairs that tell a fault, by the sides that have it; of a split, the requests that tell it, and the conversations
/// that have it for the first time. No count is above 65,535.
struct FaultSums {
  std::uint32_t pairs = 0;
  std::uint16_t both = 0, only_a = 0, only_b = 0;
  /// Half minutes in which that side alone has it more often than the other alone.
  std::uint8_t halves_a = 0, halves_b = 0;
};

/// Returns the quantity that a figure is of. Stalls are of none, and stand beside that which all answers have.
pairs::Quantity quantity_of(statistics::Figure figure);
/// True of the means of logarithms.
constexpr bool is_geomean(statistics::Figure figure) {
  return figure == statistics::Figure::ttft_geomean || figure == statistics::Figure::tpot_geomean;
}

/// What two sides did in one minute.
struct Row {
  std::int64_t minute = 0;  ///< Since 1970, by the moment at which the primary was dispatched.
  std::array<Sums, pairs::quantity_count> sums;
  std::uint32_t requests_a = 0, requests_b = 0;      ///< Of warm shadows, as the sums are.
  float stalled_a = 0, stalled_b = 0;                ///< Seconds for which they stood still.
  std::array<FaultSums, pairs::fault_count> faults;  ///< Of all pairs, whether the shadows were warm or not.

  /// Returns the sums of a figure. Where the sides had different requests, each side's requests of a minute weigh as
  /// much as the other's, so that a side with more requests at night does not look like the night.
  statistics::RatioSums of(statistics::Figure figure) const;
  /// Returns them as they are, also where one side had no requests.
  statistics::RatioSums unweighted(statistics::Figure figure) const;
  /// Returns the sums of the squares of a mean time's values, weighed as of() does; nothing of other figures.
  statistics::RatioSums squares(statistics::Figure figure) const;
};

/// The conversations of a split that tell a fault, each for its side. The rows have those that have it.
struct Drawn {
  std::uint64_t a = 0, b = 0;
};

/// A fault's pairs, by the sides that have it; of a split its conversations, of which each has one side.
struct FaultTotals {
  std::uint64_t pairs = 0, both = 0, only_a = 0, only_b = 0;
  std::uint64_t of_a = 0, of_b = 0;  ///< Of a split, the conversations of each side.
};

/// What is counted of a window's requests.
struct Counted {
  std::uint64_t pairs = 0;                                 ///< 0 in a split.
  std::uint64_t requests_a = 0, requests_b = 0;            ///< Of the window.
  std::uint64_t warming = 0;                               ///< Pairs that do not count, as the shadow was cold.
  std::uint64_t conversations_a = 0, conversations_b = 0;  ///< Of a split.
  double crowd = 1;  ///< Of a split: the requests of a replica of b, beside those of one of a.
  /// Why nothing was mirrored: each pair lacks an answer that was never asked for. Empty if any pair has both.
  sides::Drops dropped;
  pairs::Sameness sameness{};
};

struct Table : Counted {
  /// A running weir holds a week; a log is read whole.
  static constexpr std::size_t most_rows = std::size_t{7} * 24 * 60;
  static constexpr std::size_t folds = statistics::tenths;

  pairs::Mode mode = pairs::Mode::split;
  double warm_up_s = 0;
  std::optional<config::Slo> slo{};       ///< Whose misses are counted.
  std::vector<Row> rows;                  ///< In order of time. A minute without requests has none.
  std::optional<std::int64_t> from_us{};  ///< The first pair of warm shadows, or the first request of a split.
  std::int64_t to_us = 0;                 ///< The moment after the last pair.
  pairs::Load load{};
  bool answered = false;  ///< A pair has both answers.

  /// Of a split: a tenth of its conversations each, by figure; and their faults.
  std::array<std::array<statistics::RatioSums, statistics::figure_count>, folds> by_conversation{};
  std::array<Drawn, pairs::fault_count> drawn{};

  /// Of a running weir. All pairs that were dispatched before `until_us`, a whole minute, are here, but for those that
  /// ended too late or left in a burst of requests.
  std::int64_t until_us = std::numeric_limits<std::int64_t>::min();
  using Answer = std::tuple<samples::Names::Name, samples::Names::Name, samples::Names::Name, Role>;
  std::set<Answer> answers_a, answers_b;  ///< The configuration, replica, [[shadow]] and role of each side.
  std::set<samples::Names::Name> pools;   ///< Of the primaries.
  pairs::MirroredSides mirrored{};

  bool paired() const { return mode != pairs::Mode::split; }
  /// Returns the figure of each minute from the first row's to the last row's, on its scale; NaN where there is none.
  std::vector<double> minutes(statistics::Figure figure) const;
  /// Returns the pairs that tell a fault, or the conversations of a split.
  FaultTotals faults(pairs::Fault fault) const;
  /// Returns the events of a fault as the evidence of more counts them. What shares a cause comes together, so a half
  /// minute is one event of the side that has it more often; of a split a minute. A conversation counts where it has it
  /// first, and an event is neither side's with more than its share of the conversations, or a half if that is more: an
  /// outage of the smaller side is no rarer. Minutes in a row in which nine of ten requests fail are one event once
  /// they are over.
  statistics::Events causes(pairs::Fault fault) const;
  /// Returns them as the evidence of less counts them: by pairs or conversations. Where they come in clusters, that
  /// minutes vary more than single ones would, all counts are smaller by as much (the dispersion of quasi-likelihood:
  /// McCullagh and Nelder, "Generalized Linear Models", 1989).
  statistics::Events cases(pairs::Fault fault) const;
  /// Returns b's share of a split's conversations that tell a fault.
  double share_of_b(pairs::Fault fault) const;
  /// True if all that is here is of these sides, and so are the pairs of the samples that are held.
  bool suits(const sides::Selection& a, const sides::Selection& b, const pairs::Pairing& held) const;
  /// True if misses of this objective, or of none, are counted here.
  bool counts(const std::optional<config::Slo>& objective) const;
  /// True if a side is this [[shadow]].
  bool is_of(samples::Names::Name shadow) const;
};

/// Returns the scale of a figure: all are ratios but stalls, and those of means of logarithms are differences of these.
statistics::Scale scale_of(statistics::Figure figure);

/// The way to make a table.
struct Making {
  const samples::Names& names;
  statistics::Window asked = pairs::any_time;  ///< Requests outside do not count.
  std::optional<config::Slo> slo{};
  std::optional<bool> same_load{};  ///< As pairs::load_of() has it.
  std::int64_t last_us = 0;         ///< The last moment that the samples know of.
};

/// Adds the requests of a pairing to a table, whose `mode` and `slo` are set if it has rows. The pairs are later than
/// those that are here. Returns the pairs that count: of warm shadows, in the window that was asked for. Takes time
/// n log n.
pairs::Pairing add(Table& table, const pairs::Pairing& pairing, const Making& making);

/// Returns `earlier` (null if there is none) with the pairs among the samples that were dispatched since, in minutes
/// that began before `until_us`. `earlier` itself is returned if it does not suit them, and as long as no pair is
/// there.
std::shared_ptr<const Table> with_leaving(const std::shared_ptr<const Table>& earlier,
                                          std::span<const samples::Sample> samples, const samples::Names& names,
                                          const sides::Selection& a, const sides::Selection& b,
                                          const pairs::WarmUp& warm_up, const std::optional<config::Slo>& slo,
                                          std::int64_t until_us);

/// Takes out of a pairing what a table has. Late pairs, of moments that are past, are in neither.
void leave_to(const Table& table, pairs::Pairing& pairing);

}  // namespace weir::metrics::compare::table
