// Random bodies of requests, as JSON trees and as text, and random pieces of that text.
#pragma once

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/metrics/wire/request/prompt_prefix/reference.hpp"

namespace weir::metrics::wire::prompt_prefix {

using Random = std::mt19937_64;

inline std::size_t below(Random& random, std::size_t n) {
  return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
}
inline bool one_in(Random& random, std::size_t n) { return below(random, n) == 0; }

inline std::string random_text(Random& random, std::size_t longest = 600) {
  static const std::string_view words[] = {"weir ", "\n",         "\"x\"", "Wehr", "плотина", "水",
                                           "🙂",    "{\"a\": 1}", "\\",    "42 ",  "",        "m"};
  std::string text;
  for (std::size_t size = below(random, one_in(random, 4) ? longest : 30); text.size() < size;)
    text += words[below(random, std::size(words))];
  return text;
}
inline json::value random_tree(Random& random, int depth = 0) {
  switch (below(random, depth > 3 ? 5 : 7)) {
    case 0:
      return json::value(nullptr);
    case 1:
      return one_in(random, 2);
    case 2:
      return static_cast<std::int64_t>(below(random, 1000)) - 500;
    case 3:
      if (one_in(random, 2)) return 0.5 + static_cast<double>(below(random, 9));
      return static_cast<std::int64_t>(std::uint64_t{1} << 53) + static_cast<std::int64_t>(below(random, 9));
    case 4:
      return json::string(random_text(random, 200));
    case 5: {
      json::array array;
      for (std::size_t i = below(random, 4); i > 0; --i) array.push_back(random_tree(random, depth + 1));
      return array;
    }
    default: {
      json::object object;
      for (std::size_t i = below(random, 4); i > 0; --i)
        object[one_in(random, 9) ? std::string(40, 'k') + std::to_string(i) : "k" + std::to_string(below(random, 9))] =
            random_tree(random, depth + 1);
      return object;
    }
  }
}
inline json::object in_any_order(Random& random, const json::object& object) {
  std::vector<std::pair<json::string, json::value>> members;
  for (const auto& [key, value] : object) members.emplace_back(key, value);
  std::shuffle(members.begin(), members.end(), random);
  json::object shuffled;
  for (auto& [key, value] : members) shuffled[key] = std::move(value);
  return shuffled;
}

inline json::value random_content(Random& random, Api api, int depth = 0);
inline json::value random_part(Random& random, Api api, int depth) {
  json::object part;
  const auto data = "data:image/png;base64," + std::string(below(random, 300), 'A') + std::to_string(below(random, 3));
  switch (below(random, api == anthropic ? 7 : 4)) {
    case 0:
      return json::string(random_text(random));
    case 1:
      part["type"] = "image_url";
      part["image_url"] = json::object{{"url", data}, {"detail", one_in(random, 2) ? "low" : "high"}};
      break;
    case 2:
      part["type"] = "thinking";
      part["thinking"] = random_text(random);
      part["signature"] = data;
      if (one_in(random, 3)) part["text"] = random_text(random);
      break;
    case 3:
      part["type"] = "text";
      part["text"] = one_in(random, 20) ? json::value(nullptr) : json::value(json::string(random_text(random)));
      if (one_in(random, 9)) part["refusal"] = random_text(random, 20);
      break;
    case 4:
      part["type"] = "tool_use";
      part["id"] = "t" + std::to_string(below(random, 9));
      part["name"] = "f";
      part["input"] = random_tree(random);
      break;
    case 5:
      part["type"] = "image";
      part["id"] = "i";
      part["source"] = json::object{{"type", "base64"}, {"data", data}};
      break;
    default:
      part["type"] = "tool_result";
      part["tool_use_id"] = "t" + std::to_string(below(random, 9));
      if (depth < 2) part["content"] = random_content(random, api, depth + 1);
  }
  if (one_in(random, 4)) part["cache_control"] = json::object{{"type", "ephemeral"}};
  return part;
}
inline json::value random_content(Random& random, Api api, int depth) {
  if (one_in(random, 12)) return json::value(nullptr);
  if (one_in(random, 2)) return json::string(random_text(random));
  json::array parts;
  for (std::size_t i = below(random, 4); i > 0; --i) parts.push_back(random_part(random, api, depth));
  return parts;
}
inline json::value random_message(Random& random, Api api) {
  static const char* const roles[] = {"user", "assistant", "system", "tool"};
  json::object message;
  if (!one_in(random, 9)) message["role"] = roles[below(random, 4)];
  if (one_in(random, 6)) message[api == responses ? "summary" : "reasoning_content"] = random_text(random);
  if (!one_in(random, 9))
    message[api == responses && one_in(random, 3) ? "output" : "content"] = random_content(random, api);
  if (one_in(random, 6) && api == responses) message["arguments"] = random_text(random);
  if (one_in(random, 6) && api != responses) message["tool_calls"] = random_tree(random);
  if (one_in(random, 6)) message["name"] = random_text(random, 20);
  if (one_in(random, 6)) message[api == responses ? "call_id" : "tool_call_id"] = random_text(random, 20);
  if (one_in(random, 9)) message["unknown"] = random_tree(random);
  if (one_in(random, 9)) message["of_no_dialect"] = random_tree(random);
  if (one_in(random, 9)) message["cache_control"] = random_tree(random);
  return in_any_order(random, message);
}
inline json::object random_body(Random& random, Api api) {
  json::object body;
  const Names names = names_of(api);
  const auto messages = std::string(*names.chain.begin());
  if (!one_in(random, 9)) body["model"] = "m" + std::to_string(below(random, 3));
  if (one_in(random, 3)) body["tools"] = json::array{random_tree(random), random_tree(random)};
  if (one_in(random, 3)) body[*names.seed_texts.begin()] = random_content(random, api);
  for (const std::string_view name : names.seed_trees) {
    if (name != "tools" && name != "functions" && one_in(random, 9)) body[name] = random_tree(random);
  }
  json::array list;
  for (std::size_t i = one_in(random, 6) ? 60 : below(random, 8); i > 0; --i)
    list.push_back(one_in(random, 40) ? json::value(7) : random_message(random, api));
  body[messages] = list;
  if (api == responses && one_in(random, 5)) body[messages] = random_text(random, 2000);
  for (const std::string_view name : not_rendered) {
    if (one_in(random, 3)) body[name] = random_tree(random);
  }
  if (one_in(random, 3)) body["unknown"] = random_tree(random);
  if (one_in(random, 3)) body["of_no_dialect"] = random_tree(random);
  return in_any_order(random, body);
}

/// Writes JSON with random blanks and escapes.
inline void write_json(Random& random, const json::value& value, std::string& to);
inline void write_blanks(Random& random, std::string& to) {
  while (one_in(random, 3)) to += " \t\r\n"[below(random, 4)];
}
inline void write_string(Random& random, std::string_view text, std::string& to) {
  to += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n' && one_in(random, 2)) {
      to += "\\n";
    } else if (c == '"' && one_in(random, 2)) {
      to += "\\\"";
    } else if (byte < 0x20 || c == '"' || c == '\\' || (byte < 0x80 && one_in(random, 20))) {
      std::array<char, 8> escape;
      std::snprintf(escape.data(), escape.size(), "\\u%04x", byte);
      to += escape.data();
    } else {
      to += c;
    }
  }
  to += '"';
}
inline void write_json(Random& random, const json::value& value, std::string& to) {
  write_blanks(random, to);
  if (const auto* object = value.if_object()) {
    to += '{';
    for (const auto& [key, member] : *object) {
      if (to.back() != '{') to += ',';
      write_blanks(random, to);
      write_string(random, key, to);
      write_blanks(random, to);
      to += ':';
      write_json(random, member, to);
    }
    to += '}';
  } else if (const auto* array = value.if_array()) {
    to += '[';
    for (const auto& element : *array) {
      if (&element != &array->front()) to += ',';
      write_json(random, element, to);
    }
    to += ']';
  } else if (const auto* text = value.if_string()) {
    write_string(random, *text, to);
  } else {
    to += value.is_number() ? text_of_number(value) : json::serialize(value);
  }
  write_blanks(random, to);
}
/// Members that a dialect names are void if they come again later. Of others all count.
inline std::string with_void_members(Random& random, const json::object& body, std::string text) {
  std::string first;
  for (const auto& [key, value] : body) {
    const bool known = key != "unknown" && key != "of_no_dialect";
    if (known && one_in(random, 8))
      first += json::serialize(json::string(key)) + ":" + json::serialize(random_tree(random)) + ",";
  }
  return text.insert(text.find('{') + 1, first);
}
inline std::string written(Random& random, const json::value& value) {
  std::string text;
  write_json(random, value, text);
  return text;
}

inline std::vector<std::string_view> cut(Random& random, std::string_view body) {
  std::vector<std::string_view> pieces;
  for (std::size_t longest = 1 + below(random, one_in(random, 3) ? 4 : 2000); !body.empty();) {
    pieces.push_back(body.substr(0, 1 + below(random, longest)));
    body.remove_prefix(pieces.back().size());
  }
  return pieces;
}

}  // namespace weir::metrics::wire::prompt_prefix
