// Requests by the size of their prompt and by their turn: what holds for all of them may hold for none of these.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/sides/side.hpp"

namespace weir::metrics::compare::comparison {

/// How b differs from a among the requests of one stratum.
struct StratumEffect {
  statistics::Metric metric = statistics::Metric::ttft;
  std::uint64_t count = 0;
  std::optional<double> estimate;  ///< A share of a.
  std::optional<statistics::Interval> interval;
};

struct StratumSide {
  std::uint64_t requests = 0;
  std::optional<double> cached_share;
  statistics::Distribution ttft, tpot;  ///< In seconds.
};

struct Stratum {
  std::string name;
  std::vector<StratumSide> sides;      ///< In the order of the report.
  std::vector<StratumEffect> effects;  ///< The effects on ttft and tpot.
};

/// A way to tell requests apart. One of which it is not known is in no stratum.
enum class StratifyBy : std::uint8_t { prompt_size, turn };

/// `whole` is the comparison of all requests, and each stratum has its blocks, which are at least `min_block_s` long.
/// `held` are the samples of each side that are described. Strata without requests are left out.
std::vector<Stratum> strata_of(StratifyBy what, const Compared& whole, double min_block_s,
                               std::span<const std::vector<const samples::Sample*>> held);

/// True if a metric's intervals lie on different sides of zero in two strata that each hold a tenth of its values.
bool depends_on_the_mix(std::span<const Stratum> strata);

}  // namespace weir::metrics::compare::comparison
