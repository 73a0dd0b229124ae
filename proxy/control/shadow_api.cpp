#include "proxy/control/shadow_api.hpp"

#include <algorithm>
#include <string>

#include "metrics/wire/json/writer.hpp"
#include "proxy/events/events.hpp"

namespace weir::proxy::control {

bool switch_shadow(const fleet::ShadowRuntime& shadow, bool on, History& history,
                   metrics::Moment now) {
  auto& state = *shadow.state;
  if (state.on.load() == on) return false;
  if (on) {
    state.began = metrics::Moment::max();
    state.finished = 0;
    history.begin_anew(shadow.settings.name, now);
  }
  state.on = on;
  const auto& name = shadow.settings.name;
  events::info(events::What::shadow, name, "shadow '{}' is {}", name, on ? "on" : "off");
  return true;
}

ApiAnswer shadow_answer(const fleet::Snapshot& snapshot, std::string_view name, bool on, History& history,
                        metrics::Moment now) {
  const auto found =
      std::ranges::find_if(snapshot.shadows, [name](const auto& one) { return one->settings.name == name; });
  if (found == snapshot.shadows.end())
    return api_error(404, "unknown_shadow",
                     "no shadow is named '" + std::string(name) + "'; GET /api/live lists them");
  const bool changed = switch_shadow(**found, on, history, now);
  metrics::wire::JsonWriter json;
  json.open('{').key("name").text(name).key("on").boolean(on).key("changed").boolean(changed).close('}');
  return {200, json.written() + "\n"};
}

void begin_anew(const fleet::Snapshot& before, const fleet::Snapshot& after, History& history,
                metrics::Moment now) {
  for (const auto& shadow : after.shadows) {
    const bool goes_on =
        std::ranges::any_of(before.shadows, [&](const auto& one) { return one->state == shadow->state; });
    if (!goes_on) history.begin_anew(shadow->settings.name, now);
  }
}

std::map<std::string, std::uint64_t, std::less<>> kv_tokens_of_shadows(const fleet::Snapshot& snapshot) {
  std::map<std::string, std::uint64_t, std::less<>> known;
  for (const auto& shadow : snapshot.shadows) {
    for (const auto& replica : shadow->settings.replicas)
      if (replica.expand && replica.kv_tokens) known[replica.config] = *replica.kv_tokens;
    for (const auto& replica : shadow->pool->replicas)
      if (const auto tokens = fleet::kv_tokens_of(replica->settings, *replica->state))
        known[replica->settings.name] = *tokens;
  }
  return known;
}

}  // namespace weir::proxy::control
