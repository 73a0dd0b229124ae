#include "balancer/rollout/evidence.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace weir::balancer::rollout {
namespace {

/// The logarithm of n! / (k! (n - k)!).
double log_choose(double n, double k) { return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1); }

/// The logarithm of the probability that `n` trials succeed at most `most` times.
double log_at_most(std::uint64_t most, double n, double p) {
  std::vector<double> terms;
  for (std::uint64_t i = 0; i <= most; ++i) {
    const auto successes = static_cast<double>(i);
    terms.push_back(log_choose(n, successes) + successes * std::log(p) + (n - successes) * std::log1p(-p));
  }
  const double greatest = *std::ranges::max_element(terms);
  double sum = 0;
  for (const double term : terms) sum += std::exp(term - greatest);
  return greatest + std::log(sum);
}

}  // namespace

Counts& Counts::operator+=(const Counts& more) {
  candidate += more.candidate;
  candidate_bad += more.candidate_bad;
  stable += more.stable;
  stable_bad += more.stable_bad;
  return *this;
}

/// The integral of q^k (1-q)^c over (p, 1) is that over (0, 1), k! c! / (k+c+1)!, times the probability that k+c+1
/// trials with p succeed at most k times.
double evidence(const Counts& counts, double intended) {
  const auto requests = static_cast<double>(counts.candidate + counts.stable);
  const double p = (static_cast<double>(counts.candidate) + requests_of_intended_share * intended) /
                   (requests + requests_of_intended_share);
  if (p <= 0 || p >= 1) return 1;
  const auto k = static_cast<double>(counts.candidate_bad), c = static_cast<double>(counts.stable_bad);
  const double log_integral =
      -log_choose(k + c, k) - std::log(k + c + 1) + log_at_most(counts.candidate_bad, k + c + 1, p);
  return std::exp(log_integral - std::log1p(-p) - k * std::log(p) - c * std::log1p(-p));
}

}  // namespace weir::balancer::rollout
