#include "metrics/wire/dialects/dialect.hpp"

#include <algorithm>
#include <array>

#include "metrics/wire/dialects/table.hpp"
#include "metrics/wire/json/on_demand.hpp"
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

/// True if the value of an error's code says that there is no room. Engines write it as a number or in quotes.
bool is_no_room(simdjson::ondemand::value& code) {
  const std::string_view token = trimmed(code.raw_json_token());
  return token == "429" || token == "503" || token == "\"429\"" || token == "\"503\"";
}

bool is_overload(std::string_view type) {
  return type == "overloaded" || type == "overloaded_error" || type == "rate_limit_error" ||
         type == "unavailable_error";
}

/// Reads a member of an error, or of what stands for one. TGI has `error_type` beside the error's text, and
/// `http_status_code` in it; SGLang has `code` there, and `status_code` where it gives an answer up.
bool says_overload(simdjson::ondemand::raw_json_string key, simdjson::ondemand::value& part) {
  if (key == "code" || key == "status_code" || key == "http_status_code") return is_no_room(part);
  return (key == "type" || key == "error_type") && is_overload(string_of(part).value_or(""));
}

/// True if an event that is an error says that the replica has no room. Such events are few, so they are read again.
bool says_overload(std::string_view data) {
  bool found = false;
  for_each_field_of(data, [&](auto key, auto& part) {
    if (key == "error")
      return for_each_field_in(part, [&](auto name, auto& inner) {
        found |= says_overload(name, inner);
        return true;
      });
    if (key == "meta_info")
      return for_each_field_in(part, [&](auto name, auto& inner) {
        if (name != "finish_reason") return true;
        return for_each_field_in(inner, [&](auto last, auto& innermost) {
          found |= says_overload(last, innermost);
          return true;
        });
      });
    found |= says_overload(key, part);
    return true;
  });
  return found;
}

/// Reads nothing: only the document's form counts.
struct FormOfEvent : Sax {
  static constexpr bool takes_half_pairs = true;
};

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

bool empties_cache(std::string_view method, std::string_view path) {
  static constexpr std::array<std::string_view, 10> paths{
      // vLLM and Aphrodite. An engine that wakes has given its cache away when it went to sleep.
      "/reset_prefix_cache", "/sleep", "/wake_up",
      // SGLang. New weights empty the cache unless the request says otherwise.
      "/flush_cache", "/release_memory_occupation", "/resume_memory_occupation", "/update_weights_from_disk",
      "/update_weights_from_tensor", "/update_weights_from_distributed", "/update_weights_from_ipc"};
  return (method == "POST" || method == "GET") && std::ranges::find(paths, path) != paths.end();
}

void read_event(Api api, std::string_view data, EventFacts& facts) {
  const Dialect& dialect = dialect_of(api);
  // A JSON event is known by its first byte. Everything else may be a marker or blank.
  if (data.empty() || data.front() != '{') {
    const std::string_view text = trimmed(data);
    if (text.empty() || text == nothing_to_say) {
      facts.keep_alive = true;
      return;
    }
    if (text == end_marker) {
      facts.marker = dialect.done_ends_stream;
      return;
    }
  }
  if (dialect.read_event(data, facts)) {
    if (facts.error) facts.overload = says_overload(data);
    return;
  }
  facts.clear();
  facts.broken = true;
}

bool whole_event(std::string_view data) {
  const std::string_view text = trimmed(data);
  if (text == end_marker) return true;
  JsonParser<FormOfEvent> json;
  json.feed(text);
  return json.whole();
}

}  // namespace weir::metrics::wire
