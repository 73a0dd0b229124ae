#include "metrics/compare/report/json_writer.hpp"

#include <charconv>
#include <cmath>

#include "metrics/record/json_line.hpp"

namespace weir::metrics::compare::report {

/// Puts a comma before a value that follows another.
void JsonWriter::next() {
  if (!out_.empty() && std::string_view("{[:").find(out_.back()) == std::string_view::npos) out_ += ',';
}

JsonWriter& JsonWriter::open(char bracket) {
  next();
  out_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  text(name);
  out_ += ':';
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view value) {
  next();
  record::append_json_string(out_, value);
  return *this;
}

JsonWriter& JsonWriter::count(std::uint64_t value) {
  next();
  out_ += std::to_string(value);
  return *this;
}

JsonWriter& JsonWriter::decimal(double value) {
  if (!std::isfinite(value)) return null();
  next();
  char digits[32];
  constexpr int significant = 6;
  const auto [end, error] =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::general, significant);
  out_.append(digits, end);
  return *this;
}

JsonWriter& JsonWriter::decimal(const std::optional<double>& value) { return value ? decimal(*value) : null(); }

JsonWriter& JsonWriter::boolean(bool value) {
  next();
  out_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::null() {
  next();
  out_ += "null";
  return *this;
}

}  // namespace weir::metrics::compare::report
