#include "proxy/top/text.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "metrics/text.hpp"

namespace weir::proxy::top {
namespace {

bool is_whole(double value) { return std::floor(value) == value; }

std::string digits(double value) {
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size >= 100) return fmt::format("{:.0f}", value);
  if (size >= 10) return fmt::format("{:.{}f}", value, is_whole(value) ? 0 : 1);
  return fmt::format("{:.{}f}", value, is_whole(value) ? 0 : size >= 1 ? 1 : 2);
}

/// Returns the seconds since 1970 of "2026-11-26T15:38:03.123Z".
Number seconds_of(std::string_view time) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0;
  double second = 0;
  const auto read =
      std::sscanf(std::string(time).c_str(), "%4d-%2d-%2dT%2d:%2d:%lf", &year, &month, &day, &hour, &minute, &second);
  if (read != 6) return {};
  using namespace std::chrono;
  const year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return {};
  return 86'400 * static_cast<double>(sys_days(date).time_since_epoch().count()) + 3600 * hour + 60 * minute + second;
}

}  // namespace

std::string short_number(Number value) {
  if (!value || !std::isfinite(*value)) return std::string(unknown);
  double scaled = *value;
  const char* unit = "";
  for (const char* next : {"k", "M", "G"}) {
    if (std::abs(scaled) < 999.5) break;
    scaled /= 1000;
    unit = next;
  }
  if (*unit == 0) return digits(*value);
  return fmt::format("{:.{}f}{}", scaled, std::abs(scaled) >= 9.95 ? 0 : 1, unit);
}

std::string latency(Number seconds) {
  if (!seconds || !std::isfinite(*seconds)) return std::string(unknown);
  if (*seconds == 0) return "0ms";
  if (*seconds < 0.00995) return fmt::format("{:.2f}ms", 1000 * *seconds);
  if (*seconds < 0.9995) return fmt::format("{:.0f}ms", 1000 * *seconds);
  if (*seconds < 9.995) return fmt::format("{:.2f}s", *seconds);
  return *seconds < 99.95 ? fmt::format("{:.1f}s", *seconds) : age(seconds);
}

std::string age(Number seconds) {
  if (!seconds || !std::isfinite(*seconds)) return std::string(unknown);
  const auto whole = static_cast<long long>(std::max(0.0, *seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86'400) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d{:02}h", whole / 86'400, whole / 3600 % 24);
}

std::string percent(Number share) {
  if (!share || !std::isfinite(*share)) return std::string(unknown);
  const double value = 100 * *share;
  if (value == 0 || value == 100) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, value < 9.95 || value > 95 ? (value > 99.9 ? 2 : 1) : 0);
}

std::string bytes(Number count) {
  if (!count || !std::isfinite(*count)) return std::string(unknown);
  if (*count == 0) return "0";
  const double mebi = *count / 1'048'576;
  if (mebi < 1) return fmt::format("{:.{}f}KiB", *count / 1024, *count < 10'240 ? 1 : 0);
  return mebi < 1024 ? fmt::format("{:.{}f}MiB", mebi, mebi < 10 ? 1 : 0) : fmt::format("{:.1f}GiB", mebi / 1024);
}

Number between(std::string_view from, std::string_view to) {
  const auto begin = seconds_of(from), end = seconds_of(to);
  if (!begin || !end) return {};
  return std::max(0.0, *end - *begin);
}

std::string clock(std::string_view time) {
  return seconds_of(time) && time.size() >= 19 ? std::string(time.substr(11, 8)) : std::string(unknown);
}

std::string words(std::string_view name) {
  std::string text(name);
  std::ranges::replace(text, '_', ' ');
  return text;
}

void Writer::add(std::vector<Line>& lines, std::string_view text, Style style, std::size_t indent) const {
  const auto width = columns_ > indent + 10 ? columns_ - indent : columns_;
  for (std::size_t part = 0; part == 0 || !text.empty(); ++part) {
    auto size = text.size();
    if (wraps_ && size > width) {
      size = text.rfind(' ', width);
      if (size == text.npos || size == 0) size = width;
    }
    lines.push_back(line());
    lines.back().put(columns_ > width ? indent : 0, text.substr(0, size), style);
    text.remove_prefix(size);
    while (wraps_ && text.starts_with(' ')) text.remove_prefix(1);
    if (!wraps_) break;
  }
}

}  // namespace weir::proxy::top
