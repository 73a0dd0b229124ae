#include "balancer/affinity.hpp"

#include <algorithm>

namespace weir::balancer {

void Homes::note(std::uint64_t id, const Home& home, metrics::Moment now) {
  const std::lock_guard lock(mutex_);
  if (const auto found = by_id_.find(id); found != by_id_.end()) {
    found->second->home = home;
    return use(found->second, now);
  }
  if (order_.size() >= most) drop_last();
  // Two go for one that comes, until no old one is left.
  for (int i = 0; i < 2 && !order_.empty() && now - order_.back().used >= lasting; ++i) drop_last();
  order_.push_front({id, home, now});
  by_id_.emplace(id, order_.begin());
}

std::optional<Home> Homes::find(std::uint64_t id, metrics::Moment now) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || now - found->second->used >= lasting) return std::nullopt;
  use(found->second, now);
  return found->second->home;
}

std::size_t Homes::size() const {
  const std::lock_guard lock(mutex_);
  return order_.size();
}

/// Calls may bring their times out of order.
void Homes::use(Order::iterator noted, metrics::Moment now) {
  noted->used = std::max(noted->used, now);
  order_.splice(order_.begin(), order_, noted);
}

void Homes::drop_last() {
  by_id_.erase(order_.back().id);
  order_.pop_back();
}

}  // namespace weir::balancer
