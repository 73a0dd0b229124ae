#include "proxy/fleet/fleet.hpp"

#include <algorithm>

namespace weir::proxy::fleet {
namespace {

metrics::series::ReplicaGauges gauges_of(const ReplicaRuntime& replica, balancer::Pool& pool) {
  const auto load = pool.load(replica.index, std::chrono::steady_clock::now());
  metrics::series::ReplicaGauges gauges;
  gauges.queued_prefill_tokens = load.prefill_left;
  gauges.queued_decode_tokens = load.decode_left;
  gauges.resident_tokens = load.resident;
  gauges.in_flight = load.in_flight;
  gauges.kv_tokens = replica.settings.kv_tokens;
  gauges.oldest_unanswered_seconds = load.oldest_unanswered_seconds;
  gauges.busy_seconds = load.busy_seconds;
  gauges.in_flight_seconds = {load.prefill_seconds, load.decode_seconds};
  gauges.injection_disabled = replica.injection_disabled.load(std::memory_order_relaxed);
  gauges.gpu = replica.settings.gpu;
  gauges.balancer_fallbacks = load.fallbacks;
  return gauges;
}

}  // namespace

bool RetryBudget::take(std::size_t in_flight) {
  if (share_ <= 0) return false;
  const auto limit = std::max<std::size_t>(3, static_cast<std::size_t>(share_ * static_cast<double>(in_flight)));
  if (under_way_.fetch_add(1, std::memory_order_relaxed) < limit) return true;
  give_back();
  return false;
}

Fleet::Fleet(const config::Settings& settings, metrics::series::Exposition& exposition, std::uint64_t seed)
    : retries_(settings.limits.retry_budget) {
  const auto now = std::chrono::steady_clock::now();
  for (const auto& pool_settings : settings.pools) {
    auto pool = std::make_unique<PoolRuntime>();
    pool->settings = pool_settings;
    pool->unassigned = &exposition.add({pool_settings.name, "", ""});
    pool->balancer = balancer::Pool::make(pool_settings.policy, pool_settings.decode_weight, seed++);
    std::vector<balancer::ReplicaSpec> specs;
    for (const auto& replica : pool_settings.replicas)
      specs.push_back({replica.name, replica.weight, replica.kv_tokens, replica.max_context, replica.max_in_flight});
    const auto indexes = pool->balancer->set_replicas(specs, now);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      auto replica = std::make_unique<ReplicaRuntime>();
      replica->settings = pool_settings.replicas[i];
      replica->pool = pool_settings.name;
      replica->index = indexes[i];
      replica->inject_usage = replica->settings.inject_usage.value_or(settings.measure.inject_usage);
      replica->inject_continuous_usage =
          replica->settings.inject_continuous_usage.value_or(settings.measure.inject_continuous_usage);
      replica->series =
          &exposition.add({pool_settings.name, replica->settings.name, replica->settings.config, "primary"});
      replica->series->gauges = [raw = replica.get(), balancer = pool->balancer] { return gauges_of(*raw, *balancer); };
      pool->replicas.push_back(std::move(replica));
    }
    pools_.push_back(std::move(pool));
  }
}

PoolRuntime* Fleet::pool_for(std::string_view model) const {
  for (const auto& pool : pools_) {
    const auto& models = pool->settings.models;
    if (models.empty() || model.empty() || std::find(models.begin(), models.end(), model) != models.end())
      return pool.get();
  }
  return nullptr;
}

std::string Fleet::known_models() const {
  std::string names;
  for (const auto& pool : pools_)
    for (const auto& model : pool->settings.models) names.append(names.empty() ? "" : ", ").append(model);
  return names;
}

std::size_t Fleet::in_flight() const {
  std::size_t total = 0;
  for (const auto& pool : pools_) total += pool->balancer->in_flight();
  return total;
}

}  // namespace weir::proxy::fleet
