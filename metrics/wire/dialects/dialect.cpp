#include "metrics/wire/dialects/dialect.hpp"

#include <algorithm>
#include <array>

#include "metrics/wire/json/parser.hpp"
#include "metrics/wire/json/text.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::metrics::wire {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const std::size_t from = text.find_first_not_of(blank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(blank) - from + 1);
}

constexpr std::uint16_t no_room = EventFacts::no_room;
constexpr std::string_view end_marker = "[DONE]";
constexpr std::string_view nothing_to_say = "null";  // llama.cpp writes it between the prompts of a list.

/// The status that a word or a number of an error stands for; 0 for all that neither says that there is no room nor
/// that the request is at fault.
struct ErrorWord {
  std::string_view word;
  std::uint16_t status;
};
constexpr ErrorWord error_types[] = {
    // OpenAI's, Anthropic's, llama.cpp's.
    {"overloaded_error", no_room},
    {"rate_limit_error", no_room},
    {"unavailable_error", no_room},
    {"invalid_request_error", 400},
    {"not_found_error", 404},
    {"request_too_large", 413},
    // TGI's `error_type`, which has a 429 or 422 as an answer of its own.
    {"overloaded", no_room},
    {"validation", 422},
    {"template_error", 422},
    {"missing_template_variable", 422},
    {"tool_error", 422}};
constexpr ErrorWord error_codes[] = {{"429", no_room}, {"503", no_room}, {"400", 400},
                                     {"404", 404},     {"413", 413},     {"422", 422}};

std::uint16_t status_of(std::span<const ErrorWord> words, std::string_view word) {
  const auto found = std::ranges::find(words, word, &ErrorWord::word);
  return found == words.end() ? std::uint16_t{0} : found->status;
}

/// The members of an error, or of an event that stands for one. TGI has `error_type` beside the error's text, and
/// `http_status_code` in it; SGLang has `code` there, and `status_code` where it gives an answer up.
struct ErrorMembers {
  std::uint16_t type = 0, code = 0;
  bool has_code = false, of_tgi = false;
  std::string_view message;

  void read(simdjson::ondemand::raw_json_string key, simdjson::ondemand::value& part) {
    if (key == "type" || key == "error_type") {
      type = std::max(type, status_of(error_types, string_of(part).value_or("")));
    } else if (key == "message") {
      message = string_of(part).value_or("");
    } else if (key == "code" || key == "status_code" || key == "http_status_code") {
      of_tgi |= key == "http_status_code";
      std::string_view text = trimmed(part.raw_json_token());  // A number, or one in quotes.
      if (text.size() > 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
      code = status_of(error_codes, text);
      has_code = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
    }
  }
  /// TGI's OpenAI routes write 422 for whatever goes wrong in a stream, so its sentence tells.
  std::uint16_t status() const {
    if (code == no_room || type == no_room || (of_tgi && message == "Model is overloaded")) return no_room;
    if (of_tgi) return message.starts_with("Input validation error") ? 422 : type;
    return has_code ? code : type;
  }
};

/// Reads an event that is an error once more, since such events are few.
std::uint16_t status_of_error(std::string_view data) {
  ErrorMembers error;
  for_each_field_of(data, [&](auto key, auto& part) {
    if (key == "error")
      return for_each_field_in(part, [&](auto name, auto& inner) {
        error.read(name, inner);
        return true;
      });
    if (key == "meta_info")
      return for_each_field_in(part, [&](auto name, auto& inner) {
        if (name != "finish_reason") return true;
        return for_each_field_in(inner, [&](auto last, auto& innermost) {
          error.read(last, innermost);
          return true;
        });
      });
    error.read(key, part);
    return true;
  });
  return error.status();
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
    if (facts.error && facts.error_status == 0) facts.error_status = status_of_error(data);
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

std::string openai_error_body(unsigned /*status*/, const OwnError& error) {
  JsonWriter body;
  body.open('{').key("error").open('{').key("message").text(error.message).key("type").text(error.type);
  return body.key("param").null().key("code").text(error.code).close('}').close('}').written();
}

std::string openai_error_event(unsigned status, const OwnError& error) {
  return "data: " + openai_error_body(status, error) + "\n\n";
}

}  // namespace weir::metrics::wire
