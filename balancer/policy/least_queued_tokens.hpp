// Chooses the replica where a request costs its client and the others the least time.
//
//   score = (first token + eviction + waste + 0.01 * (own answer + what others wait longer)) * highest weight / weight
//
// The first token waits for the request's model, too, where the replica has put that away; and the eviction is what
// others lose whose model goes for it (models.hpp).
//
// All parts are seconds (forecast()), by what the replica has taught of its times (replica_time.hpp). A second before
// the first token counts as much as a hundred seconds of the tokens after it. The first token is what people wait for;
// and a prompt keeps waiting whoever comes next to that replica, while a sequence more hardly slows a batch. With equal
// weights the sum of all times is 1 % lower, and many a p99 of the time to first token higher (docs/benchmarks.md).
//
// A replica that has come, or come back, within a minute is taken to be as busy as its peers: else it would get all
// requests at once, though its caches are cold and nobody knows how it does.
//
// Scores within 2 % and 5 ms of the lowest are equal: replicas of one kind differ by chance, and nobody feels a few
// milliseconds, which would leave a replica idle. Ties go to the fewest in flight, then to the fewest tokens to compute
// that nobody will reuse, then at random.
//
// The weight of 0.01 is no setting, because a second is the same on every engine. The load of others, as engines' pages
// tell it, is no part of the score: the figures are seconds old, and a prompt waits for a tenth of a second. Counted as
// prompts, that load makes the p99 of the time to first token worse (tests/bench/results/two_weirs.txt).
#pragma once

#include <tuple>
#include <vector>

#include "balancer/policy/policies.hpp"

namespace weir::balancer::policy {

/// The course of a request at a replica, as it is expected. Times are in seconds.
struct Forecast {
  double first_token = 0;    ///< From the choice.
  double output_token = 0;   ///< From each token of its answer to the next.
  double decode = 0;         ///< From the first token to the last.
  double others = 0;         ///< What the answers under way there will take longer, together.
  double prompt_tokens = 0;  ///< So many are to be computed there until the first token.
  bool for_slot = false;     ///< The request waits for a place in the engine's batch.
};
Forecast forecast(const Job& job, const ReplicaView& replica);

class LeastQueuedTokens final : public Policy {
 public:
  /// Returns the score of a replica, in seconds of one with `weight`.
  static double score(const Job& job, const ReplicaView& replica, double weight);

  std::size_t choose(const Job& job, std::span<const ReplicaView> replicas, Random& random) override;

 private:
  std::vector<double> scores_;       ///< Both are kept for their memory.
  std::vector<std::uint32_t> busy_;  ///< Requests in flight, and failures of the last second.
};

}  // namespace weir::balancer::policy
