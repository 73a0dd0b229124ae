#include "proxy/control/api.hpp"

#include <simdjson.h>

#include <algorithm>

#include "config/difference.hpp"
#include "config/url.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/control/log_watch.hpp"
#include "proxy/control/shadow_api.hpp"

namespace weir::proxy::control {
namespace {

using metrics::wire::JsonWriter;

/// Ends the outermost object of an answer.
ApiAnswer answer_of(JsonWriter& json, unsigned status = 200) { return {status, json.close('}').written() + "\n"}; }

void begin_error(JsonWriter& json, unsigned status, std::string_view code, const std::string& message) {
  json.open('{').key("error").open('{').key("message").text(message);
  json.key("type").text(status >= 500 ? "api_error" : "invalid_request_error");
  json.key("param").null().key("code").text(code).close('}');
}

void write_weir(JsonWriter& json, const Standing& standing) {
  const auto& log = standing.log;
  json.key("weir").open('{').key("drains").boolean(standing.draining);
  json.key("last_reload_errors").texts(standing.reload_errors);
  json.key("log").open('{').key("lines_lost").count(log.dropped).key("loses").boolean(standing.log_loses);
  json.key("waits_for_reader").boolean(log.waits_for_reader);
  json.key("why").known_text(standing.log_loses ? why_lost(log) : "").close('}').close('}');
}

/// Figures that the engine does not tell, or told too long ago, are null.
void write_engine(JsonWriter& json, const fleet::Replica& replica, metrics::Moment now) {
  const auto figures = replica.state->engine.get();
  const bool is_known = figures.engine != fleet::Engine::unknown;
  json.key("engine").open('{').key("name").known_text(is_known ? fleet::name_of(figures.engine) : "");
  json.key("version").known_text(figures.version).key("model").known_text(figures.model);
  json.key("kv_tokens").count(figures.kv_tokens).key("max_context").count(figures.max_context);
  const auto* const told = figures.load_at(now);
  const auto load = told != nullptr ? *told : fleet::EngineLoad();
  json.key("running").exact(load.running).key("waiting").exact(load.waiting).key("kv_usage").exact(load.kv_usage);
  json.key("prefix_cache_queries").exact(load.prefix_queries).key("prefix_cache_hits").exact(load.prefix_hits);
  json.key("divergence").exact(load.divergence).close('}');
}

/// A replica that leaves the settings drains since a moment.
void write_replica(JsonWriter& json, const fleet::Replica& replica, const balancer::ReplicaLoad& load,
                   const balancer::ReplicaHealth& health, const Medians& medians, metrics::Moment now,
                   std::optional<metrics::Moment> leaves_since = std::nullopt) {
  const auto median = medians.of(replica.pool, replica.settings.name);
  const auto address = replica.state->address.get();
  const auto state = leaves_since ? metrics::ReplicaState::draining : health.state;
  json.open('{').key("pool").text(replica.pool).key("role").text(replica.series->labels().role);
  json.key("name").text(replica.settings.name).key("config").text(replica.settings.config);
  json.key("url").text(config::to_text(replica.settings.url));
  json.key("address").known_text(address ? address->to_text() : "").key("weight").exact(replica.settings.weight);
  json.key("state").text(metrics::name_of(state));
  json.key("state_seconds").exact(std::max(0.0, metrics::seconds(now - leaves_since.value_or(health.since))));
  json.key("reason").text(leaves_since ? "it is no longer in the settings" : health.reason);
  json.key("in_flight").count(load.in_flight).key("queued_prefill_tokens").count(load.prefill_left);
  json.key("queued_decode_tokens").count(load.decode_left).key("resident_tokens").count(load.resident);
  json.key("oldest_unanswered_seconds").exact(load.oldest_unanswered_seconds);
  json.key("ttft_p50_seconds").exact(median.ttft).key("tpot_p50_seconds").exact(median.tpot);
  write_engine(json, replica, now);
  json.key("injection_disabled").boolean(replica.state->usage.is_refused()).close('}');
}

/// Tells the state of an undrained replica: an operator wants to know whether it takes requests. One that is ejected is
/// taken back.
void tell_undrained(JsonWriter& json, const fleet::Snapshot& snapshot, const std::string& name, metrics::Moment now) {
  for (const auto& pool : snapshot.pools) {
    for (const auto& replica : pool->replicas) {
      if (replica->settings.name != name) continue;
      json.key("pardoned").boolean(pool->balancer->health().pardon(replica->key, now));
      const auto health = pool->balancer->health().of(replica->key, now);
      json.key("state").text(metrics::name_of(health.state)).key("reason").text(health.reason);
    }
  }
}

/// Returns whether the body asks for force, or nothing if it is no such object.
std::optional<bool> forced(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == body.npos) return false;
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (parser.parse(body.data(), body.size()).get(object)) return std::nullopt;
  bool force = false;
  for (const auto& [name, value] : object)
    if (name != "force" || value.get(force)) return std::nullopt;
  return force;
}

}  // namespace

ApiAnswer api_error(unsigned status, std::string_view code, const std::string& message) {
  JsonWriter json;
  begin_error(json, status, code, message);
  return answer_of(json, status);
}

ApiAnswer replicas_answer(const fleet::Snapshot& snapshot, const Medians& medians, metrics::Moment now, bool bypassed,
                          const Standing& standing) {
  JsonWriter json;
  json.open('{').key("replicas").open('[');
  std::vector<balancer::PoolLoad> loads;
  for (const auto& pool : snapshot.all_pools) {
    const auto& load = loads.emplace_back(pool->balancer->figures().load(now));
    for (const auto& replica : pool->replicas)
      write_replica(json, *replica, load.of(replica->key), pool->balancer->health().of(replica->key, now), medians,
                    now);
  }
  for (const auto& [balancer, replica, since] : snapshot.leaving)
    write_replica(json, *replica, balancer->figures().load(replica->key, now), balancer->health().of(replica->key, now),
                  medians, now, since);
  json.close(']').key("pools").open('[');
  for (std::size_t i = 0; i < loads.size(); ++i) {
    json.open('{').key("name").text(snapshot.all_pools[i]->settings.name).key("in_flight").count(loads[i].in_flight);
    const auto& queue = loads[i].queue;
    json.key("waiting").count(queue.waiting);
    json.key("oldest_waiting_s").fixed(queue.waiting > 0 ? std::optional{queue.oldest_seconds} : std::nullopt, 3);
    json.close('}');
  }
  json.close(']').key("bypass").boolean(bypassed);
  write_shadows(json, snapshot);
  write_weir(json, standing);
  return answer_of(json);
}

ApiAnswer drain_answer(fleet::Fleet& fleet, std::string_view replica, bool drains, std::string_view body,
                       metrics::Moment now) {
  const std::string name(replica);
  const auto force = forced(body);
  if (!force)
    return api_error(400, "bad_body",
                     "the body must be empty, or a JSON object with nothing but \"force\": true or false");
  bool changed = false;
  switch (fleet.set_draining(name, drains, *force)) {
    case fleet::Fleet::Draining::unknown:
      return api_error(404, "unknown_replica", "no replica is named '" + name + "'; GET /api/replicas lists them");
    case fleet::Fleet::Draining::last_one:
      return api_error(409, "last_replica",
                       "'" + name +
                           "' is the last replica of its pool that is up: without it requests would be refused; "
                           "bring another one up first, or drain it all the same: weir drain " +
                           name + " --force, or {\"force\": true} over HTTP");
    case fleet::Fleet::Draining::already:
      break;
    case fleet::Fleet::Draining::set:
      changed = true;
  }
  JsonWriter json;
  json.open('{').key("changed").boolean(changed).key("name").text(name).key("draining").boolean(drains);
  if (!drains) tell_undrained(json, *fleet.snapshot(), name, now);
  return answer_of(json);
}

ApiAnswer settings_answer(const config::Settings& settings) {
  JsonWriter json;
  json.open('{').key("settings").open('[');
  for (const auto& listed : config::listing_of(settings)) {
    json.open('{').key("name").text(listed.name).key("within").text(listed.within).key("keys").open('{');
    for (const auto& key : listed.keys) json.key(key.key).text(key.value);
    json.close('}').close('}');
  }
  json.close(']').key("overridden").texts(settings.overridden);
  return answer_of(json);
}

ApiAnswer reload_answer(const Reload::Result& result) {
  JsonWriter json;
  switch (result.kind) {
    case Reload::Result::Kind::done:
      json.open('{').key("changes").texts(result.changes);
      return answer_of(json);
    case Reload::Result::Kind::busy:
      return api_error(409, "reload_under_way", result.errors.front());
    case Reload::Result::Kind::refused:
      return api_error(409, "not_now", result.errors.front());
    case Reload::Result::Kind::failed:
      break;
  }
  begin_error(json, 400, "bad_settings",
              "the settings cannot be used, and nothing has changed; \"errors\" says why: " +
                  std::to_string(result.errors.size()));
  json.key("errors").texts(result.errors);
  return answer_of(json, 400);
}

}  // namespace weir::proxy::control
