#include "proxy/exchange/exchange.hpp"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <utility>

#include "proxy/exchange/failure_answers.hpp"
#include "proxy/exchange/replica_log.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::Outcome;

/// Attempts from the budget, the first one among them. Those that found no connection come on top.
constexpr std::size_t most_attempts = 3;

metrics::record::RequestRecord begin_record(const ClientRequest& request) {
  metrics::record::RequestRecord record;
  record.time = request.time;
  record.id = request.id;
  record.client_id = request.client_id;
  record.facts = request.facts;
  record.received = request.received;
  record.bytes_in = request.body.size();
  return record;
}

constexpr std::uint32_t bit_of(metrics::Api api) { return std::uint32_t{1} << static_cast<unsigned>(api); }

}  // namespace

Exchange::Exchange(Loop& loop, ClientSide client, ClientRequest& request)
    : loop_(loop), client_(client), request_(request), record_(begin_record(request)) {
  loop_.streams.fetch_add(1, std::memory_order_relaxed);
}

Exchange::~Exchange() {
  give_retry_back();
  loop_.streams.fetch_sub(1, std::memory_order_relaxed);
}

net::Awaitable<ExchangeEnd> Exchange::run() {
  pool_ = loop_.shared.fleet.pool_for(request_.facts.model);
  if (pool_ == nullptr) {
    record_.outcome = Outcome::bad_request;
    end_.own = http::error_answer(404, "invalid_request_error", "model_not_found",
                                  "the model '" + request_.facts.model +
                                      "' is not served here; known models: " + loop_.shared.fleet.known_models());
    record(loop_.shared.exposition.unassigned());
    co_return std::move(end_);
  }
  record_.pool = pool_->settings.name;
  while (!over_) {
    if (!lease_) {
      if (auto refusal = enter(*pool_)) {
        // What the last replica did is the cause.
        if (!tried_.empty()) {
          give_up(*pool_->replicas[tried_.back()]);
          break;
        }
        end_.own = std::move(refusal);
        record(*pool_->unassigned);
        break;
      }
    }
    auto& replica = *pool_->replicas[lease_.replica()];
    co_await attempt(replica);
  }
  co_return std::move(end_);
}

/// Takes a lease, or says why not.
std::optional<http::OwnAnswer> Exchange::enter(fleet::PoolRuntime& pool) {
  auto offered = pool.balancer->offer(request_.facts, std::chrono::steady_clock::now(), tried_);
  if (auto* admitted = std::get_if<balancer::Admitted>(&offered)) {
    lease_ = std::move(admitted->lease);
    record_.prompt_tokens_estimate = lease_.prompt_estimate();
    return std::nullopt;
  }
  const auto& refused = std::get<balancer::Refused>(offered);
  if (tried_.empty()) {
    record_.outcome = refused.reason == balancer::Refused::Reason::too_long ? Outcome::bad_request : Outcome::rejected;
    if (refused.reason == balancer::Refused::Reason::busy)
      loop_.shard.limit_hits[static_cast<std::size_t>(metrics::series::Limit::max_in_flight)].add();
  }
  return refusal_answer(refused, pool.settings.name);
}

/// The replica took the original of what it had refused: it was the usage option.
static void disable_injection(fleet::ReplicaRuntime& replica) {
  if (replica.injection_disabled.exchange(true)) return;
  spdlog::warn("replica '{}' refuses stream_options: weir no longer asks it for usage, its token counts stay unknown",
               replica.settings.name);
}

/// What this replica is asked to tell. One that tells its counts unasked keeps its `timings`, which go with the usage
/// event where usage is asked for.
metrics::wire::Ask Exchange::ask_of(const fleet::ReplicaRuntime& replica) const {
  using metrics::wire::Ask;
  const bool may_ask = replica.inject_usage && refused_injection_ != &replica &&
                       !replica.injection_disabled.load(std::memory_order_relaxed);
  if (!may_ask) return Ask::nothing;
  const bool every_chunk = replica.inject_continuous_usage;
  if ((replica.tells_counts.load(std::memory_order_relaxed) & bit_of(request_.facts.api)) != 0)
    return every_chunk ? Ask::timings_on_every_chunk : Ask::nothing;
  return every_chunk ? Ask::usage_on_every_chunk : Ask::usage;
}

RelayMachine::Options Exchange::machine_options(fleet::ReplicaRuntime& replica, metrics::wire::Ask asked, bool reused) {
  RelayMachine::Options options{.limits = loop_.shared.settings.limits};
  options.api = request_.facts.api;
  options.stream = request_.facts.stream;
  options.to_head = request_.head.method == "HEAD";
  options.client_http_1_1 = request_.head.http_1_1;
  options.client_keep_alive = request_.head.keep_alive && !loop_.shared.draining.load(std::memory_order_relaxed);
  options.injected = asked != metrics::wire::Ask::nothing;
  options.asked = asked;
  const auto api_bit = bit_of(request_.facts.api);
  options.injection_proven = (replica.took_injection.load(std::memory_order_relaxed) & api_bit) != 0;
  options.keep_errors = repeatable() && (best_ || another_is_left());
  options.leaves_error = [this, &replica](unsigned status) {
    asks_another_ = asks_another(replica, status);
    return *asks_another_ || best_;
  };
  options.accepted = [this, &replica, injected = options.injected](unsigned status) {
    give_retry_back();
    std::vector<http::HeaderField>().swap(request_.head.fields);  // Only another attempt would need them again.
    if (doubtful_) accepted_after_doubt(replica, status);
    if (status >= 300) return;
    if (injected) replica.took_injection.fetch_or(bit_of(request_.facts.api), std::memory_order_relaxed);
    if (refused_injection_ == &replica) disable_injection(replica);
  };
  options.reused = reused;
  options.choices = request_.facts.n;
  options.prompts = request_.facts.prompts;
  options.request_id = request_.request_id;
  options.weir_id = request_.id;
  if (const auto origin = request_.head["origin"]; !origin.empty())
    options.head_arrived = [this, origin](const http::ResponseHead& head) { loop_.shared.cors.note(origin, head); };
  options.replica = loop_.shared.settings.server.replica_header ? std::string_view(replica.settings.name) : "";
  options.received = request_.received;
  options.started = std::chrono::steady_clock::now();
  return options;
}

/// An idle connection to the replica, or one that begins to connect. After a stale or a refused one it is a fresh one.
Exchange::Connection Exchange::connection_to(fleet::ReplicaRuntime& replica) {
  Connection connection;
  if (refused_injection_ != &replica && record_.replica != replica.settings.name) {
    if (auto idle = loop_.idle.take(replica, std::chrono::steady_clock::now())) {
      connection.fd = std::move(*idle);
      connection.reused = true;
      return connection;
    }
  }
  const auto endpoint = replica.address.get();
  if (endpoint) connection.fd = net::begin_connect(*endpoint);
  if (!connection.fd) connection.error = endpoint ? errno : net::name_unknown;
  return connection;
}

/// What goes out: the head, and the body as edited. It is not copied. Tells what is asked for by the edits, and the
/// body's size with them.
Relay::Request Exchange::relay_request(const fleet::ReplicaRuntime& replica, metrics::wire::Ask& asked,
                                       std::uint64_t& body_length) {
  const auto edits = metrics::wire::edits_that_ask(ask_of(replica), request_.facts, request_.body);
  asked = edits.asked;
  body_length = edits.size_of(request_.body.size());
  const http::UpstreamRequest upstream{replica.settings.url, body_length, request_.request_id,
                                       request_.facts.api != metrics::Api::other, replica.settings.api_key};
  upstream_head_ = http::upstream_head(request_.head, upstream);
  std::vector<std::string_view> spans{upstream_head_};
  edits.append(request_.body, spans);
  return {std::move(spans), &upstream_head_, &request_.body};
}

// What only the beginning needs is in functions of its own: all that is named here is held while the stream lasts.
net::Awaitable<void> Exchange::attempt(fleet::ReplicaRuntime& replica) {
  auto& shard = replica.series->shard(loop_.index);
  auto connection = connection_to(replica);
  record_.replica = replica.settings.name;
  record_.config = replica.settings.config;
  ++record_.attempt;
  if (!connection.fd) {
    not_connected(replica, std::move(lease_), connection.error);
    co_return;
  }

  auto asked = metrics::wire::Ask::nothing;
  std::uint64_t body_length = 0;
  auto request = relay_request(replica, asked, body_length);
  RelayMachine machine(machine_options(replica, asked, connection.reused), std::move(lease_), shard);
  Relay relay(loop_, client_, std::move(connection.fd), connection.reused, std::move(request), machine);
  co_await relay.run(net::use_awaitable);

  const auto ended = std::chrono::steady_clock::now();
  record_.connect += relay.connect_time();
  record_.paused += relay.paused_time();
  if (!machine.done()) {
    not_connected(replica, machine.take_lease(), relay.connect_error());
    co_return;
  }
  if (!loop_.shared.cutting.load(std::memory_order_relaxed)) note_attempt(replica, machine, ended);
  note_own_return(loop_.shared.own_wants, ended);
  note_concurrency(machine.concurrency());
  connect_error_ = 0;
  if (machine.sent_at()) shard.bytes[0].add(body_length);
  if (auto connection_left = relay.take_connection()) loop_.idle.put(replica, std::move(connection_left), ended);
  switch (machine.end()) {
    case AttemptEnd::stale:
      lease_ = machine.take_lease();
      --record_.attempt;
      shard.retries[static_cast<std::size_t>(metrics::series::Retry::stale_connection)].add();
      co_return;
    case AttemptEnd::injection_refused:
      lease_ = machine.take_lease();
      refused_injection_ = &replica;
      shard.retries[static_cast<std::size_t>(metrics::series::Retry::injection_refused)].add();
      co_return;
    case AttemptEnd::refused:
      refused(machine, relay, replica);
      co_return;
    case AttemptEnd::failed:
      failed(machine, relay, replica);
      co_return;
    case AttemptEnd::answered:
    case AttemptEnd::client_gone:
      conclude(machine, relay, replica);
  }
}

/// While an attempt is under way: there is a replica that this request has not been to.
bool Exchange::another_is_left() const { return tried_.size() + 1 < pool_->replicas.size(); }

/// True if the request may be sent once more: there is a replica for it, and the budget allows it.
bool Exchange::take_retry() {
  if (!repeatable() || !another_is_left() || retries_ + 1 >= most_attempts) return false;
  if (loop_.shared.cutting.load(std::memory_order_relaxed)) return false;
  auto& fleet = loop_.shared.fleet;
  if (!holds_retry_ && !fleet.retries().take(fleet.in_flight())) return false;
  holds_retry_ = true;
  ++retries_;
  return true;
}

/// An answer that flows is no longer a retry: held to the end of long streams, a few of them would use the budget up.
void Exchange::give_retry_back() {
  if (std::exchange(holds_retry_, false)) loop_.shared.fleet.retries().give_back();
}

void Exchange::retried(fleet::ReplicaRuntime& replica, metrics::series::Retry reason) {
  replica.series->shard(loop_.index).retries[static_cast<std::size_t>(reason)].add();
  tried_.push_back(replica.index);
}

/// What else was on the replica of the attempt that is over.
void Exchange::note_concurrency(const balancer::Concurrency& concurrency) {
  record_.in_flight_at_start = concurrency.in_flight_at_start;
  record_.in_flight_mean = concurrency.in_flight_mean;
}

/// Nothing was sent, so another replica may have the request at no cost: such a retry draws nothing from the budget.
/// One that took limits.connect to fail does, lest a client wait for one replica after the other.
void Exchange::not_connected(fleet::ReplicaRuntime& replica, balancer::Lease lease, int error) {
  const auto now = std::chrono::steady_clock::now();
  const bool cutting = loop_.shared.cutting.load(std::memory_order_relaxed);
  const bool unsent = net::is_own_want(error);
  const balancer::End end(unsent ? balancer::EndCause::unsent : balancer::EndCause::replica_failed);
  note_concurrency(lease.end(end, now));
  connect_error_ = error;
  record_.outcome = unsent ? Outcome::rejected : error == ETIMEDOUT ? Outcome::timeout : Outcome::upstream_error;
  if (unsent) {
    const auto limit =
        error == EMFILE || error == ENFILE ? metrics::series::Limit::descriptors : metrics::series::Limit::sockets;
    loop_.shard.limit_hits[static_cast<std::size_t>(limit)].add();
    note_own_want(loop_.shared.own_wants, error, now);
  } else if (!cutting) {
    note_unconnected(replica, error, now);
  }
  const bool again = error == ETIMEDOUT ? take_retry() : another_is_left() && !cutting;
  if (!again) return give_up(replica);
  if (unsent) return tried_.push_back(replica.index);  // That is no failure of this replica's.
  retried(replica, metrics::series::Retry::connect);
}

static void add_attempt(metrics::record::RequestRecord& record, const RelayMachine& machine, const Relay& relay) {
  record.outcome = machine.outcome();
  record.phase = machine.phase();
  record.status = machine.status();
  record.sent = machine.sent_at();
  record.head = machine.head_at();
  record.ended = relay.ended_at();
  record.overhead_max = machine.overhead_max();
  record.bytes_out = machine.bytes_out();
  record.answer = machine.answer();
  // Some replicas take "stream": 1 or bodies that are no JSON for what they mean: what came tells.
  record.facts.stream |= record.answer.events > 0;
}

/// The replica answered with an error. It is kept until there is a better one, and another replica is asked.
void Exchange::refused(RelayMachine& machine, const Relay& relay, fleet::ReplicaRuntime& replica) {
  auto bytes = machine.take_kept();
  if (!bytes.empty() && (!best_ || fleet::worth(*machine.status()) > fleet::worth(*best_->record.status))) {
    best_ = std::make_unique<Kept>(Kept{std::move(bytes), machine.client_reusable(), record_, &replica});
    add_attempt(best_->record, machine, relay);
  }
  record_.outcome = machine.outcome();
  const auto settled = std::exchange(asks_another_, std::nullopt);
  if (settled ? *settled : asks_another(replica, machine.status_read()))
    return retried(replica, *machine.retry_reason());
  give_up(replica);
}

/// Nothing of an answer has reached the client, and nothing more of it will come.
void Exchange::failed(const RelayMachine& machine, const Relay& relay, fleet::ReplicaRuntime& replica) {
  record_.outcome = machine.outcome();
  if (machine.retry_reason() && take_retry()) return retried(replica, *machine.retry_reason());
  if (!best_) add_attempt(record_, machine, relay);
  give_up(replica);
}

/// True if another replica is to be asked after an error of this one; the retry is taken then.
bool Exchange::asks_another(const fleet::ReplicaRuntime& replica, unsigned status) {
  if (!fleet::is_doubtful(status)) return take_retry();
  const auto now = std::chrono::steady_clock::now();
  const fleet::SecondOpinions::Case one{replica.index, status, request_.facts.model};
  if (!doubtful_) {
    doubtful_.emplace(replica.index, status);
    return pool_->opinions.of(one, now) != fleet::SecondOpinions::Opinion::same && take_retry();
  }
  if (doubtful_->second != status) return take_retry();
  pool_->opinions.note(one, fleet::SecondOpinions::Opinion::same, now);
  return false;
}

/// An answer is on its way to the client, after another replica had said 401, 403 or 404. If it is better than that,
/// the other one is to blame.
void Exchange::accepted_after_doubt(const fleet::ReplicaRuntime& replica, unsigned status) {
  if (doubtful_->first == replica.index || status >= 500 || fleet::is_full(status)) return;
  const fleet::SecondOpinions::Case one{doubtful_->first, doubtful_->second, request_.facts.model};
  const auto opinion =
      fleet::is_doubtful(status) ? fleet::SecondOpinions::Opinion::same : fleet::SecondOpinions::Opinion::better;
  pool_->opinions.note(one, opinion, std::chrono::steady_clock::now());
}

/// No replica is left to try: the client gets the best answer that there is, else an error of weir's own.
void Exchange::give_up(fleet::ReplicaRuntime& replica) {
  over_ = true;
  if (!best_) {
    const auto& name = replica.settings.name;
    end_.own = connect_error_ != 0 ? unconnected_answer(name, connect_error_) : failure_answer(name, record_.outcome);
    return record(*replica.series);
  }
  auto& kept = best_->record;
  kept.attempt = record_.attempt;
  kept.connect = record_.connect;
  kept.paused = record_.paused;
  kept.ended.reset();
  record_ = std::move(kept);
  const auto status = *record_.status;
  if (fleet::is_doubtful(status)) {
    const auto now = std::chrono::steady_clock::now();
    const fleet::SecondOpinions::Case one{best_->replica->index, status, request_.facts.model};
    if (pool_->opinions.of(one, now) == fleet::SecondOpinions::Opinion::better) {
      record_.outcome = Outcome::replica_refused;
    } else if (retries_ > 0) {
      pool_->opinions.note(one, fleet::SecondOpinions::Opinion::same, now);
    }
  }
  end_.kept = std::make_unique<std::string>(std::move(best_->bytes));
  end_.keep_alive = best_->keep_alive;
  record(*best_->replica->series);
}

/// Whether the replica tells its counts unasked. One that no longer does, since another engine runs there now, is asked
/// again after one answer without them.
void Exchange::learn(fleet::ReplicaRuntime& replica) const {
  const auto& answer = record_.answer;
  const bool known = (replica.tells_counts.load(std::memory_order_relaxed) & bit_of(request_.facts.api)) != 0;
  if (answer.timed && !known) {
    replica.tells_counts.fetch_or(bit_of(request_.facts.api), std::memory_order_relaxed);
  } else if (known && !answer.timed && record_.outcome == Outcome::ok && answer.first_token && !answer.output_tokens) {
    replica.tells_counts.fetch_and(~bit_of(request_.facts.api), std::memory_order_relaxed);
  }
}

void Exchange::conclude(const RelayMachine& machine, const Relay& relay, fleet::ReplicaRuntime& replica) {
  over_ = true;
  add_attempt(record_, machine, relay);
  learn(replica);
  end_.keep_alive = machine.client_reusable();
  end_.reset = machine.cut() && machine.client_framing() == http::ClientFraming::close;
  record(*replica.series);
}

void Exchange::record(metrics::series::ReplicaSeries& series) {
  if (end_.own) {
    record_.status = end_.own->status;
    end_.keep_alive = request_.head.keep_alive;
  }
  if (!record_.ended) record_.ended = std::chrono::steady_clock::now();
  auto& shard = series.shard(loop_.index);
  if (record_.facts.api != metrics::Api::other && !record_.facts.whole_json)
    shard.unparsed[static_cast<std::size_t>(metrics::series::Unparsed::broken_request)].add();
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

}  // namespace weir::proxy::exchange
