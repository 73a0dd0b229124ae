#include "config/quantity.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace weir::config {
namespace {

// Units stand in order of size, so that formatting from the back finds the largest unit that divides.
constexpr std::pair<std::string_view, std::int64_t> times[] = {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}};
constexpr std::pair<std::string_view, std::int64_t> binary_sizes[] = {
    {"B", 1}, {"KiB", 1LL << 10}, {"MiB", 1LL << 20}, {"GiB", 1LL << 30}};
constexpr std::pair<std::string_view, std::int64_t> decimal_sizes[] = {
    {"KB", 1000}, {"MB", 1'000'000}, {"GB", 1'000'000'000}};

struct NumberAndUnit {
  std::string_view number, unit;
};

NumberAndUnit split(std::string_view text) {
  const auto end_of_number = text.find_first_not_of("0123456789.");
  if (end_of_number == std::string_view::npos) return {text, {}};
  auto unit = text.substr(end_of_number);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  return {text.substr(0, end_of_number), unit};
}

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  // from_chars takes "-1" and ".5", but a quantity begins with a digit.
  if (text.empty() || text.front() < '0' || text.front() > '9') return {};
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

template <class Units>
std::optional<std::int64_t> unit_in(std::string_view text, const Units& units) {
  for (const auto& [name, factor] : units) {
    if (name == text) return factor;
  }
  return {};
}

template <class Units>
std::string format_whole(std::int64_t amount, const Units& units) {
  if (amount == 0) return "0";
  for (auto unit = std::rbegin(units); unit != std::rend(units); ++unit) {
    if (amount % unit->second == 0) return std::to_string(amount / unit->second) + std::string(unit->first);
  }
  return std::to_string(amount);
}

}  // namespace

std::optional<Seconds> parse_duration(std::string_view text) {
  const auto [number_text, unit_text] = split(text);
  const auto number = number_in<double>(number_text);
  const auto milliseconds = unit_in(unit_text, times);
  if (!number || !milliseconds) return {};
  const double seconds = *number * (static_cast<double>(*milliseconds) / 1000);
  if (!std::isfinite(seconds)) return {};
  return Seconds{seconds};
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  const auto [number_text, unit_text] = split(text);
  const auto number = number_in<std::int64_t>(number_text);
  auto bytes = unit_in(unit_text, binary_sizes);
  if (!bytes) bytes = unit_in(unit_text, decimal_sizes);
  if (!number || !bytes || *number > std::numeric_limits<std::int64_t>::max() / *bytes) return {};
  return *number * *bytes;
}

std::string format_duration(Seconds time) { return format_whole(std::llround(time.count() * 1000), times); }

std::string format_size(std::int64_t bytes) { return format_whole(bytes, binary_sizes); }

std::string format_number(double number) {
  std::array<char, 400> text;  // The largest double has 309 digits before its point.
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  return error == std::errc{} ? std::string(text.data(), end) : std::string();
}

}  // namespace weir::config
