// From figures to words: margins, and Holm's correction over the figures that are judged together.
#pragma once

#include <array>
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

}  // namespace weir::metrics::compare::statistics
