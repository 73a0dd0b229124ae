#include "proxy/control/api.hpp"

#include <boost/json.hpp>

#include "config/url.hpp"
#include "proxy/control/log_watch.hpp"
#include "proxy/control/shadow_api.hpp"

namespace weir::proxy::control {
namespace {

namespace json = boost::json;

ApiAnswer answer_of(const json::object& object, unsigned status = 200) {
  return {status, json::serialize(object) + "\n"};
}

json::object error_object(unsigned status, std::string_view code, const std::string& message) {
  json::object error;
  error["message"] = message;
  error["type"] = status >= 500 ? "api_error" : "invalid_request_error";
  error["param"] = nullptr;
  error["code"] = code;
  return {{"error", std::move(error)}};
}

json::object weir_object(const Standing& standing) {
  const auto& log = standing.log;
  return {{"drains", standing.draining},
          {"last_reload_errors", json::array(standing.reload_errors.begin(), standing.reload_errors.end())},
          {"log", json::object{{"lines_lost", log.dropped},
                               {"loses", standing.log_loses},
                               {"waits_for_reader", log.waits_for_reader},
                               {"why", standing.log_loses ? json::value(why_lost(log)) : json::value()}}}};
}

json::value value_of(std::optional<double> number) { return number ? json::value(*number) : json::value(nullptr); }

/// What the engine tells; null where it is unknown or stale.
json::object engine_object(const fleet::Replica& replica, metrics::Moment now) {
  const auto figures = replica.state->engine.get();
  const auto known = [](const auto& value) { return value ? json::value(*value) : json::value(); };
  const auto text = [](const std::string& value) { return value.empty() ? json::value() : json::value(value); };
  json::object object;
  object["name"] =
      figures.engine == fleet::Engine::unknown ? json::value() : json::value(fleet::name_of(figures.engine));
  object["version"] = text(figures.version);
  object["model"] = text(figures.model);
  object["kv_tokens"] = known(figures.kv_tokens);
  object["max_context"] = known(figures.max_context);
  const auto* const load = figures.load_at(now);
  const auto told = [load](std::optional<double> fleet::EngineLoad::*figure) {
    const bool is_known = load != nullptr && (load->*figure).has_value();
    return is_known ? json::value(*(load->*figure)) : json::value();
  };
  object["running"] = told(&fleet::EngineLoad::running);
  object["waiting"] = told(&fleet::EngineLoad::waiting);
  object["kv_usage"] = told(&fleet::EngineLoad::kv_usage);
  object["prefix_cache_queries"] = told(&fleet::EngineLoad::prefix_queries);
  object["prefix_cache_hits"] = told(&fleet::EngineLoad::prefix_hits);
  object["divergence"] = told(&fleet::EngineLoad::divergence);
  return object;
}

json::object replica_object(const fleet::Replica& replica, const balancer::ReplicaLoad& load,
                            const balancer::ReplicaHealth& health, const Medians& medians, metrics::Moment now) {
  const auto median = medians.of(replica.pool, replica.settings.name);
  json::object object;
  object["pool"] = replica.pool;
  object["role"] = replica.series->labels().role;
  object["name"] = replica.settings.name;
  object["config"] = replica.settings.config;
  object["url"] = config::to_text(replica.settings.url);
  const auto address = replica.state->address.get();
  object["address"] = address ? json::value(address->to_text()) : json::value();
  object["weight"] = replica.settings.weight;
  object["state"] = metrics::name_of(health.state);
  object["state_seconds"] = std::max(0.0, metrics::seconds(now - health.since));
  object["reason"] = health.reason;
  object["in_flight"] = load.in_flight;
  object["queued_prefill_tokens"] = load.prefill_left;
  object["queued_decode_tokens"] = load.decode_left;
  object["resident_tokens"] = load.resident;
  object["oldest_unanswered_seconds"] = load.oldest_unanswered_seconds;
  object["speed"] = load.speed;
  object["ttft_p50_seconds"] = value_of(median.ttft);
  object["tpot_p50_seconds"] = value_of(median.tpot);
  object["engine"] = engine_object(replica, now);
  object["injection_disabled"] = replica.state->usage.is_refused();
  return object;
}

json::array texts(const std::vector<std::string>& all) { return json::array(all.begin(), all.end()); }

/// Tells the state of an undrained replica: an operator wants to know whether it takes requests. One that is ejected is
/// taken back.
void tell_undrained(const fleet::Snapshot& snapshot, const std::string& name, metrics::Moment now, json::object& done) {
  for (const auto& pool : snapshot.pools) {
    for (const auto& replica : pool->replicas) {
      if (replica->settings.name != name) continue;
      done["pardoned"] = pool->balancer->health().pardon(replica->key, now);
      const auto health = pool->balancer->health().of(replica->key, now);
      done["state"] = metrics::name_of(health.state);
      done["reason"] = health.reason;
    }
  }
}

/// Returns whether the body asks for force, or nothing if it is no such object.
std::optional<bool> forced(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == body.npos) return false;
  json::error_code error;
  const auto parsed = json::parse(json::string_view(body.data(), body.size()), error);
  if (error || !parsed.is_object()) return std::nullopt;
  bool force = false;
  for (const auto& [name, value] : parsed.get_object()) {
    if (name != "force" || !value.is_bool()) return std::nullopt;
    force = value.get_bool();
  }
  return force;
}

}  // namespace

ApiAnswer api_error(unsigned status, std::string_view code, const std::string& message) {
  return answer_of(error_object(status, code, message), status);
}

ApiAnswer replicas_answer(const fleet::Snapshot& snapshot, const Medians& medians, metrics::Moment now, bool bypassed,
                          const Standing& standing) {
  json::array replicas, pools;
  for (const auto& pool : snapshot.all_pools) {
    const auto load = pool->balancer->figures().load(now);
    for (const auto& replica : pool->replicas) {
      const auto health = pool->balancer->health().of(replica->key, now);
      replicas.push_back(replica_object(*replica, load.of(replica->key), health, medians, now));
    }
    pools.push_back(json::object{{"name", pool->settings.name},
                                 {"in_flight", load.in_flight},
                                 {"waiting", load.queue.waiting}});
  }
  for (const auto& [balancer, replica, since] : snapshot.leaving) {
    auto object = replica_object(*replica, balancer->figures().load(replica->key, now),
                                 balancer->health().of(replica->key, now), medians, now);
    object["state"] = metrics::name_of(metrics::ReplicaState::draining);
    object["state_seconds"] = metrics::seconds(now - since);
    object["reason"] = "it is no longer in the settings";
    replicas.push_back(std::move(object));
  }
  json::object outer;
  outer["replicas"] = std::move(replicas);
  outer["pools"] = std::move(pools);
  outer["bypass"] = bypassed;
  outer["shadows"] = shadows_list(snapshot);
  outer["weir"] = weir_object(standing);
  return answer_of(outer);
}

ApiAnswer drain_answer(fleet::Fleet& fleet, std::string_view replica, bool drains, std::string_view body,
                       metrics::Moment now) {
  const std::string name(replica);
  const auto force = forced(body);
  if (!force)
    return api_error(400, "bad_body",
                     "the body must be empty, or a JSON object with nothing but \"force\": true or false");
  json::object done;
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
      done["changed"] = false;
      break;
    case fleet::Fleet::Draining::set:
      done["changed"] = true;
      break;
  }
  done["name"] = name;
  done["draining"] = drains;
  if (!drains) tell_undrained(*fleet.snapshot(), name, now, done);
  return answer_of(done);
}

ApiAnswer settings_answer(const config::Settings& settings) {
  json::array all;
  for (const auto& listed : config::listing_of(settings)) {
    json::object keys;
    for (const auto& key : listed.keys) keys[key.key] = key.value;
    all.push_back(json::object{{"name", listed.name}, {"within", listed.within}, {"keys", std::move(keys)}});
  }
  return answer_of({{"settings", std::move(all)}, {"overridden", texts(settings.overridden)}});
}

ListedSettings listed_from(const std::string& text) {
  ListedSettings listed_settings;
  auto& [listing, overridden] = listed_settings;
  const auto parsed = json::parse(text);
  for (const auto& one : parsed.as_object().at("settings").as_array()) {
    config::Listed listed{json::value_to<std::string>(one.as_object().at("name")),
                          json::value_to<std::string>(one.as_object().at("within")),
                          {}};
    for (const auto& [key, value] : one.as_object().at("keys").as_object())
      listed.keys.push_back({std::string(key), json::value_to<std::string>(value)});
    listing.push_back(std::move(listed));
  }
  overridden = json::value_to<std::vector<std::string>>(parsed.as_object().at("overridden"));
  return listed_settings;
}

ApiAnswer reload_answer(const Reload::Result& result) {
  switch (result.kind) {
    case Reload::Result::Kind::done:
      return answer_of({{"changes", texts(result.changes)}});
    case Reload::Result::Kind::busy:
      return api_error(409, "reload_under_way", result.errors.front());
    case Reload::Result::Kind::refused:
      return api_error(409, "not_now", result.errors.front());
    case Reload::Result::Kind::failed:
      break;
  }
  auto object = error_object(400, "bad_settings",
                             "the settings cannot be used, and nothing has changed; \"errors\" says why: " +
                                 std::to_string(result.errors.size()));
  object["errors"] = texts(result.errors);
  return answer_of(object, 400);
}

}  // namespace weir::proxy::control
