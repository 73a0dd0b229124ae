// The anchors of a prompt, beside a reference that parses the whole body and hashes every beginning from scratch.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/metrics/wire/request/request_facts.hpp"

namespace weir::metrics::wire {
namespace {

namespace json = boost::json;
using Random = std::mt19937_64;
using Anchors = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // Position and key.

const UniversalKey prefix_key{{0x1234, 0x5678}};

Anchors anchors_of(const std::shared_ptr<const PromptPrefix>& prefix) {
  Anchors all;
  if (prefix == nullptr) return all;
  for (const auto& anchor : prefix->anchors) all.emplace_back(anchor.position, anchor.key);
  return all;
}

std::shared_ptr<const PromptPrefix> prefix_of(Api api, const std::vector<std::string_view>& pieces,
                                              std::uint64_t seed = 0) {
  RequestInspector inspector(api_of("POST", path_of(api)), "POST", path_of(api), nullptr, &prefix_key);
  for (const std::string_view piece : pieces) inspector.feed(piece);
  inspector.finish();
  return inspector.take_prefix(seed);
}
Anchors anchors(Api api, std::string_view body, std::uint64_t seed = 0) {
  return anchors_of(prefix_of(api, {body}, seed));
}
std::set<std::uint64_t> keys_of(const Anchors& all) {
  std::set<std::uint64_t> keys;
  for (const auto& [position, key] : all) keys.insert(key);
  return keys;
}
bool share_a_key(const Anchors& a, const Anchors& b) {
  const auto keys = keys_of(a);
  return std::any_of(b.begin(), b.end(), [&](const auto& one) { return keys.contains(one.second); });
}

// --- The reference ---

/// The names of one API's members.
struct Names {
  std::set<std::string_view> chain{}, seed_trees{}, seed_texts{}, labels{}, texts{}, contents{}, trees{}, part_texts{},
      part_contents{}, part_trees{}, part_labels{};
};

const std::set<std::string_view> common_seeds{
    "cache_salt", "extra_key",        "lora_path",          "lora",  "chat_template", "chat_template_kwargs",
    "documents",  "reasoning_effort", "add_special_tokens", "tools"};

Names names_of(Api api) {
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

std::uint64_t hash_of(std::string_view bytes) { return universal_hash(prefix_key, bytes); }
std::uint64_t bits_of(double number) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}
/// Numbers in these tests are written as short as they can be.
std::string text_of_number(const json::value& value) {
  std::array<char, 64> text;
  const auto end = value.is_int64() ? std::to_chars(text.begin(), text.end(), value.get_int64())
                                    : std::to_chars(text.begin(), text.end(), value.to_number<double>());
  return {text.data(), end.ptr};
}

void write_tree(const json::value& value, Written& to) {
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
    const std::size_t size = text_of_number(value).size();
    mark("#", size);
    to.number(bits_of(value.to_number<double>()));
    to.number(size);
  } else if (value.is_bool()) {
    mark(value.get_bool() ? "t" : "f", value.get_bool() ? 4 : 5);
  } else {
    mark("n", 4);
  }
}

void write_content(const Names& names, const json::value& content, Written& to);

void write_picture(std::uint64_t hash, Written& to) {
  to.mark("@");
  to.number(hash);
  to.move_on(4000);
}

void write_part(const Names& names, const json::object& part, Written& to) {
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

void write_content(const Names& names, const json::value& content, Written& to) {
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

void end_message(std::uint64_t labels, Written& to) {
  to.mark("m");
  to.number(labels);
  to.move_on(16);
  to.ends.push_back(to.bytes.size());
}

void write_message(const Names& names, const json::object& message, Written& to) {
  std::uint64_t labels = 0;
  bool first = true;
  for (const auto& [key, value] : message) {
    const std::string name(key);
    if (names.labels.contains(name)) {
      if (value.is_string()) labels += hash_of(name + "\xFF" + std::string(value.get_string()));
      continue;
    }
    const bool content = names.contents.contains(name), tree = names.trees.contains(name);
    if (!content && !tree && !names.texts.contains(name)) continue;
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

std::uint64_t mixed(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccd;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53;
  return x ^ x >> 33;
}

Anchors anchors_of(const Written& prompt, bool messages, std::uint64_t seed, std::uint64_t base) {
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

Anchors reference(Api api, std::string_view body, std::uint64_t caller = 0) {
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
    const bool tree = names.seed_trees.contains(name), text = names.seed_texts.contains(name);
    if ((!tree && !text) || value.is_null()) continue;
    Written seed{.seed = true};
    seed.mark(name);
    if (tree) write_tree(value, seed);
    if (text) write_content(names, value, seed);
    sum += hash_of(seed.bytes);
    base += seed.position;
  }
  Written seed;
  seed.hide(model + "\xFE");
  seed.number(caller);
  seed.hide("m");
  seed.number(sum);
  return prompt.position == 0 ? Anchors() : anchors_of(prompt, messages, hash_of(seed.bytes), base);
}

// --- Random bodies ---

std::size_t below(Random& random, std::size_t n) {
  return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
}
bool one_in(Random& random, std::size_t n) { return below(random, n) == 0; }

std::string random_text(Random& random, std::size_t longest = 600) {
  static const std::string_view words[] = {"weir ", "\n",         "\"x\"", "Wehr", "плотина", "水",
                                           "🙂",    "{\"a\": 1}", "\\",    "42 ",  "",        "m"};
  std::string text;
  for (std::size_t size = below(random, one_in(random, 4) ? longest : 30); text.size() < size;)
    text += words[below(random, std::size(words))];
  return text;
}
json::value random_tree(Random& random, int depth = 0) {
  switch (below(random, depth > 3 ? 5 : 7)) {
    case 0:
      return json::value(nullptr);
    case 1:
      return one_in(random, 2);
    case 2:
      return static_cast<std::int64_t>(below(random, 1000)) - 500;
    case 3:
      return 0.5 + static_cast<double>(below(random, 9));
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
json::value random_content(Random& random, Api api, int depth = 0);
json::value random_part(Random& random, Api api, int depth) {
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
json::value random_content(Random& random, Api api, int depth) {
  if (one_in(random, 12)) return json::value(nullptr);
  if (one_in(random, 2)) return json::string(random_text(random));
  json::array parts;
  for (std::size_t i = below(random, 4); i > 0; --i) parts.push_back(random_part(random, api, depth));
  return parts;
}
json::value random_message(Random& random, Api api) {
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
  return message;
}
json::object random_body(Random& random, Api api) {
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
  if (one_in(random, 3)) body["temperature"] = 0.5;
  if (one_in(random, 3)) body["unknown"] = random_tree(random);
  std::vector<std::pair<json::string, json::value>> members;
  for (const auto& [key, value] : body) members.emplace_back(key, value);
  std::shuffle(members.begin(), members.end(), random);
  json::object shuffled;
  for (auto& [key, value] : members) shuffled[key] = std::move(value);
  return shuffled;
}

/// Writes JSON with random blanks and escapes.
void write_json(Random& random, const json::value& value, std::string& to);
void write_blanks(Random& random, std::string& to) {
  while (one_in(random, 3)) to += " \t\r\n"[below(random, 4)];
}
void write_string(Random& random, std::string_view text, std::string& to) {
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
void write_json(Random& random, const json::value& value, std::string& to) {
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
/// Members that come again later are void.
std::string with_void_members(Random& random, const json::object& body, std::string text) {
  std::string first;
  for (const auto& [key, value] : body) {
    if (one_in(random, 8))
      first += json::serialize(json::string(key)) + ":" + json::serialize(random_tree(random)) + ",";
  }
  return text.insert(text.find('{') + 1, first);
}
std::string written(Random& random, const json::value& value) {
  std::string text;
  write_json(random, value, text);
  return text;
}

std::vector<std::string_view> cut(Random& random, std::string_view body) {
  std::vector<std::string_view> pieces;
  for (std::size_t longest = 1 + below(random, one_in(random, 3) ? 4 : 2000); !body.empty();) {
    pieces.push_back(body.substr(0, 1 + below(random, longest)));
    body.remove_prefix(pieces.back().size());
  }
  return pieces;
}

TEST(PromptPrefix, IsTheReferences) {
  Random random(1);
  for (int i = 0; i < 800; ++i) {
    const Api api = std::array{chat, anthropic, responses}[below(random, 3)];
    const json::object members = random_body(random, api);
    const std::string body = with_void_members(random, members, written(random, members));
    const std::uint64_t seed = below(random, 3);
    const Anchors wanted = reference(api, body, seed);
    ASSERT_EQ(anchors(api, body, seed), wanted) << name_of(api) << body;
    ASSERT_EQ(anchors_of(prefix_of(api, cut(random, body), seed)), wanted) << name_of(api) << body;
  }
}

TEST(PromptPrefix, LeavesTheFactsAsTheyAre) {
  Random random(2);
  for (int i = 0; i < 300; ++i) {
    const Api api = std::array{chat, anthropic, responses}[below(random, 3)];
    const std::string body = written(random, random_body(random, api));
    RequestInspector hashing(api, "POST", path_of(api), &conversation_key, &prefix_key);
    hashing.feed(body);
    const RequestFacts with = hashing.finish(), without = facts_of(api, body);
    ASSERT_EQ(with.images, without.images) << body;
    ASSERT_EQ(with.text.code_points, without.text.code_points) << body;
    ASSERT_EQ(with.text.messages, without.text.messages) << body;
    ASSERT_EQ(with.text.tool_bytes, without.text.tool_bytes) << body;
    ASSERT_EQ(with.conversation, without.conversation) << body;
    ASSERT_EQ(with.user_messages, without.user_messages) << body;
    ASSERT_EQ(with.tools, without.tools) << body;
  }
}

TEST(PromptPrefix, IsInTheOrderOfPositionsAndBounded) {
  struct Case {
    std::size_t bytes, message;
    std::size_t most;
  };
  for (const auto& [bytes, message, most] :
       {Case{4096, 1, 64}, Case{4096, 4096, 64}, Case{4096, 300, 64}, Case{4 << 20, 4 << 20, 700},
        Case{4 << 20, 3000, 700}, Case{4 << 20, 200, 700}}) {
    std::string body = R"({"messages":[)";
    while (body.size() < bytes) body += R"({"content":")" + std::string(message, 'a') + "\"},";
    body.back() = ']';
    const Anchors all = anchors(chat, body + "}");
    EXPECT_LE(all.size(), most) << message;
    EXPECT_GT(all.size(), 16U) << message;
    for (std::size_t i = 1; i < all.size(); ++i) ASSERT_LT(all[i - 1].first, all[i].first);
    EXPECT_EQ(keys_of(all).size(), all.size());
  }
}

/// An edit at a random place: what lies before it keeps its anchors, and nothing behind it does.
TEST(PromptPrefix, SharesAnchorsUpToTheFirstDifferenceOnly) {
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::string> texts;
    for (std::size_t n = 1 + below(random, 20); n > 0; --n) texts.push_back(std::string(1 + below(random, 900), 'a'));
    const auto body = [](const std::vector<std::string>& all) {
      json::array messages;
      for (const auto& text : all) messages.push_back(json::object{{"role", "user"}, {"content", text}});
      return json::serialize(json::object{{"model", "m"}, {"messages", messages}});
    };
    std::vector<std::string> edited = texts;
    const std::size_t which = below(random, texts.size()), at = below(random, texts[which].size());
    edited[which][at] = 'b';
    std::uint64_t same = at;  // The position of the first difference.
    for (std::size_t k = 0; k < which; ++k) same += texts[k].size() + 16;
    const Anchors one = anchors(chat, body(texts)), other = anchors(chat, body(edited));
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t k = 0; k < one.size(); ++k) {
      ASSERT_EQ(one[k].first, other[k].first);
      ASSERT_EQ(one[k].second == other[k].second, one[k].first <= same) << one[k].first << " " << same;
    }
    // A shorter prompt with the same beginning has the same ladder.
    edited.resize(which + 1);
    edited[which].resize(at);
    const Anchors cut = anchors(chat, body(edited));
    const auto keys = keys_of(one);
    for (const auto& [position, key] : cut) ASSERT_EQ(keys.contains(key), position <= same) << position << " " << same;
  }
}

TEST(PromptPrefix, FindsTheLastTurn) {
  Random random(4);
  for (int run = 0; run < 4; ++run) {
    json::array messages;
    Anchors before;
    for (int turn = 1; turn <= 60; ++turn) {
      messages.push_back(json::object{{"role", "user"}, {"content", random_text(random)}});
      const Anchors now = anchors(chat, written(random, json::object{{"model", "m"}, {"messages", messages}}));
      ASSERT_TRUE(turn == 1 || keys_of(now).contains(before.back().second)) << turn;
      before = now;
      messages.push_back(json::object{{"role", "assistant"}, {"content", random_text(random)}});
      for (std::size_t tools = below(random, 14); tools > 0; --tools) {
        messages.push_back(json::object{{"role", "tool"}, {"tool_call_id", "c"}, {"content", random_text(random, 50)}});
        messages.push_back(
            json::object{{"role", "assistant"}, {"content", nullptr}, {"tool_calls", random_tree(random)}});
      }
    }
  }
}

const char* const told =
    R"("model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Aé\nb"}])";

TEST(PromptPrefix, DoesNotDependOnWhatIsNotRendered) {
  const auto body = [](const std::string& more) { return "{" + std::string(told) + more + "}"; };
  const Anchors wanted = anchors(chat, body(""));
  ASSERT_EQ(wanted.size(), 2U);
  for (const std::string more :
       {"", R"(,"temperature":0)", R"(,"stream":true,"n":3,"stop":["a"],"user":"u","metadata":{"a":"b"},"seed":7)",
        R"(,"unknown":{"messages":[1]})", R"(,"tool_choice":"auto")", R"(,"tool_choice":"required")",
        R"(,"tool_choice":"none","tool_choice":null)", R"(,"tool_choice":{"a":1},"tool_choice":"auto")",
        R"(,"cache_salt":null,"tools":null)", R"(,"tools":[1],"tools":null)"})
    EXPECT_EQ(anchors(chat, body(more)), wanted) << more;
  for (const std::string& same : std::vector<std::string>{
        R"({"messages":[{"content":"Be brief.","role":"system"},{"content":"A\u00e9\u000ab","role":"user"}],"model":"m"})",
        R"( { "model" : "x" , "messages":[{"role":"user","content":"no"}] , )" + std::string(told) + " } ",
        R"({"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"Be brief.","cache_control":{}}]},
           {"role":"user","content":[{"text":"Aé\nb","type":"text"}],"unknown":[]}]})"})
    EXPECT_EQ(anchors(chat, same), wanted) << same;
}

TEST(PromptPrefix, KeepsApartWhatIsNotTheSame) {
  std::vector<std::string> bodies;
  const auto also = [&](const std::string& more) { bodies.push_back("{" + std::string(told) + more + "}"); };
  for (const std::string more :
       {"", R"(,"model":"other")", R"(,"cache_salt":"")", R"(,"cache_salt":"a")", R"(,"extra_key":"a")",
        R"(,"lora_path":"a")", R"(,"chat_template":"a")", R"(,"chat_template_kwargs":{"a":true})",
        R"(,"chat_template_kwargs":{"a":false})", R"(,"chat_template_kwargs":{"a":"true"})",
        R"(,"documents":["a","b"])", R"(,"documents":["b","a"])", R"(,"documents":["ab"])",
        R"(,"documents":[["a"],"b"])", R"(,"documents":[{"a":"b"}])", R"(,"reasoning_effort":"low")",
        R"(,"tools":["a"])", R"(,"tools":[1])", R"(,"tools":[1.0])", R"(,"tools":["1"])", R"(,"functions":["a"])",
        R"(,"system":"a")", R"(,"add_special_tokens":false)", R"(,"tool_choice":"none")",
        R"(,"tool_choice":{"type":"function","function":{"name":"f"}})",
        R"(,"tool_choice":{"type":"function","function":{"name":"g"}})"})
    also(more);
  std::set<std::uint64_t> keys;
  std::size_t anchors_there = 0;
  for (const auto& body : bodies) {
    for (const std::uint64_t seed : {0U, 1U}) {
      const Anchors all = anchors(chat, body, seed);
      anchors_there += all.size();
      keys.merge(keys_of(all));
    }
  }
  EXPECT_EQ(anchors_there, bodies.size() * 4);
  EXPECT_EQ(keys.size(), anchors_there);
}

TEST(PromptPrefix, KeepsListsOfMessagesApart) {
  // Members of a list, as JSON. No two may end alike.
  const std::vector<std::string> lists = {
      R"({"content":"a"})",
      R"({"content":"b"})",
      R"({"role":"user","content":"a"})",
      R"({"role":"users","content":"a"})",
      R"({"name":"user","content":"a"})",
      R"({"role":"user","name":"user","content":"a"})",
      R"({"content":"a"},{})",
      R"({},{"content":"a"})",
      R"({"content":["a"]},{"content":"b"})",
      R"({"content":["a","b"]})",
      R"({"content":"ab"})",
      R"({"content":["ab",""]})",
      R"({"content":["","ab"]})",
      R"({"content":"a","reasoning":"b"})",
      R"({"reasoning":"b","content":"a"})",
      R"({"reasoning_content":"b","content":"a"})",
      R"({"reasoning":"a"})",
      R"({"content":[{"text":"a","thinking":"b"}]})",
      R"({"content":[{"text":"a"},{"thinking":"b"}]})",
      R"({"content":[{"thinking":"b"},{"text":"a"}]})",
      R"({"content":[{"type":"image_url","image_url":{"url":"a"}}]})",
      R"({"content":[{"type":"image_url","image_url":{"url":"b"}}]})",
      R"({"content":[{"type":"image_url","image_url":{"url":"a","detail":"low"}}]})",
      R"({"content":[{"type":"input_image","image_url":"a"}]})",
      R"({"content":[{"type":"image_url","image_url":{"url":"a"}},{"type":"image_url","image_url":{"url":"b"}}]})",
      R"({"content":[{"type":"image_url","image_url":{"url":"b"}},{"type":"image_url","image_url":{"url":"a"}}]})",
      R"({"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]})",
      R"({"tool_calls":[{"function":{"name":"f{","arguments":"}"}}]})",
      R"({"tool_calls":[{"function":{"name":"f"},"arguments":"{}"}]})",
      R"({"tool_calls":[{"function":{"name":"f"}},{"arguments":"{}"}]})",
      R"({"function_call":{"name":"f","arguments":"{}"}})",
      R"({"tool_call_id":"a","content":"b"})",
      R"({"tool_call_id":"b","content":"a"})",
  };
  std::map<std::uint64_t, std::string> ends;
  for (const auto& list : lists) {
    const Anchors all = anchors(chat, R"({"messages":[)" + list + "]}");
    ASSERT_FALSE(all.empty()) << list;
    const auto [there, is_new] = ends.emplace(all.back().second, list);
    EXPECT_TRUE(is_new) << list << " and " << there->second;
  }
  // Anthropic's parts lie within parts.
  ends.clear();
  for (const std::string list : {
           R"({"content":[{"content":["a","b"]}]})",
           R"({"content":[{"content":["a"]},"b"]})",
           R"({"content":["a",{"content":["b"]}]})",
           R"({"content":["a","b"]})",
           R"({"content":[{"content":[{"content":["a"]},"b"]}]})",
           R"({"content":[{"content":[{"content":["a","b"]}]}]})",
           R"({"content":[{"tool_use_id":"t","content":"a"},{"tool_use_id":"u","content":"b"}]})",
           R"({"content":[{"tool_use_id":"u","content":"a"},{"tool_use_id":"t","content":"b"}]})",
           R"({"content":[{"name":"f","input":{}},{"name":"g","input":{}}]})",
           R"({"content":[{"name":"g","input":{}},{"name":"f","input":{}}]})",
       }) {
    const Anchors all = anchors(anthropic, R"({"messages":[)" + list + "]}");
    ASSERT_FALSE(all.empty()) << list;
    const auto [there, is_new] = ends.emplace(all.back().second, list);
    EXPECT_TRUE(is_new) << list << " and " << there->second;
  }
}

TEST(PromptPrefix, BeginsBehindToolsAndSystemText) {
  const std::string rest = R"("messages":[{"role":"user","content":"a"}])";
  const auto of = [&](Api api, const std::string& seed) { return anchors(api, "{" + seed + "," + rest + "}"); };
  EXPECT_EQ(of(anthropic, R"("system":")" + std::string(255, 's') + "\"").size(), 1U);
  const Anchors system = of(anthropic, R"("system":")" + std::string(256, 's') + "\"");
  ASSERT_EQ(system.size(), 2U);
  EXPECT_EQ(system[0].first, 256U);
  EXPECT_EQ(system[1].first, 256U + 1 + 16);
  // Tools count as compact JSON does.
  const std::string tools = R"([{"a":")" + std::string(300, 't') + R"("},[1,true,null],12.5])";
  EXPECT_EQ(of(chat, "\"tools\":" + tools)[0].first, tools.size());
  // The same tools and system text are shared by whatever comes behind.
  const std::string other = R"({"messages":[{"role":"user","content":"b"}],"tools":)" + tools + "}";
  EXPECT_EQ(of(chat, "\"tools\":" + tools)[0], anchors(chat, other)[0]);
  EXPECT_EQ(keys_of(of(chat, "\"tools\":" + tools)).count(anchors(chat, other)[1].second), 0U);
}

TEST(PromptPrefix, ReadsPlainPrompts) {
  const std::string text(1000, 'a');
  for (const auto& [api, member] :
       {std::pair{completions, "prompt"}, std::pair{llamacpp, "prompt"}, std::pair{tgi, "inputs"},
        std::pair{sglang, "text"}, std::pair{kobold, "prompt"}, std::pair{ollama_generate, "prompt"}}) {
    const auto body = [name = member](const std::string& said) {
      return R"({")" + std::string(name) + R"(":")" + said + "\"}";
    };
    const Anchors all = anchors(api, body(text));
    ASSERT_EQ(all.size(), 4U) << name_of(api);
    EXPECT_EQ(all[0].first, 256U);
    EXPECT_EQ(all[3].first, 1000U);
    // The end of a prompt is a beginning of a longer one, if a rung is there.
    EXPECT_EQ(anchors(api, body(text.substr(0, 512))), Anchors(all.begin(), all.begin() + 2));
    EXPECT_FALSE(share_a_key(all, anchors(api, body("b" + text))));
    EXPECT_EQ(anchors(api, body("")), Anchors());
  }
  EXPECT_EQ(anchors(completions, R"({"prompt":["abc"]})"), anchors(completions, R"({"prompt":"abc"})"));
  for (const std::string is_void : {"[1]", R"([1,"a"])", R"(["a","b"])", "\"x\"", "null"})
    EXPECT_EQ(anchors(completions, R"({"prompt":)" + is_void + R"(,"prompt":"abc"})"),
              anchors(completions, R"({"prompt":"abc"})"));
  // Routes that render messages, a text or a text within a template share nothing.
  const Anchors plain = anchors(completions, R"({"prompt":"abc"})");
  EXPECT_EQ(plain, anchors(tgi, R"({"inputs":"abc"})"));
  EXPECT_FALSE(share_a_key(plain, anchors(ollama_generate, R"({"prompt":"abc"})")));
  EXPECT_FALSE(share_a_key(plain, anchors(responses, R"({"input":"abc"})")));
  EXPECT_FALSE(share_a_key(plain, anchors(tgi, R"({"inputs":"abc","parameters":{"adapter_id":"a"}})")));
  EXPECT_EQ(plain, anchors(tgi, R"({"inputs":"abc","parameters":{"adapter_id":"a"},"parameters":{"top_k":1}})"));
}

TEST(PromptPrefix, CountsTokenIds) {
  const auto ids = [](std::size_t n, std::size_t first = 0) {
    std::string list = "[";
    for (std::size_t i = 0; i < n; ++i) list += std::to_string(first + i) + ",";
    list.back() = ']';
    return list;
  };
  for (const auto& [api, member] : {std::pair{completions, "prompt"}, std::pair{sglang, "input_ids"}}) {
    const auto of = [api = api, name = std::string(member)](const std::string& list) {
      return prefix_of(api, {R"({")" + name + "\":" + list + "}"});
    };
    const auto prefix = of(ids(1000));
    ASSERT_NE(prefix, nullptr);
    EXPECT_TRUE(prefix->token_ids);
    EXPECT_EQ(prefix->length(), 1000U);
    const Anchors all = anchors_of(prefix);
    EXPECT_EQ(all[0].first, 16U);
    EXPECT_EQ(all[1].first, 32U);
    for (std::size_t i = 0; i + 1 < all.size(); ++i) EXPECT_EQ(all[i].first % 16, 0U);
    EXPECT_LE(all.size(), 60U);
    const Anchors shorter = anchors_of(of(ids(160)));
    EXPECT_EQ(shorter, Anchors(all.begin(), all.begin() + 10));
    EXPECT_EQ(anchors_of(of("[" + ids(1000) + "]")), all);
    EXPECT_FALSE(share_a_key(all, anchors_of(of(ids(1000, 1)))));
    EXPECT_EQ(of("[" + ids(3) + "," + ids(4) + "]"), nullptr);
    EXPECT_EQ(of(R"(["a",1])"), nullptr);
    EXPECT_EQ(of(R"([1,"a"])"), nullptr);
    EXPECT_EQ(of("[]"), nullptr);
  }
}

TEST(PromptPrefix, CountsIdsAloneWhereTheyAreThePrompt) {
  const auto with = prefix_of(sglang, {R"({"input_ids":[1,2],"image_data":["a"]})"}),
             without = prefix_of(sglang, {R"({"input_ids":[1,2]})"});
  ASSERT_EQ(with->anchors.size(), 1U);
  EXPECT_EQ(with->length(), 2U);
  EXPECT_NE(with->anchors[0].key, without->anchors[0].key);
}

TEST(PromptPrefix, IsAbsentWhereThePromptIsNotKnown) {
  const std::pair<Api, std::string> bodies[] = {
      {chat, R"({"messages":[{"content":"a"}])"},
      {chat, R"({"messages":[{"content":"a"}]} x)"},
      {chat, ""},
      {chat, "[1]"},
      {chat, "{}"},
      {chat, R"({"messages":[]})"},
      {chat, R"({"messages":"a"})"},
      {chat, R"({"messages":[{"content":"a"}],"messages":null})"},
      {completions, R"({"prompt":["a","b"]})"},
      // The engine reads nothing from its cache, or has another prompt than is here.
      {chat, R"({"prompt_logprobs":0,"messages":[{"content":"a"}]})"},
      {chat, R"({"messages":[{"content":"a"}],"truncate_prompt_tokens":7})"},
      {chat, R"({"messages":[{"content":"a"}],"cache_prompt":false})"},
      {completions, R"({"prompt":"a","echo":true,"logprobs":1})"},
      {Api::llamacpp_completion, R"({"prompt":"a","cache_prompt":false})"},
      {tgi, R"({"inputs":"a","parameters":{"truncate":7}})"},
      {responses, R"({"input":"a","previous_response_id":"r"})"},
      {ollama_generate, R"({"prompt":"a","context":[1]})"},
      {sglang, R"({"text":"a","input_ids":[1]})"},
      {sglang, R"({"text":"a","return_logprob":true,"logprob_start_len":0})"},
      {tgi, R"({"text":"a","inputs":"a"})"},
      {Api::openai_embeddings, R"({"input":"a"})"},
      {Api::rerank, R"({"query":"a","documents":["b"]})"},
      {Api::score, R"({"text_1":"a"})"},
      {Api::other, R"({"messages":[{"content":"a"}]})"},
  };
  for (const auto& [api, body] : bodies) EXPECT_EQ(prefix_of(api, {body}), nullptr) << body;
  const std::pair<Api, std::string> known[] = {
      {chat, R"({"prompt_logprobs":null,"messages":[{"content":"a"}],"truncate_prompt_tokens":null})"},
      {chat, R"({"messages":[{"content":"a"}],"cache_prompt":true,"echo":true})"},
      {completions, R"({"prompt":"a","echo":false})"},
      {tgi, R"({"inputs":"a","parameters":{"truncate":null}})"},
      {sglang, R"({"text":"a","return_logprob":true,"logprob_start_len":-1})"},
  };
  for (const auto& [api, body] : known) EXPECT_NE(prefix_of(api, {body}), nullptr) << body;
  RequestInspector inspector(chat, "POST", path_of(chat));
  inspector.feed(std::string_view(R"({"messages":[{"content":"a"}]})"));
  inspector.finish();
  EXPECT_EQ(inspector.take_prefix(), nullptr);
}

TEST(PromptPrefix, CountsPicturesAlikeWherever) {
  const auto length = [](Api api, const std::string& body) {
    const auto prefix = prefix_of(api, {body});
    return prefix == nullptr ? 0 : prefix->length();
  };
  EXPECT_EQ(length(chat, R"({"messages":[{"content":["a",{"type":"image_url","image_url":{"url":"data"}}]}]})"),
            1U + 4000 + 16);
  EXPECT_EQ(length(ollama_chat, R"({"messages":[{"content":"a","images":["data","b"]}]})"), 1U + 8000 + 16);
  EXPECT_EQ(length(ollama_generate, R"({"prompt":"a","images":["data"]})"), 1U + 4000);
  EXPECT_EQ(length(llamacpp, R"({"prompt":{"prompt_string":"a","multimodal_data":["b"]}})"), 1U + 4000);
  const auto ollama = [](const std::string& images) {
    return anchors(ollama_chat, R"({"messages":[{"content":"a","images":)" + images + "}]}");
  };
  EXPECT_FALSE(share_a_key(ollama(R"(["a","b"])"), ollama(R"(["b","a"])")));
  EXPECT_FALSE(share_a_key(ollama(R"(["ab"])"), ollama(R"(["ac"])")));
}

TEST(PromptPrefix, HoldsNothingOfTheText) {
  const std::string text = "The weir holds 42 litres, and lets the river through. ";
  std::string all;
  while (all.size() < 4096) all += text;
  const auto prefix = prefix_of(completions, {R"({"prompt":")" + all + "\"}"});
  ASSERT_NE(prefix, nullptr);
  const std::string_view bytes(reinterpret_cast<const char*>(prefix->anchors.data()),
                               prefix->anchors.size() * sizeof(PromptPrefix::Anchor));
  for (std::size_t at = 0; at + 4 <= text.size(); ++at)
    EXPECT_EQ(bytes.find(text.substr(at, 4)), std::string_view::npos) << text.substr(at, 4);
}

}  // namespace
}  // namespace weir::metrics::wire
