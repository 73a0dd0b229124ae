// Whether two sides still give the same answers to greedy requests.
//
// Even one configuration does not repeat itself exactly: batches change the order of sums. So a control, a second
// shadow with the primary's configuration, shows how soon answers part by themselves. Of each request that the primary,
// the control and the candidate answered, the question is who leaves the primary's text first. The length of the answer
// and how easily the prompt goes astray cancel, because both were given the same; so the number of times that the
// candidate was first, over that of the control, estimates the ratio of their hazards without bias.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>

#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/statistics/betting.hpp"

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

struct Sameness {
  /// Greedy requests that both sides answered and whose text could be compared with the primary's. A prompt that comes
  /// again is not counted again, because a side's cache may repeat its answer as well.
  std::uint64_t compared = 0;
  std::uint64_t repeated = 0;  ///< Those that came again.
  /// Without a control the primary itself stands for a, and leaves nothing.
  bool control = false;
  std::uint64_t first_a = 0, first_b = 0;  ///< The side left the primary's text alone, or at an earlier checkpoint.
  std::uint64_t at_start_a = 0, at_start_b = 0;  ///< That side alone differs within the first 64 bytes.
  Leaving a, b;
  std::unordered_set<std::uint64_t> prompts;  ///< Those that came, up to most_prompts.
  static constexpr std::size_t most_prompts = 100'000;

  /// Adds pairs, which are in order of time.
  void add(std::span<const Pair> pairs, bool with_control);
  /// first_b over first_a.
  std::optional<double> hazard_ratio() const;
  /// Evidence of three claims: b leaves first more often than a; less than 1.5 times as often and 0.5 % of the
  /// requests; and b differs from its start more often than a. Without a control there is none.
  double differs() const;
  double alike() const;
  double from_start() const;
};

}  // namespace weir::metrics::compare::pairs
