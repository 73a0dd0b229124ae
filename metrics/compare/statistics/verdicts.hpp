// From ten block values to a verdict: margins, p values, and Holm's correction over a family of metrics.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "metrics/compare/statistics/blocks.hpp"
#include "metrics/compare/statistics/confidence_sequence.hpp"

namespace weir::metrics::compare::statistics {

enum class Metric : std::uint8_t {
  slo,  ///< Requests that missed the objective.
  ttft,
  tpot,
  output_tokens,       ///< Request by request.
  output_tokens_mean,  ///< Of all requests together, as a GPU's time is.
  ttft_tail,           ///< Requests above a's own p95.
  tpot_tail,
  longest_gap,    ///< The longest gap of an answer.
  freezes,        ///< Answers that stood still.
  ttft_minority,  ///< What a slower minority of the pairs adds to the mean.
  tpot_minority,
};
inline constexpr std::size_t metric_count = 11;
inline constexpr std::array<std::string_view, metric_count> metric_names{
    "slo",       "ttft",        "tpot",    "output_tokens", "output_tokens_mean", "ttft_tail",
    "tpot_tail", "longest_gap", "freezes", "ttft_minority", "tpot_minority"};
constexpr std::string_view name_of(Metric metric) { return metric_names[static_cast<std::size_t>(metric)]; }

constexpr bool is_minority(Metric metric) {
  return metric == Metric::ttft_minority || metric == Metric::tpot_minority;
}
/// The tails of times and gaps are a family of their own.
constexpr bool is_tail(Metric metric) {
  return metric == Metric::ttft_tail || metric == Metric::tpot_tail || metric == Metric::longest_gap ||
         metric == Metric::freezes || is_minority(metric);
}
/// These are shares of requests.
constexpr bool is_share(Metric metric) {
  return metric == Metric::slo || metric == Metric::ttft_tail || metric == Metric::tpot_tail ||
         metric == Metric::freezes;
}
/// Each side's value is a share of requests or of pairs.
constexpr bool has_shares(Metric metric) { return is_share(metric) || is_minority(metric); }
/// Returns an effect as a share of a: 0.08 if b is 8 % above a.
double shown(double effect);
Interval shown(const Interval& interval);
/// Returns the same of one that may be unknown: nothing for NaN.
std::optional<double> shown_if_known(double effect);

/// `not_worse`: b may be worse than a, but by less than the margin for that (Margins).
enum class Finding : std::uint8_t { better, worse, longer, shorter, equivalent, not_worse, inconclusive };
inline constexpr std::array<std::string_view, 7> finding_names{"better",     "worse",     "longer",      "shorter",
                                                               "equivalent", "not_worse", "inconclusive"};
constexpr std::string_view name_of(Finding finding) { return finding_names[static_cast<std::size_t>(finding)]; }

/// So much worse b may be at most and still be `not_worse`: shares of a; of errors, and of misses as `miss_points`, a
/// difference of shares. Misses are not worse if either of their margins holds. Freezes have `miss_points` as well.
struct Margins {
  double ttft = 0.10, tpot = 0.05, misses = 0.20, miss_points = 0.002, errors = 0.002, mean_tokens = 0.05;
};

/// The effect on a metric. The estimate is of ln(b/a).
struct Effect {
  Metric metric = Metric::ttft;
  std::optional<Estimate> estimate{};
  double margin = 0.02;                  ///< A share of a.
  std::optional<double> worse_margin{};  ///< For `not_worse`, if that is asked; a share of a.
  unsigned looks = 1;                    ///< The estimate is that of one of so many looks, each of which may decide.
  std::optional<Sequence> sequence{};    ///< Counts in place of the estimate, at any number of looks.
  /// The share of b's requests less that of a's, at the same looks, and the margin for `not_worse` of that difference.
  /// b is not worse if either margin holds.
  std::optional<Estimate> difference{};
  std::optional<double> worse_points{};

  bool known() const { return estimate || sequence; }
};

/// Returns the interval that holds the effect at all looks together, with 95 %. The effect is known.
Interval interval_of(const Effect& effect);

/// Returns whether the effect is below the margin for `not_worse`, and whether the difference is below its own:
/// one-sided at 5 % over all looks; false without a margin, or where nothing is known.
bool is_below_worse_margin(const Effect& effect);
bool is_below_worse_points(const Effect& effect);

struct Decision {
  Finding finding = Finding::inconclusive;
  double p = std::numeric_limits<double>::quiet_NaN();  ///< NaN without an estimate.
  bool held_back = false;                               ///< Holm alone forbids a better or worse.
};

/// Returns twice the one-sided probability that an effect within the margins shows so far beyond the nearer one by
/// chance, at any of the looks; at most 1.
double p_value(const Effect& effect);

/// Decides about one family: Holm at 5 % over the effects that are known, then equivalence by the 95 % interval, then
/// `not_worse` if b is by less than its margin worse, one-sided at 5 %. The latter is not corrected for the number of
/// effects: who asks whether all are not worse is wrong with 5 % at most. The result has the order of the effects.
std::vector<Decision> decide(std::span<const Effect> family);

/// Returns for each p whether Holm's method rejects at `level`. NaN is not of the family.
std::vector<bool> holm(std::span<const double> p_values, double level);

}  // namespace weir::metrics::compare::statistics
