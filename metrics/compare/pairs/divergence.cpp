#include "metrics/compare/pairs/divergence.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "metrics/compare/statistics/quantile.hpp"

namespace weir::metrics::compare::pairs {
namespace {

/// OpenAI says tool_calls, or function_call of old; Anthropic says tool_use.
bool calls_tools(const samples::Sample& sample, const samples::Names& names) {
  static constexpr std::array<std::string_view, 3> reasons{"tool_calls", "function_call", "tool_use"};
  return std::find(reasons.begin(), reasons.end(), names.text(sample.finish_reason)) != reasons.end();
}

/// Whether this side's calls are valid; -1 is unknown. A primary's shadow says it of its primary.
int valid_tools(const samples::Sample& side, const samples::Sample& other) {
  return side.role == Role::shadow ? side.valid_tools : other.primary_valid_tools;
}

/// Samples of primaries tell nothing of this.
TextLikeness likeness(std::span<const Pair> pairs, const samples::Sample* Pair::*side) {
  TextLikeness result;
  std::vector<std::uint32_t> prefixes;
  for (const Pair& pair : pairs) {
    const samples::Sample& sample = *(pair.*side);
    if (!sample.greedy || sample.same_text < 0) continue;
    result.text.add(sample.same_text == 1);
    if (sample.common_prefix_bytes != samples::unknown_count) prefixes.push_back(sample.common_prefix_bytes);
  }
  if (!prefixes.empty()) result.common_prefix_bytes = statistics::median(std::span(prefixes));
  return result;
}

}  // namespace

Divergence divergence_of(std::span<const Pair> pairs, const samples::Names& names) {
  Divergence result;
  double tokens_of_a = 0, differing = 0;
  for (const Pair& pair : pairs) {
    const samples::Sample &a = *pair.a, &b = *pair.b;
    if (a.status != 0 && b.status != 0) result.status.add(a.status == b.status);
    if (a.prompt_tokens != samples::unknown_count && b.prompt_tokens != samples::unknown_count) {
      result.prompt_tokens.add(a.prompt_tokens == b.prompt_tokens);
      tokens_of_a += a.prompt_tokens;
      differing +=
          a.prompt_tokens > b.prompt_tokens ? a.prompt_tokens - b.prompt_tokens : b.prompt_tokens - a.prompt_tokens;
    }
    if (a.served && b.served) {
      result.finish_reason.add(a.finish_reason == b.finish_reason);
      result.tool_calls.add(calls_tools(a, names), calls_tools(b, names));
    }
    const int valid_a = valid_tools(a, b), valid_b = valid_tools(b, a);
    if (valid_a >= 0 && valid_b >= 0) result.valid_tools.add(valid_a == 1, valid_b == 1);
    const samples::Sample& shadow = b.role == Role::shadow ? b : a;
    if (shadow.same_tools >= 0) result.tools.add(shadow.same_tools == 1);
  }
  if (tokens_of_a > 0) result.prompt_tokens_differ = differing / tokens_of_a;
  result.text_a = likeness(pairs, &Pair::a);
  result.text_b = likeness(pairs, &Pair::b);
  return result;
}

}  // namespace weir::metrics::compare::pairs
