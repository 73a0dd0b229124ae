#include "metrics/wire/json/writer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "config/controls.hpp"
#include "metrics/utf8.hpp"
#include "metrics/wire/json/parser.hpp"
#include "metrics/wire/json/text.hpp"

namespace weir::metrics::wire {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD in UTF-8.

/// True for ASCII that stands in a JSON string as it is.
constexpr auto is_plain = [] {
  std::array<bool, 256> plain{};
  for (unsigned c = 0x20; c < 0x7F; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

/// Appends the escape of the character that a text begins with: a quote, a backslash or a control character.
void append_escape(std::string& out, std::string_view text, std::size_t size) {
  switch (text.front()) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      config::append_escaped(out, text, size);
  }
}

void append_count(std::string& out, std::uint64_t value) {
  char buffer[20];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out.append(buffer, end);
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (;;) {
    std::size_t plain = 0;
    while (plain < text.size() && is_plain[static_cast<unsigned char>(text[plain])]) ++plain;
    out.append(text.data(), plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const bool is_ascii = static_cast<unsigned char>(text.front()) < 0x80;
    // A log is read in terminals and editors, which obey some characters beyond ASCII, too.
    if (const auto size = is_ascii ? 1 : config::control_size(text); size > 0) {
      append_escape(out, text, size);
      text.remove_prefix(size);
      continue;
    }
    const CodePointBytes point = first_code_point(text);
    out += point.valid ? text.substr(0, point.size) : replacement;
    text.remove_prefix(point.size);
  }
  out += '"';
}

void JsonWriter::next() {
  if (comma_is_due_) out_ += ',';
  comma_is_due_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  next();
  out_ += bracket;
  comma_is_due_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  comma_is_due_ = true;
  return *this;
}

JsonWriter& JsonWriter::plain_key(std::string_view name) {
  next();
  out_ += '"';
  out_ += name;
  out_ += "\":";
  comma_is_due_ = false;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  text(name);
  out_ += ':';
  comma_is_due_ = false;
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view value) {
  next();
  append_json_string(out_, value);
  return *this;
}

JsonWriter& JsonWriter::known_text(std::string_view value) { return value.empty() ? null() : text(value); }

JsonWriter& JsonWriter::texts(const std::vector<std::string>& values) {
  open('[');
  for (const auto& value : values) text(value);
  return close(']');
}

JsonWriter& JsonWriter::count(std::optional<std::uint64_t> value) {
  if (!value) return null();
  next();
  append_count(out_, *value);
  return *this;
}

JsonWriter& JsonWriter::decimal(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return null();
  constexpr int significant = 6;
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, *value, std::chars_format::general, significant).ptr;
  return raw({digits, end});
}

JsonWriter& JsonWriter::fixed(std::optional<double> value, unsigned digits) {
  if (!value) return null();
  std::uint64_t scale = 1;
  for (unsigned i = 0; i < digits; ++i) scale *= 10;
  const double scaled = *value * static_cast<double>(scale);
  const bool is_measurement = scaled >= 0 && scaled < 9e18;  // NaN compares false here.
  if (!is_measurement) return null();

  next();
  auto rounded = static_cast<std::uint64_t>(std::llround(scaled));
  append_count(out_, rounded / scale);
  rounded %= scale;
  if (rounded == 0) return *this;
  out_ += '.';
  for (scale /= 10; rounded > 0; scale /= 10) {
    out_ += static_cast<char>('0' + rounded / scale);
    rounded %= scale;
  }
  return *this;
}

JsonWriter& JsonWriter::exact(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return null();
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, *value, std::chars_format::scientific).ptr;
  const std::string_view all(digits, end);  // Such as 1.25e-01.
  const auto mark = all.find('e');
  const bool is_small = all[mark + 1] == '-';
  auto exponent = all.substr(mark + 2);
  if (exponent.front() == '0') exponent.remove_prefix(1);
  raw(all.substr(0, mark));
  out_ += is_small ? "E-" : "E";
  out_ += exponent;
  return *this;
}

JsonWriter& JsonWriter::boolean(std::optional<bool> value) { return raw(!value ? "null" : *value ? "true" : "false"); }

JsonWriter& JsonWriter::raw(std::string_view json) {
  next();
  out_ += json;
  return *this;
}

namespace {

bool is_json(std::string_view text) {
  JsonParser<Sax> json;
  json.feed(text);
  json.feed(" ");  // Only the byte behind a number shows its end.
  return json.whole();
}

std::string canonical(simdjson::ondemand::value value);

std::string canonical_object(simdjson::ondemand::object object) {
  std::vector<std::pair<std::string, std::string>> members;
  for (auto member : object) {
    std::string key(member.unescaped_key().value());
    members.emplace_back(std::move(key), canonical(member.value()));
  }
  std::ranges::stable_sort(members, {}, [](const auto& member) -> const std::string& { return member.first; });
  JsonWriter json;
  json.open('{');
  for (const auto& [key, written] : members) json.key(key).raw(written);
  return json.close('}').written();
}

std::string canonical_array(simdjson::ondemand::array array) {
  JsonWriter json;
  json.open('[');
  for (auto element : array) json.raw(canonical(element.value()));
  return json.close(']').written();
}

std::string canonical(simdjson::ondemand::value value) {
  using simdjson::ondemand::json_type;
  switch (value.type()) {
    case json_type::object:
      return canonical_object(value.get_object());
    case json_type::array:
      return canonical_array(value.get_array());
    case json_type::string:
      return JsonWriter().text(value.get_string().value()).written();
    default:
      return std::string(token_of(value));
  }
}

}  // namespace

std::optional<std::string> canonical_json(std::string_view text) {
  if (!is_json(text)) return std::nullopt;
  // On-Demand reads a lone scalar in its own way, so the text is read as the one element of an array.
  const simdjson::padded_string padded("[" + std::string(text) + "]");
  simdjson::ondemand::parser parser;
  auto document = parser.iterate(padded);
  const auto inside = canonical_array(document.get_array());
  return inside.substr(1, inside.size() - 2);
}

}  // namespace weir::metrics::wire
