// Compares two sides by what was measured of their requests (docs/explain/verdicts.md).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/settings.hpp"
#include "metrics/compare/comparison/exploration.hpp"
#include "metrics/compare/comparison/history.hpp"
#include "metrics/compare/comparison/past.hpp"
#include "metrics/compare/pairs/divergence.hpp"
#include "metrics/compare/pairs/faults.hpp"
#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/pairs/sameness.hpp"
#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/sides/drops.hpp"
#include "metrics/compare/sides/selection.hpp"
#include "metrics/compare/statistics/blocks.hpp"
#include "metrics/compare/statistics/overlay.hpp"
#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::comparison {

/// The estimates, by metric, of a run with the same configuration on both sides. No margin is below them.
using Floor = std::array<double, statistics::metric_count>;

struct Options {
  sides::Selection a, b;
  /// The window. Without a beginning it begins when both sides are there, and no pair counts before the
  /// shadow is warm. A beginning before the first request of either side is that request's moment. Without an end,
  /// `length_us` gives it; with either it is declared, and there is one look, at its end. Without both it ends with the
  /// last request, and may be looked at again and again.
  std::optional<std::int64_t> from_us{}, to_us{}, length_us{};
  std::optional<config::Slo> slo{};
  /// Margins of medians, of the mean of output tokens, of shares of requests and tails, and of what a slower minority
  /// adds: shares of a.
  double margin = 0.02, mean_margin = 0.05, share_margin = 0.20, minority_margin = 0.002;
  pairs::FaultMargins fault_margins = pairs::fault_margins;
  Floor floor{};
  statistics::Margins margins{};  ///< For `not_worse`.
  /// Minutes of A/A. The first that has eight hours of TTFT or TPOT and suits the pool and the mode counts; without
  /// one, those among the samples.
  std::vector<History> histories{};
  /// Pairs whose samples are gone. The first of them that is of these sides and of this warm-up counts, if the window
  /// has neither a beginning nor an end.
  std::vector<std::shared_ptr<const Past>> pasts{};
  /// Samples of each [[shadow]] that are gone and in no past.
  std::map<samples::Names::Name, std::uint64_t> lost{};
  double min_block_s = 60;
  pairs::WarmUp warm_up{};
  /// Both sides had the same load. If nobody knows, the samples tell: each replica of one side has the requests of one
  /// of the other, or both sides share a pool.
  std::optional<bool> same_load{};
  /// So many resamples of blocks give the intervals of tail quantiles; 0 leaves them out.
  unsigned resamples = 0;
  /// Distributions are counted in so many bins; 0 leaves them out.
  unsigned bins = 0;
};

enum class State : std::uint8_t {
  final,    ///< A declared window that has ended.
  running,  ///< Any other that has an interval, or a declared one that has not ended.
  too_few,  ///< No figure has an interval yet.
};
inline constexpr std::array<std::string_view, 3> state_names{"final", "running", "too_few"};
constexpr std::string_view name_of(State state) { return state_names[static_cast<std::size_t>(state)]; }

struct Verdict {
  statistics::Metric metric = statistics::Metric::ttft;
  std::uint64_t count = 0;  ///< Pairs that have the metric; in a split, values of the side with fewer.
  /// The figure itself: a share of requests, a mean, or else a median, in seconds or tokens.
  std::optional<double> value_a{}, value_b{};
  std::optional<double> estimate{};                ///< b relative to a, as a share of a.
  std::optional<statistics::Interval> interval{};  ///< 95 %, as the estimate.
  std::optional<statistics::Estimate> effect{};    ///< Of ln(b/a), with its standard error.
  statistics::BlockValues blocks{};                ///< On the estimate's scale; NaN where a block has no values.
  statistics::BlockValues judged_blocks{};         ///< The same of the blocks that the estimate is of (judged()).
  double margin = 0;
  std::optional<double> worse_margin{};  ///< For `not_worse`, where that can be said.
  std::optional<statistics::DifferenceOfShares> difference{};  ///< Of a share of requests: b's less a's.
  std::optional<double> worse_points{};                     ///< For `not_worse` as well, of `difference`.
  unsigned looks = 1;  ///< The verdict is that of one of so many looks, and holds for all of them together.
  std::optional<statistics::Sequence> sequence{};  ///< In place of `effect`, with a history: it holds at any look.
  double p = 0;                                    ///< NaN without an interval.
  statistics::Finding finding = statistics::Finding::inconclusive;
  bool withheld = false;            ///< No verdict could be given, whatever the values; `why` says why.
  bool load_forbids = false;        ///< The sides' loads differ, so that the estimate may mislead, however sure it is.
  std::string why;                  ///< A sentence.
  std::optional<double> needs_s{};  ///< The length of a window that would do, where this one was too short.
};

/// Shadows of a side that never prefilled what they hold, so that no pair counts.
struct Unfilled {
  std::string side;
  std::uint64_t kv_tokens = 0, prefilled = 0;
};

/// The history of one configuration on both sides that a comparison used.
struct HistoryUsed {
  double hours = 0;
  std::string source;
};

/// A look at one of look_seconds.
struct Look {
  unsigned number = 0;  ///< From 1 on; 0 is before the first.
  double at_s = 0;      ///< After the window's beginning.
  std::optional<double> next_s{};
};

/// Two sides that had no request at the same time, and when each of them had requests.
struct Apart {
  statistics::Window a, b;
  std::string control{};  ///< The control beside both, by which the verdicts are (bridge.hpp).
};

/// A figure that is another since a moment within the window.
struct Changed {
  statistics::Metric metric = statistics::Metric::ttft;
  std::int64_t since_us = 0;
  double by = 0;  ///< b/a after it, relative to b/a before, less one.
};

struct Note {
  std::string code;  ///< load_differs, different_tokenizer, spared_load, slow_drift, ...
  std::string sentence;
};

/// A configuration, replica, role or [[shadow]], in the role in which it was compared.
struct ComparedSide {
  std::string name;
  Role role = Role::primary;
};

struct Comparison {
  State state = State::too_few;
  pairs::Mode mode = pairs::Mode::split;
  ComparedSide side_a, side_b;
  std::string a, b;                              ///< The names of the sides; two sides have two names.
  std::uint64_t pairs = 0;                       ///< 0 in a split.
  std::uint64_t requests_a = 0, requests_b = 0;  ///< In the window.
  std::uint64_t warming = 0;                     ///< Pairs that were left out because the shadow was cold.
  /// Samples of the sides' shadows that are gone and in no past (Options::lost); 0 with a window that was asked for.
  std::uint64_t lost = 0;
  statistics::Window window{};
  /// The end of the window of which samples are held, where older ones are known by what was kept of them (Past). The
  /// blocks of verdicts, explorations, distributions, divergence and what notes say of single requests are of these;
  /// the verdicts are of the whole window.
  std::optional<statistics::Window> held{};
  bool over = false;                     ///< The week is full for which minutes are kept.
  bool declared = false;                 ///< The window has an end that was declared.
  std::optional<Apart> apart{};          ///< Then figures stand side by side, and without a control none has a verdict.
  unsigned one_sided_blocks = 0;         ///< Of a split whose sides take turns: blocks in which one alone has requests.
  std::vector<Changed> changes;          ///< Of ttft and tpot; at most one of each.
  std::optional<HistoryUsed> history{};  ///< The figures of medians may be looked at at any time.
  std::optional<Look> look{};            ///< Of the other figures, where the window is not declared.
  std::vector<Verdict> verdicts;         ///< slo only with an objective, ttft_minority and tpot_minority only of pairs.
  std::vector<Exploration> explorations;
  std::vector<statistics::Overlay> distributions;  ///< The values of ttft and of tpot that the verdicts are about.
  pairs::TwoByTwo slo{};                           ///< Pairs that met the objective; all 0 in a split.
  pairs::Divergence divergence{};                  ///< 0 in a split.
  /// Faults and sameness of all pairs since the declared beginning, whether the shadows were warm or not.
  pairs::Faults faults{};
  pairs::Sameness sameness{};
  /// Requests to be mirrored that have no finished shadow, by reason: a drop reason, an outcome, or not_mirrored.
  std::map<std::string, std::uint64_t> unfinished;
  /// Why nothing was mirrored: each pair lacks an answer that was never asked for. Empty if any pair has both.
  sides::Drops dropped;
  std::uint64_t sampled = 0;  ///< Pairs, and requests that were not mirrored.
  std::vector<Note> notes;
  std::optional<Unfilled> unfilled{};  ///< A longer window alone would not do.
  std::optional<double> needs_s{};     ///< With State::too_few, the length of a window that would do.

  /// Returns the part of the window whose samples are held: all of it, as a rule.
  const statistics::Window& described() const { return held ? *held : window; }
  /// Returns the window whose blocks a verdict is about: that of the last look, or what is described. Nothing where a
  /// verdict's minutes are also of requests that are no longer held.
  std::optional<statistics::Window> judged(const Verdict& verdict) const;
};

/// Compares in time n log n, with memory for some figures a sample. The order of the samples does not matter.
Comparison compare(std::span<const samples::Sample> samples, const samples::Names& names, const Options& options);

/// A comparison and what it is of: the pairs, and in a split the requests, in its window. They point into the samples.
struct Compared {
  Comparison comparison;
  pairs::Pairing pairing;
};
Compared compare_pairs(std::span<const samples::Sample> samples, const samples::Names& names, const Options& options);

/// Returns what the shadow's side is called where `name` is the primary's as well: "fp16 (control)", by the name of its
/// [[shadow]], or "fp16 (shadow)" without one.
std::string shadow_label(std::string_view name, std::string_view shadow);

/// Returns the effect that a verdict is about, as a family of verdicts is decided.
statistics::Effect effect_of(const Verdict& verdict);

/// Returns the estimates of a comparison of one configuration with itself, as the noise floor of others.
Floor floor_of(const Comparison& same);

}  // namespace weir::metrics::compare::comparison
