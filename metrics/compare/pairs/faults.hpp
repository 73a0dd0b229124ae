// Answers that are no good, whatever their times: which side has more of them. Each pair is judged by itself, so this
// needs neither blocks nor a warm shadow, and counts from the first pair on.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/statistics/evidence.hpp"
#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::pairs {

enum class Fault : std::uint8_t {
  failed,  ///< An error, a broken connection, a time-out, or a refusal where the other side answered.
  empty,   ///< A whole answer without a token.
  length,  ///< A whole answer that ends at its limit of tokens.
  tools,   ///< No valid call, of the pairs in which an answer calls a tool.
};
inline constexpr std::size_t fault_count = 4;
inline constexpr std::array<std::string_view, fault_count> fault_names{"failed", "empty", "length", "tools"};
constexpr std::string_view name_of(Fault fault) { return fault_names[static_cast<std::size_t>(fault)]; }

/// By Fault: so much may b's share be above a's, and is not worse.
using FaultMargins = std::array<double, fault_count>;
inline constexpr FaultMargins fault_margins{0.002, 0.002, 0.01, 0.02};

/// The pairs that tell a kind of fault.
struct FaultPairs {
  Fault fault = Fault::failed;
  statistics::Discordance pairs;  ///< Those that tell this fault; none in a split.
  double margin = 0;
  statistics::Finding finding = statistics::Finding::inconclusive;

  /// Returns `worse` or `better` once the evidence of four kinds together suffices: e of 80, so that one such word in a
  /// direction is false in 5 % of comparisons at most, however often they are looked at. Nine faults on one side and
  /// none on the other are enough. Else `not_worse` if the difference's interval ends below the margin, or
  /// `inconclusive`. Of several comparisons that are judged together each needs as many times the evidence.
  statistics::Finding judge(unsigned comparisons = 1) const;
};
using Faults = std::array<FaultPairs, fault_count>;

/// The pairs are in order of time, and follow those of which `earlier` was made.
Faults faults_of(std::span<const Pair> pairs, const samples::Names& names, const FaultMargins& margins,
                 const Faults& earlier = {});

}  // namespace weir::metrics::compare::pairs
