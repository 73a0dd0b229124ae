#include "proxy/exchange/mirror.hpp"

#include <algorithm>
#include <utility>

#include "proxy/exchange/request_records.hpp"
#include "proxy/http/rewrite.hpp"
#include "proxy/http/via.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::record::RequestRecord;

RequestRecord begin_record(const MirrorJob& job, const fleet::ShadowRuntime& shadow, std::string id) {
  RequestRecord record;
  record.time = job.time;
  record.id = std::move(id);
  record.role = metrics::Role::shadow;
  record.pool = shadow.pool->settings.name;
  record.facts = *job.facts;
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
  auto edits = metrics::wire::edits_that_set(members, *job.facts, *job.body);
  if (!edits) return std::nullopt;
  set.edits = std::move(*edits);
  return set;
}

Mirror::Mirror(Loop& loop, std::shared_ptr<const MirrorJob> job, std::shared_ptr<const fleet::ShadowRuntime> shadow,
               SetEdits set)
    : loop_(loop),
      job_(std::move(job)),
      shadow_(std::move(shadow)),
      id_(loop.new_id()),
      set_(std::move(set)),
      story_({.pool = *shadow_->pool->balancer,
              .budget = loop.shared.fleet.retries(),
              .poison = *shadow_->pool->poison,
              .cutting = &loop.shared.cutting},
             {.facts = job_->facts,
              .caller = job_->caller,
              .bytes = job_->body->size(),
              .leaves_hung = true,
              .may_go_twice = true}),
      runner_(loop, client_, story_, *shadow_->pool, job_->snapshot->settings.limits, *this) {
  if (auto head = http::parse_request_head(job_->head_bytes)) head_ = std::move(*head);
}

net::Awaitable<void> Mirror::run(balancer::Lease lease) {
  auto* const usage = &AttemptRunner::replica_of(lease).state->usage;
  const auto first = story_.resume(story::Leased{std::move(lease), usage}, std::chrono::steady_clock::now());
  co_await runner_.run(first);
  finish();
}

/// Makes what goes out of the primary's bytes, which are not copied.
Outgoing Mirror::outgoing(const fleet::Replica& replica, metrics::wire::Ask wanted) {
  const auto asks = metrics::wire::edits_that_ask(wanted, *job_->facts, *job_->body);
  auto edits = set_.edits;
  edits.insert(edits.end(), asks.list().begin(), asks.list().end());
  std::ranges::stable_sort(edits, {}, &metrics::wire::RequestEdit::at);
  Outgoing outgoing;
  outgoing.asked = asks.asked;
  outgoing.body_size = metrics::wire::edited_size(job_->body->size(), edits);
  http::UpstreamRequest upstream{replica.settings.url, outgoing.body_size, id_, true, replica.settings.api_key};
  upstream.keep_credentials = shadow_->settings.forward_auth;
  upstream.client_key_ends_here = job_->snapshot->keys != nullptr;
  upstream.shadow = shadow_->settings.name;
  upstream.via = http::name_in_via();
  upstream_head_ = http::upstream_head(head_, upstream);
  outgoing.spans = {upstream_head_};
  metrics::wire::append_edited(*job_->body, edits, outgoing.spans);
  return outgoing;
}

void Mirror::describe(AnswerHandler::Options& options, const fleet::Replica&) {
  options.replica.received = job_->received;
  options.replica.fingerprint_key = &loop_.shared.fingerprint_key;
  options.client.request_id = id_;
  options.client.weir_id = id_;
}

void Mirror::finish() {
  const auto& replica = AttemptRunner::replica_of(story_.replica());
  auto record = begin_record(*job_, *shadow_, id_);
  record.replica = replica.settings.name;
  record.config = replica.settings.config;
  story_.complete(record, std::chrono::steady_clock::now());
  if (metrics::record::served(record)) shadow_->state->finished.fetch_add(1, std::memory_order_relaxed);
  replica.series->shard(loop_.index).settle(record);
  leave_to_be_paired(loop_, std::move(record));
}

}  // namespace weir::proxy::exchange
