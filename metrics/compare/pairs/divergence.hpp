// Whether two answers to one request say the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "metrics/compare/pairs/pairing.hpp"

namespace weir::metrics::compare::pairs {

/// Pairs by a property that each of the two answers has or has not.
struct TwoByTwo {
  std::uint64_t both = 0, only_a = 0, only_b = 0, neither = 0;
  void add(bool a, bool b) { ++(a ? (b ? both : only_a) : (b ? only_b : neither)); }
  void add(const TwoByTwo& others) {
    both += others.both;
    only_a += others.only_a;
    only_b += others.only_b;
    neither += others.neither;
  }
  std::uint64_t count() const { return both + only_a + only_b + neither; }
};

/// So many of those that could be compared are the same.
struct Same {
  std::uint64_t same = 0, compared = 0;
  void add(bool equal) {
    ++compared;
    same += equal;
  }
};

/// How a shadow's text is like that of its primary. Equal text means something for greedy requests alone, and only they
/// are counted.
struct TextLikeness {
  Same text;
  std::optional<double> common_prefix_bytes{};  ///< The median.
};

struct Divergence {
  Same status, finish_reason, prompt_tokens;
  Same tools;           ///< Both call the same tools with the same arguments; only where one calls any.
  TwoByTwo tool_calls;  ///< Answers that end with a call of tools.
  /// Answers whose calls all have arguments that are JSON, of the pairs in which one calls any.
  TwoByTwo valid_tools;
  /// The likeness of each side that is a shadow. A control's says how far the primary's own configuration differs from
  /// itself.
  TextLikeness text_a, text_b;
  double prompt_tokens_differ = 0;  ///< The sum of differences in prompt tokens, over a's prompt tokens.
};

Divergence divergence_of(std::span<const Pair> pairs, const samples::Names& names);

}  // namespace weir::metrics::compare::pairs
