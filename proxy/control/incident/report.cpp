#include "proxy/control/incident/report.hpp"

#include <algorithm>
#include <ctime>
#include <iterator>

#include "metrics/compare/page/frame.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/control/api.hpp"
#include "proxy/control/live_api.hpp"
#include "proxy/control/incident/assets.hpp"
#include "proxy/control/incident/machine.hpp"
#include "proxy/events/events.hpp"

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
                 std::string_view because, metrics::Moment now) {
  const auto document = live.document(now);
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
  const std::string_view scripts[]{assets::page_js};
  return metrics::compare::page::framed(
      {"weir report",
       "This page draws itself by JavaScript. Its data lies in the page as JSON, in the element #report.",
       "By <code>weir report</code>. What each figure means: docs/api.md and docs/metrics.md. What to do about a "
       "finding: docs/guides/alerts.md. Times are UTC.",
       scripts},
      data);
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
