#include "proxy/control/incident/report.hpp"

#include <algorithm>
#include <ctime>
#include <iterator>

#include "metrics/wire/json/writer.hpp"
#include "proxy/control/api.hpp"
#include "proxy/control/live_api.hpp"
#include "proxy/control/incident/machine.hpp"
#include "proxy/events/events.hpp"
#include "proxy/live/page/files.hpp"

namespace weir::proxy::control::incident {
namespace {

/// Returns the events of the last seconds.
std::string events_json(const live::Live& live, std::chrono::seconds last) {
  auto since = events::ring().since(0);
  const auto begin = live.now().time - last;
  std::erase_if(since.events, [&](const events::Event& event) { return event.time < begin; });
  return live::events_json(since, live.started());
}

}  // namespace

std::string data(live::Live& live, const config::Settings& settings, std::chrono::seconds last,
                 std::string_view because) {
  const auto document = live.document();
  if (!document) return "";
  auto listed = settings_answer(settings).body;
  while (listed.ends_with('\n')) listed.pop_back();
  metrics::wire::JsonWriter json;
  json.open('{').key("schema").count(live::schema);
  live::write_time(json.key("made"), std::chrono::system_clock::now());
  json.key("because").text(because).key("last_s").count(static_cast<std::uint64_t>(last.count()));
  json.key("live").raw(document->json());
  json.key("window").raw(whole_window_json(live, static_cast<std::size_t>(last.count())));
  json.key("events").raw(events_json(live, last)).key("settings").raw(listed);
  write_machine(json.key("machine"));
  return json.close('}').written();
}

std::string page(std::string_view data) {
  std::string page(live::page::before_saved());
  // A name may hold "</script>". In JSON a '<' stands only in strings, where it may be an escape.
  for (const char letter : data) letter == '<' ? page.append("\\u003c") : page.append(1, letter);
  for (const auto part : live::page::behind_saved()) page.append(part);
  return page;
}

std::string file_name(std::chrono::system_clock::time_point time) {
  const auto at = std::chrono::system_clock::to_time_t(time);
  std::tm utc{};
  ::gmtime_r(&at, &utc);
  char text[32];
  const auto size = std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
  return std::string(file_begin).append(text, size).append(file_end);
}

}  // namespace weir::proxy::control::incident
