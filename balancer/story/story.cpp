#include "balancer/story/story.hpp"

#include <algorithm>

#include "balancer/story/status.hpp"

namespace weir::balancer::story {
namespace {

using metrics::Outcome;
using metrics::Retry;

/// The replica took the request, and then gave no sign.
bool stood_still(const AttemptOver& over) {
  return over.retry_reason == Retry::hung || over.retry_reason == Retry::first_token;
}

bool comes_from_the_queue(Refused::Reason reason) {
  using enum Refused::Reason;
  return reason == queue_full || reason == queue_bytes_full || reason == too_late || reason == expired;
}

}  // namespace

/// A body of more bytes is costly to send again.
constexpr std::uint64_t large = 64 * 1024;
/// So many tokens a request may ask for, and be answered with one.
constexpr std::uint64_t few_tokens = 3;

Story::Story(const Shared& shared, Request request)
    : shared_(shared),
      request_(std::move(request)),
      evidence_(request_.caller,
                metrics::generates(request_.facts->api) && request_.facts->max_tokens.value_or(few_tokens) <= 1,
                request_.facts->max_tokens.value_or(few_tokens + 1) <= few_tokens) {
  request_.caller.number = Split::number_of(*request_.facts, request_.lot);
}

void Story::identify(std::uint64_t body) { identity_ = identity_of(body); }

std::uint64_t Story::identity_of(std::uint64_t body) const {
  std::uint64_t hash = 1;
  for (const std::uint64_t part : {*request_.caller.client, request_.caller.topic, body})
    hash = (hash ^ part) * 0x9e3779b97f4a7c15 + (hash >> 29U);
  return hash | 1U;
}

/// The identity of a request whose body is gone, since its stream has begun.
std::uint64_t Story::stream_identity() const { return identity_of(request_.facts->conversation * 31 + request_.bytes); }

void Story::note_loss(Moment now) {
  ++lost_;
  const Serial serial = replica().key.serial;
  lost_by_two_ = lost_by_two_ || (lost_by_ != 0 && lost_by_ != serial);
  lost_by_ = serial;
  lost_alone_ = shared_.pool.health().is_lost_alone(replica().key, now) && lost_alone_;
}

void Story::note_error() {
  if (std::exchange(erred_, replica().key.serial) != replica().key.serial) ++errors_;
}

Command Story::begin(Moment now) {
  if (identity_ == 0) return Command::ask_pool;
  auto known = shared_.poison.look(identity_, shared_.pool.can_spare_one(), now);
  if (known == PoisonMemory::Known::no) known = shared_.poison.look(stream_identity(), false, now);
  if (known == PoisonMemory::Known::no) return Command::ask_pool;
  lost_by_two_ = true;
  lost_ = most_lost - 1;
  if (known == PoisonMemory::Known::lost_once) return Command::ask_pool;
  if (known == PoisonMemory::Known::on_trial) {
    was_on_trial_ = true;
    return Command::ask_pool;
  }
  lost_ = most_lost;
  return end_unserved(Told::poison, Outcome::bad_request, now);
}

PlacementRequest Story::placement() const {
  PlacementRequest placement{request_.facts, tried_};
  placement.prefix = request_.prefix;
  placement.caller = request_.caller;
  placement.fair_key = request_.fair_key;
  placement.share = request_.share;
  placement.bytes = request_.bytes;
  placement.lot = request_.lot;
  placement.ties = request_.ties;
  placement.ties.seeks = request_.ties.seeks && sought_;  // Until then it waits as any other.
  placement.deadline = deadline_;
  placement.front_of_queue = front_of_queue_;
  return placement;
}

Command Story::leased(Lease&& lease, UsageOption& usage, Moment now) {
  // Copies of the request may have cost two replicas while this one waited, or was at work elsewhere.
  const bool is_known =
      identity_ != 0 && !was_on_trial_ && shared_.poison.look(identity_, false, now) == PoisonMemory::Known::poison;
  const bool ended_two = made_ >= most_lost && replicas_gone(now) >= most_lost;
  if (is_known || ended_two) {
    lost_by_two_ = true;
    lease.end(LeaseEnd(EndCause::unsent), now);
    lost_ = most_lost;
    return end_unserved(Told::poison, Outcome::bad_request, now);
  }
  if (front_of_queue_ && !deadline_) deadline_ = now + shared_.queue_time;
  // Only now the repeat counts: until a replica has room, the client may leave, or the queue's time be over.
  repeats_ = std::exchange(repeats_for_, std::nullopt).has_value();
  prompt_estimate_ = lease.prompt_estimate();
  home_ = lease.home();
  prefix_ = lease.prefix_tokens();
  predicted_ = lease.predicted();
  const ReplicaRef to{lease.subject(), lease.key(), &usage, lease.doubted()};
  begin(to, std::move(lease), now);
  return Command::connect;
}

/// Returns how many replicas are down that were sent the request. Some engines answer, and then end by it.
std::size_t Story::replicas_gone(Moment now) const {
  boost::container::small_vector<Serial, most_attempts_listed> gone;
  for (const Attempt& attempt : attempts_) {
    const ReplicaKey& key = attempt.replica.key;
    const bool is_down = attempt.sent && shared_.pool.health().of(key, now).state == ReplicaState::down;
    if (is_down && std::ranges::find(gone, key.serial) == gone.end()) gone.push_back(key.serial);
  }
  return gone.size();
}

void Story::begin(const ReplicaRef& replica, Lease&& lease, Moment now) {
  // The list keeps its beginning, and the last two.
  if (attempts_.size() == most_attempts_listed) attempts_.erase(attempts_.end() - 2);
  attempts_.push_back({.replica = replica, .started = now});
  lease_ = std::make_unique<Lease>(std::move(lease));
  ++made_;
  lacked_last_ = false;
}

void Story::queued(Moment deadline) {
  deadline_ = deadline;
  give_retry_back();
}

Command Story::refused(const Refused& refused, Moment now) {
  const bool from_the_queue = comes_from_the_queue(refused.reason);
  // The last replica's failure is reported, unless no connection was made and the queue refused.
  const bool failed = reached_a_replica() || (last_ && !from_the_queue);
  if (from_the_queue || !failed) limit_hit_ = refused.reason;
  // Another replica may have the state: a 404 would not be true.
  const bool unsought = from_the_queue && best_ && lacks_state(best_->over.told_status());
  if (failed && !unsought) return end(now);
  refusal_ = refused;
  return end_unserved(Told::refused,
                      refused.reason == Refused::Reason::too_long ? Outcome::bad_request : Outcome::rejected, now);
}

Command Story::client_left(Moment now) {
  const auto command = end_unserved(Told::nothing, Outcome::client_abort, now);
  last_->verdict.phase = metrics::Phase::queue;
  return command;
}

Command Story::cut_in_queue(Moment now) {
  cut();
  return reached_a_replica() ? end(now) : end_unserved(Told::stopping, Outcome::rejected, now);
}

std::optional<Story::Repeat> Story::take_repeat() {
  if (!std::exchange(repeats_, false)) return std::nullopt;
  const auto& before = *(attempts_.end() - 2);
  return Repeat{before.replica, *before.why};
}

const ReplicaRef* Story::told_replica() const {
  if (!tells_replica_) return nullptr;
  return told_ == Told::kept_error ? &best_->replica : &replica();
}

bool Story::may_reuse_connection() const { return request_.may_go_twice && connected_to_ != replica().key.serial; }

Lease Story::take_lease() {
  connected_to_ = replica().key.serial;
  return std::move(*std::exchange(lease_, nullptr));
}

bool Story::answer_accepted(unsigned status, bool added_option, Moment now) {
  request_.prefix.reset();
  give_retry_back();  // An answer that flows must not hold it, or a few long streams would use the budget up.
  if (second_opinion_on_.status != 0) accepted_second_opinion(status, now);
  // An engine that ignores the id would have any id noted, so the answer counts only after another replica's 404.
  if (sought_ && status < 300 && shared_.homes != nullptr) shared_.homes->note(request_.state, home_, now);
  if (status < 500 && !is_failure(status)) evidence_.settle(shared_.pool.health(), Sign::failed, now);
  if (status >= 300) return false;
  if (added_option) replica().usage->note_taken(request_.facts->api);
  return !may_add_option() && replica().usage->refuse();
}

bool Story::spend_retry_on_error(unsigned status, Moment now) {
  if (is_failure(status)) note_error();
  early_retry_ = take_retry_after(status, now);
  return *early_retry_ || best_;
}

void Story::list(const AttemptOver& over, Moment now) {
  auto& attempt = attempts_.back();
  attempt.sent = over.sent;
  attempt.head = over.head;
  attempt.first_token = over.answer.first_token;
  if (over.connect.count() > 0) attempt.connect = over.connect;
  attempt.ended = now;
  attempt.end = over.end;
  attempt.status = over.status;
  if (over.status != 0) replica_status_ = static_cast<std::uint16_t>(over.status);
}

Command Story::attempt_over(AttemptOver over, Moment now) {
  if (over.end == End::unconnected) over.connect = now - attempts_.back().started;
  list(over, now);
  connect_ += over.connect;
  paused_ += over.paused;
  const bool cut = cutting_ || over.replica_cut;
  const bool tells = !cut && !lacks_state(over.told_status());
  const bool out = tells && evidence_.report(shared_.pool.health(), replica().key, over, now);
  if (over.end == End::unconnected) return not_connected(std::move(over), out, now);
  stale_on_ = 0;
  if (!cut && (was_lost(over) || stood_still(over))) {
    note_loss(now);
    const auto life = shared_.pool.health().last_life(replica().key, now);
    too_slow_ |= over.retry_reason == Retry::first_token && life && *life > attempts_.back().started;
  }
  if (!cut && may_be_the_requests_fault(over)) note_error();
  switch (over.end) {
    case End::stale:
      --made_;
      stale_on_ = replica().key.serial;
      return send_again(std::move(over.lease), Retry::stale_connection, now);
    case End::option_refused:
      option_refused_by_ = replica().key.serial;
      return send_again(std::move(over.lease), Retry::injection_refused, now);
    default:
      break;
  }
  if (over.end != End::client_left && over.reply == Reply::error) return error_came(std::move(over), now);
  if (over.end != End::client_left && over.reply == Reply::none) return failed(std::move(over), out, now);
  replica().usage->learn(request_.facts->api, over.verdict.outcome, over.answer);
  if (over.verdict.blame == Blame::nobody && over.end != End::client_left) {
    shared_.poison.forget(identity_);
    shared_.poison.forget(stream_identity());
  }
  last_ = std::make_unique<AttemptOver>(std::move(over));
  tells_replica_ = true;
  return done(Told::relayed, now);
}

/// The request goes to the same replica once more, under the same lease and at nobody's expense.
Command Story::send_again(Lease lease, Retry reason, Moment now) {
  attempts_.back().why = reason;
  repeats_ = true;
  const auto again = replica();
  begin(again, std::move(lease), now);
  return Command::connect;
}

/// Nothing was sent, so another replica may have the request at no cost: such a retry takes nothing from the budget. A
/// connection that took limits.connect to fail does, or a client might wait for one replica after the other.
Command Story::not_connected(AttemptOver over, bool out, Moment now) {
  const bool unsent = over.connect_failure == ConnectFailure::local_shortage;
  over.verdict = verdict_of_connecting(over.connect_failure);
  over.concurrency = over.lease.end(LeaseEnd(cause_of(over.verdict)), now);
  // The replica was there when the request came, and is gone: the idle connection did not merely grow old.
  const bool was_stale = std::exchange(stale_on_, 0) == replica().key.serial;
  if (over.connect_failure == ConnectFailure::refused && was_stale) note_loss(now);
  // If the pool chose a replica that had the request before, none of the others takes it now. An attempt that fails at
  // once must not lead to another one then, or the request would go round and never let go of its loop.
  const bool again = over.connect_failure == ConnectFailure::timed_out
                         ? take_retry(now, out)
                         : replica_is_untried() && another_is_left() && may_go_on();
  const bool waits = !again && !unsent && may_wait();
  last_ = std::make_unique<AttemptOver>(std::move(over));
  if (!again && !waits) return end(now);
  // A want of weir's own is no failure of the replica's, and counts as no repeat.
  return waits ? requeue(now) : ask_another(unsent ? std::nullopt : std::optional(Retry::connect));
}

/// An error answer is kept until there is a better one, and another replica is asked.
Command Story::error_came(AttemptOver over, Moment now) {
  const auto status = over.told_status();
  lacked_last_ = lacks_state(status);
  const auto reason = over.retry_reason;
  const bool keeps = over.kept != nullptr, no_room = has_no_room(status);
  keep_in_short(over);
  // Any other error comes from a replica that may have the state.
  const auto rank = [this](unsigned one) { return lacks_state(one) ? -1 : error_rank(one); };
  if (keeps && (!best_ || rank(status) > rank(best_->over.told_status())))
    best_ = std::make_unique<Kept>(Kept{std::move(over), replica()});
  const auto settled = std::exchange(early_retry_, std::nullopt);
  const bool again = settled ? *settled && !cutting_ : reason && take_retry_after(status, now);
  if (again) return ask_another(lacked_last_ && is_tied() ? std::nullopt : reason);
  // A request that finds no room a second time has no more right than others.
  return keeps && no_room && may_wait() ? requeue(now, !std::exchange(had_no_room_, true)) : end(now);
}

/// Nothing of an answer has reached the client, and nothing more of it will come.
Command Story::failed(AttemptOver over, bool out, Moment now) {
  const auto reason = over.retry_reason;
  // Few requests end so, and only after a long time: a budget that was used up would make an error of them.
  const bool stands = stood_still(over);
  // A replica that drains has not failed.
  const bool is_free = stands || reason == Retry::drain;
  // The first requests that fail when an engine dies arrive before the pool marks the replica down.
  const bool lost = was_lost(over), gone = out || lost;
  const bool for_free = replica_is_untried() && another_is_left() && may_go_on();
  const bool again = reason && (is_free ? for_free : take_retry(now, gone));
  // Where a replica stood still or is to drain, another that had the request before may have room by now.
  const bool waits =
      !again && may_wait() && (lost || (is_free && shared_.pool.another_is_left({}, replica().key.serial)));
  if (again || waits) {
    keep_in_short(over);
    return waits ? requeue(now) : ask_another(reason);
  }
  last_ = std::make_unique<AttemptOver>(std::move(over));
  return end(now);
}

/// Keeps what is told of an attempt that another one follows.
void Story::keep_in_short(const AttemptOver& over) {
  last_ = std::make_unique<AttemptOver>();
  last_->end = over.end;
  last_->reply = over.reply;
  last_->retry_reason = over.retry_reason;
  last_->verdict = over.verdict;
  last_->concurrency = over.concurrency;
}

Command Story::ask_another(std::optional<Retry> reason) {
  if (replica_is_untried()) tried_.push_back(replica().key.serial);
  any_retry_ = true;
  repeats_for_ = attempts_.back().why = reason;
  front_of_queue_ = false;
  return Command::ask_pool;
}

/// The request goes back into the queue, and to its head with `in_front`, while the queue's time lasts.
Command Story::requeue(Moment now, bool in_front) {
  static_cast<void>(ask_another(last_->retry_reason.value_or(Retry::connect)));
  front_of_queue_ = in_front;
  if (!deadline_ || now < *deadline_) return Command::ask_pool;
  limit_hit_ = Refused::Reason::expired;
  attempts_.back().why.reset();
  return end(now);
}

/// Ends a request that a replica had, or was to have. The client gets the best answer that there is, or else an error
/// of weir's own about the last replica.
Command Story::end(Moment now) {
  tells_replica_ = true;
  if (is_unsought()) best_.reset();
  if (best_) {
    if (is_to_blame(best_->replica, best_->over.told_status(), now))
      best_->over.verdict = {Outcome::replica_refused, {}, Blame::replica};
    *last_ = std::move(best_->over);
    return done(Told::kept_error, now);
  }
  if (is_poison()) return done(Told::poison, now);
  if (last_->end == End::unconnected) return done(Told::unconnected, now);
  return done(last_->verdict.outcome == Outcome::rejected && cutting_ ? Told::stopping : Told::failed, now);
}

/// Ends a request that no replica works on.
Command Story::end_unserved(Told told, Outcome outcome, Moment now) {
  tells_replica_ = reached_a_replica();
  last_ = std::make_unique<AttemptOver>();
  last_->verdict.outcome = outcome;
  return done(told, now);
}

Command Story::done(Told told, Moment now) {
  told_ = told;
  give_retry_back();
  // Where all are slow, a request that took too long twice may be served a minute later.
  if (is_poison() && made_ > 0 && lost_by_two_ && identity_ != 0 && !too_slow_)
    shared_.poison.note(identity_, !lost_alone_ && !was_on_trial_, now);
  // Where nothing tells a client's requests apart but their size, many would be taken for one.
  if (told == Told::relayed && lost_ == 1 && lost_by_ != 0 && request_.repeatable && request_.facts->conversation != 0)
    shared_.poison.note(stream_identity(), false, now, true);
  if (was_on_trial_ && !is_poison()) shared_.poison.give_trial_back(identity_);
  evidence_.settle(shared_.pool.health(), Sign::failed_alone, now);
  return Command::done;
}

void Story::complete(metrics::record::RequestRecord& record, Moment now) {
  auto& over = *last_;
  record.prompt_tokens_estimate = prompt_estimate_;
  if (prefix_) {
    record.prefix_predicted = prefix_->predicted;
    record.prefix_best = prefix_->best;
  }
  if (predicted_) {
    record.predicted_ttft = predicted_->ttft;
    record.predicted_e2e = predicted_->e2e;
  }
  record.attempt = made_;
  record.suspect = is_poison();
  record.connect = connect_;
  record.paused = paused_;
  record.wait = waited_;
  if (over.accepted) record.status = over.status;
  if (replica_status_ != 0) record.replica_status = replica_status_;
  record.outcome = over.verdict.outcome;
  record.phase = over.verdict.phase;
  record.sent = over.sent;
  record.head = over.head;
  record.ended = told_ == Told::relayed ? over.ended : now;
  record.overhead_max = over.overhead_max;
  record.in_flight_at_start = over.concurrency.in_flight_at_start;
  record.in_flight_mean = over.concurrency.in_flight_mean;
  record.bytes_out = over.bytes_out;
  record.answer = std::move(over.answer);
  // Some replicas take "stream": 1 or bodies that are no JSON for what they mean: what came tells.
  record.facts.stream |= record.answer.events > 0;
}

/// True if the replica had not had the request before. If it had, the pool has nobody else for it now.
bool Story::replica_is_untried() const { return std::ranges::find(tried_, replica().key.serial) == tried_.end(); }

/// True if there is a replica beside this one that has not had the request. It may have come since the request began.
bool Story::another_is_left() const { return shared_.pool.another_is_left(tried_, replica().key.serial); }

/// True if the request may be sent once more: there is a replica for it, and the budget allows it. `gone`: the last
/// replica broke off with the request, or is out.
bool Story::take_retry(Moment now, bool gone) {
  if (!another_is_left() || !may_go_on()) return false;
  if (gone && !any_retry_) return true;
  if (retries_ >= most_retries) return false;
  if (!held_retry_) held_retry_ = shared_.budget.take(now);
  if (!held_retry_) return false;
  ++retries_;
  return true;
}

void Story::give_retry_back() {
  if (const auto retry = std::exchange(held_retry_, std::nullopt)) shared_.budget.give_back(*retry);
}

/// Takes a retry after an error of this replica. Returns true if another one is to be asked. A client with a misspelt
/// model must not spend the budget with each of its requests.
bool Story::take_retry_after(unsigned status, Moment now) {
  if (lacks_state(status) && is_tied()) return seek(now);
  if (!refuses_the_request(status)) return take_retry(now);
  const bool is_first = second_opinion_on_.status == 0;
  if (is_first)
    second_opinion_on_ = {replica().key, status};
  else if (second_opinion_on_.key.serial == replica().key.serial)
    return false;  // No other replica had room for the request.
  if (!needs_second_opinion(status)) return is_first && take_retry(now);
  Caller caller = request_.caller;
  caller.status = static_cast<std::uint16_t>(status);
  const bool same = is_first || second_opinion_on_.status == status;
  return !(same && shared_.pool.health().refused_everywhere(replica().key, caller, now)) && take_second_opinion(now);
}

/// The same as take_retry(), outside the budget: a replica that refuses does no work, and requests for a model that few
/// replicas have would use the budget up together. A large body is sent again within the budget.
bool Story::take_second_opinion(Moment now) {
  if (request_.bytes > large) return take_retry(now);
  if (!shared_.budget.allows_any() || !another_is_left() || !may_go_on() || retries_ >= most_retries) return false;
  ++retries_;
  return true;
}

/// Returns true if another replica is to be asked for the state that this one does not have. A request that was refused
/// has done nothing, so all replicas may be asked, each once, outside the budget: after weir has begun anew all clients
/// seek at once. A large body is sent again within the budget.
bool Story::seek(Moment now) {
  sought_ = true;
  if (!request_.ties.seeks || cutting_ || !another_is_left()) return false;
  if (request_.bytes > large && !held_retry_) held_retry_ = shared_.budget.take(now);
  return request_.bytes <= large || held_retry_;
}

/// An answer is on its way to the client after another replica had refused the request. If it is a good one, the other
/// replica is to blame.
void Story::accepted_second_opinion(unsigned status, Moment now) {
  const Doubted& doubted = second_opinion_on_;
  if (doubted.key.serial != replica().key.serial && status < 400 && !lacks_state(doubted.status))
    shared_.pool.health().report(doubted.key, Sign::outdone, now, {}, request_.caller);
}

/// True if a 401, 403, 404 or 501 of this replica goes to the client, and another replica has lately answered well.
bool Story::is_to_blame(const ReplicaRef& replica, unsigned status, Moment now) {
  return needs_second_opinion(status) && !lacks_state(status) &&
         shared_.pool.health().was_outdone(replica.key, request_.caller, now);
}

}  // namespace weir::balancer::story
