#include "balancer/story/attempt.hpp"

namespace weir::balancer::story {

bool was_lost(const AttemptOver& over) {
  return over.sent && over.verdict.outcome == metrics::Outcome::upstream_reset && over.end != End::client_left &&
         over.end != End::stale && over.end != End::option_refused && over.end != End::unconnected &&
         over.reply != Reply::error;
}

}  // namespace weir::balancer::story
