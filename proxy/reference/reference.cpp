#include "proxy/reference/reference.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

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

}  // namespace weir::proxy::reference
