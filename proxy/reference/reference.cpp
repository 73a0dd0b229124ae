#include "proxy/reference/reference.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/address.hpp"
#include "config/table_reader.hpp"
#include "config/values.hpp"
#include "metrics/record/log_line.hpp"
#include "metrics/series/exposition.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/admin/admin.hpp"
#include "proxy/live/findings.hpp"
#include "proxy/live/members.hpp"
#include "proxy/reference/pages.hpp"

namespace weir::proxy::reference {
namespace {

/// Takes the marks of Markdown out of a text: links keep their words.
std::string plain(std::string_view text) {
  std::string words;
  while (!text.empty()) {
    const auto middle = text.find("](");
    const bool is_link = text.front() == '[' && middle != text.npos && text.substr(1, middle).find('[') == text.npos;
    if (is_link) {
      words += plain(text.substr(1, middle - 1));
      text.remove_prefix(std::min(text.size(), text.find(')', middle) + 1));
      continue;
    }
    if (text.front() != '`') words += text.front();
    text.remove_prefix(1);
  }
  return words;
}

/// Gathers what is found, each with the text below it.
class Found {
 public:
  explicit Found(std::string_view word) : word_(config::lower(word)) {}

  void add(std::string_view name, std::string_view title, std::string_view text) {
    if (config::lower(name).find(word_) == std::string::npos) return;
    all_.append(all_.empty() ? "" : "\n").append(title).append("\n");
    all_ += wrapped(plain(text), 96, "    ");
  }
  std::string all() && { return std::move(all_); }

 private:
  std::string word_;
  std::string all_;
};

void add_keys(Found& found) {
  for (const auto& tables : {config::settings_reference(), config::keys_reference()}) {
    for (const auto& table : tables) {
      found.add(table.title, "Table " + table.title + " of the settings", table.text);
      for (const auto& key : table.keys) {
        const auto standing = key.is_required             ? std::string("required")
                              : key.initial_value.empty() ? std::string("off unless set")
                                                          : "default " + key.initial_value;
        found.add(key.name, table.title + ' ' + key.name + ": " + plain(key.value) + "; " + standing, key.text);
      }
    }
  }
}

void add_series(Found& found) {
  const auto [replicas, weir] = metrics::series::Exposition(1, {}).families();
  for (const auto& families : {replicas, weir}) {
    for (const auto& [text, type] : families) {
      auto title = std::string(text.name).append(" (").append(name_of(type));
      if (!text.labels.empty()) title.append(" by ").append(text.labels);
      found.add(text.name, title + ") on /metrics", text.help);
    }
  }
}

}  // namespace

std::string look_up(std::string_view word) {
  Found found(word);
  add_keys(found);
  add_series(found);
  for (const auto& field : metrics::record::log_fields())
    found.add(field.name, std::string(field.name) + " in the request log", field.about.text());
  for (const auto& member : live::members())
    found.add(member.path, std::string(member.path) + " of /api/live", member.about.text());
  for (const auto& rule : live::rules())
    found.add(rule.what, "Finding " + std::string(rule.what) + " of: " + plain(rule.who), rule.about.text());
  for (const auto& [scope, changes, path, about] : admin::admin_paths())
    found.add(path, (changes ? "POST " : "GET ") + std::string(path), about);
  return std::move(found).all();
}

int print_reference(const std::string& what) {
  constexpr std::array<std::pair<std::string_view, std::string (*)()>, 6> pages{{{"settings", settings_page},
                                                                                 {"metrics", metrics_page},
                                                                                 {"request-log", request_log_page},
                                                                                 {"api", api_page},
                                                                                 {"schema-log", log_schema},
                                                                                 {"schema-live", live_schema}}};
  const auto page = std::ranges::find(pages, what, [](const auto& one) { return one.first; });
  const auto text = page != pages.end() ? page->second() : look_up(what);
  if (text.empty()) {
    std::fprintf(stderr,
                 "no key, series, field, member, finding or path has %s in its name; pages are settings, metrics, "
                 "request-log, api, schema-log and schema-live\n",
                 config::show_text(what).c_str());
    return 1;
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

namespace {

using metrics::record::LogField;

std::string quoted(std::string_view text) {
  metrics::wire::JsonWriter json;
  return json.text(text).written();
}

std::string type_of(std::string_view type, bool may_be_null) {
  return may_be_null ? "[" + quoted(type) + ", \"null\"]" : quoted(type);
}

std::string head_of(std::string_view title) {
  return "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \"title\": " + quoted(title) +
         ",\n  \"type\": \"object\",\n";
}

std::string property(const LogField& field) {
  const bool may_be_null = !field.null_when.empty();
  std::string text = quoted(field.name) + ": {\"type\": " + type_of(name_of(field.type), may_be_null);
  if (!field.words.empty()) {
    text += ", \"enum\": [";
    for (const auto word : field.words) text += (word == field.words.front() ? "" : ", ") + quoted(word);
    text += may_be_null ? ", null]" : "]";
  }
  return text + ", \"description\": " + quoted(field.about.text()) + '}';
}

/// Writes the members below `path`, which ends in a dot or is "", as the properties of an object.
class LiveProperties {
 public:
  std::string of(std::string_view path, std::size_t depth) const {
    const std::string indent(2 * depth, ' ');
    std::string text;
    for (const auto& member : live::members()) {
      if (!is_child(member.path, path)) continue;
      const auto name = member.path.substr(path.size());
      if (name == "*") continue;
      text += (text.empty() ? "" : ",\n") + indent + quoted(name) + ": " + value(member, depth);
    }
    return text;
  }

 private:
  /// A child's name has no dot, and is not that of an element.
  static bool is_child(std::string_view path, std::string_view parent) {
    return path.starts_with(parent) && path.size() > parent.size() && path.find('.', parent.size()) == path.npos &&
           !path.ends_with("[]");
  }

  static const live::Member* find(std::string_view path) {
    for (const auto& one : live::members())
      if (one.path == path) return &one;
    return nullptr;
  }

  std::string value(const live::Member& member, std::size_t depth) const {
    using enum live::MemberType;
    const std::string path(member.path), indent(2 * depth, ' ');
    const auto about = ", \"description\": " + quoted(member.about.text());
    switch (member.type) {
      case text:
        return "{\"type\": " + type_of("string", true) + about + '}';
      case whole:
        return "{\"type\": " + type_of("integer", true) + about + '}';
      case number:
        return "{\"type\": " + type_of("number", true) + about + '}';
      case flag:
        return "{\"type\": " + type_of("boolean", true) + about + '}';
      case object:
        return "{\"type\": " + type_of("object", true) + about + ", \"properties\": {\n" + of(path + '.', depth + 1) +
               '\n' + indent + "}}";
      case rows: {
        const auto* const row = find(path + ".*");
        return "{\"type\": \"object\"" + about + ", \"additionalProperties\": " + value(*row, depth) + '}';
      }
      case list: {
        const auto* const element = find(path + "[]");
        return "{\"type\": \"array\"" + about + ", \"items\": " + value(*element, depth) + '}';
      }
    }
    return {};
  }
};

}  // namespace

std::string log_schema() {
  std::string text = head_of("A line of weir's request log"), required;
  text += "  \"properties\": {\n";
  const auto fields = metrics::record::log_fields();
  for (const auto& field : fields) {
    text += "    " + property(field) + (&field == &fields.back() ? "\n" : ",\n");
    if (!field.of_shadows) required += (required.empty() ? "" : ", ") + quoted(field.name);
  }
  return text + "  },\n  \"required\": [" + required + "]\n}\n";
}

std::string live_schema() {
  return head_of("The document of weir's /api/live") + "  \"properties\": {\n" + LiveProperties().of("", 2) +
         "\n  }\n}\n";
}

namespace {

using config::ReferenceKey;
using config::ReferenceTable;

constexpr std::string_view settings_head = R"(# Settings

<!-- Generated by scripts/reference from the code that reads the settings. -->

For operators: every key of `weir.toml` with its values, its default and what it does. In the terminal `weir reference
WORD` looks keys up, and `weir check --config weir.toml` says every error of a file at once, with the way out.

A running weir takes over a changed file on HUP or `weir reload`, without losing a stream; `threads` alone needs a
restart. The smallest useful file is [minimal.toml](../../config/examples/minimal.toml), and
[every-key.toml](../../config/examples/every-key.toml) shows each key once.

## How values are written

The file is [TOML](https://toml.io): a regular file of at most 1 MiB.

| kind | how it is written |
|---|---|
| time | A number of seconds (`2`, `0.25`), or text with a unit: `"250ms"`, `"2s"`, `"5m"`, `"2h"`. |
| size | A whole number of bytes, or text with a unit: `"512B"`, `"64KiB"`, `"16MiB"`, `"1GiB"`; `"1KB"` is 1,000 bytes. |
| address | Numeric, with a port: `"127.0.0.1:8080"`, `"[::1]:8080"`; `"0.0.0.0:8080"` and `"[::]:8080"` are every interface. `localhost` stands for `127.0.0.1`; port 0 lets the system choose. `"unix:/run/weir/weir.sock"` is a Unix-domain socket, of at most 107 bytes, which weir makes with mode 0660. |
| network | An address, or one with the bits that count: `"10.0.0.7"`, `"10.0.0.0/8"`, `"fd00::/8"`. `"unix:"` stands for all who come by a Unix-domain socket. |
| name | 1 to 64 letters, digits, `.`, `_` and `-`, the first one a letter or digit. |
| list | Values in brackets; one value can stand without them: `listen = "127.0.0.1:8080"`. |
| file | A path from the root, or from the directory that weir was started in. |

`"${NAME}"` in any text stands for the value of an environment variable, whole or in part: `"http://${GPU_BOX}:8001"`. A
variable that is not set is an error. `$${` stands for `${`. A reload does not change weir's environment, so a secret
that is to change stands in a file (`api_key_file`, `token_file`).

A key that weir does not know is an error. Errors name file, line and column; none shows a secret:

```
weir.toml:7:1: [limits] first_tokn: unknown key; did you mean first_token?
weir.toml:12:10: [[pool.replica]] weight = 0: must be a number from 0.001 to 1000
```
)";

constexpr std::string_view paths = R"(
## Paths

With an empty `server.paths` weir lets these inference routes through, all by `POST`:

- read and measured: `/v1/chat/completions`, `/chat/completions`, `/v1/completions`, `/v1/responses`, `/responses`,
  `/v1/messages`, `/`, `/generate`, `/generate_stream`, `/completion`, `/completions`, `/api/extra/generate/stream`,
  `/api/v1/generate`, `/api/latest/generate`, `/api/chat`, `/api/generate`;
- measured by their duration and prompt tokens: `/v1/embeddings`, `/embeddings`, `/embed`, `/v1/rerank`, `/v2/rerank`,
  `/rerank`, `/v1/reranking`, `/v1/score`, `/score`;
- relayed and counted: `/tokenize`, `/v1/tokenize`, `/detokenize`, `/apply-template`, `/infill`,
  `/v1/messages/count_tokens`, `/v1/moderations`, `/pooling`, `/classify`, `/v1/chat/completions/batch`,
  `/api/extra/tokencount`, and all below `/v1/audio/` and `/v1/images/`.

weir itself answers `GET` of `health`, `v1/models`, `v1/models/ID` and `models`. These are passed on, too:

- what clients of Kobold and Ollama ask first, by `GET`: `api/v1/model`, `api/v1/info/version`,
  `api/v1/config/max_context_length`, `api/v1/config/max_length`, `api/extra/version`,
  `api/extra/true_max_context_length`, `api/tags`;
- what an engine keeps under an id, to the replica that has it: `v1/responses/ID` (and `cancel`, `input_items`),
  `v1/files`, `v1/batches`. weir remembers 65,536 ids for a day after their last use, and asks replica by replica for an
  unknown one;
- another method on one of these routes (a browser's `OPTIONS`): to one replica, once.

A path that a replica could read as another one gets 404: with an escaped slash, dot or letter (`%2F`, `%2e`), a `;` or
a `\`. Slashes that stand twice or at the end are taken out.

## Which model a request names

The member `model` of a JSON body, or the field `model` of a form. Of a body in gzip or deflate weir decodes the first
64 KiB; it sends the body on as it came. A request without a model goes to the pool that takes any, and to the only pool
where there is one. Where all pools name their models it gets 400 `model_missing`, unless it asks for no answer of a
model.

A key with `models` gets 403 `model_not_allowed` for another model, and for a body that engines may read in two ways.
Examples are two models, a `Content-Type` that is no JSON, a `charset` other than `utf-8` and `us-ascii`, and a
`Content-Encoding`.
Adapters that a body names in members of their own (`lora_path`, `adapter_id`) are not looked at.

A right key is cut out of what goes to replicas and into the log. Of other clients' keys, weir finds those of `weir key
new` even as a part of a value. It does not find one that is encoded (Basic, escapes), or has fewer than 16 characters,
neither a digit nor a capital letter, or a blank. Bodies and paths go on as they are.
)";

/// Returns the anchor of a table's heading.
std::string anchor(std::string_view title) {
  std::string text(title);
  std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == '.'; });
  return text;
}

std::string link_to(std::string_view title) { return "[" + code(title) + "](#" + anchor(title) + ")"; }

bool is_table(const ReferenceKey& key) { return key.value == "table" || key.value == "tables"; }

std::string default_of(const ReferenceKey& key) {
  if (key.is_required) return "required";
  return key.initial_value.empty() && !is_table(key) ? "none" : code(key.initial_value);
}

/// Returns the name that a table has, as "pool.health" for "[pool.health]".
std::string name_of(std::string_view title) {
  std::string name(title);
  std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
  return name;
}

std::vector<ReferenceKey> own_keys(const ReferenceTable& table) {
  std::vector<ReferenceKey> keys;
  std::ranges::copy_if(table.keys, std::back_inserter(keys), [](const auto& key) { return !is_table(key); });
  return keys;
}

class Page {
 public:
  explicit Page(const config::Reference& tables) : tables_(tables) {}

  std::string text() {
    for (std::size_t i = 0; i < tables_.size(); ++i) add(tables_[i], i);
    return std::move(text_);
  }

 private:
  void add(const ReferenceTable& table, std::size_t at) {
    const auto keys = own_keys(table);
    text_ += "\n## " + code(table.title) + "\n\n" + wrapped(table.text);
    for (std::size_t i = 0; i < at; ++i) {
      if (own_keys(tables_[i]) != keys) continue;
      text_ += "\nThe keys are those of " + link_to(tables_[i].title) + ".\n";
      return;
    }
    text_ += "\n| key | value | default | what it does |\n|---|---|---|---|\n";
    for (const auto& key : table.keys) add(table, key);
  }

  void add(const ReferenceTable& table, const ReferenceKey& key) {
    const auto inner = std::ranges::find_if(
        tables_, [&](const auto& one) { return name_of(one.title) == name_of(table.title) + '.' + key.name; });
    const bool has_section = is_table(key) && inner != tables_.end();
    text_ += row(code(key.name), key.value, default_of(key), has_section ? link_to(inner->title) : key.text);
  }

  const config::Reference& tables_;
  std::string text_;
};

}  // namespace

std::string settings_page() {
  std::string text(settings_head);
  const auto settings = config::settings_reference(), keys = config::keys_reference();
  return text + Page(settings).text() + Page(keys).text() + std::string(paths);
}

}  // namespace weir::proxy::reference
