#include "metrics/compare/pairs/divergence.hpp"

#include <vector>

#include "metrics/compare/pairs/faults.hpp"
#include "metrics/compare/statistics/quantile.hpp"

namespace weir::metrics::compare::pairs {
namespace {

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
    if (const auto valid = valid_tools(pair); valid.known()) result.valid_tools.add(valid.a == 1, valid.b == 1);
    const samples::Sample& shadow = b.role == Role::shadow ? b : a;
    if (shadow.same_tools >= 0) result.tools.add(shadow.same_tools == 1);
  }
  if (tokens_of_a > 0) result.prompt_tokens_differ = differing / tokens_of_a;
  result.text_a = likeness(pairs, &Pair::a);
  result.text_b = likeness(pairs, &Pair::b);
  return result;
}

}  // namespace weir::metrics::compare::pairs
