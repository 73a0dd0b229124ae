#include "proxy/fleet/snapshot.hpp"

#include <simdjson.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include "metrics/moment.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/fleet/engine_page.hpp"

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

std::unique_ptr<net::Channel> IdleConnections::take(const SharedReplica& replica, const net::Destination& where,
                                                    metrics::Moment now) {
  auto& waiting = idle_[replica.id];
  while (!waiting.empty()) {
    auto idle = std::move(waiting.back());
    waiting.pop_back();
    if (where == idle.where && now - idle.since < longest_ && idle.connection->is_quiet())
      return std::move(idle.connection);
  }
  return nullptr;
}

bool IdleConnections::put(const SharedReplica& replica, net::Destination where,
                          std::unique_ptr<net::Channel> connection, metrics::Moment now) {
  auto& waiting = idle_[replica.id];
  waiting.push_back({std::move(connection), std::move(where), now});
  if (waiting.size() <= most_) return true;
  waiting.pop_front();
  return most_ == 0;  // A limit of 0 is no shortage.
}

void IdleConnections::drop_old(metrics::Moment now) {
  for (auto& [replica, waiting] : idle_)
    std::erase_if(waiting, [&](const Idle& idle) {
      return now - idle.since >= longest_ || idle.connection->ended() != net::Channel::Ended::no;
    });
}

void IdleConnections::adopt(const Snapshot& snapshot) {
  most_ = snapshot.settings.limits.idle_upstream_connections;
  longest_ = metrics::ticks(snapshot.settings.limits.upstream_idle);
  std::unordered_set<std::uint64_t> named;
  for (const auto& pool : snapshot.all_pools)
    for (const auto& replica : pool->replicas) named.insert(replica->state->id);
  std::erase_if(idle_, [&named](const auto& one) { return !named.contains(one.first); });
  for (auto& [replica, waiting] : idle_)
    while (waiting.size() > most_) waiting.pop_front();
}

std::string in_words(std::chrono::steady_clock::duration time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  const auto parts = [](auto large, const char* large_unit, auto small, const char* small_unit) {
    return std::to_string(large) + large_unit + (small == 0 ? "" : " " + std::to_string(small) + small_unit);
  };
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600) return parts(seconds / 60, " min", seconds % 60, " s");
  return parts(seconds / 3600, " h", seconds / 60 % 60, " min");
}

std::optional<std::string> FailureNotes::failed(std::string_view why, Moment now) {
  const std::lock_guard lock(mutex_);
  const bool quiet = !watching_.load(std::memory_order_relaxed);
  // After a quiet time the counts start anew, since nobody has failed in it.
  if (quiet || (failures_ == 0 && !down_ && now - last_line_ >= between_lines)) {
    watching_.store(true, std::memory_order_relaxed);
    down_ = true;
    failures_down_ = 1;
    first_failure_ = now;
    line_given(now);
    return "fails: " + std::string(why);
  }
  why_ = why;
  ++failures_;
  ++attempts_;
  ++failures_down_;
  if (now - last_line_ < between_lines) return std::nullopt;
  return counted(now);
}

std::optional<std::string> FailureNotes::returned(Moment now) {
  const std::lock_guard lock(mutex_);
  if (!watching_.load(std::memory_order_relaxed)) return std::nullopt;
  if (down_) {
    down_ = false;
    auto line = "answers again after " + in_words(now - first_failure_) + ", in which " +
                std::to_string(failures_down_) + (failures_down_ == 1 ? " attempt failed" : " attempts failed");
    line_given(now);
    return line;
  }
  ++attempts_;
  if (now - last_line_ < between_lines) return std::nullopt;
  if (failures_ > 0) return counted(now);
  watching_.store(false, std::memory_order_relaxed);
  return std::nullopt;
}

/// Writes the line for a minute, or for longer if nothing came.
std::string FailureNotes::counted(Moment now) {
  const bool all = failures_ == attempts_;
  auto line = (all ? "still fails: all " + std::to_string(failures_)
                   : "fails now and then: " + std::to_string(failures_) + " of " + std::to_string(attempts_)) +
              " attempts of the last " + in_words(now - last_line_) + " failed, the last one: " + why_;
  if (all && !down_) {
    down_ = true;
    failures_down_ = failures_;
    first_failure_ = last_line_;
  }
  line_given(now);
  return line;
}

void FailureNotes::line_given(Moment now) {
  last_line_ = now;
  failures_ = attempts_ = 0;
}

namespace {

/// A list that is nested deeper is none: clients may not read it.
constexpr std::size_t deepest = 32;

/// Returns the entry of a model that the settings name and no replica has told of.
ModelEntry entry_named(const std::string& id) {
  metrics::wire::JsonWriter json;
  json.open('{').key("id").text(id).key("object").text("model").key("owned_by").text("weir").close('}');
  return {id, json.written()};
}

/// Returns "" for an entry without an id. Clients read the last of two, as most readers of JSON do.
std::string_view id_of(const simdjson::dom::element& entry) {
  std::string_view id;
  simdjson::dom::object members;
  if (entry.get(members)) return id;
  for (const auto [name, value] : members)
    if (name == "id" && value.get(id)) id = {};
  return id;
}

}  // namespace

ModelEntries entries_of(std::string_view body) {
  ModelEntries entries;
  simdjson::dom::parser parser;
  simdjson::dom::array list;
  if (parser.allocate(body.size(), deepest)) return entries;
  if (parse_page(parser, body)["data"].get(list)) return entries;
  for (const auto entry : list) {
    const auto id = id_of(entry);
    if (!id.empty()) entries.push_back({std::string(id), simdjson::minify(entry)});
  }
  return entries;
}

balancer::ModelList ids_of(const ModelEntries& entries) {
  if (entries.empty()) return nullptr;
  auto ids = std::make_shared<std::vector<balancer::ModelId>>();
  for (const auto& entry : entries) ids->push_back(balancer::model_id(entry.id));
  std::ranges::sort(*ids);
  return ids;
}

void ServedModels::add_pool(const std::vector<std::string>& named,
                            std::span<const std::shared_ptr<const ModelEntries>> replicas) {
  const auto told = [&](std::string_view id) {
    for (const auto& entries : replicas)
      for (const auto& entry : *entries)
        if (entry.id == id) return &entry;
    return static_cast<const ModelEntry*>(nullptr);
  };
  for (const auto& id : named) {
    const auto* entry = told(id);
    add(entry != nullptr ? *entry : entry_named(id));
  }
  if (!named.empty()) return;
  for (const auto& entries : replicas)
    for (const auto& entry : *entries) add(entry);
}

void ServedModels::add(const ModelEntry& entry) {
  if (places_.try_emplace(entry.id, entries_.size()).second) entries_.push_back(entry);
}

ServedModels ServedModels::only(const std::vector<std::string>& ids) const {
  ServedModels some;
  for (const auto& entry : entries_)
    if (std::ranges::find(ids, entry.id) != ids.end()) some.add(entry);
  return some;
}

const std::string* ServedModels::find(std::string_view id) const {
  const auto found = places_.find(id);
  return found == places_.end() ? nullptr : &entries_[found->second].json;
}

std::string ServedModels::text() const {
  metrics::wire::JsonWriter json;
  json.open('{').key("object").text("list").key("data").open('[');
  for (const auto& entry : entries_) json.raw(entry.json);
  return json.close(']').close('}').written() + "\n";
}

}  // namespace weir::proxy::fleet
