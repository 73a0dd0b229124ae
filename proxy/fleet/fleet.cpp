#include "proxy/fleet/fleet.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "config/address.hpp"
#include "metrics/moment.hpp"
#include "proxy/events/events.hpp"

namespace weir::proxy::fleet {
namespace {

metrics::series::PrefixGauges prefix_gauges_of(const balancer::ReplicaLoad& load) {
  const balancer::PrefixSums& sums = load.prefix;
  metrics::series::PrefixGauges gauges;
  gauges.tokens = {{"looked_up", sums.looked_up},
                   {"best", sums.best},
                   {"predicted", sums.predicted},
                   {"moved_away", sums.best - sums.predicted},
                   {"reported", sums.reported}};
  gauges.errors = {{"over", sums.over}, {"under", sums.under}};
  for (std::size_t i = 0; i < sums.wipes.size(); ++i)
    gauges.wipes.emplace_back(balancer::prefix_wipe_names[i], sums.wipes[i]);
  gauges.held = load.prefix_held;
  gauges.capacity = load.prefix_capacity;
  gauges.believed = load.prefix_believed;
  return gauges;
}

/// Members of one name have the same authority, and an address each.
std::string place_of(const config::ReplicaUrl& url) {
  return url.host + ' ' + url.authority + url.prefix + (url.tls ? " tls" : "") + url.unix_path;
}

metrics::series::ReplicaGauges gauges_of(const config::Replica& settings, const SharedReplica& state,
                                         const balancer::ReplicaKey& key, balancer::Pool& pool) {
  const auto now = std::chrono::steady_clock::now();
  const auto load = pool.figures().load(key, now);
  metrics::series::ReplicaGauges gauges;
  gauges.queued_prefill_tokens = load.prefill_left;
  gauges.queued_decode_tokens = load.decode_left;
  gauges.resident_tokens = load.resident;
  gauges.in_flight = load.in_flight;
  const auto engine = state.engine.get();
  gauges.kv_tokens = kv_tokens_of(settings, state);
  gauges.max_in_flight = settings.max_in_flight;
  if (engine.engine != Engine::unknown) gauges.engine = name_of(engine.engine);
  gauges.version = engine.version;
  gauges.model = engine.model;
  if (engine.reading_took) gauges.engine_scrape_seconds = engine.reading_took->count();
  if (const auto* told = engine.load_at(now)) {
    gauges.engine_running = told->running;
    gauges.engine_waiting = told->waiting;
    gauges.engine_kv_usage = told->kv_usage;
    gauges.engine_prefix_queries = told->prefix_queries;
    gauges.engine_prefix_hits = told->prefix_hits;
    gauges.ledger_divergence = told->divergence;
  }
  gauges.oldest_unanswered_seconds = load.oldest_unanswered_seconds;
  gauges.busy_seconds = load.busy_seconds;
  gauges.in_flight_seconds = {load.prefill_seconds, load.decode_seconds};
  gauges.injection_disabled = state.usage.is_refused();
  gauges.state = pool.health().of(key, now).state;
  gauges.gpu = settings.gpu;
  gauges.balancer_fallbacks = load.fallbacks;
  if (load.prefix_aware && load.prefix.looked_up > 0) gauges.prefix = prefix_gauges_of(load);
  return gauges;
}

balancer::PoolLimits limits_of(const config::Pool& settings) {
  balancer::PoolLimits limits;
  limits.queue = settings.queue.requests;
  limits.queue_bytes = settings.queue.bytes;
  limits.queue_time = settings.queue.time;
  limits.queue_time_none_up = settings.queue.time_down;
  limits.expects_replicas = std::ranges::any_of(settings.replicas, &config::Replica::expand);
  limits.max_in_flight = settings.max_in_flight;
  limits.max_queued_tokens = settings.max_queued_tokens;
  return limits;
}

const PoolRuntime* same_pool(const Snapshot* snapshot, const std::string& name, const std::string& shadow) {
  const PoolRuntime* found = nullptr;
  if (snapshot == nullptr) return found;
  snapshot->each_pool([&](const auto& pool) {
    if (found == nullptr && pool->settings.name == name && pool->shadow == shadow) found = pool.get();
  });
  return found;
}

/// Returns the settings of the pool in which a shadow's replicas are. A shadow has no queue.
config::Pool pool_of(const config::Shadow& shadow) {
  config::Pool pool;
  pool.name = shadow.of + ":shadow";
  pool.replicas = shadow.replicas;
  pool.health = shadow.health;
  pool.engine = shadow.engine;
  pool.max_in_flight = shadow.max_in_flight;
  pool.max_queued_tokens = shadow.max_queued_tokens;
  pool.queue.requests = 0;
  return pool;
}

/// Returns the address that the settings themselves say.
std::optional<net::Address> address_in(const config::ReplicaUrl& url) {
  if (!url.unix_path.empty()) return net::Address::at_path(url.unix_path);
  boost::system::error_code no_address;
  const auto address = boost::asio::ip::make_address(url.host, no_address);
  if (no_address) return std::nullopt;
  return net::Address(address, url.port);
}

/// Returns the TLS target of a replica; the old one, with its session, where nothing has changed.
std::shared_ptr<const net::tls::Target> target_of(const config::Replica& replica, const std::string& host_in_settings,
                                                  const net::tls::Contexts& tls, const Replica* old) {
  if (!replica.url.tls) return nullptr;
  auto context = tls.client(replica.tls);
  const auto& name = replica.tls.server_name.empty() ? host_in_settings : replica.tls.server_name;
  if (old != nullptr && old->tls && old->tls->is(context.get(), name)) return old->tls;
  return std::make_shared<const net::tls::Target>(std::move(context), name);
}

std::optional<config::Rollout> rollout_of(const config::Settings& settings, const std::string& pool) {
  const auto found = std::ranges::find(settings.rollouts, pool, &config::Rollout::pool);
  return found == settings.rollouts.end() ? std::nullopt : std::optional(*found);
}

/// A candidate that is new gets no request until its rollout starts. The share of one that goes on stays as it is.
void begin_split(const PoolRuntime& pool, const PoolRuntime* old, metrics::Moment now) {
  const auto same = [&](const config::Rollout& before) {
    return before.name == pool.rollout->name && before.candidate == pool.rollout->candidate;
  };
  if (!pool.rollout) return pool.balancer->set_split(std::nullopt, now);
  if (old == nullptr || !old->rollout || !same(*old->rollout)) pool.balancer->set_split(0, now);
}

/// Compares what answers a shadow's requests. Limits, weights, costs and what weir is let in by are no part of it.
bool answers_the_same(const config::Replica& one, const config::Replica& other) {
  const auto telling = [](const config::Replica& replica) {
    return std::tie(replica.name, replica.url, replica.config, replica.gpu, replica.expand);
  };
  return telling(one) == telling(other);
}

/// Compares the settings on which a shadow's requests and answers depend; limits are none of them.
bool asks_the_same(const config::Shadow& one, const config::Shadow& other) {
  const auto telling = [](const config::Shadow& shadow) {
    return std::tie(shadow.name, shadow.of, shadow.twin, shadow.sample, shadow.exclude_keys, shadow.set,
                    shadow.forward_auth);
  };
  return telling(one) == telling(other) && std::ranges::equal(one.replicas, other.replicas, answers_the_same);
}

/// Where a twin's primary runs, and its configuration; nothing for the shadow of a pool's sample.
std::optional<std::pair<config::ReplicaUrl, std::string>> primary_of(const config::Settings& settings,
                                                                     const config::Shadow& shadow) {
  for (const auto& pool : settings.pools)
    for (const auto& replica : pool.replicas)
      if (pool.name == shadow.of && replica.name == shadow.twin) return std::pair(replica.url, replica.config);
  return std::nullopt;
}

/// A shadow that gets other requests, or runs elsewhere, begins anew. So does one whose primary does, but on or off as
/// it was.
std::shared_ptr<ShadowState> state_of(const Snapshot* before, const config::Settings& settings,
                                      const config::Shadow& shadow) {
  auto state = std::make_shared<ShadowState>();
  if (before == nullptr) return state;
  const auto old =
      std::ranges::find_if(before->shadows, [&](const auto& one) { return asks_the_same(one->settings, shadow); });
  if (old == before->shadows.end()) return state;
  if (primary_of(before->settings, shadow) == primary_of(settings, shadow)) return (*old)->state;
  state->on = (*old)->state->on.load();
  return state;
}

/// Returns the replica as the pool had it, even one that was about to leave it.
const Replica* same_replica(const Snapshot* snapshot, const PoolRuntime* pool, const config::Replica& settings) {
  if (pool == nullptr) return nullptr;
  const auto is_it = [&settings](const Replica& one) {
    return one.settings.name == settings.name && one.settings.url == settings.url;
  };
  for (const auto& replica : pool->replicas)
    if (is_it(*replica)) return replica.get();
  for (const auto& [balancer, replica, since] : snapshot->leaving)
    if (balancer == pool->balancer && is_it(*replica)) return replica.get();
  return nullptr;
}

bool has(const Snapshot& snapshot, const SharedReplica* state) {
  return std::ranges::any_of(snapshot.all_pools, [state](const auto& pool) {
    return std::ranges::any_of(pool->replicas, [state](const auto& one) { return one->state.get() == state; });
  });
}

/// Returns the pools that `before` has and `after` no longer names, as far as requests may know them.
std::vector<std::shared_ptr<const PoolRuntime>> leaving_pools(const Snapshot& before, const Snapshot& after) {
  std::vector<std::shared_ptr<const PoolRuntime>> all;
  const auto stays = [&](const PoolRuntime& pool) {
    return std::ranges::any_of(after.all_pools, [&](const auto& one) { return one->balancer == pool.balancer; });
  };
  before.each_pool([&](const auto& pool) {
    if (!stays(*pool)) all.push_back(pool);
  });
  return all;
}

/// Returns the replicas that `before` has and `after` no longer names, as far as requests are on them or wait for them.
std::vector<LeavingReplica> leaving(const Snapshot& before, const Snapshot& after, metrics::Moment now) {
  std::vector<LeavingReplica> all;
  const auto look_at = [&](const LeavingReplica& one) {
    if (has(after, one.replica->state.get())) return;
    const bool any_left = one.balancer->figures().in_flight(one.replica->key) > 0;
    if (any_left || after.is_waited_for(*one.balancer, now)) all.push_back(one);
  };
  for (const auto& one : before.leaving) look_at(one);
  for (const auto& pool : before.all_pools)
    for (const auto& replica : pool->replicas) look_at({pool->balancer, replica, now});
  return all;
}

bool exports(const Snapshot& snapshot, const metrics::series::ReplicaSeries* series) {
  const auto is_of = [series](const LeavingReplica& one) { return one.replica->series.get() == series; };
  if (std::ranges::any_of(snapshot.leaving, is_of)) return true;
  const auto is_in = [series](const auto& pool) {
    return pool->unassigned.get() == series ||
           std::ranges::any_of(pool->replicas, [series](const auto& one) { return one->series.get() == series; });
  };
  return std::ranges::any_of(snapshot.all_pools, is_in) || std::ranges::any_of(snapshot.leaving_pools, is_in);
}

/// True if the pool has no other replica to which requests could go.
bool is_last(const PoolRuntime& pool, const Replica& replica, metrics::Moment now) {
  return pool.may_serve(replica, now) && std::ranges::none_of(pool.replicas, [&](const auto& other) {
           return other.get() != &replica && pool.may_serve(*other, now);
         });
}

/// Ends the requests on a replica whose time is over. Loops see the flag within a tick.
void cut(const Replica& replica, std::uint32_t left) {
  if (replica.state->cut.exchange(true)) return;
  events::warn(events::What::drain, replica.settings.name, "replica '{}': limits.drain is over; {} requests are cut",
               replica.settings.name, left);
}

/// Returns the url, for the log. Members of one name have one url, and an address each.
std::string place_text(const config::Replica& replica) {
  const auto text = config::to_text(replica.url);
  return replica.expand ? text + " (" + replica.url.host + ')' : text;
}

/// Returns the replica as its pool's balancer takes it.
balancer::ReplicaSpec spec_of(const std::shared_ptr<Replica>& replica, const config::Pool& pool,
                              const std::optional<config::Rollout>& rollout) {
  const auto& settings = replica->settings;
  balancer::ReplicaSpec spec{
      settings.name,        place_of(settings.url), replica,     settings.weight,           settings.kv_tokens,
      settings.max_context, settings.max_in_flight, pool.health, settings.max_queued_tokens};
  spec.candidate = rollout && settings.config == rollout->candidate;
  // Replicas that no configuration is given to are taken for alike.
  if (settings.config != settings.name) spec.config = settings.config;
  spec.max_context_refuses = settings.max_context_refuses;
  return spec;
}

/// Has the series of the pool and its replicas ask the pool for their gauges. They do not own it, because the pool's
/// replicas own their series.
void export_gauges(const PoolRuntime& pool, const std::shared_ptr<const ShadowState>& shadow) {
  const std::weak_ptr<balancer::Pool> of_pool = pool.balancer;
  if (!shadow) {
    pool.unassigned->waiting = [of_pool] {
      metrics::series::Waiting waiting;
      if (const auto books = of_pool.lock()) {
        const auto queue = books->figures().queue(std::chrono::steady_clock::now());
        waiting = {queue.waiting, queue.waiting_tokens};
      }
      return waiting;
    };
  }
  for (const auto& replica : pool.replicas) {
    replica->series->gauges = [of = replica->settings, state = replica->state, key = replica->key, of_pool, shadow] {
      const auto books = of_pool.lock();
      auto gauges = books ? gauges_of(of, *state, key, *books) : metrics::series::ReplicaGauges();
      if (shadow) gauges.shadow_active = shadow->on.load(std::memory_order_relaxed) ? 1 : 0;
      return gauges;
    };
  }
}

}  // namespace

Fleet::Fleet(const config::Settings& settings, metrics::series::Exposition& exposition, std::uint64_t seed,
             balancer::GrantSink* sink)
    : exposition_(exposition),
      sink_(sink),
      seed_(seed),
      retries_(settings.limits.retry_budget, [this] { return in_flight(); }) {
  adopt(settings);
}

void Fleet::adopt(const config::Settings& settings) { adopt(settings, prepare(settings), keys_of(settings.server)); }

net::tls::Contexts Fleet::prepare(const config::Settings& settings) const { return {settings, tls_}; }

std::shared_ptr<const keys::ClientKeys> Fleet::keys_of(const config::Server& server) const {
  if (server.api_keys.empty() && server.keys.empty()) return nullptr;
  const auto before = snapshot_.get();
  if (!before || !before->keys) return std::make_shared<const keys::ClientKeys>(server.keys, nullptr);
  if (before->settings.server.keys == server.keys && before->settings.server.api_keys == server.api_keys)
    return before->keys;
  return std::make_shared<const keys::ClientKeys>(server.keys, before->keys.get());
}

void Fleet::adopt(const config::Settings& settings, net::tls::Contexts tls,
                  std::shared_ptr<const keys::ClientKeys> keys) {
  const auto before = snapshot_.get();
  const auto now = std::chrono::steady_clock::now();
  // Pools are shared by all snapshots, and they change before the next one is whole.
  Snapshot::check(settings.server, keys.get(), tls.server().get());
  tls_ = std::move(tls);
  exposition_.set_slos(settings.slos);
  auto after = Snapshot::changed(before.get(), [&](Snapshot& next) {
    next.settings = settings;
    // Where a file of keys was read again and is the same, the snapshot has its list once.
    if (keys) next.settings.server.keys = keys->settings();
    next.keys = std::move(keys);
    next.server_tls = tls_.server();
    make_pools(next, before.get(), now);
  });
  // Pools and replicas that leave are known once all pools of the next snapshot are.
  if (before) {
    after = Snapshot::changed(after.get(), [&](Snapshot& next) {
      next.leaving_pools = leaving_pools(*before, *after);
      next.leaving = leaving(*before, next, now);
    });
    retire_what_left(*before, *after);
  }
  retries_.set_share(settings.limits.retry_budget);
  forget_drains(*after, now);
  if (before && before->keys && before->keys != after->keys) old_keys_.push_back(before->keys);
  snapshot_.set(std::move(after));
}

std::vector<std::shared_ptr<const keys::ClientKeys>> Fleet::take_unused_keys() {
  const auto is_used = [](const auto& one) { return one.use_count() > 1; };
  const auto unused = std::stable_partition(old_keys_.begin(), old_keys_.end(), is_used);
  std::vector<std::shared_ptr<const keys::ClientKeys>> all(std::make_move_iterator(unused),
                                                           std::make_move_iterator(old_keys_.end()));
  old_keys_.erase(unused, old_keys_.end());
  return all;
}

void Fleet::make_pools(Snapshot& next, const Snapshot* before, metrics::Moment now) {
  const auto& settings = next.settings;
  std::vector<std::shared_ptr<PoolRuntime>> pools;
  for (const auto& pool : settings.pools)
    pools.push_back(make_pool(pool, "", nullptr, rollout_of(settings, pool.name), settings.measure, before, now));
  next.shadows.clear();
  for (const auto& shadow : settings.shadows) {
    auto runtime = std::make_shared<ShadowRuntime>();
    runtime->settings = shadow;
    runtime->state = state_of(before, settings, shadow);
    runtime->pool =
        make_pool(pool_of(shadow), shadow.name, runtime->state, std::nullopt, settings.measure, before, now);
    const auto of = std::ranges::find_if(pools, [&](const auto& pool) { return pool->settings.name == shadow.of; });
    if (of != pools.end()) (*of)->shadows.push_back(runtime);
    next.shadows.push_back(std::move(runtime));
  }
  next.pools.assign(pools.begin(), pools.end());
}

/// Makes a pool of the next snapshot. A shadow's has its name and state.
std::shared_ptr<PoolRuntime> Fleet::make_pool(const config::Pool& settings, const std::string& shadow_name,
                                              const std::shared_ptr<const ShadowState>& shadow,
                                              const std::optional<config::Rollout>& rollout,
                                              const config::Measure& measure, const Snapshot* before,
                                              metrics::Moment now) {
  const std::string role(metrics::name_of(!shadow ? metrics::Role::primary : metrics::Role::shadow));
  const auto* const old_pool = same_pool(before, settings.name, shadow_name);
  auto pool = std::make_shared<PoolRuntime>();
  pool->settings = settings;
  pool->shadow = shadow_name;
  pool->unassigned = exposition_.add({settings.name, "", "", role}).shared_from_this();
  pool->balancer = old_pool != nullptr ? old_pool->balancer : balancer::Pool::make(settings.policy, seed_++, sink_);
  if (old_pool != nullptr && old_pool->settings.policy != settings.policy) pool->balancer->set_policy(settings.policy);
  // Copies say nothing of their prompts' prefixes.
  if (!shadow && (old_pool == nullptr || old_pool->settings.prefix_aware != settings.prefix_aware))
    pool->balancer->set_prefix_aware(settings.prefix_aware);
  pool->balancer->set_limits(limits_of(settings), now);
  pool->rollout = rollout;
  begin_split(*pool, old_pool, now);
  pool->poison = old_pool != nullptr ? old_pool->poison : std::make_shared<balancer::story::PoisonMemory>();
  std::vector<balancer::ReplicaSpec> specs;
  for (const auto& place : expanded(settings, discovered_)) {
    const auto* const old = same_replica(before, old_pool, place.settings);
    auto replica = make_replica(place, settings, old, role, measure);
    // Another path or key may get another answer.
    if (old != nullptr &&
        (old_pool->settings.health.path != settings.health.path || old->settings.api_key != place.settings.api_key))
      replica->state->probe_connects = false;
    auto& spec = specs.emplace_back(spec_of(replica, settings, rollout));
    spec.draining = drains_.has(Drains::who(place.settings));
    if (!spec.draining) replica->state->cut = false;
    if (spec.draining && old == nullptr)
      events::info(events::What::drain, place.settings.name, "replica '{}' at {} drains, as it was told to before",
                   place.settings.name, place_text(place.settings));
    pool->replicas.push_back(std::move(replica));
  }
  const auto indexes = pool->balancer->set_replicas(specs, now);
  for (std::size_t i = 0; i < indexes.size(); ++i) pool->replicas[i]->key = pool->balancer->figures().key(indexes[i]);
  export_gauges(*pool, shadow);
  return pool;
}

/// Makes a replica of the next snapshot. `old` is the same one in the snapshot before; null means that it is new.
std::shared_ptr<Replica> Fleet::make_replica(const ReplicaPlace& place, const config::Pool& pool, const Replica* old,
                                             const std::string& role, const config::Measure& measure) {
  auto replica = std::make_shared<Replica>();
  const auto& settings = replica->settings = place.settings;
  replica->pool = pool.name;
  replica->host_in_settings = place.host;
  replica->inject_usage = measure.inject_usage;
  replica->inject_continuous_usage = measure.inject_continuous_usage;
  replica->series = exposition_.add({pool.name, settings.name, settings.config, role}).shared_from_this();
  replica->state = old != nullptr ? old->state : std::shared_ptr<SharedReplica>(new SharedReplica{.id = next_id_++});
  if (const auto address = address_in(settings.url)) replica->state->address.set(address);
  replica->tls = target_of(settings, place.host, tls_, old);
  return replica;
}

void Fleet::retire_what_left(const Snapshot& before, const Snapshot& after) {
  const auto look_at = [&](const metrics::series::ReplicaSeries& series) {
    if (!exports(after, &series)) exposition_.retire(series);
  };
  for (const auto& one : before.leaving) look_at(*one.replica->series);
  before.each_pool([&](const auto& pool) {
    look_at(*pool->unassigned);
    for (const auto& replica : pool->replicas) look_at(*replica->series);
  });
}

void Fleet::ask_for_usage_again() {
  for (const auto& pool : snapshot()->all_pools)
    for (const auto& replica : pool->replicas) replica->state->usage.ask_again();
}

void Fleet::adopt(Discovered discovered) {
  discovered_ = std::move(discovered);
  const auto before = snapshot();
  adopt(before->settings, tls_, before->keys);
}

Fleet::Draining Fleet::set_draining(const std::string& name, bool draining, bool force) {
  const auto now = std::chrono::steady_clock::now();
  const auto before = snapshot();
  for (const auto& pool : before->pools) {
    for (const auto& replica : pool->replicas) {
      if (replica->settings.name != name) continue;
      const auto who = Drains::who(replica->settings);
      if (drains_.has(who) == draining) return Draining::already;
      if (draining && !force && is_last(*pool, *replica, now)) return Draining::last_one;
      if (draining) {
        drains_.begin(who);
        events::info(events::What::drain, name, "replica '{}' drains: it takes no more requests; {} are on it", name,
                     pool->balancer->figures().in_flight(replica->key));
      } else {
        drains_.end(who);
        events::info(events::What::drain, name, "replica '{}' drains no more: it takes requests again", name);
      }
      adopt(before->settings, tls_, before->keys);  // The files of TLS may have changed. Only a reload reads them.
      return Draining::set;
    }
  }
  return Draining::unknown;
}

void Fleet::forget_drains(const Snapshot& snapshot, metrics::Moment now) {
  if (drains_.empty()) return;
  std::set<Drains::Who> there;
  std::set<std::string> expanding;
  for (const auto& pool : snapshot.pools) {
    for (const auto& one : pool->settings.replicas)
      if (one.expand) expanding.insert(one.name);
    for (const auto& one : pool->replicas) there.insert(Drains::who(one->settings));
  }
  drains_.forget(there, expanding, now);
}

void Fleet::look_after_drains() {
  const auto now = std::chrono::steady_clock::now();
  const auto before = snapshot();
  forget_drains(*before, now);
  const auto longest = metrics::ticks(before->settings.limits.drain);
  const auto is_over = [&](balancer::Pool& pool, const Replica& replica, metrics::Moment since) {
    const auto left = pool.figures().in_flight(replica.key);
    if (left != 0 && now - since >= longest) cut(replica, left);
    return left == 0;
  };
  for (const auto& pool : before->pools) {
    for (const auto& replica : pool->replicas) {
      const auto who = Drains::who(replica->settings);
      if (!drains_.has(who)) continue;
      if (!is_over(*pool->balancer, *replica, pool->balancer->health().of(replica->key, now).since)) continue;
      if (drains_.note_over(who))
        events::info(events::What::drain, replica->settings.name, "replica '{}' is drained: nothing is left on it",
                     replica->settings.name);
    }
  }
  std::erase_if(last_waited_, [&](const auto& waited) {
    return std::ranges::none_of(before->leaving_pools,
                                [&](const auto& pool) { return pool->balancer.get() == waited.first; });
  });
  std::vector<LeavingReplica> still;
  for (const auto& one : before->leaving) {
    const bool waited_for = before->is_waited_for(*one.balancer, now);
    if (waited_for) last_waited_[one.balancer.get()] = now;
    // A replica for which requests waited has limits.drain from the end of the waiting.
    const auto waited = last_waited_.find(one.balancer.get());
    const auto since = waited == last_waited_.end() ? one.since : std::max(one.since, waited->second);
    if (!is_over(*one.balancer, *one.replica, since) || waited_for) {
      still.push_back(one);
      continue;
    }
    events::info(events::What::drain, one.replica->settings.name,
                 "replica '{}' at {} is gone: its last request has ended", one.replica->settings.name,
                 place_text(one.replica->settings));
  }
  // A request holds the snapshot in which it began, and with it a pool with this balancer; not this one, if another
  // reload came between.
  const auto is_known = [now](const std::shared_ptr<const PoolRuntime>& pool) {
    if (pool.use_count() > 1) return true;
    auto& figures = pool->balancer->figures();
    return figures.in_flight() > 0 || figures.queue(now).waiting > 0;
  };
  std::vector<std::shared_ptr<const PoolRuntime>> known;
  std::ranges::copy_if(before->leaving_pools, std::back_inserter(known), is_known);
  if (still.size() == before->leaving.size() && known.size() == before->leaving_pools.size()) return;
  auto after = Snapshot::changed(before.get(), [&](Snapshot& next) {
    next.leaving = std::move(still);
    next.leaving_pools = std::move(known);
  });
  retire_what_left(*before, *after);
  snapshot_.set(std::move(after));
}

std::size_t Fleet::in_flight() const {
  const auto now = snapshot();
  std::size_t total = 0;
  for (const auto* pools : {&now->pools, &now->leaving_pools})
    for (const auto& pool : *pools) total += pool->balancer->figures().in_flight();
  return total;
}

}  // namespace weir::proxy::fleet
