#include "proxy/exchange/mirror.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "metrics/moment.hpp"
#include "proxy/events/events.hpp"
#include "proxy/exchange/client_request.hpp"
#include "proxy/fleet/keep_running.hpp"
#include "proxy/http/credential.hpp"
#include "proxy/http/writing.hpp"
#include "proxy/keys/client_keys.hpp"

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
  options.replica.fingerprint_key = &loop_.shared.keys.fingerprint;
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

namespace {

using metrics::series::Mirrored;

bool is_excluded(const config::Shadow& shadow, const MirrorJob& job) {
  if (shadow.exclude_keys.empty()) return false;
  const auto head = http::parse_request_head(job.head_bytes);
  if (!head) return false;
  const auto is_listed = [&](std::string_view credential) {
    return std::ranges::find(shadow.exclude_keys, keys::hex(keys::sha256(credential))) != shadow.exclude_keys.end();
  };
  const auto other = http::other_credential_of(*head);
  return is_listed(http::credential_of(*head)) || (!other.empty() && is_listed(other));
}

/// Switches a shadow off that has run as long as it is to.
void stop_when_done(const fleet::ShadowRuntime& shadow, Moment now) {
  auto& state = *shadow.state;
  const auto& settings = shadow.settings;
  const bool timed_out = settings.stop_after && state.began.load() != Moment::max() &&
                         now - state.began.load() >= metrics::ticks(*settings.stop_after);
  if (timed_out && state.on.exchange(false))
    events::info(events::What::shadow, settings.name, "shadow '{}' is off: stop_after is over", settings.name);
}

/// Returns why the shadow's replicas took no lease.
Mirrored refusal(const fleet::ShadowRuntime& shadow, Moment now) {
  if (!fleet::any_up(*shadow.pool, now)) return Mirrored::down;
  const auto load = shadow.pool->balancer->figures().load(now);
  if (load.in_flight >= shadow.settings.max_in_flight) return Mirrored::max_in_flight;
  const bool any_queued = std::ranges::any_of(
      shadow.pool->replicas, [&](const auto& replica) { return load.of(replica->key).prefill_left > 0; });
  return any_queued ? Mirrored::max_queued_tokens : Mirrored::busy;
}

}  // namespace

bool can_be_mirrored(const ClientMessage& message) {
  const auto& facts = *message.facts;
  return message.route == http::Route::inference && metrics::generates(facts.api) && facts.gives_work &&
         facts.whole_json && !facts.stored_context;
}

bool wants(const fleet::ShadowRuntime& shadow, const fleet::Replica& replica, const ClientRequest& request,
           const SipKey& key) {
  const auto& settings = shadow.settings;
  const auto& message = request.message;
  const auto& client = request.client;
  if (!shadow.state->on.load(std::memory_order_relaxed)) return false;
  if (!settings.twin.empty()) return replica.settings.name == settings.twin;
  const auto hash = sender_of(key, message.head, client.address, client.key_name()) ^ message.facts->conversation;
  constexpr double whole = 0x1p64;
  return static_cast<double>(hash) < *settings.sample * whole;
}

Shadows::Shadows(Shared& shared, std::size_t loops) : shared_(shared), loops_(loops), loop_(shared, loops) {}

Shadows::~Shadows() { stop(); }

void Shadows::start() {
  thread_ = std::thread([this] {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), niceness);
    loop_.run();
  });
}

void Shadows::stop() {
  if (!thread_.joinable()) return;
  // Mirrored requests give up first, so that their records are not lost.
  boost::asio::post(loop_.context, [this] {
    stopping_ = true;
    if (running_.empty()) return loop_.stop();
    leave_all();
  });
  thread_.join();
}

void Shadows::post(Loop& from, std::shared_ptr<const MirrorJob> job) {
  if (posted_.fetch_add(1, std::memory_order_relaxed) >= most_posted) {
    posted_.fetch_sub(1, std::memory_order_relaxed);
    for (const auto& shadow : job->shadows) drop(from, *job, *shadow, Mirrored::behind);
    return;
  }
  boost::asio::post(loop_.context, [this, job = std::move(job)] {
    posted_.fetch_sub(1, std::memory_order_relaxed);
    take(job);
  });
}

void Shadows::client_left() {
  if (looks_for_left_.exchange(true, std::memory_order_acq_rel)) return;
  boost::asio::post(loop_.context, [this] {
    looks_for_left_.exchange(false, std::memory_order_acq_rel);
    const auto running = running_;  // A mirrored request that gives up leaves the list.
    for (auto* const one : running)
      if (one->job().client_left->load(std::memory_order_relaxed)) one->leave();
  });
}

void Shadows::leave_all() {
  const auto running = running_;
  for (auto* const one : running) one->leave();
}

void Shadows::end_all() {
  boost::asio::post(loop_.context, [this] { leave_all(); });
}

void Shadows::take(const std::shared_ptr<const MirrorJob>& job) {
  const auto now = std::chrono::steady_clock::now();
  const bool waits = job->primary_pool->figures().queue(now).waiting > 0;
  const bool late = some_loop_is_late();
  for (const auto& shadow : job->shadows) {
    stop_when_done(*shadow, now);
    if (!shadow->state->on.load(std::memory_order_relaxed) || is_excluded(shadow->settings, *job)) continue;
    if (shadow->state->began.load() == Moment::max()) shadow->state->began.store(now);
    if (shared_.draining.load(std::memory_order_relaxed)) {
      drop(*job, *shadow, Mirrored::draining);
    } else if (job->client_left->load(std::memory_order_relaxed)) {
      drop(*job, *shadow, Mirrored::client_left);
    } else if (shared_.buffers.spent()) {
      loop_.shard.limit_hits.add(metrics::series::Limit::buffer_memory);
      drop(*job, *shadow, Mirrored::buffer_memory);
    } else if (waits) {
      drop(*job, *shadow, Mirrored::primary_waits);
    } else if (late) {
      drop(*job, *shadow, Mirrored::loop_late);
    } else {
      mirror(job, shadow);
    }
  }
}

bool Shadows::some_loop_is_late() const {
  const auto most = std::chrono::nanoseconds(latest).count();
  for (std::size_t i = 0; i < loops_; ++i)
    if (shared_.exposition.loop(i).lag_nanoseconds.load(std::memory_order_relaxed) > most) return true;
  return false;
}

void Shadows::mirror(const std::shared_ptr<const MirrorJob>& job,
                     const std::shared_ptr<const fleet::ShadowRuntime>& shadow) {
  auto set = set_edits(*shadow, *job);
  if (!set) return drop(*job, *shadow, Mirrored::cannot_set);
  const auto now = std::chrono::steady_clock::now();
  auto offered =
      shadow->pool->balancer->offer(balancer::PlacementRequest{.facts = job->facts, .caller = job->caller}, now);
  auto* const admitted = std::get_if<balancer::Admitted>(&offered);
  if (admitted == nullptr) return drop(*job, *shadow, refusal(*shadow, now));
  count(loop_, *shadow, Mirrored::sent);
  auto mirror = std::make_unique<Mirror>(loop_, job, shadow, std::move(*set));
  const fleet::Unawaited unawaited(errors(), metrics::series::Part::shadow, "its record is lost");
  boost::asio::co_spawn(loop_.context, run(std::move(mirror), std::move(admitted->lease)), unawaited);
}

/// Lists a mirrored request, until it ends or its coroutine is destroyed at the end of weir.
class Shadows::Running {
 public:
  Running(Shadows& shadows, Mirror& mirror)
      : shadows_(shadows), place_(shadows.running_.insert(shadows.running_.end(), &mirror)) {}
  ~Running() {
    shadows_.running_.erase(place_);
    if (shadows_.stopping_ && shadows_.running_.empty()) shadows_.loop_.context.stop();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Shadows& shadows_;
  const std::list<Mirror*>::iterator place_;
};

net::Awaitable<void> Shadows::run(std::unique_ptr<Mirror> mirror, balancer::Lease lease) {
  std::exception_ptr failure;
  {
    const Running listed(*this, *mirror);
    try {
      co_await mirror->run(std::move(lease));
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (!failure) co_return;
  fleet::note_failure(errors(), metrics::series::Part::shadow, failure, "its answer is not measured");
  leave_to_be_paired(loop_, record_of_dropped(mirror->job(), mirror->shadow(), loop_.new_id(), ""));
}

void Shadows::count(const Loop& on, const fleet::ShadowRuntime& shadow, Mirrored what) {
  const auto& replicas = shadow.pool->replicas;
  const auto& series = replicas.empty() ? shadow.pool->unassigned : replicas.front()->series;
  series->shard(on.index).mirrored.add(what);
}

void Shadows::drop(Loop& on, const MirrorJob& job, const fleet::ShadowRuntime& shadow, Mirrored why) {
  count(on, shadow, why);
  const std::string reason(metrics::series::mirrored_names[static_cast<std::size_t>(why)]);
  leave_to_be_paired(on, record_of_dropped(job, shadow, on.new_id(), reason));
}

}  // namespace weir::proxy::exchange
