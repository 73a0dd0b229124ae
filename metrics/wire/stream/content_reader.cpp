#include "metrics/wire/stream/content_reader.hpp"

#include <algorithm>

#include "metrics/utf8.hpp"
#include "metrics/wire/json/on_demand.hpp"
#include "metrics/wire/json/text.hpp"

namespace weir::metrics::wire {

using simdjson::ondemand::json_type;
using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

/// A call as an event tells it. Strings are the insides of JSON's.
struct ContentReader::Call {
  std::uint64_t index = 0;
  std::string_view id, name, arguments;
  std::string_view object;  // The arguments where they are no string, as they are written.
};

namespace {

/// The names that all dialects have for a call. What OpenAI's chat and Ollama put into `function` others have outside.
template <class Call>
bool read_call_member(raw_json_string key, value& part, Call& call) {
  if (key == "function")
    return for_each_field_in(part, [&](raw_json_string name, value& inner) {
      return name == "function" ? true : read_call_member(name, inner, call);
    });
  if (key == "index") {
    call.index = index_of(part);
  } else if (key == "id") {
    call.id = string_of(part).value_or("");
  } else if (key == "name") {
    call.name = string_of(part).value_or("");
  } else if (key == "arguments" || key == "input") {
    const auto text = string_of(part);
    text ? call.arguments = *text : call.object = json_of(part);
  }
  return true;
}

}  // namespace

void ContentReader::tell(const EventFacts& facts) {
  using What = ContentPart::What;
  for (const ContentPart& part : facts.content) {
    switch (part.what) {
      case What::text:
        tell_text(part.json, facts.content_seen);
        break;
      case What::reasoning:
        undo_escapes(part.json, [this](std::string_view piece) { listener_.reasoning(piece); });
        break;
      case What::arguments:
        undo_escapes(part.json, [this](std::string_view piece) { listener_.call_arguments(piece); });
        break;
      case What::call:
      case What::call_delta:
        tell_calls(part.json, part.what == What::call_delta);
        break;
    }
  }
}

void ContentReader::tell_text(std::string_view inside, std::uint64_t seen) {
  undo_escapes(inside, [&](std::string_view piece) {
    for (; seen > 0 && !piece.empty(); --seen)
      piece.remove_prefix(std::min(code_point_size(piece.front()), piece.size()));
    if (!piece.empty()) listener_.text(piece);
  });
  if (seen > 0) listener_.lost_text();
}

void ContentReader::tell_calls(std::string_view json, bool deltas) {
  const auto tell_one = [&](simdjson::ondemand::object object) {
    Call call;
    if (!for_each_field(object, [&](auto key, auto& part) { return read_call_member(key, part, call); })) return false;
    tell_call(call, deltas);
    return true;
  };
  const bool whole = read_document(json, [&](simdjson::ondemand::document& document) {
    simdjson::ondemand::object object;
    if (json.front() == '{') return document.get_object().get(object) == simdjson::SUCCESS && tell_one(object);
    simdjson::ondemand::array array;
    if (document.get_array().get(array)) return false;
    for (auto one : array) {
      if (one.get_object().get(object) || !tell_one(object)) return false;
    }
    return true;
  });
  if (!whole) listener_.lost_calls();
}

void ContentReader::tell_call(const Call& call, bool delta) {
  const bool another = call.index != index_ || (!call.id.empty() && !id_.empty() && call.id != id_);
  if (!delta && call.name.empty()) return;  // A block of text, or another item that is no call.
  if (!delta || another) {
    listener_.end_call();
    index_ = call.index;
    id_.clear();
    named_ = false;
  }
  if (id_.empty()) id_ = call.id;
  // Some gateways write the name on every delta.
  if (!named_) undo_escapes(call.name, [this](std::string_view piece) { listener_.call_name(piece); });
  named_ |= !call.name.empty();
  undo_escapes(call.arguments, [this](std::string_view piece) { listener_.call_arguments(piece); });
  // Anthropic begins a call with an empty object; what it is called with comes in the deltas.
  const bool empty =
      call.object.starts_with('{') && call.object.find_first_not_of(" \t\r\n", 1) == call.object.size() - 1;
  if (!call.object.empty() && !empty) listener_.call_arguments(call.object);
}

}  // namespace weir::metrics::wire
