// The engines' own /generate streams, TGI's and SGLang's, which share the route: told by their shape
// (WIRE.md, 1.4, 1.5).
//
// TGI: one event a token, special ones too; the end is an event whose generated_text is not null. SGLang: text and
// output_ids come anew and longer each time, or only what is new, by a setting of the server; meta_info counts in both.
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/json/on_demand.hpp"

namespace weir::metrics::wire {

namespace {

using simdjson::ondemand::json_type;
using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

bool read_token(value& token, EventFacts& facts, ChoiceFacts& choice) {
  bool special = false;
  bool any = false;
  std::uint64_t chars = 0;
  const bool whole = for_each_field_in(token, [&](raw_json_string key, value& part) {
    if (key == "text") return read_text(part, chars, any);
    if (key == "special") special = is_true(part);
    return true;
  });
  choice.token = choice.output = true;
  choice.tokens = 1;
  if (!special) facts.output_chars += chars;
  return whole;
}

bool read_details(value& details, EventFacts& facts) {
  return for_each_field_in(details, [&](raw_json_string key, value& part) {
    if (key == "finish_reason") {
      facts.finish_reason = string_of(part).value_or("");
    } else if (key == "generated_tokens") {
      facts.completion_tokens = count_of(part);
    } else if (key == "input_length") {
      facts.prompt_tokens = count_of(part);
    }
    return true;
  });
}

bool read_meta_info(value& info, EventFacts& facts) {
  return for_each_field_in(info, [&](raw_json_string key, value& part) {
    if (key == "prompt_tokens") {
      facts.prompt_tokens = count_of(part);
    } else if (key == "cached_tokens") {
      facts.cached_tokens = count_of(part);
    } else if (key == "completion_tokens") {
      facts.completion_tokens = count_of(part);
    } else if (key == "e2e_latency") {
      if (const auto total = seconds_of(part, 1)) facts.engine.emplace().total = total;
    } else if (key == "finish_reason") {
      return for_each_field_in(part, [&](raw_json_string name, value& type) {
        if (name == "type") facts.finish_reason = string_of(type).value_or("");
        return true;
      });
    }
    return true;
  });
}

void end_sglang_event(EventFacts& facts, ChoiceFacts& choice, bool text, const std::optional<std::uint64_t>& ids) {
  facts.error = gave_up(facts.finish_reason);  // What it had made counts all the same.
  // The same text may come again: only the count tells whether something is new.
  choice.token = !facts.completion_tokens && (text || ids.value_or(0) > 0);
  choice.output = true;
  choice.finished = !facts.finish_reason.empty();
  facts.whole_text = true;
  facts.listed_tokens = ids;
  // Samples of one prompt share it; what the first one found in the cache is what the request did.
  if (choice.index > 0) facts.cached_tokens.reset();
}

}  // namespace

bool read_generate_event(std::string_view data, EventFacts& facts) {
  ChoiceFacts choice;
  bool sglang = false;
  bool text = false;
  std::optional<std::uint64_t> ids;
  std::uint32_t index = 0;
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key == "token" && is(part, json_type::object)) return read_token(part, facts, choice);
    if (key == "details") return read_details(part, facts);
    if (key == "text") return read_text(part, facts.output_chars, text);
    if (key == "output_ids") return count_elements(part, ids);
    if (key == "meta_info") {
      sglang = true;
      return read_meta_info(part, facts);
    }
    if (key == "index") {
      index = index_of(part);  // SGLang's choice; TGI counts its tokens with it.
    } else if (key == "generated_text") {
      choice.finished |= !is_null(part);
    } else if (key == "error") {
      facts.error |= says_error(part);
    }
    return true;
  });
  if (!whole) return false;
  if (facts.error) return true;
  if (sglang) {
    choice.index = index;
    end_sglang_event(facts, choice, text, ids);
  } else {
    facts.one_token_an_event = true;
    facts.marker = choice.finished;
  }
  facts.carries_choice = !facts.error;
  facts.choices.push_back(choice);
  return true;
}

}  // namespace weir::metrics::wire
