#include "balancer/speeds.hpp"

#include <algorithm>
#include <optional>

namespace weir::balancer {

void Speeds::update() {
  rates_.clear();
  rates_.reserve(pool_.replicas.places());
  for (PoolReplica& replica : pool_.replicas.all()) {
    const std::optional<double> prefill = replica.rates.prefill();
    replica.ledger.set_drain_rates({prefill.value_or(0), replica.rates.decode().value_or(0)});
    if (prefill && !replica.removed) rates_.push_back(*prefill);
  }
  const double median = median_of(rates_);
  for (PoolReplica& replica : pool_.replicas.all()) {
    replica.speed = relative_speed(replica.rates.prefill(), median);
    // The peers of a new replica were slow because they had its work, too: no reason to give it more than them.
    if (replica.health.is_new(pool_.latest)) replica.speed = std::min(replica.speed, 1.0);
  }
}

void Speeds::forget_untested() {
  constexpr double seconds = 60;
  bool any = false;
  for (PoolReplica& replica : pool_.replicas.all()) {
    if (replica.speed >= 1 || replica.ledger.prefill_left() > 0) continue;
    if (metrics::seconds(pool_.latest - replica.rates.tested_since()) < seconds) continue;
    replica.rates.forget_prefill(replica.ledger.pending_seconds());
    any = true;
  }
  if (any) update();
}

}  // namespace weir::balancer
