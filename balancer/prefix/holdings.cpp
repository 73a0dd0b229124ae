#include "balancer/prefix/holdings.hpp"

#include <algorithm>
#include <limits>

namespace weir::balancer {

void PrefixHoldings::set_capacity(Tokens capacity) {
  capacity_ = std::max(capacity, least_capacity);
  evict();
}

PrefixHoldings::Bucket& PrefixHoldings::bucket_of(Epoch used) {
  if (used >= buckets_.back().first) return buckets_.back();
  const auto after = std::ranges::upper_bound(buckets_, used, {}, &Bucket::first);
  return *(after - 1);
}

PrefixHoldings::Epoch PrefixHoldings::use(Epoch used, Tokens segment) {
  // Mostly a beginning that many prompts have was used in this very epoch.
  const bool lately = used == now_ && !buckets_.empty() && used >= horizon_;
  if (lately && segment <= buckets_.back().tokens && buckets_.back().tokens < segment + capacity_ / buckets_of_capacity)
    return now_;
  release(used, segment);
  if (buckets_.empty() || buckets_.back().tokens >= capacity_ / buckets_of_capacity) open_bucket();
  Bucket& newest = buckets_.back();
  const Tokens added = capped(newest.tokens + segment) - newest.tokens;
  newest.tokens += static_cast<std::uint32_t>(added);
  held_ += added;
  const Epoch now = now_;
  evict();
  return now;
}

void PrefixHoldings::release(Epoch used, Tokens segment) {
  if (!remembers(used) || buckets_.empty()) return;
  Bucket& bucket = bucket_of(used);
  const auto gone = std::min(bucket.tokens, capped(segment));
  bucket.tokens -= gone;
  (holds(used) ? held_ : ghost_tokens_) -= gone;
}

Tokens PrefixHoldings::depth(Epoch used) const {
  Tokens tokens = 0;
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
    tokens += bucket->tokens;
    if (bucket->first <= used) break;
  }
  return tokens;
}

void PrefixHoldings::wipe() {
  now_ = exhausted() ? 1 : now_ + 1;
  first_ = horizon_ = ghosts_ = now_;
  held_ = ghost_tokens_ = 0;
  buckets_.clear();
}

void PrefixHoldings::open_bucket() {
  if (buckets_.size() >= most_buckets) merge();
  if (!buckets_.empty() && now_ < last_epoch) ++now_;
  if (buckets_.empty() || buckets_.back().first != now_) buckets_.push_back({now_, 0});
}

/// Makes one of the two neighbours that hold least together. A ghost and what is held stay apart.
void PrefixHoldings::merge() {
  std::size_t best = 1;
  Tokens least = std::numeric_limits<Tokens>::max();
  for (std::size_t i = 1; i < buckets_.size(); ++i) {
    const Tokens sum = Tokens{buckets_[i - 1].tokens} + buckets_[i].tokens;
    if (sum >= least || holds(buckets_[i - 1].first) != holds(buckets_[i].first)) continue;
    best = i;
    least = sum;
  }
  buckets_[best - 1].tokens = capped(least);
  buckets_.erase(buckets_.begin() + static_cast<std::ptrdiff_t>(best));
}

void PrefixHoldings::evict() {
  while (held_ > capacity_) {
    const auto oldest = std::ranges::lower_bound(buckets_, horizon_, {}, &Bucket::first);
    held_ -= oldest->tokens;
    ghost_tokens_ += oldest->tokens;
    if (const auto next = oldest + 1; next != buckets_.end()) {
      horizon_ = next->first;
      continue;
    }
    // Later uses have another epoch than those that have just gone.
    if (now_ < last_epoch) ++now_;
    horizon_ = now_;
    if (buckets_.size() > most_buckets) merge();
    buckets_.push_back({now_, 0});
  }
  while (ghost_tokens_ > capacity_ / 4) {
    ghost_tokens_ -= buckets_.front().tokens;
    buckets_.erase(buckets_.begin());
    ghosts_ = buckets_.empty() ? horizon_ : std::min(horizon_, buckets_.front().first);
  }
}

}  // namespace weir::balancer
