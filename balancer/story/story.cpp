#include "balancer/story/story.hpp"

#include <algorithm>

#include "balancer/story/attempt.hpp"

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
/// A request that sets no limit asks for more tokens than one.
constexpr std::uint64_t many_tokens = 2;

Story::Story(const Shared& shared, Request request)
    : shared_(shared),
      request_(std::move(request)),
      evidence_(request_.caller,
                metrics::generates(request_.facts->api) && request_.facts->max_tokens.value_or(many_tokens) <= 1) {
  request_.caller.number = Split::number_of(*request_.facts, request_.lot);
}

std::uint64_t Story::identity_of(std::uint64_t body) const {
  std::uint64_t hash = 1;
  for (const std::uint64_t part : {*request_.caller.client, request_.caller.topic, body})
    hash = (hash ^ part) * 0x9e3779b97f4a7c15 + (hash >> 29U);
  return hash | 1U;
}

/// The identity of a request whose body is gone, since its stream has begun.
std::uint64_t Story::stream_identity() const { return identity_of(request_.facts->conversation * 31 + request_.bytes); }

void Story::note_loss(Moment now) {
  ++toll_.lost;
  const Serial serial = replica().key.serial;
  toll_.by_two = toll_.by_two || (toll_.lost_by != 0 && toll_.lost_by != serial);
  toll_.lost_by = serial;
  toll_.alone = shared_.pool.health().is_lost_alone(replica().key, now) && toll_.alone;
}

void Story::note_error() {
  if (std::exchange(toll_.erred, replica().key.serial) != replica().key.serial) ++toll_.errors;
}

void Story::look_at_cutting() {
  cutting_ = cutting_ || (shared_.cutting != nullptr && shared_.cutting->load(std::memory_order_relaxed));
}

Command Story::resume(Event event, Moment now) {
  look_at_cutting();
  if (const auto began = std::exchange(wait_.began, std::nullopt)) spent_.waited += now - *began;
  return std::visit([&](auto& one) { return on(std::move(one), now); }, event);
}

Command Story::on(Begun, Moment now) {
  if (identity_ == 0) return Command::ask_pool;
  auto known = shared_.poison.look(identity_, shared_.pool.can_spare_one(), now);
  if (known == PoisonMemory::Known::no) known = shared_.poison.look(stream_identity(), false, now);
  if (known == PoisonMemory::Known::no) return Command::ask_pool;
  toll_.by_two = true;
  toll_.on_trial = known == PoisonMemory::Known::on_trial;
  toll_.lost = known == PoisonMemory::Known::poison ? most_lost : most_lost - 1;
  return is_poison() ? end_unserved(Told::poison, Outcome::bad_request, now) : Command::ask_pool;
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
  placement.deadline = wait_.deadline;
  placement.front_of_queue = wait_.in_front;
  return placement;
}

Command Story::on(Leased event, Moment now) {
  Lease& lease = event.lease;
  // Copies of the request may have cost two replicas while this one waited, or was at work elsewhere.
  const bool is_known =
      identity_ != 0 && !toll_.on_trial && shared_.poison.look(identity_, false, now) == PoisonMemory::Known::poison;
  const bool ended_two = made_ >= most_lost && replicas_gone(now) >= most_lost;
  if (is_known || ended_two) {
    toll_.by_two = true;
    lease.end(LeaseEnd(EndCause::unsent), now);
    toll_.lost = most_lost;
    return end_unserved(Told::poison, Outcome::bad_request, now);
  }
  if (wait_.in_front && !wait_.deadline) wait_.deadline = now + shared_.queue_time;
  expected_.prompt = lease.prompt_estimate();
  home_ = lease.home();
  expected_.prefix = lease.prefix_tokens();
  expected_.times = lease.predicted();
  const ReplicaRef to{lease.subject(), lease.key(), event.usage, lease.doubted()};
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

Command Story::on(Waiting event, Moment now) {
  wait_.deadline = event.deadline;
  wait_.began = now;
  give_retry_back();
  return Command::wait;
}

/// No replica takes the request, or none in time.
Command Story::on(Refused refused, Moment now) {
  const bool from_the_queue = comes_from_the_queue(refused.reason);
  // The last replica's failure is reported, unless no connection was made and the queue refused.
  const bool failed = reached_a_replica() || (last_ && !from_the_queue);
  if (from_the_queue || !failed) finish_.limit_hit = refused.reason;
  // Another replica may have the state: a 404 would not be true.
  const bool unsought = from_the_queue && best_ && lacks_state(best_->over.told_status());
  if (failed && !unsought) return end(now);
  finish_.refusal = refused;
  return end_unserved(Told::refused,
                      refused.reason == Refused::Reason::too_long ? Outcome::bad_request : Outcome::rejected, now);
}

Command Story::on(ClientLeft, Moment now) {
  const auto command = end_unserved(Told::nothing, Outcome::client_abort, now);
  last_->verdict.phase = metrics::Phase::queue;
  return command;
}

Command Story::on(CutInQueue, Moment now) {
  cutting_ = true;
  return reached_a_replica() ? end(now) : end_unserved(Told::stopping, Outcome::rejected, now);
}

Story::Plan Story::plan() const {
  const Attempt* const before = attempts_.size() > 1 ? &*(attempts_.end() - 2) : nullptr;
  const Serial serial = replica().key.serial;
  return {.may_reuse_connection = request_.may_go_twice && connected_.to != serial,
          .may_add_option = connected_.option_refused_by != serial,
          .handed_out = {request_.hands_out ? shared_.homes : nullptr, home_},
          .repeats = before != nullptr && before->why ? before : nullptr};
}

const ReplicaRef* Story::told_replica() const {
  if (!finish_.of_replica) return nullptr;
  return finish_.told == Told::kept_error ? &best_->replica : &replica();
}

Lease Story::take_lease() {
  connected_.to = replica().key.serial;
  return std::move(*std::exchange(lease_, nullptr));
}

bool Story::answer_accepted(unsigned status, bool added_option, Moment now) {
  request_.prefix.reset();
  give_retry_back();  // An answer that flows must not hold it, or a few long streams would use the budget up.
  if (second_opinion_on_.status != 0) accepted_second_opinion(status, now);
  // An engine that ignores the id would have any id noted, so the answer counts only after another replica's 404.
  if (sought_ && status < 300 && shared_.homes != nullptr) shared_.homes->note(request_.state, home_, now);
  if (status < 500 && !is_failure(status)) evidence_.settle(shared_.pool.health(), now);
  if (status >= 300) return false;
  if (added_option) replica().usage->note_taken(request_.facts->api);
  return connected_.option_refused_by == replica().key.serial && replica().usage->refuse();
}

bool Story::spend_retry_on_error(unsigned status, Moment now) {
  look_at_cutting();
  if (is_failure(status)) note_error();
  retries_.early = takes(price_after_error(status, now), now);
  return *retries_.early || best_;
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

Command Story::on(AttemptOver over, Moment now) {
  const bool unconnected = over.end == End::unconnected;
  if (unconnected) over.connect = now - attempts_.back().started;
  list(over, now);
  spent_.connect += over.connect;
  spent_.paused += over.paused;
  const bool cut = cutting_ || over.replica_cut;
  const bool tells = !cut && !lacks_state(over.told_status());
  const bool out = tells && evidence_.report(shared_.pool.health(), replica().key, over, now);
  if (unconnected) {
    over.verdict = verdict_of_connecting(over.connect_failure);
    over.concurrency = over.lease.end(LeaseEnd(cause_of(over.verdict)), now);
  }
  note_harm(over, cut, now);
  switch (over.end) {
    case End::stale:
      --made_;
      connected_.stale_on = replica().key.serial;
      return send_again(std::move(over.lease), Retry::stale_connection, now);
    case End::option_refused:
      connected_.option_refused_by = replica().key.serial;
      return send_again(std::move(over.lease), Retry::injection_refused, now);
    case End::client_left:
      return relayed(std::move(over), now);
    default:
      return over.reply == Reply::relayed ? relayed(std::move(over), now) : go_on(std::move(over), out, now);
  }
}

/// Notes what the attempt cost its replica, if anything. `cut`: weir or the replica's drain ended it.
void Story::note_harm(const AttemptOver& over, bool cut, Moment now) {
  const bool was_stale = std::exchange(connected_.stale_on, 0) == replica().key.serial;
  if (over.end == End::unconnected) {
    // The replica was there when the request came, and is gone: the idle connection did not merely grow old.
    if (over.connect_failure == ConnectFailure::refused && was_stale) note_loss(now);
    return;
  }
  if (cut) return;
  if (was_lost(over) || stood_still(over)) {
    note_loss(now);
    const auto life = shared_.pool.health().last_life(replica().key, now);
    toll_.too_slow |= over.retry_reason == Retry::first_token && life && *life > attempts_.back().started;
  }
  if (may_be_the_requests_fault(over)) note_error();
}

/// The client has the answer, or as much of it as there was.
Command Story::relayed(AttemptOver over, Moment now) {
  replica().usage->learn(request_.facts->api, over.verdict.outcome, over.answer);
  if (over.verdict.blame == Blame::nobody && over.end != End::client_left) {
    shared_.poison.forget(identity_);
    shared_.poison.forget(stream_identity());
  }
  last_ = std::make_unique<AttemptOver>(std::move(over));
  finish_.of_replica = true;
  return done(Told::relayed, now);
}

/// The request goes to the same replica once more, under the same lease and at nobody's expense.
Command Story::send_again(Lease lease, Retry reason, Moment now) {
  attempts_.back().why = reason;
  const auto again = replica();
  begin(again, std::move(lease), now);
  return Command::connect;
}

/// The table at the top of the header. `out`: the attempt has put its replica out.
Story::Terms Story::terms_of(const AttemptOver& over, bool out, Moment now) {
  const Price if_out_free = out ? Price::first_free : Price::budget;
  if (over.end == End::unconnected) {
    // A client might wait for one replica after the other.
    if (over.connect_failure == ConnectFailure::timed_out) return {if_out_free, Waits::yes};
    return {Price::free, over.connect_failure == ConnectFailure::local_shortage ? Waits::no : Waits::yes};
  }
  if (over.reply == Reply::error) {
    const auto waits = over.kept != nullptr && has_no_room(over.told_status()) ? Waits::yes : Waits::no;
    if (const auto settled = std::exchange(retries_.early, std::nullopt))
      return {*settled ? Price::taken : Price::none, waits};
    return {over.retry_reason ? price_after_error(over.told_status(), now) : Price::none, waits};
  }
  // Few requests end so, and only after a long time: a budget that was used up would make an error of them. Another
  // replica that had the request before may have room by now.
  if (stood_still(over) || over.retry_reason == Retry::drain) return {Price::free, Waits::for_another};
  // The first requests that fail when an engine dies arrive before the pool marks the replica down.
  if (was_lost(over)) return {Price::first_free, Waits::yes};
  return {over.retry_reason ? if_out_free : Price::none, Waits::no};
}

/// Returns the price of another attempt after an error of this replica. A client with a misspelt model must not spend
/// the budget with each of its requests.
Story::Price Story::price_after_error(unsigned status, Moment now) {
  if (lacks_state(status) && is_tied()) {
    sought_ = true;
    return Price::each_once;
  }
  if (!refuses_the_request(status)) return Price::budget;
  const bool is_first = second_opinion_on_.status == 0;
  if (is_first)
    second_opinion_on_ = {replica().key, status};
  else if (second_opinion_on_.key.serial == replica().key.serial)
    return Price::none;  // No other replica had room for the request.
  if (!needs_second_opinion(status)) return is_first ? Price::budget : Price::none;
  Caller caller = request_.caller;
  caller.status = static_cast<std::uint16_t>(status);
  const bool same = is_first || second_opinion_on_.status == status;
  const bool is_agreed = same && shared_.pool.health().refused_everywhere(replica().key, caller, now);
  return is_agreed ? Price::none : Price::second_opinion;
}

/// Pays the price. Returns true if another replica is to be asked.
bool Story::takes(Price price, Moment now) {
  if (price == Price::none) return false;
  if (price == Price::taken) return !cutting_;
  if (!another_is_left()) return false;
  // A request that was refused has done nothing, so all may be asked: after weir has begun anew all clients seek.
  if (price == Price::each_once)
    return request_.ties.seeks && !cutting_ && (request_.bytes <= large || holds_retry(now));
  if (!may_go_on()) return false;
  // If the pool chose a replica that had the request before, none of the others takes it now. An attempt that fails at
  // once must not lead to another one then, or the request would go round and never let go of its loop.
  if (price == Price::free) return replica_is_untried();
  if (price == Price::first_free && tried_.empty()) return true;
  if (retries_.spent >= most_retries) return false;
  const bool is_small_opinion = price == Price::second_opinion && request_.bytes <= large;
  if (is_small_opinion ? !shared_.budget.allows_any() : !holds_retry(now)) return false;
  ++retries_.spent;
  return true;
}

/// True if the request holds a retry of the budget. It holds one at most.
bool Story::holds_retry(Moment now) {
  if (!retries_.held) retries_.held = shared_.budget.take(now);
  return retries_.held.has_value();
}

/// Nothing of an answer has reached the client, or an error that is kept: another attempt, a wait for one, or the end.
Command Story::go_on(AttemptOver over, bool out, Moment now) {
  const bool is_error = over.end != End::unconnected && over.reply == Reply::error;
  if (is_error) lacked_last_ = lacks_state(over.told_status());
  const Terms terms = terms_of(over, out, now);
  const bool again = takes(terms.price, now);
  const bool waits = !again && terms.waits != Waits::no && may_go_on() && shared_.queues &&
                     (terms.waits == Waits::yes || shared_.pool.another_is_left({}, replica().key.serial));
  // A want of weir's own is no failure of the replica's, and counts as no repeat; nor does a search.
  const bool counts = over.connect_failure != ConnectFailure::local_shortage && !(again && lacked_last_ && is_tied());
  const auto why = counts ? std::optional(over.retry_reason.value_or(Retry::connect)) : std::nullopt;
  // A request that finds no room a second time has no more right than others.
  const bool in_front = waits && !(is_error && std::exchange(wait_.had_no_room, true));
  keep(std::move(over), again || waits);
  if (!again && !waits) return end(now);
  if (replica_is_untried()) tried_.push_back(replica().key.serial);
  wait_.in_front = in_front;
  if (waits && wait_.deadline && now >= *wait_.deadline) {
    finish_.limit_hit = Refused::Reason::expired;
    return end(now);
  }
  attempts_.back().why = why;
  return Command::ask_pool;
}

/// Keeps the attempt: whole if the request ends, else in short. An error is kept until there is a better one.
void Story::keep(AttemptOver over, bool goes_on) {
  const bool is_error = over.reply == Reply::error;
  if (!goes_on && !is_error) {
    last_ = std::make_unique<AttemptOver>(std::move(over));
    return;
  }
  last_ = std::make_unique<AttemptOver>();
  last_->end = over.end;
  last_->reply = over.reply;
  last_->connect_failure = over.connect_failure;
  last_->connect_error = over.connect_error;
  last_->retry_reason = over.retry_reason;
  last_->verdict = over.verdict;
  last_->concurrency = over.concurrency;
  // Any other error comes from a replica that may have the state.
  const auto rank = [this](unsigned one) { return lacks_state(one) ? -1 : error_rank(one); };
  if (is_error && over.kept && (!best_ || rank(over.told_status()) > rank(best_->over.told_status())))
    best_ = std::make_unique<Kept>(Kept{std::move(over), replica()});
}

/// Ends a request that a replica had, or was to have. The client gets the best answer that there is, or else an error
/// of weir's own about the last replica.
Command Story::end(Moment now) {
  finish_.of_replica = true;
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
  finish_.of_replica = reached_a_replica();
  last_ = std::make_unique<AttemptOver>();
  last_->verdict.outcome = outcome;
  return done(told, now);
}

Command Story::done(Told told, Moment now) {
  finish_.told = told;
  give_retry_back();
  // Where all are slow, a request that took too long twice may be served a minute later.
  if (is_poison() && made_ > 0 && toll_.by_two && identity_ != 0 && !toll_.too_slow)
    shared_.poison.note(identity_, !toll_.alone && !toll_.on_trial, now);
  // Where nothing tells a client's requests apart but their size, many would be taken for one.
  const bool broke_off = told == Told::relayed && toll_.lost == 1 && toll_.lost_by != 0;
  if (broke_off && request_.repeatable && request_.facts->conversation != 0)
    shared_.poison.note(stream_identity(), false, now, true);
  if (toll_.on_trial && !is_poison()) shared_.poison.give_trial_back(identity_);
  evidence_.settle(shared_.pool.health(), now);
  return Command::done;
}

void Story::complete(metrics::record::RequestRecord& record, Moment now) {
  auto& over = *last_;
  record.prompt_tokens_estimate = expected_.prompt;
  if (expected_.prefix) {
    record.prefix_predicted = expected_.prefix->predicted;
    record.prefix_best = expected_.prefix->best;
  }
  if (expected_.times) {
    record.predicted_ttft = expected_.times->ttft;
    record.predicted_e2e = expected_.times->e2e;
  }
  record.attempt = made_;
  record.suspect = is_poison();
  record.connect = spent_.connect;
  record.paused = spent_.paused;
  record.wait = spent_.waited;
  if (over.accepted) record.status = over.status;
  if (replica_status_ != 0) record.replica_status = replica_status_;
  record.outcome = over.verdict.outcome;
  record.phase = over.verdict.phase;
  record.sent = over.sent;
  record.head = over.head;
  record.ended = finish_.told == Told::relayed ? over.ended : now;
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

void Story::give_retry_back() {
  if (const auto retry = std::exchange(retries_.held, std::nullopt)) shared_.budget.give_back(*retry);
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
