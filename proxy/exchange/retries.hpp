// Decides what follows from each attempt of one request: whether the request goes out again, to whom, and at whose
// expense; and which answer its client gets in the end. An Exchange owns it and uses it on the loop's thread.
//
// Nothing is tried again once a byte has reached the client. A retry comes from the budget that all requests share,
// with these exceptions: nothing was sent, because the connection failed; the replica gave no token at all; or it is
// the first retry, and the replica broke off with the request or is out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "proxy/exchange/answer_handler.hpp"
#include "proxy/exchange/client_request.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/exchange/replica_signs.hpp"

namespace weir::proxy::exchange {

/// The replica of an attempt.
struct Place {
  std::shared_ptr<const fleet::Replica> replica;
  balancer::ReplicaKey key;  ///< It names the replica in its pool's books.
  bool doubted = false;      ///< See balancer::Lease::doubted.
};

/// The attempt whose answer, or whose failure, the client is told.
struct Told {
  AttemptResult result;
  std::shared_ptr<const fleet::Replica> replica;
};

class Retries {
 public:
  enum class Next : std::uint8_t {
    attempt,  ///< Another attempt follows: under the lease that lease() gives back, or else under a new one.
    wait,     ///< The request goes back to the head of its pool's queue.
    end,
  };

  /// `pool` is the request's; null if it has none, and then there is no attempt.
  Retries(Loop& loop, const ClientRequest& request, const fleet::PoolRuntime* pool);
  ~Retries() { give_retry_back(); }
  Retries(const Retries&) = delete;
  Retries& operator=(const Retries&) = delete;

  /// Takes what an attempt at `place` left.
  Next after(AttemptResult result, const Place& place);
  /// Says that a replica takes the request that had left `left`. Only now the repeat counts: until a replica has room,
  /// the client may leave, or the queue's time be over. Does nothing for a request's first replica.
  void sent_again(const Place& left);
  /// Settles an error that is too large or too slow to keep. Returns true if it is left: another replica is asked, or a
  /// better error is kept.
  bool leaves_error(const Place& place, unsigned status);
  /// Notes that an answer is on its way to the client.
  void accepted(const Place& place, unsigned status);
  /// Ends a request that no replica takes any more: what the last replica did is the cause of its failure.
  void give_up() { static_cast<void>(end(std::move(last_))); }
  /// Gives the retry that the request holds back to the budget. It is not to be held by an answer that flows, or a few
  /// long streams would use the budget up; nor by a request that waits, which nobody works on.
  void give_retry_back();
  /// Says that the request is over: what it saw counts against its replicas now.
  void over();

  /// Returns whose the request is, as its pool's queue takes it; nothing without a pool.
  balancer::Client client() const { return signs_.caller().client; }
  bool any_attempt() const { return last_ != nullptr; }
  /// True if a replica had the request.
  bool reached_a_replica() const { return best_ || (last_ && last_->result.end != AttemptEnd::unconnected); }
  /// True if errors are kept: another answer may be better, or the request may wait for one.
  bool keeps_errors() const { return repeatable(); }
  /// The request goes to this replica without the usage option that weir adds.
  bool refused_injection(const fleet::Replica& replica) const { return refused_injection_ == replica.state->id; }
  /// True if two replicas were lost while they worked on this request.
  bool suspect() const { return lost_ >= most_lost; }

  std::span<const balancer::Serial> tried() const { return tried_; }
  balancer::Lease lease() { return std::move(lease_); }
  /// Returns what the client is told, once the request has ended.
  Told take_told() { return std::move(*last_); }

 private:
  Next not_connected(AttemptResult result, const Place& place, bool out);
  Next refused(AttemptResult result, const Place& place);
  Next failed(AttemptResult result, const Place& place, bool out);
  Next end(std::unique_ptr<Told> told);
  void count(const Place& place, metrics::series::Retry reason);
  Next ask_another(const Place& place, std::optional<metrics::series::Retry> reason);
  Next wait(const Place& place);

  bool cutting() const { return loop_.shared.cutting.load(std::memory_order_relaxed); }
  /// A request that is no inference is sent once.
  bool repeatable() const { return request_.route == http::Route::inference; }
  /// True if the replica had not had the request before. If it had, the pool has nobody else for it now.
  bool is_new(const Place& place) const;
  bool another_is_left(const Place& place) const;
  bool may_go_on() const;
  bool may_wait() const;
  bool take_retry(const Place& place, bool gone = false);
  bool asks_another(const Place& place, unsigned status);
  void accepted_second_opinion(const fleet::Replica& replica, unsigned status);
  bool is_to_blame(const fleet::Replica& replica, unsigned status, bool another_answered);
  void lost(const Place& place);

  /// The budget allows so many retries of one request.
  static constexpr std::uint32_t most_retries = 2;
  /// A request that lost so many replicas is not tried again: it may be what ends them.
  static constexpr std::uint8_t most_lost = 2;

  Loop& loop_;
  const ClientRequest& request_;
  const fleet::PoolRuntime* const pool_;
  std::vector<balancer::Serial> tried_;
  Signs signs_;
  balancer::Lease lease_;
  // These are kept apart, because every request in flight holds these members, and few have a result to keep.
  std::unique_ptr<Told> last_;  ///< The last attempt, in short; once the request has ended, what the client is told.
  std::unique_ptr<Told> best_;  ///< Of the replicas' errors so far, this one tells the client most.
  /// The first replica whose refusal another one is asked about.
  struct Doubted {
    std::uint64_t replica = 0;  ///< A ReplicaState::id.
    balancer::ReplicaKey key;
    unsigned status = 0;
  };
  std::optional<Doubted> second_opinion_on_;
  std::uint64_t refused_injection_ = 0;  ///< It is the id of the replica that gets the original request.
  std::uint64_t stale_on_ = 0;           ///< It is the serial of the replica whose idle connection died last.
  std::uint32_t retries_ = 0;            ///< Counts those from the budget.
  std::uint8_t lost_ = 0;                ///< Counts the replicas that were lost at work on the request.
  /// It says whether another replica is to be asked, if that was settled before the attempt ended.
  std::optional<bool> asks_another_;
  std::optional<metrics::series::Retry> repeats_for_;  ///< It is what the repeat will count for.
  bool holds_retry_ = false, any_retry_ = false;
};

}  // namespace weir::proxy::exchange
