// Evidence about events that one of two sides has alone: which side has them more often, and by how little. Evidence
// may be looked at after every event, and nobody has to say beforehand when to look.
//
// Somebody bets against a hypothesis about the mean of a bounded value, a fixed part of his wealth each time. Under the
// hypothesis no bet gains on average, so the wealth exceeds x at any time with probability 1/x at most (Ville's
// inequality). The evidence is the mean wealth of sixteen such people with different parts. Waudby-Smith and Ramdas,
// "Estimating means of bounded random variables by betting", Journal of the Royal Statistical Society B 86 (2024).
//
// The value of a unit is (b has it) - (a has it). A unit is a pair of answers to one request; or a conversation that
// was drawn for one of the sides, which then stands for as many as were not drawn for it.
#pragma once

#include <optional>

#include "metrics/compare/statistics/window.hpp"

namespace weir::metrics::compare::statistics {

/// The counts need not be whole: events that share a cause count in part (table/table.hpp).
struct Events {
  double a = 0, b = 0;  ///< Units in which that side alone has it.
  double units = 0;
  /// Where each unit is of one side: the most that b's and a's shares of the units may be if they are equal. Both are
  /// between 0 and 1, and 1 together or more.
  std::optional<double> share{}, share_of_a{};

  /// Returns the same with the sides exchanged.
  Events exchanged() const { return {b, a, units, share_of_a, share}; }
};

/// Returns events of units of which b's have so great a share, and a's all others.
Events drawn_events(double a, double b, double units, double share);

/// Returns ln of the evidence that b has the event more often than a.
double log_evidence_of_more(const Events& events);

/// Returns ln of the evidence that b has it in less than `ratio` times a's units and `points` (a share) of all units.
double log_evidence_below(const Events& events, double ratio, double points);

/// Returns the differences of the rates against which there is no evidence of 40: at all moments together it holds the
/// true one with 95 %. Without units it is -1 to 1.
Interval difference_of(const Events& events);

}  // namespace weir::metrics::compare::statistics
