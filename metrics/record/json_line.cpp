#include "metrics/record/json_line.hpp"

#include <charconv>
#include <cmath>
#include <utility>

#include "metrics/utf8.hpp"

namespace weir::metrics::record {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // This is U+FFFD in UTF-8.

void append_escape(std::string& out, unsigned char c) {
  constexpr char digits[] = "0123456789abcdef";
  switch (c) {
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
      out += "\\u00";
      out += digits[c >> 4];
      out += digits[c & 15];
  }
}

void append_number(std::string& out, std::uint64_t value) {
  char buffer[20];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out.append(buffer, end);
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text.front());
    if (c >= 0x80) {
      const CodePointBytes point = first_code_point(text);
      out += point.valid ? text.substr(0, point.size) : replacement;
      text.remove_prefix(point.size);
      continue;
    }
    if (c < 0x20 || c == '"' || c == '\\') {
      append_escape(out, c);
    } else {
      out += static_cast<char>(c);
    }
    text.remove_prefix(1);
  }
  out += '"';
}

JsonLine::JsonLine() {
  out_.reserve(1536);
  out_ += '{';
}

void JsonLine::name(std::string_view key) {
  if (out_.size() > 1) out_ += ',';
  out_ += '"';
  out_ += key;
  out_ += "\":";
}

JsonLine& JsonLine::text(std::string_view key, std::string_view value) {
  name(key);
  append_json_string(out_, value);
  return *this;
}

JsonLine& JsonLine::known_text(std::string_view key, std::string_view value) {
  return value.empty() ? null(key) : text(key, value);
}

JsonLine& JsonLine::number(std::string_view key, std::optional<std::uint64_t> value) {
  if (!value) return null(key);
  name(key);
  append_number(out_, *value);
  return *this;
}

JsonLine& JsonLine::decimal(std::string_view key, std::optional<double> value, unsigned digits) {
  if (!value) return null(key);
  std::uint64_t scale = 1;
  for (unsigned i = 0; i < digits; ++i) scale *= 10;
  const double scaled = *value * static_cast<double>(scale);
  const bool is_measurement = scaled >= 0 && scaled < 9e18;  // NaN compares false here.
  if (!is_measurement) return null(key);

  name(key);
  auto rounded = static_cast<std::uint64_t>(std::llround(scaled));
  append_number(out_, rounded / scale);
  rounded %= scale;
  if (rounded == 0) return *this;
  out_ += '.';
  for (scale /= 10; rounded > 0; scale /= 10) {
    out_ += static_cast<char>('0' + rounded / scale);
    rounded %= scale;
  }
  return *this;
}

JsonLine& JsonLine::boolean(std::string_view key, std::optional<bool> value) {
  return raw(key, !value ? "null" : *value ? "true" : "false");
}

JsonLine& JsonLine::null(std::string_view key) { return raw(key, "null"); }

JsonLine& JsonLine::raw(std::string_view key, std::string_view json) {
  name(key);
  out_ += json;
  return *this;
}

std::string JsonLine::take() {
  out_ += '}';
  return std::move(out_);
}

}  // namespace weir::metrics::record
