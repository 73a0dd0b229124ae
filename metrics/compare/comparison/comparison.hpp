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
#include "metrics/compare/comparison/history.hpp"
#include "metrics/compare/pairs/faults.hpp"
#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/sides/side.hpp"
#include "metrics/compare/sides/side_choice.hpp"
#include "metrics/compare/statistics/verdicts.hpp"
#include "metrics/compare/table/table.hpp"

namespace weir::metrics::compare::comparison {

struct Options {
  sides::Selection a, b;
  /// The window. Without a beginning it begins when both sides are there, and no pair counts before the shadow is warm.
  /// Without an end, `length_us` gives it; with either it is declared. Without both it ends with the last request.
  std::optional<std::int64_t> from_us{}, to_us{}, length_us{};
  std::optional<config::Slo> slo{};
  double margin = 0.02;  ///< Of times, a share of a: a smaller difference does not matter.
  statistics::Margins margins{};
  /// Minutes of A/A. The first that has eight hours of TTFT or TPOT and suits the pool and the mode counts; without
  /// one, those among the samples.
  std::vector<History> histories{};
  /// Minutes whose samples are gone. The first table that is of these sides, of this warm-up and of this objective
  /// (any, without one) counts, if the window has neither a beginning nor an end.
  std::vector<std::shared_ptr<const table::Table>> tables{};
  /// Samples of each [[shadow]] that are gone and in no table.
  std::map<samples::Names::Name, std::uint64_t> lost{};
  pairs::WarmUp warm_up{};
  /// Both sides had the same load. If nobody knows, the samples tell: each replica of one side has the requests of one
  /// of the other, or both sides share a pool.
  std::optional<bool> same_load{};
};

enum class State : std::uint8_t {
  final,    ///< A declared window that has ended.
  running,  ///< Any other of which a figure has an interval, or a declared one that has not ended.
  too_few,  ///< No figure has an interval yet.
};
inline constexpr std::array<std::string_view, 3> state_names{"final", "running", "too_few"};
constexpr std::string_view name_of(State state) { return state_names[static_cast<std::size_t>(state)]; }

/// A reason for which a figure cannot have a verdict.
enum class Bar : std::uint8_t {
  none,
  no_values,      ///< No request has the figure on both sides.
  too_few,        ///< Fewer than least_minutes minutes have it.
  cold,           ///< The shadow is not warm.
  apart,          ///< The sides did not run at the same time.
  load_differs,   ///< The sides had unlike loads.
  spared_load,    ///< The side that looks better was spared requests.
  conversations,  ///< A side of a split has too few conversations.
  other_tokens,   ///< The sides count tokens differently.
  lacking,        ///< One side lacks the figure in answers in which the other has it.
};

struct Verdict {
  statistics::Figure figure = statistics::Figure::ttft;
  std::uint64_t count = 0;  ///< Pairs that have the figure; in a split, requests of the side with fewer.
  std::size_t minutes = 0;  ///< In which both sides have the figure.
  /// The figure, in seconds, tokens, or of stalls in seconds per 1000 requests. `estimate` follows from the two.
  std::optional<double> value_a{}, value_b{};
  std::optional<double> estimate{};                ///< b relative to a, as a share of a; of stalls b - a.
  std::optional<statistics::Interval> interval{};  ///< 95 % at all looks together, as the estimate.
  statistics::Effect effect{};
  std::vector<double> parts;  ///< The estimates of the tenths of the minutes; NaN where a tenth has no values.
  double p = 0;               ///< NaN without an interval.
  statistics::Finding finding = statistics::Finding::inconclusive;
  Bar bar = Bar::none;
  bool held_back = false;  ///< Among the figures that are judged together it is not sure enough, though it were alone.
  bool too_near = false;   ///< Without a history, two equal GPUs may differ by as much (drift_allowance).
  /// The effect in the last three tenths, where that alone keeps b from passing: beyond the margin for `not_worse`.
  std::optional<double> lately{};
  /// ln(b/a) of the root mean square, which slow requests make, where that alone keeps b from passing.
  std::optional<double> tail{};
  /// The length of a window that would tell whether b is not worse, if all goes on as it does; nothing if none would.
  std::optional<double> needs_s{};

  bool withheld() const { return bar != Bar::none; }
};

/// The verdict on a fault.
struct FaultVerdict {
  pairs::Fault fault = pairs::Fault::failed;
  table::FaultTotals pairs{};  ///< Those that tell it: of a split, conversations.
  statistics::Events causes{};
  double more_in_a = 1, more_in_b = 1;  ///< The evidence that one side has it more often.
  /// b's share less a's, at all looks together. It holds 0 unless there is evidence of more.
  statistics::Interval difference{-1, 1};
  double margin = 0;  ///< So much may b's share be above a's, and is not worse.
  statistics::Finding finding = statistics::Finding::inconclusive;
  std::optional<double> needs_s{};  ///< As Verdict::needs_s.

  double share_a() const;
  double share_b() const;
};

/// The evidence that makes a fault `worse` or `better`: five kinds share 5 %, in each direction.
inline constexpr double evidence_needed = pairs::judged_faults / 0.05;
/// Returns a fault's finding where so many candidates are judged together: `worse` and `better` take as many times the
/// evidence.
statistics::Finding finding_among(const FaultVerdict& fault, unsigned candidates);
/// The same of a figure, on which Holm's method over all candidates decided so: a verdict of its own that it does not
/// confirm is none, and it makes none that the figure did not have.
statistics::Finding finding_among(const Verdict& verdict, const statistics::Decision& decision);

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

/// Two sides that had no request at the same time, and when each of them had requests.
struct Apart {
  statistics::Window a, b;
};

/// A figure that is another since a moment within the window: ttft, tpot or e2e.
struct Changed {
  statistics::Figure figure = statistics::Figure::ttft;
  std::int64_t since_us = 0;
  double by = 0;     ///< b/a after it, relative to b/a before, less one.
  double after = 0;  ///< b/a after it, less one.
};
/// A change for the worse after which b is so much above a is a verdict; a smaller one is to be looked at.
inline constexpr double sure_change = 0.2;

/// Answers that have a quantity.
struct Had {
  std::uint64_t a = 0, b = 0;
  std::uint64_t only_a = 0, only_b = 0;  ///< Pairs in which the other side's answer is whole, and lacks it.

  bool a_lacks() const { return lacks(only_b, only_a, b); }
  bool b_lacks() const { return lacks(only_a, only_b, a); }

 private:
  /// Figures that both sides lack by chance, as where all tokens come at once, do not count.
  static bool lacks(std::uint64_t lacking, std::uint64_t other, std::uint64_t all) {
    constexpr std::uint64_t fewest = 5;
    return lacking >= other + fewest && 100 * (lacking - other) > all;
  }
};

/// Two sides whose prompts differ by more in tokens have other tokenizers or templates.
inline constexpr double other_tokenizer = 0.01;

/// Whether the answers are the same, and what tells it where they differ.
struct Answers {
  pairs::Alike word = pairs::Alike::unknown;
  std::string why;  ///< "length", "text", ...: the first that differs.
};

struct Note {
  std::string code;  ///< load_differs, different_tokenizer, spared_load, drift, ...
  std::string sentence;
};

/// A configuration, replica, role or [[shadow]], in the role in which it was compared.
struct ComparedSide {
  std::string name;
  Role role = Role::primary;
};

/// A split takes so many conversations on each side for a verdict on times.
inline constexpr std::uint64_t least_conversations = 50;
/// A side of a split whose replicas have so many times the requests of the other's is slower for that reason alone.
inline constexpr double crowded = 1.5;
/// Without a history two equal GPUs may differ by so much for longer than a window shows. A smaller difference is no
/// verdict until drift_minutes tell that they do not drift.
inline constexpr double drift_allowance = 0.08;
inline constexpr double drift_minutes = 40, most_autocorrelation = 0.55;

struct ComparedSides {
  ComparedSide side_a, side_b;
  std::string a, b;                 ///< The names of the sides; two sides have two names.
  bool one_configuration = false;   ///< Both sides are of one `config`: nothing is to be promoted.
  bool only_configuration = false;  ///< And no other is among the samples.
  sides::Drops other_drops;         ///< Then, what shadows without a `config` were spared.
};

struct Comparison : ComparedSides, table::Counted {
  State state = State::too_few;
  pairs::Mode mode = pairs::Mode::split;
  std::uint64_t repeated = 0;  ///< Answers that are left out: that of another shadow counts.
  /// Samples of the sides' shadows that are gone and in no table (Options::lost); 0 with a window that was asked for.
  std::uint64_t lost = 0;
  statistics::Window window{};
  double minutes = 0;  ///< So many minutes have requests of both sides.
  /// The end of the window of which samples are held, where older ones are known by their minutes. Divergence
  /// and what notes say of single requests are of these; the verdicts are of the whole window.
  std::optional<statistics::Window> held{};
  bool declared = false;         ///< The window has an end that was declared.
  std::optional<Apart> apart{};  ///< Then figures stand side by side, and none has a verdict.
  std::vector<Changed> changes;  ///< At most one of each figure.
  std::optional<HistoryUsed> history{};
  bool drifts = false;  ///< A time of one minute is much like that of the minute before.
  std::vector<Verdict> verdicts;
  std::vector<FaultVerdict> faults;  ///< `slo` only with an objective.
  Answers answers{};
  pairs::Divergence divergence{};                ///< 0 in a split.
  std::array<Had, pairs::quantity_count> had{};  ///< Of the answers that are held.
  /// Requests to be mirrored that have no finished shadow, by reason: a drop reason, an outcome, or not_mirrored.
  std::map<std::string, std::uint64_t> unfinished;
  std::uint64_t sampled = 0;  ///< Pairs, and requests that were not mirrored.
  std::vector<Note> notes;
  std::optional<Unfilled> unfilled{};  ///< A longer window alone would not do.
  std::optional<double> needs_s{};     ///< With State::too_few, the length of a window that would do.

  /// Returns the part of the window whose samples are held: all of it, as a rule.
  const statistics::Window& described() const { return held ? *held : window; }
  const Verdict* verdict_of(statistics::Figure figure) const;
  const Had& had_of(statistics::Figure figure) const;
  /// True if more than 1 % of a side's answers are left out.
  bool has_several_answers() const { return pairs > 0 && 100 * repeated > pairs; }
  bool counts_tokens_differently() const { return divergence.prompt_tokens_differ > other_tokenizer; }
  const FaultVerdict* fault_of(pairs::Fault fault) const;
};

/// Compares in time n log n, with memory for some figures a sample. The order of the samples does not matter.
Comparison compare(std::span<const samples::Sample> samples, const samples::Names& names, const Options& options);

/// True of a figure that depends on what a token is.
constexpr bool is_of_tokens(statistics::Figure figure) {
  using enum statistics::Figure;
  return figure == tpot || figure == tpot_geomean || figure == output_tokens;
}

/// Returns what the shadow's side is called where `name` is the primary's as well: "fp16 (control)", by the name of its
/// [[shadow]], or "fp16 (shadow)" without one.
std::string shadow_label(std::string_view name, std::string_view shadow);

// From a table of minutes to verdicts, and to notes on them.

/// Sets a comparison's figures, faults, answers, changes and state by its table. The comparison has its sides, its
/// window, and what forbids verdicts. `history` is null without one; `ended` says that the samples reach the end of a
/// declared window.
void judge(Comparison& comparison, const table::Table& table, const Options& options, const History* history,
           bool ended);

/// Returns the notes in a fixed order. `pairing` is what of the window is held; `samples` are all that are known,
/// outside the window as well.
std::vector<Note> notes_of(const Comparison& comparison, const table::Table& table, const pairs::Pairing& pairing,
                           std::span<const samples::Sample> samples);

/// Returns the length of the window, in which each minute that has requests is a whole one.
double length_in_minutes_s(const Comparison& comparison);

}  // namespace weir::metrics::compare::comparison
