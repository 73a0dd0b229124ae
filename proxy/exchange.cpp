#include "proxy/exchange.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>

#include "proxy/replica_log.hpp"

namespace weir::proxy {
namespace {

using metrics::Outcome;

constexpr std::size_t most_attempts = 3;

metrics::RequestRecord begin_record(const ClientRequest& request) {
  metrics::RequestRecord record;
  record.time = request.time;
  record.id = request.id;
  record.facts = request.facts;
  record.received = request.received;
  record.bytes_in = request.body.size();
  return record;
}

OwnAnswer refusal(const balancer::Refused& refused, const PoolRuntime& pool) {
  switch (refused.reason) {
    case balancer::Refused::Reason::too_long:
      return error_answer(400, "invalid_request_error", "context_length_exceeded",
                          "the request is longer than any replica of pool '" + pool.settings.name +
                              "' can hold: shorten the prompt or lower max_tokens");
    case balancer::Refused::Reason::no_replica:
      return error_answer(503, "overloaded_error", "no_replica", "pool '" + pool.settings.name + "' has no replica");
    case balancer::Refused::Reason::busy:
      break;
  }
  auto answer = error_answer(429, "overloaded_error", "overloaded",
                             "every replica of pool '" + pool.settings.name + "' is at its limit: try again in " +
                                 std::to_string(refused.retry_after) + " s");
  answer.retry_after = refused.retry_after;
  return answer;
}

}  // namespace

Exchange::Exchange(Loop& loop, ClientSide client, ClientRequest& request)
    : loop_(loop), client_(client), request_(request), record_(begin_record(request)) {
  loop_.streams.fetch_add(1, std::memory_order_relaxed);
}

Exchange::~Exchange() {
  give_retry_back();
  loop_.streams.fetch_sub(1, std::memory_order_relaxed);
}

Awaitable<ExchangeEnd> Exchange::run() {
  pool_ = loop_.shared.fleet.pool_for(request_.facts.model);
  if (pool_ == nullptr) {
    record_.outcome = Outcome::bad_request;
    end_.own = error_answer(404, "invalid_request_error", "model_not_found",
                            "the model '" + request_.facts.model +
                                "' is not served here; known models: " + loop_.shared.fleet.known_models());
    record(loop_.shared.exposition.unassigned());
    co_return std::move(end_);
  }
  record_.pool = pool_->settings.name;
  while (!over_) {
    if (!lease_) {
      if (auto refused = enter(*pool_)) {
        end_.own = std::move(refused);
        record(record_.replica.empty() ? *pool_->unassigned : *pool_->replicas[tried_.back()]->series);
        break;
      }
    }
    auto& replica = *pool_->replicas[lease_.replica()];
    co_await attempt(replica);
  }
  co_return std::move(end_);
}

/// Takes a lease, or says why not.
std::optional<OwnAnswer> Exchange::enter(PoolRuntime& pool) {
  auto offered = pool.balancer->offer(request_.facts, std::chrono::steady_clock::now(), tried_);
  if (auto* admitted = std::get_if<balancer::Admitted>(&offered)) {
    lease_ = std::move(admitted->lease);
    record_.prompt_tokens_estimate = lease_.prompt_estimate();
    return std::nullopt;
  }
  if (!tried_.empty()) return failure_answer();  // what the last replica did is the cause
  const auto& refused = std::get<balancer::Refused>(offered);
  record_.outcome = refused.reason == balancer::Refused::Reason::too_long ? Outcome::bad_request : Outcome::rejected;
  if (refused.reason == balancer::Refused::Reason::busy)
    loop_.shard.limit_hits[static_cast<std::size_t>(metrics::Limit::max_in_flight)].add();
  return refusal(refused, pool);
}

/// What goes out: the head, and the body with the usage option put in where that is wanted. The body is not copied.
std::vector<std::string_view> Exchange::request_spans(std::string_view usage_member) {
  const std::string_view body = request_.body;
  if (usage_member.empty()) return {upstream_head_, body};
  const auto at = *request_.facts.first_member_at;
  return {upstream_head_, body.substr(0, at), usage_member, body.substr(at)};
}

/// The replica took the original of what it had refused: it was the usage option.
static void disable_injection(ReplicaRuntime& replica) {
  if (replica.injection_disabled.exchange(true)) return;
  spdlog::warn("replica '{}' refuses stream_options: weir no longer asks it for usage, its token counts stay unknown",
               replica.settings.name);
}

/// The member that asks this replica for usage; "" where it is not asked.
std::string_view Exchange::usage_member_for(const ReplicaRuntime& replica) const {
  const bool may_inject = replica.inject_usage && refused_injection_ != &replica &&
                          !replica.injection_disabled.load(std::memory_order_relaxed);
  return may_inject ? metrics::wire::usage_member(request_.facts, replica.inject_continuous_usage) : std::string_view();
}

RelayMachine::Options Exchange::machine_options(ReplicaRuntime& replica, bool injected, bool reused) {
  RelayMachine::Options options{.limits = loop_.shared.settings.limits};
  options.api = request_.facts.api;
  options.stream = request_.facts.stream;
  options.to_head = request_.head.method == "HEAD";
  options.client_http_1_1 = request_.head.http_1_1;
  options.client_keep_alive = request_.head.keep_alive && !loop_.shared.draining.load(std::memory_order_relaxed);
  options.injected = injected;
  options.injected_continuous = injected && replica.inject_continuous_usage;
  options.take_retry = [this] { return take_retry(); };
  options.accepted = [this, &replica](unsigned status) {
    give_retry_back();
    std::vector<HeaderField>().swap(request_.head.fields);  // Only another attempt would need them again.
    if (refused_injection_ == &replica && status < 300) disable_injection(replica);
  };
  options.known_route = request_.route == Route::inference;
  options.reused = reused;
  options.choices = request_.facts.n;
  options.prompts = request_.facts.prompts;
  options.request_id = request_.request_id;
  options.replica = loop_.shared.settings.server.replica_header ? std::string_view(replica.settings.name) : "";
  options.received = request_.received;
  options.started = std::chrono::steady_clock::now();
  return options;
}

/// An idle connection to the replica, or one that begins to connect. After a stale or a refused one it is a fresh one.
UniqueFd Exchange::connection_to(ReplicaRuntime& replica, bool& reused) {
  if (refused_injection_ != &replica && record_.replica != replica.settings.name) {
    if (auto idle = loop_.idle.take(replica, std::chrono::steady_clock::now())) {
      reused = true;
      return std::move(*idle);
    }
  }
  const auto endpoint = replica.address.get();
  return endpoint ? begin_connect(*endpoint) : UniqueFd();
}

Relay::Request Exchange::relay_request(const ReplicaRuntime& replica, std::string_view usage_member) {
  const UpstreamRequest upstream{replica.settings.url, request_.body.size() + usage_member.size(), request_.request_id,
                                 request_.facts.api != metrics::Api::other};
  upstream_head_ = upstream_head(request_.head, upstream);
  return {request_spans(usage_member), &upstream_head_, &request_.body};
}

// What only the beginning needs is in functions of its own: all that is named here is held while the stream lasts.
Awaitable<void> Exchange::attempt(ReplicaRuntime& replica) {
  auto& shard = replica.series->shard(loop_.index);
  const auto member = usage_member_for(replica);
  const auto body_length = request_.body.size() + member.size();
  bool reused = false;
  UniqueFd connection = connection_to(replica, reused);
  record_.replica = replica.settings.name;
  record_.config = replica.settings.config;
  ++record_.attempt;

  RelayMachine machine(machine_options(replica, !member.empty(), reused), std::move(lease_), shard);
  Relay relay(loop_, client_, std::move(connection), reused, relay_request(replica, member), machine);
  co_await relay.run(use_awaitable);

  const auto ended = std::chrono::steady_clock::now();
  record_.connect += relay.connect_time();
  record_.paused += relay.paused_time();
  if (!loop_.shared.cutting.load(std::memory_order_relaxed)) note_attempt(replica, machine, relay.connect_error(), ended);
  if (!machine.done()) {
    auto lease = machine.take_lease();
    met(lease.end(balancer::End(), ended));
    const bool retry = take_retry();
    if (retry) retried(replica, metrics::Retry::connect);
    connect_failed(relay.connect_error(), retry);
    if (!retry) record(*replica.series);
    co_return;
  }
  met(machine.company());
  if (machine.sent_at()) shard.bytes[0].add(body_length);
  switch (machine.end()) {
    case AttemptEnd::stale:
      lease_ = machine.take_lease();
      --record_.attempt;
      shard.retries[static_cast<std::size_t>(metrics::Retry::stale_connection)].add();
      co_return;
    case AttemptEnd::injection_refused:
      lease_ = machine.take_lease();
      refused_injection_ = &replica;
      shard.retries[static_cast<std::size_t>(metrics::Retry::injection_refused)].add();
      co_return;
    case AttemptEnd::retry:
      retried(replica, machine.retry_reason());
      record_.outcome = machine.outcome();
      co_return;
    case AttemptEnd::answered:
    case AttemptEnd::failed:
    case AttemptEnd::client_gone:
      break;
  }
  if (auto connection_left = relay.take_connection()) loop_.idle.put(replica, std::move(connection_left), ended);
  conclude(machine, relay, replica);
}

/// True if another replica may be tried: there is one, and the budget allows it.
bool Exchange::take_retry() {
  if (tried_.size() + 1 >= std::min(most_attempts, pool_->replicas.size())) return false;
  if (holds_retry_) return true;
  auto& fleet = loop_.shared.fleet;
  return holds_retry_ = fleet.retries().take(fleet.in_flight());
}

/// An answer that flows is no longer a retry: held to the end of long streams, a few of them would use the budget up.
void Exchange::give_retry_back() {
  if (std::exchange(holds_retry_, false)) loop_.shared.fleet.retries().give_back();
}

void Exchange::retried(ReplicaRuntime& replica, metrics::Retry reason) {
  replica.series->shard(loop_.index).retries[static_cast<std::size_t>(reason)].add();
  tried_.push_back(replica.index);
  failed_replica_ = replica.settings.name;
}

/// What else was on the replica of the attempt that is over.
void Exchange::met(const balancer::Company& company) {
  record_.in_flight_at_start = company.in_flight_at_start;
  record_.in_flight_mean = company.in_flight_mean;
}

void Exchange::connect_failed(int error, bool retry) {
  record_.outcome = error == ETIMEDOUT ? Outcome::timeout : Outcome::upstream_error;
  if (retry) return;
  failed_replica_ = record_.replica;
  over_ = true;
  end_.own = failure_answer();
}

void Exchange::conclude(const RelayMachine& machine, const Relay& relay, ReplicaRuntime& replica) {
  over_ = true;
  record_.outcome = machine.outcome();
  record_.phase = machine.phase();
  record_.status = machine.status();
  record_.sent = machine.sent_at();
  record_.head = machine.head_at();
  record_.ended = relay.ended_at();
  record_.overhead_max = machine.overhead_max();
  record_.bytes_out = machine.bytes_out();
  record_.answer = machine.answer();
  // Some replicas take "stream": 1 or bodies that are no JSON for what they mean: what came tells.
  record_.facts.stream |= record_.answer.events > 0;
  if (machine.end() == AttemptEnd::failed) {
    failed_replica_ = replica.settings.name;
    end_.own = failure_answer();
  } else {
    end_.keep_alive = machine.client_reusable();
    end_.reset = machine.cut() && machine.client_framing() == ClientFraming::close;
  }
  record(*replica.series);
}

OwnAnswer Exchange::failure_answer() const {
  const std::string replica(failed_replica_);
  switch (record_.outcome) {
    case Outcome::timeout:
      return error_answer(504, "timeout_error", "replica_timeout", "replica '" + replica + "' did not answer in time");
    case Outcome::replica_refused:
      return error_answer(503, "overloaded_error", "replica_refused",
                          "replica '" + replica + "' refused the request, and no other can take it now");
    case Outcome::upstream_reset:
      return error_answer(502, "upstream_error", "replica_lost",
                          "replica '" + replica + "' broke off before it answered");
    default:
      return error_answer(502, "upstream_error", "replica_failed",
                          "replica '" + replica + "' could not be reached or did not answer properly");
  }
}

void Exchange::record(metrics::ReplicaSeries& series) {
  if (end_.own) {
    record_.status = end_.own->status;
    end_.keep_alive = request_.head.keep_alive;
  }
  if (!record_.ended) record_.ended = std::chrono::steady_clock::now();
  auto& shard = series.shard(loop_.index);
  if (record_.facts.api != metrics::Api::other && !record_.facts.whole_json)
    shard.unparsed[static_cast<std::size_t>(metrics::Unparsed::broken_request)].add();
  shard.settle(record_);
  loop_.shared.log.write(record_);
}

void record_unassigned(Loop& loop, const ClientRequest& request, Outcome outcome, std::optional<unsigned> status) {
  auto record = begin_record(request);
  record.outcome = outcome;
  if (outcome == Outcome::client_abort) record.phase = metrics::Phase::queue;
  record.status = status;
  record.ended = std::chrono::steady_clock::now();
  loop.shared.exposition.unassigned().shard(loop.index).settle(record);
  loop.shared.log.write(record);
}

}  // namespace weir::proxy
