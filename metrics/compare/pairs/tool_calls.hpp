// The tools that the answers of a pair call, as its samples tell.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "metrics/compare/pairs/pairing.hpp"

namespace weir::metrics::compare::pairs {

/// True if the answer ends with a call. OpenAI says tool_calls, or function_call of old; Anthropic says tool_use.
inline bool calls_tools(const samples::Sample& sample, const samples::Names& names) {
  static constexpr std::array<std::string_view, 3> reasons{"tool_calls", "function_call", "tool_use"};
  return std::ranges::find(reasons, names.text(sample.finish_reason)) != reasons.end();
}

/// Whether each side calls tools, and with valid arguments; -1 is unknown, also where no answer calls any.
struct ValidTools {
  std::int8_t a = -1, b = -1;
  bool known() const { return a >= 0 && b >= 0; }
};

/// A shadow's sample tells of its primary, too.
inline ValidTools valid_tools(const Pair& pair) {
  const auto of = [](const samples::Sample& side, const samples::Sample& other) {
    return side.role == Role::shadow ? side.valid_tools : other.primary_valid_tools;
  };
  return {of(*pair.a, *pair.b), of(*pair.b, *pair.a)};
}

}  // namespace weir::metrics::compare::pairs
