// Retry budget, poison memory and usage option, which all requests share.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "metrics/moment.hpp"
#include "metrics/record/answer.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/request/edits.hpp"

namespace weir::balancer::story {

/// Limits how many retries may run at a time: a share of the requests in flight, and at least three. Any thread may use
/// it.
class RetryBudget {
 public:
  /// A retry counts until it is given back, and for so long at most: an answer that is not streamed shows nothing until
  /// its end, and a few long ones would use the budget up.
  static constexpr std::chrono::seconds counted_for{2};
  /// A retry, until it is given back.
  using Taken = metrics::Moment;

  /// `share` is limits.retry_budget; 0 allows no retry. `in_flight` counts the requests in flight, on any thread.
  RetryBudget(double share, std::function<std::size_t()> in_flight) : share_(share), in_flight_(std::move(in_flight)) {}

  void set_share(double share) { share_.store(share, std::memory_order_relaxed); }
  bool allows_any() const { return share_.load(std::memory_order_relaxed) > 0; }
  std::optional<Taken> take(metrics::Moment now) {
    if (!allows_any()) return std::nullopt;
    const auto share = share_.load(std::memory_order_relaxed);
    const auto allowed = static_cast<std::size_t>(share * static_cast<double>(in_flight_()));
    const std::lock_guard lock(mutex_);
    std::erase_if(begun_, [now](metrics::Moment begun) { return now - begun >= counted_for; });
    if (begun_.size() >= std::max<std::size_t>(3, allowed)) return std::nullopt;
    begun_.push_back(now);
    return now;
  }
  void give_back(Taken retry) {
    const std::lock_guard lock(mutex_);
    if (const auto found = std::ranges::find(begun_, retry); found != begun_.end()) begun_.erase(found);
  }

 private:
  std::atomic<double> share_;
  const std::function<std::size_t()> in_flight_;
  std::mutex mutex_;
  std::vector<metrics::Moment> begun_;
};

/// Remembers for a minute the requests that have cost two replicas: libraries send a request that failed with 502
/// again. Any thread may use it. While nothing is remembered, a look costs one atomic read.
///
/// Others are lost with the request that ends a replica, and may be lost twice. So a request that was not alone may
/// come once more, while the pool can spare a replica: if it costs a third replica, or was alone each time, it is
/// refused for a minute. A stream that broke off with its replica has cost one, and is sent again by its client alone.
class PoisonMemory {
 public:
  static constexpr std::chrono::minutes lasting{1};
  static constexpr std::size_t most = 1024;

  enum class Known : unsigned char {
    no,
    lost_once,  ///< Its stream broke off with a replica.
    on_trial,   ///< It may come this once.
    poison,
  };

  /// While it is, no request needs an identity.
  bool is_empty() const { return size_.load(std::memory_order_relaxed) == 0; }
  /// `request` is a hash of its client, topic and body; where a stream broke off, when its body is gone, of its client,
  /// topic, conversation and size. `may_try`: the pool can spare a replica.
  Known look(std::uint64_t request, bool may_try, metrics::Moment now) {
    if (is_empty()) return Known::no;
    const std::lock_guard lock(mutex_);
    drop_old(now);
    const auto found = noted_.find(request);
    if (found == noted_.end()) return Known::no;
    if (found->second.lost_once) return Known::lost_once;
    return may_try && std::exchange(found->second.trial, false) ? Known::on_trial : Known::poison;
  }
  /// `trial`: it may come once more. When the memory is full, the oldest goes.
  void note(std::uint64_t request, bool trial, metrics::Moment now, bool lost_once = false) {
    const std::lock_guard lock(mutex_);
    drop_old(now);
    if (noted_.size() >= most)
      noted_.erase(std::ranges::min_element(noted_, {}, [](const auto& one) { return one.second.until; }));
    noted_.insert_or_assign(request, Noted{now + lasting, trial, lost_once});
    earliest_ = std::min(earliest_, now + lasting);
    size_.store(noted_.size(), std::memory_order_relaxed);
  }
  /// The trial has shown nothing.
  void give_trial_back(std::uint64_t request) {
    const std::lock_guard lock(mutex_);
    if (const auto found = noted_.find(request); found != noted_.end()) found->second.trial = true;
  }
  /// A replica answered such a request: it was not the request.
  void forget(std::uint64_t request) {
    if (is_empty()) return;
    const std::lock_guard lock(mutex_);
    noted_.erase(request);
    size_.store(noted_.size(), std::memory_order_relaxed);
  }

 private:
  struct Noted {
    metrics::Moment until;
    bool trial = false, lost_once = false;
  };
  void drop_old(metrics::Moment now) {
    if (now < earliest_) return;
    std::erase_if(noted_, [now](const auto& one) { return now >= one.second.until; });
    earliest_ = metrics::Moment::max();
    for (const auto& [request, noted] : noted_) earliest_ = std::min(earliest_, noted.until);
    size_.store(noted_.size(), std::memory_order_relaxed);
  }

  std::mutex mutex_;
  std::map<std::uint64_t, Noted> noted_;
  metrics::Moment earliest_ = metrics::Moment::max();  ///< None is older.
  std::atomic<std::size_t> size_{0};
};

// Tracks how one replica reports its token counts: whether the replica tells them unasked, takes the usage option that
// weir adds to requests, or refuses it.

/// Shared by all requests to the replica; any thread may use it. Each function costs a relaxed load or two.
class UsageOption {
 public:
  /// The settings of the replica: whether weir asks for usage at all, and on every chunk.
  struct Settings {
    bool ask = true, on_every_chunk = false;
  };

  /// Returns what the replica is asked to tell. One that tells its counts unasked keeps its `timings`, which go with
  /// the usage event where usage is asked for.
  metrics::wire::Ask ask(const Settings& settings, metrics::Api api) const;

  /// True if the replica has taken the option in a request of this API before: a later refusal has another cause.
  bool was_taken(metrics::Api api) const;
  void note_taken(metrics::Api api);

  /// Says that the replica took the original of a request that it had refused: the option was the cause. Returns true
  /// if nobody had said so before.
  bool refuse() { return !refused_.exchange(true); }
  bool is_refused() const { return refused_.load(std::memory_order_relaxed); }

  /// Notes whether the replica tells its counts unasked. Where another engine runs now, one answer without counts is
  /// enough to ask again.
  void learn(metrics::Api api, metrics::Outcome outcome, const metrics::record::Answer& answer);

  /// Forgets refusals and acceptances, so that the replica is asked again.
  void ask_again();

 private:
  bool tells_counts(metrics::Api api) const;

  std::atomic<bool> refused_{false};
  // A bit for each API.
  std::atomic<std::uint32_t> taken_{0}, tells_counts_{0};
};

}  // namespace weir::balancer::story
