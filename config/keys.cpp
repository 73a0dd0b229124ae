#include "config/keys.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "config/load.hpp"
#include "config/table_reader.hpp"
#include "config/values.hpp"

namespace weir::config {
namespace {

using Hash = std::array<std::uint8_t, 32>;

/// SHA-256 of no bytes at all, which a slip of the pen hashes: `printf '' | sha256sum`.
constexpr Hash of_nothing{0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4,
                          0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b,
                          0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55};

std::optional<std::uint8_t> digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<std::uint8_t>(c - 'A' + 10);
  return std::nullopt;
}

Parsed<Hash> read_hash(const toml::node& node) {
  const Problem problem{
      "must be the SHA-256 of the key in 64 hex digits, as weir key new and weir key hash print it, and not the key"};
  const auto* text = node.as_string();
  Hash bytes{};
  if (text == nullptr || text->get().size() != 2 * bytes.size()) return problem;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto high = digit(text->get()[2 * i]), low = digit(text->get()[2 * i + 1]);
    if (!high || !low) return problem;
    bytes[i] = static_cast<std::uint8_t>(*high << 4 | *low);
  }
  if (bytes == of_nothing) return Problem{"is the hash of nothing; give that of a key, as weir key new NAME prints it"};
  return bytes;
}

/// Whoever has a hash can try out whether a key that he guesses is the right one, so none is shown whole.
std::string begin_of(const Hash& bytes) {
  std::string hex;
  for (std::size_t i = 0; i < 4; ++i) hex += {"0123456789abcdef"[bytes[i] >> 4], "0123456789abcdef"[bytes[i] & 15]};
  return hex + "...";
}

constexpr Reads<Hash> hash{read_hash, "64 hex digits", begin_of};

/// Reads the name of a key. The log has it, so it is neither the key nor its hash.
Parsed<std::string> read_key_name(const toml::node& node) {
  auto parsed = name(node);
  if (const auto* text = std::get_if<std::string>(&parsed); text != nullptr && looks_like_key_or_hash(*text))
    return Problem{"looks like a key or its hash, and the log would show it; name the client: name = \"alice\""};
  return parsed;
}

constexpr Reads<std::string> key_name{read_key_name, "name"};

class KeyReading {
 public:
  explicit KeyReading(Report& report) : report_(report) {}

  /// What the table does not set is as in `otherwise`.
  ClientKey key(const toml::table& source, ClientKey key = {}) {
    TableReader table("[[key]]", source, report_);
    table.read_name(key.name, key_name, names_, "the log names the client by it: name = \"alice\"",
                    "What log and pages call the client. Unique in the file. It must not look like a key or its hash.",
                    "names are unique in the file; while a client changes its key it has two, such as alice and "
                    "alice-2");
    if (const auto* node = table.read_secret(
            "sha256", key.sha256, hash,
            About("SHA-256 of the key's bytes, as `weir key new` prints it: all that weir knows of a key.", true))) {
      const std::string bytes(key.sha256.begin(), key.sha256.end());
      if (const auto [first, is_new] = hashes_.try_emplace(bytes, node); !is_new)
        table.blame_secret("sha256", *node,
                           "is that of the key " + in_line(*first->second) +
                               " as well, and a key has one name; remove "
                               "one of them, or make another key with weir key new NAME");
    }
    if (!table.has("sha256")) table.blame_table("sha256 is missing; weir key new NAME makes a key and prints its hash");
    read_models(table, key);
    table.read("max_in_flight", key.max_in_flight, Whole<std::uint32_t>{1, 1'000'000},
               "The most requests of this key under way or waiting. Beyond it: 429 with `Retry-After`.");
    table.read("share", key.share, Number{least_share, most_share},
               "While requests wait, a key with 2 gets twice as many tokens as one with 1, in pools with `fair_by = "
               "\"key\"`.");
    table.refuse_the_rest();
    return key;
  }

 private:
  static void read_models(TableReader& table, ClientKey& key) {
    const auto* list = table.read_list(
        "models", key.models, Text{longest_key_model},
        [&](const toml::node& node, std::string model) {
          if (std::ranges::find(key.models, model) != key.models.end())
            table.blame("models", node, "is in this list twice; remove one");
          key.models.push_back(std::move(model));
        },
        "Models that the key may use, and that `/v1/models` lists for it; without it all. Other "
        "models, and bodies that engines could read in two ways, get 403.");
    if (list != nullptr && list->is_array() && list->as_array()->empty())
      table.blame("models", *list, "names no model; name those that the key may use, or leave it out for all");
  }

  Report& report_;
  Places names_, hashes_;
};

std::vector<const toml::table*> tables_of_keys(TableReader& file) {
  return file.tables("key", About("Of the file that `server.api_keys` names: a table for each key. `weir key new` "
                                  "makes one: [guide](../guides/keys.md).",
                                  true));
}

}  // namespace

Reference keys_reference() {
  Reference reference;
  Report report("", &reference);
  const toml::table nothing;
  TableReader table("", nothing, report);
  KeyReading reading(report);
  for (const auto* one : tables_of_keys(table)) reading.key(*one);
  return reference;
}

KeysResult load_keys(std::string_view toml, const std::string& file) {
  try {
    const auto root = toml::parse(toml, std::string_view(file));
    Report report(file);
    TableReader table("", root, report);
    KeyReading reading(report);
    std::vector<ClientKey> keys;
    for (const auto* one : tables_of_keys(table)) keys.push_back(reading.key(*one));
    table.refuse_the_rest();
    if (keys.empty() && report.empty())
      report.add({}, "no [[key]] in the file, so that no client could use weir; weir key new NAME makes one");
    if (!report.empty()) return report.take();
    return keys;
  } catch (const toml::parse_error& error) {
    return std::vector{syntax_error(file, error)};
  }
}

void list_keys(const SharedList<ClientKey>& keys, Report& report) {
  const std::string file = "server.api_keys";
  report.listing()->push_back({file, "", {}});
  KeyReading reading(report);
  for (const auto& key : keys) {
    report.listing()->push_back({"key " + key.name, file, {}});
    reading.key(no_table, key);
  }
}

namespace {

constexpr std::string_view hex_digits = "0123456789abcdefABCDEF";
constexpr std::string_view base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::string_view key_start = "weir-";
constexpr std::size_t hash_length = 64, key_length = 43, shown_of_hash = 8;
constexpr std::size_t shortest_part = 32;

std::size_t run_of(std::string_view characters, std::string_view text) {
  return std::min(text.find_first_not_of(characters), text.size());
}

bool consists_of(std::string_view characters, std::size_t length, std::string_view text) {
  return text.size() == length && run_of(characters, text) == length;
}

}  // namespace

bool looks_like_key_or_hash(std::string_view text) {
  return consists_of(hex_digits, hash_length, text) ||
         (text.starts_with(key_start) && consists_of(base64url, key_length, text.substr(key_start.size())));
}

std::string without_keys_and_hashes(std::string_view text) {
  std::string result;
  // `shown` characters stay of the next `length`. What was cut before ends with dots already.
  const auto take = [&](std::size_t shown, std::size_t length) {
    result += text.substr(0, shown);
    text.remove_prefix(length);
    if (shown < length && !text.starts_with("...")) result += "...";
  };
  while (!text.empty()) {
    const auto digits = run_of(hex_digits, text);
    const auto key = text.starts_with(key_start) ? run_of(base64url, text.substr(key_start.size())) : 0;
    if (key >= shortest_part) {
      take(key_start.size(), key_start.size() + key);
    } else if (digits >= shortest_part) {
      take(shown_of_hash, digits);
    } else {
      const auto length = std::max<std::size_t>(digits, 1);
      take(length, length);
    }
  }
  return result;
}

}  // namespace weir::config
