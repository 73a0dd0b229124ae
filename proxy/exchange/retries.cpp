#include "proxy/exchange/retries.hpp"

#include <algorithm>
#include <cerrno>

#include "proxy/exchange/fair_key.hpp"
#include "proxy/exchange/replica_log.hpp"
#include "proxy/exchange/usage_asking.hpp"
#include "proxy/fleet/replica_status.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using Clock = std::chrono::steady_clock;
using metrics::Outcome;
using metrics::series::Retry;

/// Returns what is recorded of an attempt that another one followed.
AttemptResult in_short(const AttemptResult& result) {
  AttemptResult left;
  left.end = result.end;
  left.connect_error = result.connect_error;
  left.retry_reason = result.retry_reason;
  left.verdict = result.verdict;
  left.concurrency = result.concurrency;
  return left;
}

std::unique_ptr<Told> told(AttemptResult result, const Place& place) {
  return std::make_unique<Told>(Told{std::move(result), place.replica});
}

/// The replica had the request and broke off.
bool was_lost(const AttemptResult& result) {
  return result.sent && result.verdict.outcome == Outcome::upstream_reset &&
         (result.end == AttemptEnd::failed || result.end == AttemptEnd::answered);
}

bool has_no_room(const AttemptResult& result) { return result.overloaded || fleet::has_no_room(result.status); }

/// An overload inside a 200 answer says as much as a 503.
int rank_of(const AttemptResult& result) { return fleet::error_rank(result.overloaded ? 503 : result.status); }

balancer::Caller caller_of(const Loop& loop, const ClientRequest& request, const fleet::PoolRuntime* pool) {
  if (pool == nullptr) return {};
  return {fair_key(loop.shared.fair_by_key, pool->settings.queue.fair_by, request.head, request.address,
                   request.key_name()),
          request.facts.gives_work};
}

}  // namespace

Retries::Retries(Loop& loop, const ClientRequest& request, const fleet::PoolRuntime* pool)
    : loop_(loop), request_(request), pool_(pool), signs_(caller_of(loop, request, pool)) {}

Retries::Next Retries::after(AttemptResult result, const Place& place) {
  const auto now = Clock::now();
  const bool cut = cutting() || place.replica->state->cut.load(std::memory_order_relaxed);
  const bool out = !cut && signs_.report(*pool_->balancer, place.key, result, now);
  if (result.end == AttemptEnd::unconnected) {
    place.replica->state->connect_failed.store(true, std::memory_order_relaxed);
    return not_connected(std::move(result), place, out);
  }
  stale_on_ = 0;
  if (!cutting()) note_attempt(*place.replica, result, now);
  note_local_recovery(loop_.shared.local_shortages, now);
  if (!cut && was_lost(result)) lost(place);
  switch (result.end) {
    case AttemptEnd::stale:
      lease_ = std::move(result.lease);
      stale_on_ = place.key.serial;
      count(place, Retry::stale_connection);
      return Next::attempt;
    case AttemptEnd::injection_refused:
      lease_ = std::move(result.lease);
      refused_injection_ = place.replica->state->id;
      count(place, Retry::injection_refused);
      return Next::attempt;
    case AttemptEnd::refused:
      return refused(std::move(result), place);
    case AttemptEnd::failed:
      return failed(std::move(result), place, out);
    default:
      learn_counts(*place.replica->state, request_.facts.api, result);
      last_ = told(std::move(result), place);
      return Next::end;
  }
}

/// Nothing was sent, so another replica may have the request at no cost: such a retry takes nothing from the budget. A
/// connection that took limits.connect to fail does, or a client might wait for one replica after the other.
Retries::Next Retries::not_connected(AttemptResult result, const Place& place, bool out) {
  const auto now = Clock::now();
  const int error = result.connect_error;
  const bool unsent = net::is_local_shortage(error);
  result.verdict = verdict_of_connecting(error);
  const balancer::End end_of_lease(cause_of(result.verdict));
  result.concurrency = result.lease.end(end_of_lease, now);
  if (unsent) {
    const auto limit =
        error == EMFILE || error == ENFILE ? metrics::series::Limit::descriptors : metrics::series::Limit::sockets;
    loop_.shard.limit_hits[static_cast<std::size_t>(limit)].add();
    note_local_shortage(loop_.shared.local_shortages, error, now);
  } else if (!cutting()) {
    note_unconnected(*place.replica, error, now);
  }
  // It was there when the request came, and is gone: the idle connection did not merely grow old.
  if (error == ECONNREFUSED && std::exchange(stale_on_, 0) == place.key.serial) lost(place);
  // The pool chose a replica that had the request already, so none of the others takes it now. An attempt that fails at
  // once must not lead to another one then, or the request would go round and never let go of its loop.
  const bool again =
      error == ETIMEDOUT ? take_retry(place, out) : is_new(place) && another_is_left(place) && may_go_on();
  const bool waits = !again && !unsent && may_wait();
  last_ = told(std::move(result), place);
  if (!again && !waits) return end(std::move(last_));
  // What weir itself lacks is no failure of the replica's.
  return waits ? wait(place) : ask_another(place, unsent ? std::nullopt : std::optional(Retry::connect));
}

/// Handles a replica's error answer: it is kept until there is a better one, and another replica is asked.
Retries::Next Retries::refused(AttemptResult result, const Place& place) {
  const auto status = result.status;
  const auto reason = *result.retry_reason;
  last_ = told(in_short(result), place);
  const bool keeps = result.kept != nullptr, no_room = has_no_room(result);
  if (keeps && (!best_ || rank_of(result) > rank_of(best_->result))) best_ = told(std::move(result), place);
  const auto settled = std::exchange(asks_another_, std::nullopt);
  if (settled ? *settled : asks_another(place, status)) return ask_another(place, reason);
  return keeps && no_room && may_wait() ? wait(place) : end(std::move(last_));
}

/// Handles a failure: nothing of an answer has reached the client, and nothing more of it will come.
Retries::Next Retries::failed(AttemptResult result, const Place& place, bool out) {
  const auto reason = result.retry_reason;
  // These took long, and few requests have them: a budget that was used up would only make an error of them.
  const bool stood_still = reason == Retry::hung || reason == Retry::first_token;
  // A replica that drains has not failed.
  const bool is_free = stood_still || reason == Retry::drain;
  // Of the requests that an engine's death takes with it, the first come before the pool can know that it is out.
  const bool gone = out || was_lost(result);
  const bool again =
      reason && (is_free ? is_new(place) && another_is_left(place) && may_go_on() : take_retry(place, gone));
  // Where a replica stood still or is to drain, another that had the request before may have room by now.
  const bool waits =
      !again && may_wait() && (was_lost(result) || (is_free && pool_->balancer->another_is_left({}, place.key.serial)));
  if (!again && !waits) return end(told(std::move(result), place));
  last_ = told(in_short(result), place);
  return waits ? wait(place) : ask_another(place, reason);
}

/// The client gets the best answer that there is, or else an error of weir's own.
Retries::Next Retries::end(std::unique_ptr<Told> told) {
  last_ = std::move(told);
  if (!best_) return Next::end;
  const bool another_answered = last_->replica->state->id != best_->replica->state->id;
  if (is_to_blame(*best_->replica, best_->result.status, another_answered))
    best_->result.verdict = {Outcome::replica_refused, {}, Blame::replica};
  last_ = std::move(best_);
  return Next::end;
}

/// Every repeat counts as the replica's that had a part in it.
void Retries::count(const Place& place, Retry reason) {
  place.replica->series->shard(loop_.index).retries[static_cast<std::size_t>(reason)].add();
}

Retries::Next Retries::ask_another(const Place& place, std::optional<Retry> reason) {
  if (is_new(place)) tried_.push_back(place.key.serial);
  any_retry_ = true;
  repeats_for_ = reason;
  return Next::attempt;
}

/// The request goes to the head of the queue.
Retries::Next Retries::wait(const Place& place) {
  static_cast<void>(ask_another(place, last_->result.retry_reason.value_or(Retry::connect)));
  return Next::wait;
}

void Retries::sent_again(const Place& left) {
  if (const auto reason = std::exchange(repeats_for_, std::nullopt)) count(left, *reason);
}

/// A replica that breaks off may have been ended by the request.
void Retries::lost(const Place& place) {
  if (++lost_ == most_lost)
    note_suspect(loop_.shared.suspect_line, request_.id, place.replica->settings.name, Clock::now());
}

bool Retries::is_new(const Place& place) const { return std::ranges::find(tried_, place.key.serial) == tried_.end(); }

/// True if there is a replica beside this one that has not had the request. It may have come since the request began.
bool Retries::another_is_left(const Place& place) const {
  return pool_->balancer->another_is_left(tried_, place.key.serial);
}

/// True if nothing forbids another attempt, whoever is to make it.
bool Retries::may_go_on() const { return repeatable() && !cutting() && !suspect(); }

/// True if the request may go back to the queue until a replica has room for it, or is back.
bool Retries::may_wait() const { return may_go_on() && pool_->settings.queue.requests > 0; }

/// True if the request may be sent once more: there is a replica for it, and the budget allows it. `gone`: the last
/// replica broke off with the request, or is out.
bool Retries::take_retry(const Place& place, bool gone) {
  if (!another_is_left(place) || !may_go_on()) return false;
  if (gone && !any_retry_) return true;
  auto& fleet = loop_.shared.fleet;
  if (retries_ >= most_retries) return false;
  if (!holds_retry_ && !fleet.retries().take(fleet.in_flight())) return false;
  holds_retry_ = true;
  ++retries_;
  return true;
}

void Retries::give_retry_back() {
  if (std::exchange(holds_retry_, false)) loop_.shared.fleet.retries().give_back();
}

bool Retries::leaves_error(const Place& place, unsigned status) {
  asks_another_ = asks_another(place, status);
  return *asks_another_ || best_;
}

void Retries::accepted(const Place& place, unsigned status) {
  give_retry_back();
  if (second_opinion_on_) accepted_second_opinion(*place.replica, status);
  if (status < 500 && pool_ != nullptr) signs_.settle(*pool_->balancer, balancer::Sign::failed, Clock::now());
  if (status < 300 && refused_injection(*place.replica)) disable_injection(*place.replica);
}

void Retries::over() {
  if (pool_ != nullptr) signs_.settle(*pool_->balancer, balancer::Sign::failed_alone, Clock::now());
}

/// True if another replica is to be asked after an error of this one. The retry is taken in this call.
bool Retries::asks_another(const Place& place, unsigned status) {
  if (!fleet::refuses_the_request(status)) return take_retry(place);
  const auto now = Clock::now();
  const fleet::SecondOpinions::Case one{place.replica->state->id, status, request_.facts.model};
  if (!second_opinion_on_) {
    second_opinion_on_ = Doubted{one.replica, place.key, status};
    const bool known = fleet::needs_second_opinion(status) &&
                       pool_->opinions->of(one, now) == fleet::SecondOpinions::Opinion::same;
    return !known && take_retry(place);
  }
  if (second_opinion_on_->replica == one.replica) return false;  // Nobody else had room for the request.
  if (!fleet::needs_second_opinion(status)) return false;        // Two refuse it.
  if (second_opinion_on_->status != status) return take_retry(place);
  pool_->opinions->note(one, fleet::SecondOpinions::Opinion::same, now);
  return false;
}

/// Handles an answer that is on its way to the client after another replica had refused the request. If it is better
/// than that, the other replica is to blame.
void Retries::accepted_second_opinion(const fleet::Replica& replica, unsigned status) {
  if (second_opinion_on_->replica == replica.state->id || fleet::is_full(status)) return;
  if (status >= 500 && !fleet::refuses_the_request(status)) return;
  const auto now = Clock::now();
  if (status < 400) pool_->balancer->report(second_opinion_on_->key, balancer::Sign::outdone, now);
  if (!fleet::needs_second_opinion(second_opinion_on_->status)) return;
  const fleet::SecondOpinions::Case one{second_opinion_on_->replica, second_opinion_on_->status, request_.facts.model};
  const auto opinion = fleet::needs_second_opinion(status) ? fleet::SecondOpinions::Opinion::same
                                                           : fleet::SecondOpinions::Opinion::better;
  pool_->opinions->note(one, opinion, now);
}

/// Handles a 401, 403, 404 or 501 of this replica that goes to the client. Returns true if another replica has lately
/// answered better.
bool Retries::is_to_blame(const fleet::Replica& replica, unsigned status, bool another_answered) {
  if (!fleet::needs_second_opinion(status)) return false;
  const auto now = Clock::now();
  const fleet::SecondOpinions::Case one{replica.state->id, status, request_.facts.model};
  if (pool_->opinions->of(one, now) == fleet::SecondOpinions::Opinion::better) return true;
  if (another_answered) pool_->opinions->note(one, fleet::SecondOpinions::Opinion::same, now);
  return false;
}

}  // namespace weir::proxy::exchange
