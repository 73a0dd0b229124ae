#include "proxy/fleet/snapshot.hpp"

#include <algorithm>
#include <stdexcept>

namespace weir::proxy::fleet {

std::optional<net::Destination> Replica::destination() const {
  const auto address = state->address.get();
  if (!address) return std::nullopt;
  return net::Destination(*address, tls);
}

void Snapshot::complete() {
  all_pools = pools;
  for (const auto& shadow : shadows) all_pools.push_back(shadow->pool);
  check(settings.server, keys.get(), server_tls.get());
}

void Snapshot::check(const config::Server& server, const keys::ClientKeys* keys, const net::tls::ServerContext* tls) {
  const bool needs_keys = !server.api_keys.empty() || !server.keys.empty();
  if (needs_keys != (keys != nullptr))
    throw std::logic_error(needs_keys ? "settings with api_keys came without clients' keys, so they are not used"
                                      : "settings without api_keys came with clients' keys, so they are not used");
  if (server.tls.has_value() != (tls != nullptr))
    throw std::logic_error(server.tls ? "settings with [server.tls] came without TLS, so they are not used"
                                      : "settings without [server.tls] came with TLS, so they are not used");
}

const PoolRuntime* Snapshot::pool_for(std::string_view model) const {
  for (const auto& pool : pools) {
    const auto& models = pool->settings.models;
    if (models.empty() || std::find(models.begin(), models.end(), model) != models.end()) return pool.get();
  }
  return model.empty() && !pools.empty() ? pools.front().get() : nullptr;
}

bool Snapshot::needs_model() const {
  return pools.size() > 1 &&
         std::ranges::none_of(pools, [](const auto& pool) { return pool->settings.models.empty(); });
}

bool Snapshot::is_prefix_aware() const {
  return std::ranges::any_of(pools, [](const auto& pool) { return pool->settings.is_prefix_aware(); });
}

bool PoolRuntime::has(const Replica& replica) const {
  return std::ranges::any_of(replicas, [&](const auto& one) { return one->state == replica.state; });
}

bool PoolRuntime::may_serve(const Replica& replica, metrics::Moment now) const {
  if (!replica.state->address.get()) return false;  // Its name has not been looked up yet.
  const auto health = balancer->health().of(replica.key, now);
  if (health.closed) return false;
  const auto state = health.state;
  return state == metrics::ReplicaState::up || state == metrics::ReplicaState::starting;
}

const PoolRuntime* Snapshot::pool_of(const balancer::Pool& balancer) const {
  for (const auto& pool : pools)
    if (pool->balancer.get() == &balancer) return pool.get();
  return nullptr;
}

bool Snapshot::is_waited_for(const balancer::Pool& pool, metrics::Moment now) const {
  return std::ranges::any_of(leaving_pools, [&](const auto& one) {
    return one->balancer.get() == &pool && one->balancer->figures().queue(now).waiting > 0;
  });
}

std::string Snapshot::known_models() const {
  std::string names;
  for (const auto& pool : pools)
    for (const auto& model : pool->settings.models) names.append(names.empty() ? "" : ", ").append(model);
  return names;
}

std::optional<std::uint64_t> kv_tokens_of(const config::Replica& settings, const SharedReplica& state) {
  return settings.kv_tokens ? settings.kv_tokens : state.engine.get().kv_tokens;
}

bool any_up(const PoolRuntime& pool, metrics::Moment now) {
  return std::ranges::any_of(pool.replicas, [&](const auto& replica) { return pool.may_serve(*replica, now); });
}

}  // namespace weir::proxy::fleet
