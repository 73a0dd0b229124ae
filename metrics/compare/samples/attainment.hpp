// Judges samples by the thresholds of an objective, as record/slo.hpp does records.
#pragma once

#include <cstdint>
#include <optional>

#include "config/settings.hpp"
#include "metrics/compare/samples/sample.hpp"

namespace weir::metrics::compare::samples {

/// From where waiting is counted. A shadow has no client, and what a request waited in weir before it was sent belongs
/// to neither configuration. So pairs are judged from the dispatch (tS): `ttft_client` then limits ttft, and `e2e` the
/// time from the dispatch. Requests that all had clients are judged from their arrival (t0), as the metrics are.
enum class Since : std::uint8_t { arrival, dispatch };

enum class Attainment : std::uint8_t {
  met,
  missed,      ///< A threshold was missed, or the replica or weir failed the request, or a shadow was dropped.
  no_figure,   ///< Served, but no threshold applies: TTFT and TPOT need a stream with tokens.
  left_early,  ///< The client left before a threshold had passed.
  refused,     ///< The request itself was wrong (bad_request, client_error).
};

/// If the client left, it counts what had been waited by then. Only met and missed count in a side's attainment.
Attainment judge(const config::Slo& slo, const Sample& sample, Since since);

/// The objective by which a report's tables judge requests, if there is one.
struct Objective {
  std::optional<config::Slo> slo;
  Since since = Since::arrival;

  /// Returns nothing for a request that does not count in the attainment.
  std::optional<bool> met(const Sample& sample) const {
    if (!slo) return std::nullopt;
    const auto attainment = judge(*slo, sample, since);
    if (attainment != Attainment::met && attainment != Attainment::missed) return std::nullopt;
    return attainment == Attainment::met;
  }
};

/// Whether the two answers of one pair met the objective.
struct PairAttainment {
  bool a = false, b = false;
};

/// Returns nothing if the pair tells nothing: no threshold applies to either, both were refused, or a client left
/// early. What one side refused and the other served is that side's miss. Where no threshold applies to one side alone,
/// a short answer has met the objective, and an empty one has not.
std::optional<PairAttainment> judge_pair(const config::Slo& slo, const Sample& a, const Sample& b);

}  // namespace weir::metrics::compare::samples
