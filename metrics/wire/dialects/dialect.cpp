#include "metrics/wire/dialects/dialect.hpp"

#include <algorithm>

#include "metrics/wire/dialects/table.hpp"
#include "metrics/wire/json/parser.hpp"

namespace weir::metrics::wire {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const std::size_t from = text.find_first_not_of(blank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(blank) - from + 1);
}

constexpr std::string_view end_marker = "[DONE]";
constexpr std::string_view nothing_to_say = "null";  // llama.cpp writes it between the prompts of a list.

/// Reads a document and keeps nothing.
class Nothing : public Sax {};

}  // namespace

Route Dialect::route(std::string_view path) const {
  const auto found = std::ranges::find(routes, path, &Route::path);
  return found == routes.end() ? Route{} : *found;
}

const Dialect& dialect_of(Api api) { return *dialects::all[static_cast<std::size_t>(api)]; }

Api api_of(std::string_view method, std::string_view path) {
  if (method != "POST") return Api::other;
  for (const Dialect* dialect : dialects::all) {
    if (!path.empty() && dialect->route(path).path == path) return dialect->api;
  }
  return Api::other;
}

void read_event(Api api, std::string_view data, EventFacts& facts) {
  const Dialect& dialect = dialect_of(api);
  // A JSON event is known by its first byte. Everything else may be a marker or blank.
  if (data.empty() || data.front() != '{') {
    const std::string_view text = trimmed(data);
    if (text.empty() || text == nothing_to_say) return;
    if (text == end_marker) {
      facts.marker = dialect.done_ends_stream;
      return;
    }
  }
  if (dialect.read_event(data, facts)) return;
  facts.clear();
  facts.broken = true;
}

bool whole_event(std::string_view data) {
  const std::string_view text = trimmed(data);
  if (text == end_marker) return true;
  JsonParser<Nothing> json;
  json.feed(text);
  return json.whole();
}

}  // namespace weir::metrics::wire
