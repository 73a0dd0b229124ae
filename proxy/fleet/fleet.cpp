#include "proxy/fleet/fleet.hpp"

#include <algorithm>
#include <chrono>

#include "config/injection.hpp"

namespace weir::proxy::fleet {
namespace {

/// Members of one name have the same authority, and an address each.
std::string place_of(const config::ReplicaUrl& url) { return url.host + ' ' + url.authority + url.prefix; }

metrics::series::ReplicaGauges gauges_of(const config::Replica& settings, const ReplicaState& state,
                                         const balancer::ReplicaKey& key, balancer::Pool& pool) {
  const auto now = std::chrono::steady_clock::now();
  const auto load = pool.load(key.index, now);
  metrics::series::ReplicaGauges gauges;
  gauges.queued_prefill_tokens = load.prefill_left;
  gauges.queued_decode_tokens = load.decode_left;
  gauges.resident_tokens = load.resident;
  gauges.in_flight = load.in_flight;
  const auto engine = state.engine.get();
  gauges.kv_tokens = settings.kv_tokens ? settings.kv_tokens : engine.kv_tokens;
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
  gauges.injection_disabled = state.injection_disabled.load(std::memory_order_relaxed);
  gauges.state = pool.health(key, now).state;
  gauges.gpu = settings.gpu;
  gauges.balancer_fallbacks = load.fallbacks;
  return gauges;
}

/// Returns the pool of that name, if its books can be kept.
const PoolRuntime* same_pool(const World* world, const config::Pool& settings) {
  if (world == nullptr) return nullptr;
  for (const auto& pool : world->pools) {
    const auto& old = pool->settings;
    if (old.name == settings.name && old.policy == settings.policy && old.decode_weight == settings.decode_weight)
      return pool.get();
  }
  return nullptr;
}

const ReplicaRuntime* same_replica(const PoolRuntime* pool, const config::Replica& settings) {
  if (pool == nullptr) return nullptr;
  for (const auto& replica : pool->replicas)
    if (replica->settings.name == settings.name && replica->settings.url == settings.url) return replica.get();
  return nullptr;
}

bool exports(const World& world, const metrics::series::ReplicaSeries* series) {
  return std::ranges::any_of(world.pools, [series](const auto& pool) {
    return pool->unassigned.get() == series ||
           std::ranges::any_of(pool->replicas, [series](const auto& one) { return one->series.get() == series; });
  });
}

}  // namespace

bool RetryBudget::take(std::size_t in_flight) {
  const auto share = share_.load(std::memory_order_relaxed);
  if (share <= 0) return false;
  const auto limit = std::max<std::size_t>(3, static_cast<std::size_t>(share * static_cast<double>(in_flight)));
  if (under_way_.fetch_add(1, std::memory_order_relaxed) < limit) return true;
  give_back();
  return false;
}

Fleet::Fleet(const config::Settings& settings, metrics::series::Exposition& exposition, std::uint64_t seed)
    : exposition_(exposition), seed_(seed), retries_(settings.limits.retry_budget) {
  adopt(settings);
}

void Fleet::adopt(const config::Settings& settings) {
  const auto before = world_.get();
  const auto now = std::chrono::steady_clock::now();
  auto world = std::make_shared<World>();
  world->settings = settings;
  for (const auto& pool_settings : settings.pools) {
    const auto* const old_pool = same_pool(before.get(), pool_settings);
    auto pool = std::make_unique<PoolRuntime>();
    pool->settings = pool_settings;
    pool->unassigned = exposition_.add({pool_settings.name, "", ""}).shared_from_this();
    pool->balancer = old_pool != nullptr
                         ? old_pool->balancer
                         : balancer::Pool::make(pool_settings.policy, pool_settings.decode_weight, seed_++);
    pool->opinions = old_pool != nullptr ? old_pool->opinions : std::make_shared<SecondOpinions>();
    std::vector<balancer::ReplicaSpec> specs;
    for (const auto& [replica_settings, host] : expanded(pool_settings, discovered_)) {
      const auto* const old_replica = same_replica(old_pool, replica_settings);
      auto replica = std::make_shared<ReplicaRuntime>();
      replica->settings = replica_settings;
      replica->pool = pool_settings.name;
      replica->host_in_settings = host;
      replica->inject_usage = config::injects_usage(settings.measure, replica_settings);
      replica->inject_continuous_usage = config::injects_continuous_usage(settings.measure, replica_settings);
      replica->series = exposition_.add({pool_settings.name, replica_settings.name, replica_settings.config, "primary"})
                            .shared_from_this();
      replica->state = old_replica != nullptr ? old_replica->state
                                              : std::shared_ptr<ReplicaState>(new ReplicaState{.id = next_id_++});
      boost::system::error_code no_address;
      const auto address = boost::asio::ip::make_address(replica_settings.url.host, no_address);
      if (!no_address) replica->state->address.set({{address, replica_settings.url.port}});
      specs.push_back({replica_settings.name, place_of(replica_settings.url), replica, replica_settings.weight,
                       replica_settings.kv_tokens, replica_settings.max_context, replica_settings.max_in_flight,
                       pool_settings.health});
      pool->replicas.push_back(std::move(replica));
    }
    const auto indexes = pool->balancer->set_replicas(specs, now);
    for (std::size_t i = 0; i < indexes.size(); ++i) {
      auto& replica = *pool->replicas[i];
      replica.key = pool->balancer->key(indexes[i]);
      // The pointer does not own the pool, because the pool's replicas own their series.
      const std::weak_ptr<balancer::Pool> of_pool = pool->balancer;
      replica.series->gauges = [of = replica.settings, state = replica.state, key = replica.key, of_pool] {
        const auto books = of_pool.lock();
        return books ? gauges_of(of, *state, key, *books) : metrics::series::ReplicaGauges();
      };
    }
    world->pools.push_back(std::move(pool));
  }
  retries_.set_share(settings.limits.retry_budget);
  if (before) {
    for (const auto& pool : before->pools) {
      if (!exports(*world, pool->unassigned.get())) exposition_.retire(*pool->unassigned);
      for (const auto& replica : pool->replicas)
        if (!exports(*world, replica->series.get())) exposition_.retire(*replica->series);
    }
  }
  world_.set(std::move(world));
}

void Fleet::adopt(Discovered discovered) {
  discovered_ = std::move(discovered);
  adopt(world()->settings);
}

std::size_t Fleet::in_flight() const {
  const auto now = world();
  std::size_t total = 0;
  for (const auto& pool : now->pools) total += pool->balancer->in_flight();
  return total;
}

bool Fleet::any_up() const {
  const auto world = world_.get();
  const auto now = std::chrono::steady_clock::now();
  for (const auto& pool : world->pools) {
    for (const auto& replica : pool->replicas) {
      if (!replica->state->address.get()) continue;  // Its name has not been looked up yet.
      const auto state = pool->balancer->health(replica->key, now).state;
      if (state == metrics::ReplicaState::up || state == metrics::ReplicaState::starting) return true;
    }
  }
  return false;
}

}  // namespace weir::proxy::fleet
