#include "proxy/exchange/exchange.hpp"

#include <cerrno>
#include <utility>

#include "proxy/exchange/failure_answers.hpp"
#include "proxy/exchange/replica_log.hpp"
#include "proxy/exchange/replica_signs.hpp"
#include "proxy/exchange/request_records.hpp"
#include "proxy/exchange/usage_asking.hpp"
#include "proxy/fleet/replica_status.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::Outcome;

/// The budget allows so many retries of one request. Those after a connection that was refused come on top.
constexpr std::uint32_t most_retries = 2;

}  // namespace

Exchange::Exchange(Loop& loop, net::Channel& client, std::string& unread, ClientRequest& request)
    : loop_(loop), client_(client, unread), request_(request), body_size_(request.body.size()), world_(request.world) {
  loop_.streams.fetch_add(1, std::memory_order_relaxed);
}

Exchange::~Exchange() {
  give_retry_back();
  loop_.streams.fetch_sub(1, std::memory_order_relaxed);
}

net::Awaitable<ExchangeEnd> Exchange::run() {
  pool_ = world_->pool_for(request_.facts.model);
  if (pool_ == nullptr) {
    end_.own = http::error_answer(
        404, "invalid_request_error", "model_not_found",
        "the model '" + request_.facts.model + "' is not served here; known models: " + world_->known_models());
    AttemptResult none;
    none.verdict.outcome = Outcome::bad_request;
    record(loop_.shared.exposition.unassigned(), nullptr, std::move(none));
    blame_the_replica();
    co_return std::move(end_);
  }
  for (auto next_step = Next::another_attempt; next_step == Next::another_attempt;) {
    if (!lease_ && !enter()) break;
    last_replica_ = std::static_pointer_cast<const fleet::ReplicaRuntime>(lease_.subject());
    last_key_ = lease_.key();
    const auto& replica = *last_replica_;
    co_await attempt(replica);
    next_step = next(replica);
  }
  blame_the_replica();
  co_return std::move(end_);
}

/// Takes a lease. Returns false if there is none; the request then ends.
bool Exchange::enter() {
  auto offered = pool_->balancer->offer(request_.facts, std::chrono::steady_clock::now(), tried_);
  if (auto* admitted = std::get_if<balancer::Admitted>(&offered)) {
    lease_ = std::move(admitted->lease);
    prompt_estimate_ = lease_.prompt_estimate();
    return true;
  }
  // What the last replica did is the cause of the failure.
  if (last_replica_ != nullptr) {
    give_up(*last_replica_, std::move(*last_result_));
    return false;
  }
  const auto& refused = std::get<balancer::Refused>(offered);
  if (refused.reason == balancer::Refused::Reason::busy)
    loop_.shard.limit_hits[static_cast<std::size_t>(metrics::series::Limit::max_in_flight)].add();
  end_.own = refusal_answer(refused, pool_->settings.name);
  AttemptResult none;
  none.verdict.outcome =
      refused.reason == balancer::Refused::Reason::too_long ? Outcome::bad_request : Outcome::rejected;
  record(*pool_->unassigned, nullptr, std::move(none));
  return false;
}

Attempt::Options Exchange::attempt_options(const fleet::ReplicaRuntime& replica, metrics::wire::Ask asked,
                                           bool reused) {
  Attempt::Options options{.replica = {.limits = world_->settings.limits}};
  auto& to_replica = options.replica;
  to_replica.api = request_.facts.api;
  to_replica.stream = request_.facts.stream;
  to_replica.to_head = request_.head.method == "HEAD";
  to_replica.asked = asked;
  to_replica.injection_proven = took_injection(*replica.state, request_.facts.api);
  to_replica.reused = reused;
  to_replica.choices = request_.facts.n;
  to_replica.prompts = request_.facts.prompts;
  to_replica.received = request_.received;
  to_replica.started = std::chrono::steady_clock::now();
  auto& to_client = options.client;
  to_client.http_1_1 = request_.head.http_1_1;
  to_client.keep_alive = request_.head.keep_alive && !loop_.shared.draining.load(std::memory_order_relaxed);
  to_client.api = request_.facts.api;
  to_client.request_id = request_.request_id;
  to_client.weir_id = request_.id;
  to_client.replica = world_->settings.server.replica_header ? std::string_view(replica.settings.name) : "";
  to_client.origin = request_.head["origin"];
  if (!to_client.origin.empty()) to_client.cors = &loop_.shared.cors;
  options.keep_errors = repeatable() && (best_ || another_is_left());
  return options;
}

/// Returns an idle connection to the replica, or one that begins to connect. After a stale or a refused connection it
/// is a new one.
Exchange::Connection Exchange::connection_to(const fleet::ReplicaRuntime& replica) {
  Connection connection;
  if (connected_before_ != replica.state->id) {
    if (auto idle = loop_.idle.take(*replica.state, std::chrono::steady_clock::now())) {
      connection.channel = std::move(idle);
      connection.reused = true;
      return connection;
    }
  }
  const auto endpoint = replica.state->address.get();
  if (endpoint) connection.channel = loop_.connector->connect(*endpoint);
  if (!connection.channel) connection.error = endpoint ? errno : net::name_unknown;
  return connection;
}

/// Returns what goes out: the head, and the edited body, which is not copied. Tells what the edits ask for, and the
/// size of the edited body.
Relay::Request Exchange::relay_request(const fleet::ReplicaRuntime& replica, metrics::wire::Ask& asked,
                                       std::uint64_t& body_length) {
  const bool refused = refused_injection_ == replica.state->id;
  const auto wanted = refused ? metrics::wire::Ask::nothing : ask_of(replica, request_.facts.api);
  const auto edits = metrics::wire::edits_that_ask(wanted, request_.facts, request_.body);
  asked = edits.asked;
  body_length = edits.size_of(request_.body.size());
  const http::UpstreamRequest upstream{replica.settings.url, body_length, request_.request_id,
                                       request_.facts.api != metrics::Api::other, replica.settings.api_key};
  upstream_head_ = http::upstream_head(request_.head, upstream);
  std::vector<std::string_view> spans{upstream_head_};
  edits.append(request_.body, spans);
  return {std::move(spans), &upstream_head_, &request_.body};
}

// What only the beginning needs is in functions of its own, because every local of this one is kept while the stream
// lasts.
net::Awaitable<void> Exchange::attempt(const fleet::ReplicaRuntime& replica) {
  auto connection = connection_to(replica);
  connected_before_ = replica.state->id;
  ++attempts_;
  if (!connection.channel) {
    not_begun(connection.error);
    co_return;
  }
  auto asked = metrics::wire::Ask::nothing;
  std::uint64_t body_length = 0;
  auto request = relay_request(replica, asked, body_length);
  auto& shard = replica.series->shard(loop_.index);
  Attempt attempt(attempt_options(replica, asked, connection.reused), std::move(lease_), shard);
  Relay relay(loop_, client_, std::move(connection.channel), connection.reused, std::move(request), attempt,
              world_->settings.limits);
  const bool injected = asked != metrics::wire::Ask::nothing;
  for (bool done = false; !done;) {
    const auto news = co_await relay.run(net::use_awaitable);
    if (news == RelayNews::undecided) decide(attempt, relay, replica, injected);
    if (news == RelayNews::accepted) accepted(replica, attempt.status(), injected);
    done = news == RelayNews::done;
  }
  if (attempt.sent_at()) shard.bytes[0].add(body_length);
  if (auto left = relay.take_connection())
    loop_.idle.put(*replica.state, std::move(left), std::chrono::steady_clock::now());
  result_ = std::make_unique<AttemptResult>(relay.take_result());
}

void Exchange::not_begun(int error) {
  result_ = std::make_unique<AttemptResult>();
  result_->end = AttemptEnd::unconnected;
  result_->connect_error = error;
  result_->lease = std::move(lease_);
}

/// Decides what to do with an error answer that is too large or too slow to keep.
void Exchange::decide(Attempt& attempt, Relay& relay, const fleet::ReplicaRuntime& replica, bool injected) {
  if (attempt.state() != Attempt::State::undecided) return;  // The client has left meanwhile.
  asks_another_ = asks_another(replica, attempt.status());
  if (*asks_another_ || best_) {
    relay.leave_error();
  } else {
    accepted(replica, attempt.status(), injected);
    relay.relay_error();
  }
}

/// Notes that an answer is on its way to the client: no retry can follow.
void Exchange::accepted(const fleet::ReplicaRuntime& replica, unsigned status, bool injected) {
  give_retry_back();
  std::vector<http::HeaderField>().swap(request_.head.fields);  // Only another attempt would need them again.
  if (second_opinion_on_) accepted_second_opinion(replica, status);
  if (status < 500) blame_the_replica();
  if (status >= 300) return;
  if (injected) note_injection_taken(*replica.state, request_.facts.api);
  if (refused_injection_ == replica.state->id) disable_injection(replica);
}

Exchange::Next Exchange::next(const fleet::ReplicaRuntime& replica) {
  AttemptResult result = std::move(*std::exchange(result_, nullptr));
  connect_ += result.connect;
  paused_ += result.paused;
  if (!loop_.shared.cutting.load(std::memory_order_relaxed)) report(result);
  if (result.end == AttemptEnd::unconnected) {
    replica.state->connect_failed.store(true, std::memory_order_relaxed);
    return not_connected(replica, std::move(result));
  }
  const auto now = std::chrono::steady_clock::now();
  if (!loop_.shared.cutting.load(std::memory_order_relaxed)) note_attempt(replica, result, now);
  note_local_recovery(loop_.shared.local_shortages, now);
  switch (result.end) {
    case AttemptEnd::stale:
      --attempts_;
      lease_ = std::move(result.lease);
      return again(replica, metrics::series::Retry::stale_connection);
    case AttemptEnd::injection_refused:
      lease_ = std::move(result.lease);
      refused_injection_ = replica.state->id;
      return again(replica, metrics::series::Retry::injection_refused);
    case AttemptEnd::refused:
      return refused(replica, std::move(result));
    case AttemptEnd::failed:
      return failed(replica, std::move(result));
    default:
      return answered(replica, std::move(result));
  }
}

/// Tells the pool what the attempt showed of its replica.
void Exchange::report(const AttemptResult& result) {
  const auto sign = sign_of(result);
  if (!sign) return;
  if (may_be_the_requests_fault(result)) {
    const bool second = blamed_ && blamed_->serial != last_key_.serial;
    blamed_ = second ? std::nullopt : std::optional(last_key_);
    return;
  }
  blame_the_replica();
  report(last_key_, *sign, result.retry_after);
}

void Exchange::report(const balancer::ReplicaKey& replica, balancer::Sign sign,
                      std::optional<std::chrono::seconds> full_for) const {
  pool_->balancer->report(replica, sign, std::chrono::steady_clock::now(), full_for);
}

/// Counts the error against its replica: no second replica has answered the request in the same way.
void Exchange::blame_the_replica() {
  if (const auto replica = std::exchange(blamed_, std::nullopt)) report(*replica, balancer::Sign::failed, std::nullopt);
}

/// True if, during an attempt, there is a replica that has not had this request.
bool Exchange::another_is_left() const { return tried_.size() + 1 < pool_->replicas.size(); }

/// True if the request may be sent once more: there is a replica for it, and the budget allows it.
bool Exchange::take_retry() {
  if (!repeatable() || !another_is_left() || retries_ >= most_retries) return false;
  if (loop_.shared.cutting.load(std::memory_order_relaxed)) return false;
  auto& fleet = loop_.shared.fleet;
  if (!holds_retry_ && !fleet.retries().take(fleet.in_flight())) return false;
  holds_retry_ = true;
  ++retries_;
  return true;
}

/// Gives the retry back to the budget once an answer flows. If retries held it to the end of long streams, a few of
/// them would use up the budget.
void Exchange::give_retry_back() {
  if (std::exchange(holds_retry_, false)) loop_.shared.fleet.retries().give_back();
}

/// Every repeat comes by here, and counts as this replica's if it had a part in it: there is a reason then.
Exchange::Next Exchange::again(const fleet::ReplicaRuntime& replica, std::optional<metrics::series::Retry> reason) {
  if (reason) replica.series->shard(loop_.index).retries[static_cast<std::size_t>(*reason)].add();
  return Next::another_attempt;
}

Exchange::Next Exchange::ask_another(const fleet::ReplicaRuntime& replica,
                                     std::optional<metrics::series::Retry> reason) {
  tried_.push_back(last_key_.index);
  return again(replica, reason);
}

/// Nothing was sent, so another replica may have the request at no cost: such a retry takes nothing from the budget. A
/// connection that took limits.connect to fail does, or a client might wait for one replica after the other.
Exchange::Next Exchange::not_connected(const fleet::ReplicaRuntime& replica, AttemptResult result) {
  const auto now = std::chrono::steady_clock::now();
  const bool cutting = loop_.shared.cutting.load(std::memory_order_relaxed);
  const int error = result.connect_error;
  const bool unsent = net::is_local_shortage(error);
  const balancer::End end(unsent ? balancer::EndCause::unsent : balancer::EndCause::replica_failed);
  result.concurrency = result.lease.end(end, now);
  result.verdict = verdict_of_connecting(error);
  if (unsent) {
    const auto limit =
        error == EMFILE || error == ENFILE ? metrics::series::Limit::descriptors : metrics::series::Limit::sockets;
    loop_.shard.limit_hits[static_cast<std::size_t>(limit)].add();
    note_local_shortage(loop_.shared.local_shortages, error, now);
  } else if (!cutting) {
    note_unconnected(replica, error, now);
  }
  const bool again = error == ETIMEDOUT ? take_retry() : another_is_left() && !cutting;
  if (!again) return give_up(replica, std::move(result));
  last_result_ = std::make_unique<AttemptResult>(std::move(result));
  // What weir itself lacks is no failure of the replica's.
  return ask_another(replica, unsent ? std::nullopt : std::optional(metrics::series::Retry::connect));
}

/// Returns what is recorded of an attempt that another one followed.
static std::unique_ptr<AttemptResult> in_short(const AttemptResult& result) {
  auto left = std::make_unique<AttemptResult>();
  left->end = result.end;
  left->verdict = result.verdict;
  left->concurrency = result.concurrency;
  return left;
}

/// Handles a replica's error answer: it is kept until there is a better one, and another replica is asked.
Exchange::Next Exchange::refused(const fleet::ReplicaRuntime& replica, AttemptResult result) {
  const auto status = result.status;
  const auto reason = *result.retry_reason;
  auto left = in_short(result);
  if (result.kept && (!best_ || fleet::error_rank(status) > fleet::error_rank(best_->result.status)))
    best_ = std::make_unique<KeptError>(KeptError{std::move(result), last_replica_});
  const auto settled = std::exchange(asks_another_, std::nullopt);
  const bool again = settled ? *settled : asks_another(replica, status);
  if (!again) return give_up(replica, std::move(*left));
  last_result_ = std::move(left);
  return ask_another(replica, reason);
}

/// Handles a failure: nothing of an answer has reached the client, and nothing more of it will come.
Exchange::Next Exchange::failed(const fleet::ReplicaRuntime& replica, AttemptResult result) {
  if (!result.retry_reason || !take_retry()) return give_up(replica, std::move(result));
  const auto reason = *result.retry_reason;
  last_result_ = in_short(result);
  return ask_another(replica, reason);
}

Exchange::Next Exchange::answered(const fleet::ReplicaRuntime& replica, AttemptResult result) {
  learn_counts(*replica.state, request_.facts.api, result);
  end_.keep_alive = result.client_keep_alive;
  end_.reset = result.client_reset;
  record(*replica.series, &replica, std::move(result));
  return Next::end;
}

/// True if another replica is to be asked after an error of this one. The retry is taken in this call.
bool Exchange::asks_another(const fleet::ReplicaRuntime& replica, unsigned status) {
  if (!fleet::needs_second_opinion(status)) return take_retry();
  const auto now = std::chrono::steady_clock::now();
  const fleet::SecondOpinions::Case one{replica.state->id, status, request_.facts.model};
  if (!second_opinion_on_) {
    second_opinion_on_.emplace(replica.state->id, status);
    return pool_->opinions->of(one, now) != fleet::SecondOpinions::Opinion::same && take_retry();
  }
  if (second_opinion_on_->second != status) return take_retry();
  pool_->opinions->note(one, fleet::SecondOpinions::Opinion::same, now);
  return false;
}

/// Handles an answer that is on its way to the client after another replica had said 401, 403 or 404. If it is better
/// than that, the other replica is to blame.
void Exchange::accepted_second_opinion(const fleet::ReplicaRuntime& replica, unsigned status) {
  if (second_opinion_on_->first == replica.state->id || status >= 500 || fleet::is_full(status)) return;
  const fleet::SecondOpinions::Case one{second_opinion_on_->first, second_opinion_on_->second, request_.facts.model};
  const auto opinion = fleet::needs_second_opinion(status) ? fleet::SecondOpinions::Opinion::same
                                                           : fleet::SecondOpinions::Opinion::better;
  pool_->opinions->note(one, opinion, std::chrono::steady_clock::now());
}

/// Ends a request for which no replica is left: the client gets the best answer that there is, or else an error of
/// weir's own.
Exchange::Next Exchange::give_up(const fleet::ReplicaRuntime& replica, AttemptResult last) {
  if (!best_) {
    const auto& name = replica.settings.name;
    end_.own = last.end == AttemptEnd::unconnected ? unconnected_answer(name, last.connect_error)
                                                   : failure_answer(name, last.verdict.outcome);
    record(*replica.series, &replica, std::move(last));
    return Next::end;
  }
  auto& best = best_->result;
  if (is_to_blame(*best_->replica, best.status)) best.verdict.outcome = Outcome::replica_refused;
  end_.kept = std::move(best.kept);
  end_.keep_alive = best.client_keep_alive;
  record(*best_->replica->series, best_->replica.get(), std::move(best));
  return Next::end;
}

/// Handles a 401, 403 or 404 of this replica that goes to the client. Returns true if another replica has lately
/// answered better.
bool Exchange::is_to_blame(const fleet::ReplicaRuntime& replica, unsigned status) {
  if (!fleet::needs_second_opinion(status)) return false;
  const auto now = std::chrono::steady_clock::now();
  const fleet::SecondOpinions::Case one{replica.state->id, status, request_.facts.model};
  if (pool_->opinions->of(one, now) == fleet::SecondOpinions::Opinion::better) return true;
  if (retries_ > 0) pool_->opinions->note(one, fleet::SecondOpinions::Opinion::same, now);
  return false;
}

/// Counts and logs the request. `seen` is the attempt whose answer, or whose failure, the client is told. If the
/// request reached no replica, only its verdict counts.
void Exchange::record(metrics::series::ReplicaSeries& series, const fleet::ReplicaRuntime* replica,
                      AttemptResult seen) {
  auto record = begin_record(request_, body_size_);
  if (pool_ != nullptr) record.pool = pool_->settings.name;
  if (replica != nullptr) {
    record.replica = replica->settings.name;
    record.config = replica->settings.config;
  }
  record.prompt_tokens_estimate = prompt_estimate_;
  record.attempt = attempts_;
  record.connect = connect_;
  record.paused = paused_;
  if (end_.own) {
    record.status = end_.own->status;
    end_.keep_alive = request_.head.keep_alive;
  } else if (seen.accepted) {
    record.status = seen.status;
  }
  const bool relayed = !end_.own && !end_.kept;
  record.ended = relayed ? seen.ended : std::chrono::steady_clock::now();
  add_attempt(record, std::move(seen));
  if (record.facts.api != metrics::Api::other && !record.facts.whole_json)
    series.shard(loop_.index).unparsed[static_cast<std::size_t>(metrics::series::Unparsed::broken_request)].add();
  settle(loop_, series, record);
}

}  // namespace weir::proxy::exchange
