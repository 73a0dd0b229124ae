#include "proxy/exchange/exchange.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <utility>

#include "metrics/ticks.hpp"
#include "proxy/exchange/failure_answers.hpp"
#include "proxy/exchange/request_records.hpp"
#include "proxy/exchange/shadows.hpp"
#include "proxy/exchange/usage_asking.hpp"
#include "proxy/http/via.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::Outcome;

/// A request's body that shadows share, with what pays for it.
struct SharedBody {
  std::string bytes;
  net::SharedBudgetHold budget_hold;
};

std::shared_ptr<const std::string> share(ClientRequest& request) {
  const auto shared =
      std::make_shared<const SharedBody>(SharedBody{std::move(request.body), std::move(request.budget_hold)});
  return {shared, &shared->bytes};
}

}  // namespace

Exchange::Exchange(Loop& loop, net::Channel& client, std::string& unread, ClientRequest& request)
    : loop_(loop),
      client_(client, unread, request.snapshot->settings.server.half_close),
      request_(request),
      body_size_(request.body.size()),
      snapshot_(request.snapshot),
      pool_(snapshot_->pool_for(request_.facts.model)),
      retries_(loop, request, pool_) {
  loop_.streams.fetch_add(1, std::memory_order_relaxed);
  if (pool_ != nullptr && !pool_->shadows.empty() && loop.shared.shadows != nullptr && can_be_mirrored(request))
    shared_body_ = share(request_);
}

Exchange::~Exchange() { loop_.streams.fetch_sub(1, std::memory_order_relaxed); }

net::Awaitable<ExchangeEnd> Exchange::run() {
  if (pool_ == nullptr) {
    no_pool();
    co_return std::move(end_);
  }
  for (auto next_step = Retries::Next::attempt; next_step != Retries::Next::end;) {
    if (!lease_ && ask(next_step == Retries::Next::wait)) {
      co_await admission_->wait(net::use_awaitable);
      end_wait();
    }
    if (!lease_) break;
    place_ = {std::static_pointer_cast<const fleet::Replica>(lease_.subject()), lease_.key(), lease_.doubted()};
    co_await attempt();
    next_step = next();
    if (next_step == Retries::Next::end) tell();
  }
  retries_.over();
  co_return std::move(end_);
}

/// Ends a request for a model that no pool has.
void Exchange::no_pool() {
  answer(http::error_answer(
      404, "invalid_request_error", "model_not_found",
      "the model '" + request_.facts.model + "' is not served here; known models: " + snapshot_->known_models()));
  AttemptResult none;
  none.verdict.outcome = Outcome::bad_request;
  record(loop_.shared.exposition.unassigned(), nullptr, std::move(none));
}

/// Asks the pool for a replica: `again` if one had no room for the request. Returns true if the request has to wait. If
/// it gets no lease then, it ends.
bool Exchange::ask(bool again) {
  const auto now = std::chrono::steady_clock::now();
  if (again && deadline_ && now >= *deadline_) {
    loop_.shard.limit_hits[static_cast<std::size_t>(metrics::series::Limit::queue_time)].add();
    retries_.give_up();
    tell();
    return false;
  }
  const auto& queue = pool_->settings.queue;
  balancer::PlacementRequest placement{request_.facts, retries_.tried()};
  placement.fair_key = *retries_.client();
  if (request_.key != nullptr && queue.fair_by.what == config::FairBy::What::key)
    placement.share = request_.key->settings.share;
  placement.bytes = body_size_;
  placement.deadline = deadline_;
  placement.at_the_head = again;
  std::shared_ptr<Waiter> waiter;
  if (queue.requests > 0 && !loop_.shared.cutting.load(std::memory_order_relaxed))
    placement.waiter = waiter = std::make_shared<Waiter>(Waiter{loop_});
  auto offered = pool_->balancer->offer(placement, now);
  if (const auto* waiting = std::get_if<balancer::Waiting>(&offered)) {
    deadline_ = waiting->deadline;
    retries_.give_retry_back();
    admission_ = std::make_unique<Admission>(loop_, client_, *pool_->balancer, std::move(waiter), *waiting);
    return true;
  }
  // The time in which a request goes from one full replica to the next counts as a wait does.
  if (again && !deadline_) deadline_ = now + metrics::ticks(queue.time);
  if (auto* admitted = std::get_if<balancer::Admitted>(&offered)) {
    take(std::move(admitted->lease));
  } else {
    refuse(std::get<balancer::Refused>(offered));
  }
  return false;
}

void Exchange::take(balancer::Lease lease) {
  lease_ = std::move(lease);
  prompt_estimate_ = lease_.prompt_estimate();
  retries_.sent_again(place_);
}

void Exchange::end_wait() {
  const auto admission = std::move(admission_);
  waited_ += admission->waited();
  AttemptResult none;
  switch (admission->end()) {
    case Admission::End::admitted:
      return take(admission->lease());
    case Admission::End::refused:
      return refuse(admission->refused());
    case Admission::End::client_left:
      none.verdict = {Outcome::client_abort, metrics::Phase::queue};
      return record_without_answer(std::move(none));
    default:
      break;
  }
  if (retries_.reached_a_replica()) {
    retries_.give_up();
    return tell();
  }
  answer(stopping_answer());
  none.verdict.outcome = Outcome::rejected;
  record_without_answer(std::move(none));
}

/// Ends a request that no replica takes.
void Exchange::refuse(const balancer::Refused& refused) {
  using Reason = balancer::Refused::Reason;
  const auto reason = refused.reason;
  const bool queued = reason == Reason::queue_full || reason == Reason::queue_bytes_full ||
                      reason == Reason::too_late || reason == Reason::expired;
  // What the last replica did is the cause of the failure, unless it was never reached and the request waited for it.
  const bool failed = retries_.reached_a_replica() || (retries_.any_attempt() && !queued);
  if (const auto limit = limit_of(reason, pool_->settings); limit && (queued || !failed))
    loop_.shard.limit_hits[static_cast<std::size_t>(*limit)].add();
  if (failed) {
    retries_.give_up();
    return tell();
  }
  const auto snapshot = loop_.shared.fleet.snapshot();  // The pool may have other replicas by now.
  const auto* const pool_now = snapshot->pool_of(*pool_->balancer);
  const bool up = fleet::any_up(pool_now != nullptr ? *pool_now : *pool_, std::chrono::steady_clock::now());
  answer(refusal_answer(refused, pool_->settings, up, loop_.random_from(1, 1.5)));
  AttemptResult none;
  none.verdict.outcome = reason == Reason::too_long ? Outcome::bad_request : Outcome::rejected;
  record(*pool_->unassigned, nullptr, std::move(none));
}

/// Records the end of a request that no replica works on.
void Exchange::record_without_answer(AttemptResult end) {
  if (!retries_.reached_a_replica()) return record(*pool_->unassigned, nullptr, std::move(end));
  record(*place_.replica->series, place_.replica.get(), std::move(end));
}

AnswerHandler::Options Exchange::attempt_options(const fleet::Replica& replica, metrics::wire::Ask asked,
                                           bool reused) {
  AnswerHandler::Options options{.replica = {.limits = snapshot_->settings.limits}};
  auto& to_replica = options.replica;
  to_replica.api = request_.facts.api;
  to_replica.stream = request_.facts.stream;
  to_replica.to_head = request_.head.method == "HEAD";
  to_replica.asked = asked;
  to_replica.injection_proven = took_injection(*replica.state, request_.facts.api);
  to_replica.reused = reused;
  to_replica.unread = request_.bypassed;
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
  to_client.replica = snapshot_->settings.server.replica_header ? std::string_view(replica.settings.name) : "";
  to_client.origin = request_.head["origin"];
  if (request_.cors) to_client.cors_fields = *request_.cors;
  if (!to_client.origin.empty() && !request_.cors) to_client.cors = &loop_.shared.cors;
  if (client_left_) to_replica.fingerprint_key = &loop_.shared.fingerprint_key;
  if (retries_.keeps_errors()) options.hung_at = &replica.state->hung_at;
  options.keep_errors = retries_.keeps_errors();
  options.doubted = place_.doubted;
  return options;
}

/// Returns an idle connection to the replica, or one that begins to connect. After a stale or a refused connection it
/// is a new one.
Exchange::Connection Exchange::connection_to(const fleet::Replica& replica) {
  Connection connection;
  auto destination = replica.destination();
  if (!destination) {
    connection.error = net::name_unknown;
    return connection;
  }
  connected_to_ = std::move(*destination);
  // An idle connection may be dead, and then the request is sent a second time. A body of what is no inference is sent
  // once: with one, no method says that a second time does no harm.
  const auto& method = request_.head.method;
  const bool only_asks = body_size_ == 0 && (method == "GET" || method == "HEAD" || method == "OPTIONS");
  const bool may_be_repeated = request_.route == http::Route::inference || only_asks;
  if (may_be_repeated && connected_before_ != replica.state->id) {
    connection.channel = loop_.idle.take(*replica.state, connected_to_, std::chrono::steady_clock::now());
    connection.reused = connection.channel != nullptr;
    if (connection.reused) return connection;
  }
  connection.channel = loop_.connector->connect(connected_to_);
  if (!connection.channel) connection.error = errno;
  return connection;
}

/// Returns what goes out: the head, and the edited body, which is not copied. Tells what the edits ask for, and the
/// size of the edited body.
Relay::Request Exchange::relay_request(const fleet::Replica& replica, metrics::wire::Ask& asked,
                                       std::uint64_t& body_length) {
  const auto wanted =
      retries_.refused_injection(replica) ? metrics::wire::Ask::nothing : ask_of(replica, request_.facts.api);
  const auto edits = metrics::wire::edits_that_ask(wanted, request_.facts, body());
  asked = edits.asked;
  body_length = edits.size_of(body_size_);
  http::UpstreamRequest upstream{replica.settings.url, body_length, request_.request_id,
                                 request_.facts.api != metrics::Api::other, replica.settings.api_key};
  upstream.client_key_ends_here = snapshot_->keys != nullptr;
  upstream.way = {request_.through_proxy, request_.peer};
  upstream.via = http::name_in_via();
  upstream_head_ = http::upstream_head(request_.head, upstream);
  std::vector<std::string_view> spans{upstream_head_};
  edits.append(body(), spans);
  const bool shared = shared_body_ != nullptr;
  return {std::move(spans),
          &upstream_head_,
          shared ? nullptr : &request_.body,
          shared ? &shared_body_ : nullptr,
          &replica.state->cut,
          shared ? nullptr : &request_.budget_hold};
}

// What only the beginning needs is in functions of its own, because every local of this one is kept while the stream
// lasts.
net::Awaitable<void> Exchange::attempt() {
  const auto& replica = *place_.replica;
  auto connection = connection_to(replica);
  connected_before_ = replica.state->id;
  ++attempts_;
  if (!connection.channel) {
    not_begun(connection.error);
    co_return;
  }
  if (shared_body_) mirror(replica);
  auto asked = metrics::wire::Ask::nothing;
  std::uint64_t body_length = 0;
  auto request = relay_request(replica, asked, body_length);
  auto& shard = replica.series->shard(loop_.index);
  AnswerHandler attempt(attempt_options(replica, asked, connection.reused), std::move(lease_), shard);
  Relay relay(loop_, client_, std::move(connection.channel), connection.reused, std::move(request), attempt,
              snapshot_->settings.limits);
  const bool injected = asked != metrics::wire::Ask::nothing;
  std::exception_ptr failure;
  for (bool done = false; !done;) {
    const auto news = co_await relay.run(net::use_awaitable);
    try {
      if (news == RelayNews::undecided) decide(attempt, relay, injected);
      if (news == RelayNews::accepted) accepted(attempt.status(), injected);
    } catch (...) {
      failure = std::current_exception();  // The relay tells this while it is at work, and may not end here.
    }
    done = news == RelayNews::done;
  }
  if (failure) std::rethrow_exception(failure);
  if (attempt.sent_at()) shard.bytes[0].add(body_length);
  result_ = std::make_unique<AttemptResult>(relay.take_result());
  if (auto left = relay.take_connection()) loop_.keep_idle(*replica.state, std::move(connected_to_), std::move(left));
}

/// Gives copies to the shadows that want what this replica gets. Each gets one at most.
void Exchange::mirror(const fleet::Replica& replica) {
  std::vector<std::shared_ptr<const fleet::ShadowRuntime>> shadows;
  for (const auto& one : pool_->shadows) {
    if (std::ranges::find(mirrored_to_, one->state.get()) != mirrored_to_.end()) continue;
    if (!wants(*one, replica, request_, loop_.shared.fair_by_key)) continue;
    mirrored_to_.push_back(one->state.get());
    shadows.push_back(one);
  }
  if (shadows.empty()) return;
  auto job = std::make_shared<MirrorJob>();
  job->snapshot = snapshot_;
  job->pool = pool_;
  job->shadows = std::move(shadows);
  job->head_bytes = request_.head_bytes;
  job->body = shared_body_;
  job->facts = request_.facts;
  job->id = request_.id;
  job->client = retries_.client();
  job->received = request_.received;
  job->time = request_.time;
  if (client_left_) job->client_left = client_left_;
  client_left_ = job->client_left;
  loop_.shared.shadows->post(loop_, std::move(job));
}

void Exchange::not_begun(int error) {
  result_ = std::make_unique<AttemptResult>();
  result_->end = AttemptEnd::unconnected;
  result_->connect_error = error;
  result_->lease = std::move(lease_);
}

/// Decides what to do with an error answer that is too large or too slow to keep.
void Exchange::decide(AnswerHandler& attempt, Relay& relay, bool injected) {
  if (attempt.state() != AnswerHandler::State::undecided) return;  // The client has left meanwhile.
  if (retries_.leaves_error(place_, attempt.status())) {
    relay.leave_error();
  } else {
    accepted(attempt.status(), injected);
    relay.relay_error();
  }
}

/// Notes that an answer is on its way to the client: no retry can follow.
void Exchange::accepted(unsigned status, bool injected) {
  request_.answered = true;
  std::vector<http::HeaderField>().swap(request_.head.fields);  // Only another attempt would need them again.
  retries_.accepted(place_, status);
  if (status < 300 && injected) note_injection_taken(*place_.replica->state, request_.facts.api);
}

Retries::Next Exchange::next() {
  AttemptResult result = std::move(*std::exchange(result_, nullptr));
  connect_ += result.connect;
  paused_ += result.paused;
  if (result.end == AttemptEnd::stale) --attempts_;
  const auto next_step = retries_.after(std::move(result), place_);
  lease_ = retries_.lease();
  return next_step;
}

/// Tells the client, in the books too, what the last attempt or the best of them brought.
void Exchange::tell() {
  auto [result, replica] = retries_.take_told();
  const auto& name = replica->settings.name;
  if (result.kept) {
    end_.kept = std::move(result.kept);
    end_.kept_hold = std::move(result.kept_hold);
    end_.keep_alive = result.client_keep_alive;
  } else if (result.end == AttemptEnd::unconnected) {
    answer(unconnected_answer(name, result.connect_error));
  } else if (result.end == AttemptEnd::failed || result.end == AttemptEnd::refused) {
    const auto outcome = result.verdict.outcome;
    if (outcome == Outcome::rejected && loop_.shared.cutting.load(std::memory_order_relaxed))
      answer(stopping_answer());
    else
      answer(retries_.suspect() ? suspect_answer(name) : failure_answer(name, outcome));
  } else {
    end_.keep_alive = result.client_keep_alive;
    end_.reset = result.client_reset;
  }
  record(*replica->series, replica.get(), std::move(result));
}

/// Counts and logs the request. `seen` is the attempt whose answer, or whose failure, the client is told. If the
/// request reached no replica, only its verdict counts.
void Exchange::record(metrics::series::ReplicaSeries& series, const fleet::Replica* replica,
                      AttemptResult seen) {
  auto record = begin_record(request_, body_size_);
  if (pool_ != nullptr) record.pool = pool_->settings.name;
  if (replica != nullptr) {
    record.replica = replica->settings.name;
    record.config = replica->settings.config;
  }
  record.prompt_tokens_estimate = prompt_estimate_;
  record.attempt = attempts_;
  record.suspect = retries_.suspect();
  record.connect = connect_;
  record.paused = paused_;
  record.wait = waited_;
  if (end_.own) {
    record.status = end_.own->status;
    end_.keep_alive = request_.head.keep_alive;
  } else if (seen.accepted) {
    record.status = seen.status;
  }
  const bool relayed = !end_.own && !end_.kept;
  record.ended = relayed ? seen.ended : std::chrono::steady_clock::now();
  add_attempt(record, std::move(seen));
  record.shadows = static_cast<std::uint32_t>(mirrored_to_.size());
  if (client_left_ && record.outcome == Outcome::client_abort) {
    client_left_->store(true, std::memory_order_relaxed);
    loop_.shared.shadows->client_left();
  }
  if (record.facts.api != metrics::Api::other && !record.facts.whole_json)
    series.shard(loop_.index).unparsed[static_cast<std::size_t>(metrics::series::Unparsed::broken_request)].add();
  request_.recorded = true;
  settle(loop_, series, std::move(record));
}

}  // namespace weir::proxy::exchange
