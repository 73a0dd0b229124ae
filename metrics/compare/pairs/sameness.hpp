// Whether two sides still give the same answers.
//
// Equal text means something for greedy requests alone, and even one configuration does not repeat itself exactly:
// batches change the order of sums. So a control, a second shadow with the primary's configuration, shows how soon
// answers part by themselves. Of each request that the primary, the control and the candidate answered, the question is
// who leaves the primary's text first. The length of the answer and how easily the prompt goes astray cancel, because
// both were given the same; so the number of times that the candidate was first, over that of the control, estimates
// the ratio of their hazards without bias.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "metrics/compare/pairs/faults.hpp"
#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/statistics/evidence.hpp"

namespace weir::metrics::compare::pairs {

enum class Alike : std::uint8_t { same, differs, unknown };
inline constexpr std::array<std::string_view, 3> alike_names{"same", "differs", "unknown"};
constexpr std::string_view name_of(Alike alike) { return alike_names[static_cast<std::size_t>(alike)]; }

/// How one side's greedy answers leave the primary's text.
struct Leaving {
  std::uint64_t requests = 0;  ///< Answers that differ from the primary's.
  std::uint64_t at_start = 0;  ///< Those that differ within the first 64 bytes.
  double tokens = 0;           ///< Tokens that were the primary's, before that or to the end.

  std::optional<double> per_thousand_tokens() const;
};

/// Pairs are even before they tell something, and more so than for faults: a small ratio of hazards is what counts.
struct SamenessEvidence {
  static constexpr double prior = 3;
  /// b is the first with this probability where its hazard is 1.5 times a's, so a is with the rest.
  static constexpr double a_first_at_limit = 0.4;

  statistics::Evidence b_first{0.5, prior}, b_not_first{a_first_at_limit, prior}, b_at_start{0.5, prior};
};

struct Sameness {
  Alike word = Alike::unknown;
  /// Greedy requests that both sides answered and whose text could be compared with the primary's.
  std::uint64_t compared = 0;
  /// Without a control the primary itself stands for a, and leaves nothing.
  bool control = false;
  std::uint64_t first_a = 0, first_b = 0;  ///< The side left the primary's text alone, or at an earlier checkpoint.
  Leaving a, b;
  /// The highest e of three claims: b leaves first more often than a; less than 1.5 times as often; and b differs from
  /// its start more often than a.
  double differs = 1, alike = 1, from_start = 1;
  /// Answers that call tools; and with a control, those that call them as the primary does.
  statistics::Discordance calls, same_calls;
  /// The evidence of `differs`, `alike` and `from_start`, to which later pairs are added.
  SamenessEvidence evidence;

  /// first_b over first_a.
  std::optional<double> hazard_ratio() const;
  /// Up to so much of the requests b leaves first more than a.
  double excess() const;
};

/// The pairs are in order of time, and follow those of which `earlier` was made; `faults` are those of all. The word is
/// - `differs` if the text's evidence reaches 40, or that of another figure 400: answers that are empty, end at their
///   limit, call tools, or have no valid call, more or less than a's; or that call otherwise than the primary. Together
///   these are false in 5 % of comparisons at most, however often they are looked at;
/// - else `same` if b leaves first less than 1.5 times as often as a (evidence of 20), or in less than 0.5 % of the
///   requests more than a;
/// - else `unknown`.
/// Without a control, text alone never says `differs`.
Sameness sameness_of(std::span<const Pair> pairs, Mode mode, const samples::Names& names, const Faults& faults,
                     const Sameness& earlier = {});

}  // namespace weir::metrics::compare::pairs
