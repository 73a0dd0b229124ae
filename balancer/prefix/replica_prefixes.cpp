#include "balancer/prefix/replica_prefixes.hpp"

#include <algorithm>
#include <limits>

namespace weir::balancer {

void ReplicaPrefixes::told(Tokens capacity) {
  if (capacity == 0 || capacity == told_) return;
  const Tokens before = std::max(told_, PrefixHoldings::least_capacity);
  const double learned = told_ > 0 ? static_cast<double>(holdings_.capacity()) / static_cast<double>(before) : 1;
  told_ = capacity;
  holdings_.set_capacity(static_cast<Tokens>(learned * static_cast<double>(capacity)));
}

void ReplicaPrefixes::wiped(PrefixWipe why, std::uint32_t now) {
  wiped_at_ = found_since_ = now;
  misses_ = too_deep_ = unproven_ = unproven_before_ = 0;
  if (why == PrefixWipe::missed)
    found_since_miss_wipe_ = false;
  else
    lost_at_ = now;
  // Another engine may have taken the replica's place.
  hits_by_api_ = zeros_by_api_ = 0;
  reports_ = 0;
  ++sums_.wipes[static_cast<std::size_t>(why)];
}

std::optional<PrefixWipe> ReplicaPrefixes::told(const EngineSigns& signs, std::uint32_t now) {
  const bool anew = started_anew(signs), nothing = found_nothing(signs, now);
  if (signs.another) signs_ = {};
  const auto keep = [](auto& known, const auto& told) {
    if (told) known = told;
  };
  keep(signs_.started, signs.started);
  for (const auto& [name, count] : signs.worked) signs_.worked[name] = count;
  keep(signs_.looked_up, signs.looked_up);
  keep(signs_.found, signs.found);
  if (signs.another || anew) return PrefixWipe::restarted;
  if (signs.asleep) return PrefixWipe::asleep;
  return nothing ? std::optional(PrefixWipe::missed) : std::nullopt;
}

/// Many engines do not say when their process began. Their counters begin at 0 then.
bool ReplicaPrefixes::started_anew(const EngineSigns& signs) {
  if (signs.started && signs_.started) return *signs.started != *signs_.started;
  // Sums of fractions differ by their order.
  return std::ranges::any_of(signs.worked, [&](const auto& one) {
    const auto before = signs_.worked.find(one.first);
    return before != signs_.worked.end() && one.second < before->second * (1 - 1e-9);
  });
}

/// Engines that report nothing with their answers count what they find all the same. If that counter has stood still
/// while large predictions were sent and answered, nothing of them came true. A page may be older than an answer that
/// came just before it, so answers count with the page after.
bool ReplicaPrefixes::found_nothing(const EngineSigns& signs, std::uint32_t now) {
  if (!signs.found || !signs_.found || *signs.found != *signs_.found) {
    if (signs.found && signs_.found && *signs.found > *signs_.found) found_since_miss_wipe_ = true;
    found_since_ = now;
    unproven_ = unproven_before_ = 0;
    looked_up_then_ = signs.looked_up;
    return false;
  }
  const bool looks = signs.looked_up && looked_up_then_ && *signs.looked_up > *looked_up_then_;
  const bool nothing = reports_ == 0 && looks && unproven_before_ >= misses_of_empty && found_since_miss_wipe_;
  unproven_before_ = unproven_;
  return nothing;
}

void ReplicaPrefixes::unreported(const PrefixPrediction& prediction) {
  if (prediction.found.held >= large && !prediction.in_doubt() && is_since(prediction, found_since_)) ++unproven_;
}

std::optional<Tokens> ReplicaPrefixes::told_cached(metrics::Api api, std::optional<Tokens> cached) {
  const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(api);
  if (cached) (*cached > 0 ? hits_by_api_ : zeros_by_api_) |= bit;
  return cached || (hits_by_api_ & ~zeros_by_api_ & bit) == 0 ? cached : Tokens{0};
}

bool ReplicaPrefixes::judge(const PrefixPrediction& prediction, Tokens prompt, Tokens cached, Moment now) {
  constexpr Tokens tells = 256;
  ++reports_;
  const Tokens held = prediction.found.held;
  sums_.reported += cached;
  sums_.judged += prompt;
  const Tokens predicted = prediction.cached;
  (cached < predicted ? sums_.over : sums_.under) += std::max(cached, predicted) - std::min(cached, predicted);
  if (is_past(prediction)) return false;
  if (cached > 0) found_since_miss_wipe_ = true;

  if (prediction.in_doubt()) {
    if (cached > 0) misses_ = 0;
    return false;
  }
  if (held >= large && cached == 0) {
    if (misses_++ == 0) {
      missing_.end_row();
      came_true_before_ = came_true_;
      foretold_before_ = foretold_;
    }
    missing_.showed(Sign::failed, {.client = prediction.client}, now);
  } else if (held >= large || cached > 0) {
    misses_ = 0;
    missing_.end_row();
    if (cached >= tells) missing_.showed(Sign::answered, {.client = prediction.client}, now);
  }
  const Caller caller{.client = prediction.client};
  const bool of_all = missing_.has_failed_several(caller, now) || !missing_.serves_others(caller, now);
  // Otherwise the cache is not empty but switched off, and believed less and less.
  if (misses_ >= misses_of_empty && of_all && found_since_miss_wipe_ && believed() > 0.2) {
    came_true_ = came_true_before_;
    foretold_ = foretold_before_;
    return true;
  }
  if (held >= tells) {
    came_true_ = fades * came_true_ + static_cast<double>(std::min(cached, held));
    foretold_ = fades * foretold_ + static_cast<double>(held);
  }
  learn_capacity(prediction, cached);
  return false;
}

/// A miss says that the cache is smaller than what was used since. Two in a row count, and a miss of what was used just
/// now has another reason. A hit on a prompt that was believed evicted means that the cache is larger than assumed.
void ReplicaPrefixes::learn_capacity(const PrefixPrediction& prediction, Tokens cached) {
  const PrefixFound& found = prediction.found;
  const Tokens off_by = std::max(Tokens{found.held / 20}, Tokens{128});
  const Tokens capacity = holdings_.capacity();
  const double expected = believed() * static_cast<double>(found.held);
  if (found.held >= 512 && static_cast<double>(cached + off_by) < expected && found.depth > capacity / 4) {
    if (++too_deep_ < 2) return;
    too_deep_ = 0;
    holdings_.set_capacity(std::min(capacity, std::max(Tokens{found.depth}, capacity - capacity / 10)));
  } else if (found.remembered >= found.held + 256 && cached >= found.held + (found.remembered - found.held) / 2) {
    holdings_.set_capacity(capacity + capacity / 20);
  } else if (found.held >= 512 && found.depth > capacity / 4) {
    too_deep_ = 0;
  }
}

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
