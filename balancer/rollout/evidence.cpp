#include "balancer/rollout/evidence.hpp"

#include <algorithm>
#include <cmath>

namespace weir::balancer::rollout {
namespace {

/// The logarithm of n! / (k! (n - k)!).
double log_choose(double n, double k) { return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1); }

/// The logarithm of the probability that `n` trials succeed at most `most` times. The terms are added from the greatest
/// on, each by its ratio to its neighbour, until they add nothing.
double log_at_most(double most, double n, double p) {
  constexpr double nothing = 1e-17;
  const double greatest = std::min(most, std::floor((n + 1) * p)), odds = p / (1 - p);
  double sum = 1;
  double term = 1;
  for (double i = greatest; i > 0 && term > nothing * sum; --i) sum += term *= i / ((n - i + 1) * odds);
  term = 1;
  for (double i = greatest; i < most && term > nothing * sum; ++i) sum += term *= (n - i) * odds / (i + 1);
  return log_choose(n, greatest) + greatest * std::log(p) + (n - greatest) * std::log1p(-p) + std::log(sum);
}

/// Returns the evidence of k events of the candidate beside c others, where each is the candidate's with probability p.
/// The integral of q^k (1-q)^c over (p, 1) is that over (0, 1), k! c! / (k+c+1)!, times the probability that k+c+1
/// trials with p succeed at most k times.
double evidence_of(double k, double c, double p) {
  if (p <= 0 || p >= 1) return 1;
  const double log_integral = -log_choose(k + c, k) - std::log(k + c + 1) + log_at_most(k, k + c + 1, p);
  return std::exp(log_integral - std::log1p(-p) - k * std::log(p) - c * std::log1p(-p));
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
