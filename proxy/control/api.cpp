#include "proxy/control/api.hpp"

#include <simdjson.h>


#include "metrics/wire/json/writer.hpp"

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
      return api_error(404, "unknown_replica", "no replica is named '" + name + "'; GET /api/live lists them");
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
