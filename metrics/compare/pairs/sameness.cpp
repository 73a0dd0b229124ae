#include "metrics/compare/pairs/sameness.hpp"

#include <algorithm>

#include "metrics/compare/pairs/tool_calls.hpp"

namespace weir::metrics::compare::pairs {
namespace {

constexpr double needed_alone = 1 / 0.05;
constexpr double least_excess = 0.005;

/// Half of the 5 % is the text's. The other half is shared by nine claims, each of which would need 360.
constexpr double needed_of_text = 2 * needed_alone, needed_of_others = 2 * 10 * needed_alone;

bool differs(const samples::Sample& answer) { return answer.same_text == 0; }

/// The checkpoint after which the answer leaves the primary's text; unknown_count if it does not.
std::uint32_t leaves_at(const samples::Sample& answer) {
  constexpr std::uint32_t somewhere = samples::unknown_count - 1;
  return differs(answer) ? std::min(answer.common_prefix_bytes, somewhere) : samples::unknown_count;
}

bool leaves_at_start(const samples::Sample& answer) { return leaves_at(answer) == 0; }

void add(Leaving& leaving, const samples::Sample& answer) {
  leaving.requests += differs(answer);
  leaving.at_start += leaves_at_start(answer);
  if (answer.output_tokens == samples::unknown_count) return;
  const auto tokens = static_cast<double>(answer.output_tokens);
  if (!differs(answer)) {
    leaving.tokens += tokens;
  } else if (answer.common_prefix_bytes != samples::unknown_count && answer.output_chars != samples::unknown_count) {
    const double share = answer.common_prefix_bytes / std::max(1.0, static_cast<double>(answer.output_chars));
    leaving.tokens += tokens * std::min(share, 1.0);
  }
}

bool told_apart(const statistics::Discordance& pairs) {
  return std::max(pairs.more_in_a(), pairs.more_in_b()) >= needed_of_others;
}

Alike word_of(const Sameness& found, const Faults& faults) {
  const auto fault = [&](Fault one) { return told_apart(faults[static_cast<std::size_t>(one)].pairs); };
  if (found.differs >= needed_of_text || told_apart(found.calls) || found.same_calls.more_in_a() >= needed_of_others ||
      fault(Fault::empty) || fault(Fault::length) || fault(Fault::tools))
    return Alike::differs;
  if (found.alike >= needed_alone || found.excess() < least_excess) return Alike::same;
  return Alike::unknown;
}

}  // namespace

std::optional<double> Leaving::per_thousand_tokens() const {
  return tokens > 0 ? std::optional(1000 * static_cast<double>(requests) / tokens) : std::nullopt;
}

std::optional<double> Sameness::hazard_ratio() const {
  return first_a > 0 ? std::optional(static_cast<double>(first_b) / static_cast<double>(first_a)) : std::nullopt;
}

double Sameness::excess() const { return statistics::share_difference(first_a, first_b, compared).high; }

Sameness sameness_of(std::span<const Pair> pairs, Mode mode, const samples::Names& names, const Faults& faults,
                     const Sameness& earlier) {
  Sameness found = earlier;
  found.control = mode == Mode::control;
  auto& [b_first, b_not_first, b_at_start] = found.evidence;
  for (const Pair& pair : pairs) {
    // Beside a primary, only the shadow's sample tells of text; the primary is itself.
    const samples::Sample &a = *pair.a, &b = *pair.b;
    if (!a.served || !b.served) continue;
    found.calls.add(calls_tools(a, names), calls_tools(b, names));
    if (found.control && a.same_tools >= 0 && b.same_tools >= 0)
      found.same_calls.add(a.same_tools == 1, b.same_tools == 1);
    const bool known_a = found.control ? a.same_text >= 0 : a.role == Role::primary;
    if (!a.greedy || !b.greedy || !known_a || b.same_text < 0) continue;
    ++found.compared;
    add(found.a, a);
    add(found.b, b);
    if (leaves_at_start(a) != leaves_at_start(b)) b_at_start.add(leaves_at_start(b));
    const auto at_a = leaves_at(a), at_b = leaves_at(b);
    if (at_a == at_b) continue;
    const bool first = at_b < at_a;
    ++(first ? found.first_b : found.first_a);
    b_first.add(first);
    b_not_first.add(!first);
  }
  if (found.control) {
    found.differs = b_first.highest();
    found.alike = b_not_first.highest();
    found.from_start = b_at_start.highest();
  }
  found.word = word_of(found, faults);
  return found;
}

}  // namespace weir::metrics::compare::pairs
