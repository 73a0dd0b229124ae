#include "proxy/exchange/mirror.hpp"

#include <algorithm>
#include <utility>

#include "proxy/exchange/replica_log.hpp"
#include "proxy/exchange/replica_signs.hpp"
#include "proxy/exchange/request_records.hpp"
#include "proxy/exchange/usage_asking.hpp"
#include "proxy/http/rewrite.hpp"
#include "proxy/http/via.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::record::RequestRecord;

RequestRecord begin_record(const MirrorJob& job, const fleet::ShadowRuntime& shadow, std::string id) {
  RequestRecord record;
  record.time = job.time;
  record.id = std::move(id);
  record.role = metrics::Role::shadow;
  record.pool = shadow.pool->settings.name;
  record.facts = job.facts;
  record.received = job.received;
  record.bytes_in = job.body->size();
  auto& mirrored = record.mirrored.make();
  mirrored.pair = job.id;
  mirrored.shadow = shadow.settings.name;
  return record;
}

}  // namespace

RequestRecord record_of_dropped(const MirrorJob& job, const fleet::ShadowRuntime& shadow, std::string id,
                                std::string reason) {
  auto record = begin_record(job, shadow, std::move(id));
  if (shadow.pool->replicas.size() == 1) {
    record.replica = shadow.pool->replicas.front()->settings.name;
    record.config = shadow.pool->replicas.front()->settings.config;
  }
  record.outcome = metrics::Outcome::rejected;
  record.mirrored.make().drop_reason = std::move(reason);
  return record;
}

std::optional<SetEdits> set_edits(const fleet::ShadowRuntime& shadow, const MirrorJob& job) {
  SetEdits set;
  const auto& wanted = shadow.settings.set;
  for (const auto& one : wanted) set.wholes.push_back('"' + one.key + "\":" + one.json + ',');
  std::vector<metrics::wire::SetMember> members;
  for (std::size_t i = 0; i < wanted.size(); ++i) members.push_back({wanted[i].key, wanted[i].json, set.wholes[i]});
  auto edits = metrics::wire::edits_that_set(members, job.facts, *job.body);
  if (!edits) return std::nullopt;
  set.edits = std::move(*edits);
  return set;
}

Mirror::Mirror(Loop& loop, std::shared_ptr<const MirrorJob> job, std::shared_ptr<const fleet::ShadowRuntime> shadow,
               SetEdits set, balancer::Lease lease)
    : loop_(loop),
      job_(std::move(job)),
      shadow_(std::move(shadow)),
      lease_(std::move(lease)),
      replica_(std::static_pointer_cast<const fleet::Replica>(lease_.subject())),
      key_(lease_.key()),
      prompt_estimate_(lease_.prompt_estimate()),
      id_(loop.new_id()),
      set_(std::move(set)) {
  if (auto head = http::parse_request_head(job_->head_bytes)) head_ = std::move(*head);
}

net::Awaitable<void> Mirror::run() {
  for (auto next = Next::again; next == Next::again;) {
    co_await attempt();
    next = after(std::move(*std::exchange(result_, nullptr)));
  }
}

net::Awaitable<void> Mirror::attempt() {
  ++attempts_;
  if (!connect()) co_return;
  make_request();
  auto& shard = replica_->series->shard(loop_.index);
  AnswerHandler attempt(attempt_options(), std::move(lease_), shard);
  Relay::Request request{std::move(spans_), &upstream_head_, nullptr, nullptr, &replica_->state->cut};
  Relay relay(loop_, client_, std::move(channel_), reused_, std::move(request), attempt, job_->snapshot->settings.limits);
  for (bool done = false; !done;) {
    const auto news = co_await relay.run(net::use_awaitable);
    done = news == RelayNews::done;
  }
  if (attempt.sent_at()) shard.bytes[0].add(body_length_);
  result_ = std::make_unique<AttemptResult>(relay.take_result());
  if (auto left = relay.take_connection()) loop_.keep_idle(*replica_->state, std::move(connected_to_), std::move(left));
}

/// Takes an idle connection, or begins a new one. Returns false if there can be none: the attempt has failed.
bool Mirror::connect() {
  reused_ = false;
  auto destination = replica_->destination();
  if (!destination) {
    not_connected(net::name_unknown);
    return false;
  }
  connected_to_ = std::move(*destination);
  if (!stale_) channel_ = loop_.idle.take(*replica_->state, connected_to_, std::chrono::steady_clock::now());
  reused_ = channel_ != nullptr;
  if (!channel_) channel_ = loop_.connector->connect(connected_to_);
  if (!channel_) not_connected(errno);
  return channel_ != nullptr;
}

void Mirror::not_connected(int error) {
  result_ = std::make_unique<AttemptResult>();
  result_->end = AttemptEnd::unconnected;
  result_->connect_error = error;
  result_->lease = std::move(lease_);
}

/// Makes what goes out of the primary's bytes, which are not copied.
void Mirror::make_request() {
  const auto wanted = refused_injection_ ? metrics::wire::Ask::nothing : ask_of(*replica_, job_->facts.api);
  const auto asks = metrics::wire::edits_that_ask(wanted, job_->facts, *job_->body);
  asked_ = asks.asked;
  edits_ = set_.edits;
  edits_.insert(edits_.end(), asks.list().begin(), asks.list().end());
  std::ranges::stable_sort(edits_, {}, &metrics::wire::RequestEdit::at);
  body_length_ = metrics::wire::edited_size(job_->body->size(), edits_);
  http::UpstreamRequest upstream{replica_->settings.url, body_length_, id_, true, replica_->settings.api_key};
  upstream.keep_credentials = shadow_->settings.forward_auth;
  upstream.client_key_ends_here = job_->snapshot->keys != nullptr;
  upstream.shadow = shadow_->settings.name;
  upstream.via = http::name_in_via();
  upstream_head_ = http::upstream_head(head_, upstream);
  spans_ = {upstream_head_};
  metrics::wire::append_edited(*job_->body, edits_, spans_);
}

AnswerHandler::Options Mirror::attempt_options() const {
  AnswerHandler::Options options{.replica = {.limits = job_->snapshot->settings.limits}};
  auto& to_replica = options.replica;
  to_replica.api = job_->facts.api;
  to_replica.stream = job_->facts.stream;
  to_replica.asked = asked_;
  to_replica.injection_proven = took_injection(*replica_->state, job_->facts.api);
  to_replica.reused = reused_;
  to_replica.choices = job_->facts.n;
  to_replica.prompts = job_->facts.prompts;
  to_replica.received = job_->received;
  to_replica.fingerprint_key = &loop_.shared.fingerprint_key;
  to_replica.started = std::chrono::steady_clock::now();
  options.hung_at = &replica_->state->hung_at;
  options.client.api = job_->facts.api;
  options.client.request_id = id_;
  options.client.weir_id = id_;
  return options;
}

Mirror::Next Mirror::after(AttemptResult result) {
  connect_time_ += result.connect;
  switch (result.end) {
    case AttemptEnd::stale:
      --attempts_;
      lease_ = std::move(result.lease);
      stale_ = true;
      return Next::again;
    case AttemptEnd::injection_refused:
      lease_ = std::move(result.lease);
      refused_injection_ = true;
      return Next::again;
    case AttemptEnd::unconnected:
      replica_->state->connect_failed.store(true, std::memory_order_relaxed);
      result.verdict = verdict_of_connecting(result.connect_error);
      result.ended = std::chrono::steady_clock::now();
      result.concurrency = result.lease.end(balancer::End(cause_of(result.verdict)), result.ended);
      break;
    default:
      break;
  }
  finish(std::move(result));
  return Next::end;
}

void Mirror::finish(AttemptResult result) {
  auto& state = *replica_->state;
  const auto now = std::chrono::steady_clock::now();
  Signs signs({job_->client, job_->facts.gives_work});
  signs.report(*shadow_->pool->balancer, key_, result, now);
  signs.settle(*shadow_->pool->balancer, balancer::Sign::failed_alone, now);
  if (result.end == AttemptEnd::answered && result.status / 100 == 2) {
    if (asked_ != metrics::wire::Ask::nothing) note_injection_taken(state, job_->facts.api);
    if (refused_injection_) disable_injection(*replica_);
    learn_counts(state, job_->facts.api, result);
  }
  auto record = begin_record(*job_, *shadow_, id_);
  record.replica = replica_->settings.name;
  record.config = replica_->settings.config;
  record.prompt_tokens_estimate = prompt_estimate_;
  record.attempt = attempts_;
  record.connect = connect_time_;
  record.paused = result.paused;
  if (result.accepted) record.status = result.status;
  record.ended = result.ended;
  add_attempt(record, std::move(result));
  if (metrics::record::served(record)) shadow_->state->finished.fetch_add(1, std::memory_order_relaxed);
  replica_->series->shard(loop_.index).settle(record);
  leave_to_be_paired(loop_, std::move(record));
}

}  // namespace weir::proxy::exchange
