// The anchors of a prompt from the whole body as a JSON tree: every beginning of the prompt is hashed from scratch.
#pragma once

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/metrics/wire/request/prompt_prefix/anchors.hpp"

namespace weir::metrics::wire::prompt_prefix {

namespace json = boost::json;

/// The names of one API's members.
struct Names {
  std::set<std::string_view> chain{}, seed_trees{}, seed_texts{}, labels{}, texts{}, contents{}, trees{}, part_texts{},
      part_contents{}, part_trees{}, part_labels{};
};

/// Members of random bodies that no engine renders.
inline const std::set<std::string_view> not_rendered{"temperature", "seed", "rid"};
inline const std::set<std::string_view> common_seeds{
    "cache_salt", "extra_key",        "lora_path",          "lora",  "chat_template", "chat_template_kwargs",
    "documents",  "reasoning_effort", "add_special_tokens", "tools"};

inline Names names_of(Api api) {
  Names names{.chain = {"messages"},
              .seed_trees = common_seeds,
              .seed_texts = {"system"},
              .labels = {"role", "name", "tool_call_id"},
              .contents = {"content"},
              .trees = {"tool_calls"},
              .part_texts = {"text", "refusal", "thinking"}};
  if (api == chat) {
    names.seed_trees.insert("functions");
    names.texts = {"reasoning_content", "reasoning"};
    names.trees.insert("function_call");
  } else if (api == anthropic) {
    names.part_texts.insert("name");
    names.part_contents = {"content"};
    names.part_trees = {"input"};
    names.part_labels = {"id", "tool_use_id"};
  } else if (api == responses) {
    names.chain = {"input"};
    names.seed_texts = {"instructions"};
    names.seed_trees.insert("reasoning");
    names.labels = {"role", "tool_call_id", "call_id"};
    names.texts = {"name", "arguments"};
    names.contents = {"content", "output", "summary"};
  }
  return names;
}

/// A prompt as one string, with a position behind each of its bytes: those of text move it, marks do not.
struct Written {
  bool seed = false;  // What JSON has around the texts of trees moves the position too.
  std::string bytes{};
  std::vector<std::uint64_t> positions{};  // Behind each byte.
  std::vector<bool> text{};                // The byte is text.
  std::vector<std::size_t> ends{};         // Sizes at which a message ends.
  std::uint64_t position = 0;

  void put(std::string_view more, bool is_text) {
    for (const char c : more) {
      bytes += c;
      position += is_text ? 1 : 0;
      positions.push_back(position);
      text.push_back(is_text);
    }
  }
  void add(std::string_view more) { put(more, true); }
  void hide(std::string_view more) { put(more, false); }
  void mark(const std::string& name) { hide("\xFF" + name + "\xFE"); }
  void number(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) hide(std::string(1, static_cast<char>(number >> (8 * i))));
  }
  void move_on(std::uint64_t by) { position += by; }
};

inline std::uint64_t hash_of(std::string_view bytes) { return universal_hash(prefix_key, bytes); }
inline std::uint64_t bits_of(double number) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}
/// Numbers in these tests are written as short as they can be.
inline std::string text_of_number(const json::value& value) {
  std::array<char, 64> text;
  const auto end = value.is_int64() ? std::to_chars(text.begin(), text.end(), value.get_int64())
                                    : std::to_chars(text.begin(), text.end(), value.to_number<double>());
  return {text.data(), end.ptr};
}

inline void write_tree(const json::value& value, Written& to) {
  const auto mark = [&](const std::string& name, std::size_t size) {
    to.mark(name);
    if (to.seed) to.move_on(size);
  };
  const auto commas = [](std::size_t size) { return size == 0 ? 0 : size - 1; };
  if (const auto* text = value.if_string()) {
    to.add(*text);
    mark("\"", 2);
  } else if (const auto* object = value.if_object()) {
    mark("{", 1);
    for (const auto& [key, member] : *object) {
      to.add(key);
      mark(":", 3);
      write_tree(member, to);
    }
    mark("}", 1 + commas(object->size()));
  } else if (const auto* array = value.if_array()) {
    mark("[", 1);
    for (const auto& element : *array) write_tree(element, to);
    mark("]", 1 + commas(array->size()));
  } else if (value.is_number()) {
    const std::string text = text_of_number(value);
    const bool digits = text.size() <= 15 && text.find_first_not_of("0123456789") == std::string::npos;
    mark(digits ? "#" : "#.", text.size());
    if (digits) to.number(bits_of(value.to_number<double>()));
    to.number(text.size());
    if (!digits) to.hide(text);
  } else if (value.is_bool()) {
    mark(value.get_bool() ? "t" : "f", value.get_bool() ? 4 : 5);
  } else {
    mark("n", 4);
  }
}

inline void write_content(const Names& names, const json::value& content, Written& to);

inline void write_picture(std::uint64_t hash, Written& to) {
  to.mark("@");
  to.number(hash);
  to.move_on(4000);
}

inline void write_part(const Names& names, const json::object& part, Written& to) {
  const auto is_known = [&](std::string_view name) {
    return names.part_texts.contains(name) || names.part_contents.contains(name) || names.part_trees.contains(name) ||
           names.part_labels.contains(name);
  };
  bool has_text = false, first = true, brackets = false;
  std::uint64_t data = 0;
  for (const auto& [key, value] : part) {
    const std::string_view name = key;
    if (!is_known(name)) {
      if (name == "cache_control") continue;
      Written side;
      side.mark(std::string(name));
      write_tree(value, side);
      data += hash_of(side.bytes);
      continue;
    }
    has_text |= !names.part_labels.contains(name);
    if (first && name == "text") {
      if (const auto* text = value.if_string()) {
        to.add(*text);
        to.mark("");
      }
      first = false;
      continue;
    }
    if (first) to.mark("(");
    first = false;
    brackets = true;
    to.mark("+");
    to.mark(std::string(name));
    if (names.part_contents.contains(name)) {
      write_content(names, value, to);
    } else if (names.part_trees.contains(name)) {
      write_tree(value, to);
    } else if (const auto* text = value.if_string()) {
      names.part_labels.contains(name) ? to.hide(*text) : to.add(*text);
      to.mark("");
    }
  }
  if (!has_text) write_picture(data, to);
  if (brackets) to.mark(")");
}

inline void write_content(const Names& names, const json::value& content, Written& to) {
  const auto text = [&](std::string_view said) {
    to.add(said);
    to.mark("");
  };
  if (content.is_string()) return text(content.get_string());
  if (!content.is_array()) return;
  for (const auto& part : content.get_array()) {
    if (part.is_string()) text(part.get_string());
    if (part.is_object()) write_part(names, part.get_object(), to);
  }
}

inline void end_message(std::uint64_t labels, Written& to) {
  to.mark("m");
  to.number(labels);
  to.move_on(16);
  to.ends.push_back(to.bytes.size());
}

inline void write_message(const Names& names, const json::object& message, Written& to) {
  std::uint64_t labels = 0;
  bool first = true;
  for (const auto& [key, value] : message) {
    const std::string name(key);
    if (names.labels.contains(name)) {
      if (value.is_string()) labels += hash_of(name + "\xFF" + std::string(value.get_string()));
      continue;
    }
    const bool content = names.contents.contains(name), tree = names.trees.contains(name);
    if (!content && !tree && !names.texts.contains(name)) {
      if (name == "cache_control") continue;
      Written side;
      side.mark(name);
      write_tree(value, side);
      labels += hash_of(side.bytes);
      continue;
    }
    if (!first || name != "content") to.mark(name);
    first = false;
    if (content) write_content(names, value, to);
    if (tree) write_tree(value, to);
    if (content || tree || !value.is_string()) continue;
    to.add(value.get_string());
    to.mark("");
  }
  end_message(labels, to);
}

inline std::uint64_t mixed(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccd;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53;
  return x ^ x >> 33;
}

inline Anchors anchors_of(const Written& prompt, bool messages, std::uint64_t seed, std::uint64_t base) {
  std::set<std::uint64_t> ladder;
  for (std::uint64_t at = 256; at <= prompt.position; at += std::max<std::uint64_t>(256, at / 16)) ladder.insert(at);
  const std::set<std::size_t> ends(prompt.ends.begin(), prompt.ends.end());
  std::map<std::uint64_t, std::size_t> kept;  // Positions, and how many bytes lie before them.
  for (std::size_t i = 0; i < prompt.bytes.size(); ++i) {
    const std::uint64_t at = prompt.positions[i];
    if (prompt.text[i] && ladder.contains(at)) kept.emplace(at, i + 1);
    if (!ends.contains(i + 1)) continue;
    const std::uint64_t end = at + 16;
    if (end - (kept.empty() ? 0 : kept.rbegin()->first) >= std::max<std::uint64_t>(256, end / 64))
      kept.emplace(end, i + 1);
  }
  for (std::size_t i = prompt.ends.size() < 32 ? 0 : prompt.ends.size() - 32; i < prompt.ends.size(); ++i)
    kept.emplace(prompt.positions[prompt.ends[i] - 1] + 16, prompt.ends[i]);
  if (!messages) kept.emplace(prompt.position, prompt.bytes.size());
  if (base >= 256) kept.emplace(0, 0);
  Anchors all;
  for (const auto& [at, size] : kept)
    all.emplace_back(at + base, mixed(hash_of(std::string_view(prompt.bytes).substr(0, size)) ^ seed));
  return all;
}

inline Anchors reference(Api api, std::string_view body, std::uint64_t caller = 0) {
  const json::value parsed = json::parse(body);
  const Names names = names_of(api);
  std::uint64_t sum = 0, base = 0;
  std::string model;
  Written prompt;
  bool messages = false;
  for (const auto& [key, value] : parsed.get_object()) {
    const std::string name(key);
    if (name == "model" && value.is_string()) model = value.get_string();
    if (names.chain.contains(name)) {
      messages = true;
      if (value.is_string()) {
        prompt.add(value.get_string());
        prompt.mark("");
        end_message(hash_of("role\xFFuser"), prompt);
      }
      if (!value.is_array()) continue;
      for (const auto& message : value.get_array())
        if (message.is_object()) write_message(names, message.get_object(), prompt);
    }
    const bool text = names.seed_texts.contains(name), known = text || names.seed_trees.contains(name);
    if (value.is_null() || name == "model" || names.chain.contains(name) || not_rendered.contains(name)) continue;
    Written seed{.seed = true};
    seed.mark(name);
    if (text)
      write_content(names, value, seed);
    else
      write_tree(value, seed);
    sum += hash_of(seed.bytes);
    if (known) base += seed.position;
  }
  Written seed;
  seed.hide(model + "\xFE");
  seed.number(caller);
  seed.hide("m");
  seed.number(sum);
  return prompt.position == 0 ? Anchors() : anchors_of(prompt, messages, hash_of(seed.bytes), base);
}

}  // namespace weir::metrics::wire::prompt_prefix
