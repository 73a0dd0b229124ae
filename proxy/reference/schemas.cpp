#include <string>
#include <string_view>

#include "metrics/record/log_fields.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/live/members.hpp"
#include "proxy/reference/reference.hpp"

namespace weir::proxy::reference {
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
