#include "balancer/rollout/evidence.hpp"

#include <algorithm>
#include <cmath>

#include "metrics/compare/statistics/betting.hpp"

namespace weir::balancer::rollout {
namespace {

/// Returns the evidence of k events of the candidate beside c others, where each is the candidate's with probability p.
double evidence_of(double k, double c, double p) {
  if (p <= 0 || p >= 1) return 1;
  return std::exp(
      metrics::compare::statistics::log_evidence_of_more(metrics::compare::statistics::drawn_events(c, k, k + c, p)));
}

}  // namespace

Counts& Counts::operator+=(const Counts& more) {
  candidate += more.candidate;
  candidate_bad += more.candidate_bad;
  stable += more.stable;
  stable_bad += more.stable_bad;
  candidate = std::max(candidate, candidate_bad);
  stable = std::max(stable, stable_bad);
  return *this;
}

Drawn& Drawn::operator+=(const Drawn& more) {
  candidate += more.candidate;
  stable += more.stable;
  return *this;
}

double evidence(const Counts& counts, double intended) {
  const auto requests = static_cast<double>(counts.candidate + counts.stable);
  const double p = (static_cast<double>(counts.candidate) + requests_of_intended_share * intended) /
                   (requests + requests_of_intended_share);
  return evidence_of(static_cast<double>(counts.candidate_bad), static_cast<double>(counts.stable_bad), p);
}

double evidence(const Drawn& drawn, double share) {
  return evidence_of(static_cast<double>(drawn.candidate), static_cast<double>(drawn.stable), share);
}

}  // namespace weir::balancer::rollout
