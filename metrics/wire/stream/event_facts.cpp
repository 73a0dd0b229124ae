#include "metrics/wire/stream/event_facts.hpp"

#include <algorithm>

#include "metrics/utf8.hpp"
#include "metrics/wire/json/text.hpp"

namespace weir::metrics::wire {

void EventFacts::clear() {
  constexpr std::size_t usual = 1024;
  if (choices.capacity() > usual) choices = {};
  choices.clear();
  carries_choice = opens_choices = marker = error = broken = prefill_progress = usage_only = false;
  one_token_an_event = whole_text = bare_usage = of_one_choice = timed = keep_alive = false;
  error_status = 0;
  prompt_tokens.reset();
  cached_tokens.reset();
  prompt_parts.reset();
  completion_tokens.reset();
  reasoning_tokens.reset();
  listed_tokens.reset();
  finish_reason = id = {};
  output_chars = 0;
  engine.reset();
  plain_text = {};
  content.clear();
  content_seen = 0;
  usage_member = timings_member = {};
}

bool EventFacts::says_nothing() const {
  const bool a_word = carries_choice || marker || error || keep_alive || prefill_progress || usage_only || engine;
  return !a_word && choices.empty() && !prompt_tokens && !prompt_parts && !completion_tokens;
}

void EventFacts::take_for_usage_event() {
  usage_only = true;
  carries_choice = bare_usage = false;
  of_one_choice = timed;
  choices.clear();
  usage_member = timings_member = {};
}

bool EventTemplate::match(std::string_view data, EventFacts& facts) const {
  if (around_.empty() || data.size() < around_.size()) return false;
  const std::string_view around = around_;
  if (!data.starts_with(around.substr(0, split_)) || !data.ends_with(around.substr(split_))) return false;
  const std::string_view text = data.substr(split_, data.size() - around.size());
  const auto points = code_points_of_string_body(text);
  if (!points) return false;
  facts.choices.push_back({.index = index_,
                           .token = !text.empty(),
                           .output = !text.empty() && !reasoning_,
                           .finished = false,
                           .tokens = std::nullopt});
  facts.carries_choice = true;
  facts.output_chars = *points;
  facts.add_content(reasoning_ ? ContentPart::What::reasoning : ContentPart::What::text, text);
  return true;
}

void EventTemplate::remember(std::string_view data, const EventFacts& facts) {
  if (facts.plain_text.empty()) return;
  const std::size_t around = data.size() - facts.plain_text.size();
  if (around > limit) return;
  split_ = static_cast<std::size_t>(facts.plain_text.data() - data.data());
  index_ = facts.choices.front().index;
  reasoning_ = !facts.choices.front().output;
  around_.reserve(around);
  around_.assign(data.substr(0, split_));
  around_.append(data.substr(split_ + facts.plain_text.size()));
}

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

void WholeText::subtract_seen(EventFacts& facts) {
  constexpr std::size_t most_choices = 128;
  if (!facts.whole_text || facts.choices.empty()) return;
  const std::size_t index = facts.choices.front().index;
  if (index >= most_choices) return;
  if (index >= seen_.size()) seen_.resize(index + 1);
  Seen& seen = seen_[index];
  if (facts.completion_tokens) {
    const std::uint64_t tokens = std::max(seen.tokens, *facts.completion_tokens);
    if (!anew_ && seen.tokens > 0 && facts.listed_tokens) anew_ = *facts.listed_tokens > tokens - seen.tokens;
    seen.tokens = tokens;
  }
  if (!anew_.value_or(true)) return;
  facts.content_seen = seen.chars;
  const std::uint64_t chars = std::max(seen.chars, facts.output_chars);
  facts.output_chars = chars - seen.chars;
  seen.chars = chars;
}

}  // namespace weir::metrics::wire
