// From figures to words: margins, Holm's correction; changes and likeness of minutes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "metrics/compare/statistics/intervals.hpp"

namespace weir::metrics::compare::statistics {

enum class Figure : std::uint8_t {
  ttft,  ///< The mean, as of all times here: each value counts up to ten times the usual one.
  tpot,
  ttft_geomean,  ///< The mean of logarithms, which few long waits move little: the usual request.
  tpot_geomean,
  e2e,            ///< Of answers that were not streamed.
  output_tokens,  ///< The mean length of an answer.
  stalls,         ///< Seconds without a token, a thousand requests.
};
inline constexpr std::size_t figure_count = 7;
inline constexpr std::array<std::string_view, figure_count> figure_names{
    "ttft", "tpot", "ttft_geomean", "tpot_geomean", "e2e", "output_tokens", "stalls"};
constexpr std::string_view name_of(Figure figure) { return figure_names[static_cast<std::size_t>(figure)]; }
/// These depend on the load.
constexpr bool is_latency(Figure figure) { return figure != Figure::output_tokens; }

/// Returns an effect as a share of a: 0.08 if b is 8 % above a. That of stalls is their difference.
double shown(Figure figure, double effect);
Interval shown(Figure figure, const Interval& interval);

/// `not_worse`: b may be worse than a, but by less than the margin for that (Margins).
enum class Finding : std::uint8_t { better, worse, longer, shorter, equivalent, not_worse, inconclusive };
inline constexpr std::array<std::string_view, 7> finding_names{"better",     "worse",     "longer",      "shorter",
                                                               "equivalent", "not_worse", "inconclusive"};
constexpr std::string_view name_of(Finding finding) { return finding_names[static_cast<std::size_t>(finding)]; }

/// By so much b may be worse at most and still be `not_worse`: shares of a's figure, and shares of requests (`failed`,
/// of empty answers as well, and `misses`). An answer's length may differ by `output_tokens` either way.
struct Margins {
  double ttft = 0.10, tpot = 0.08, e2e = 0.10, output_tokens = 0.10, misses = 0.002, failed = 0.002;
};

/// The effect on a figure, on its scale: ln(b/a), and of stalls b - a.
struct Effect {
  Figure figure = Figure::ttft;
  std::optional<Sequence> sequence{};
  Interval margin{};                     ///< Inside, a difference does not matter.
  std::optional<double> worse_margin{};  ///< For `not_worse`, if that is asked.
  /// An effect that is nearer to 0 is neither `better` nor `worse`, however sure it is; nor `not_worse` then.
  double least_claim = 0;
  /// The estimate alone says whether b is `equivalent` or `not_worse`: no usual window has enough values to be sure.
  bool by_estimate = false;
};

struct Decision {
  Finding finding = Finding::inconclusive;
  double p = std::numeric_limits<double>::quiet_NaN();  ///< NaN without a sequence.
  bool held_back = false;                               ///< Holm alone forbids a better or worse.
  bool too_near = false;                                ///< `least_claim` alone forbids it.
};

/// Returns the chance that an effect within its margin shows so far beyond it at any look; at most 1.
double p_value(const Effect& effect);

/// A window with fewer minutes is neither equivalent nor not worse.
inline constexpr double least_minutes_to_pass = 10;
/// True if b is worse by less than the margin for `not_worse`, with one-sided certainty of 95 % at all looks.
bool is_below_worse_margin(const Effect& effect);
/// Returns how many times as many minutes would show that b is not worse (equivalent, where that is not asked), or that
/// it is beyond the margin among so many figures that are judged together, if they are like these; nothing if no
/// reasonable number would. An effect below `least_claim` is taken to be beyond it after `minutes_to_claim`.
std::optional<double> times_until_known(const Effect& effect, std::size_t figures, double minutes_to_claim);

/// Decides about one family: Holm at 5 % over the effects that are known, then equivalence by the 95 % interval, then
/// `not_worse`. The latter is not corrected for the number of effects: who asks whether all are not worse is wrong with
/// 5 % at most. The result has the order of the effects.
std::vector<Decision> decide(std::span<const Effect> family);

/// Returns for each p whether Holm's method rejects at `level` (Holm, "A simple sequentially rejective multiple test
/// procedure", Scandinavian Journal of Statistics 6, 1979). NaN is not of the family.
std::vector<bool> holm(std::span<const double> p_values, double level);

// Whether a figure changed at a moment within a window: a leak, a restart, a neighbour on the same GPU.
//
// The statistic is a CUSUM that is normalised by itself (Shao and Zhang, "Testing for change points in time series",
// Journal of the American Statistical Association 105, 2010): at each moment the squared difference of the means before
// and after, over the squared CUSUMs of both parts. No variance has to be estimated, so minutes may be alike. The limit
// is not that of their table, which holds for windows much longer than a drift, but one that holds for drifts longer
// than the window as well (tests/bench/results/verdicts.txt).

struct Change {
  std::size_t at = 0;            ///< The first value after the change.
  double before = 0, after = 0;  ///< The means.
  double statistic = 0;
};

/// Fewer known values tell nothing.
inline constexpr std::size_t least_for_a_change = 20;
/// Two figures that are asked together, and do not change, exceed it in 5 of 100 windows at most.
inline constexpr double change_limit = 250;

/// Returns the moment before and after which the means of values in order of time differ most, if the statistic exceeds
/// `change_limit` and the means differ by more than `least`. NaN is no value. At least five values, and a tenth of all,
/// lie on each side. More than 240 values are averaged in groups of equal number, so the time is bounded.
std::optional<Change> change_in(std::span<const double> values, double least);

// How alike neighbouring minutes are, of what is told of one minute after the other.

/// A value for each minute in order of time; NaN where there is none.
using Minutes = std::vector<double>;

/// Returns how many minutes have a value.
std::size_t known_minutes(std::span<const double> minutes);

/// Returns the variance of a sum of minutes, for one minute: the greatest of L times the variance of the means of
/// batches of L minutes, for L = 5 and 30 (batch means: Law, "Simulation Modeling and Analysis"). A batch counts if
/// half of its minutes have a value. Each of the series varies around its own mean. Returns nothing with fewer than
/// sixteen batches of 30 minutes, which are eight hours.
std::optional<double> long_run_variance(std::span<const Minutes> series);

/// Returns the lag-1 autocorrelation, over the neighbours of which both are known; NaN if it is undefined.
double lag_one_autocorrelation(std::span<const double> values);

}  // namespace weir::metrics::compare::statistics
