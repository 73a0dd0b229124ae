#include "metrics/wire/json/canonical.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "metrics/wire/json/parser.hpp"
#include "metrics/wire/json/text.hpp"

namespace weir::metrics::wire {

namespace {

bool is_json(std::string_view text) {
  JsonParser<Sax> json;
  json.feed(text);
  json.feed(" ");  // Only what follows a number shows its end.
  return json.whole();
}

void append_string(std::string_view text, std::string& to) {
  constexpr std::string_view digits = "0123456789abcdef";
  to += '"';
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      const auto code = static_cast<std::size_t>(c);
      to.append("\\u00").append(1, digits[code >> 4]).append(1, digits[code & 0xF]);
      continue;
    }
    if (c == '"' || c == '\\') to += '\\';
    to += c;
  }
  to += '"';
}

/// Reads text that is known to be JSON.
class Canonical {
 public:
  explicit Canonical(std::string_view text) : rest_(text) {}

  std::string value() {
    switch (next()) {
      case '{':
        return object();
      case '[':
        return array();
      case '"': {
        std::string written;
        append_string(string(), written);
        return written;
      }
      default:
        return std::string(take(std::min(rest_.find_first_of(",]} \t\r\n"), rest_.size())));
    }
  }

 private:
  std::string object() {
    std::vector<std::pair<std::string, std::string>> members;
    do {
      take(1);  // It is the brace or a comma.
      if (next() == '}') break;
      std::string key = string();
      next();
      take(1);  // It is the colon.
      members.emplace_back(std::move(key), value());
    } while (next() == ',');
    take(1);
    std::ranges::stable_sort(members, {}, [](const auto& member) -> const std::string& { return member.first; });
    std::string written = "{";
    for (const auto& [key, of] : members) {
      if (written.size() > 1) written += ',';
      append_string(key, written);
      written.append(":").append(of);
    }
    return written + "}";
  }
  std::string array() {
    std::string written = "[";
    do {
      take(1);  // It is the bracket or a comma.
      if (next() == ']') break;
      if (written.size() > 1) written += ',';
      written += value();
    } while (next() == ',');
    take(1);
    return written + "]";
  }
  std::string string() {
    std::size_t end = 1;
    while (rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    std::string text;
    undo_escapes(take(end + 1).substr(1, end - 1), [&](std::string_view piece) { text += piece; });
    return text;
  }
  /// Returns the first byte that is no white space; 0 at the end of the text.
  char next() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
    return rest_.empty() ? '\0' : rest_.front();
  }
  std::string_view take(std::size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
};

}  // namespace

std::optional<std::string> canonical_json(std::string_view text) {
  if (!is_json(text)) return std::nullopt;
  return Canonical(text).value();
}

}  // namespace weir::metrics::wire
