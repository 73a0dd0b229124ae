// Reads the times of request logs.
#pragma once

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

namespace weir::lab {

/// Reads a time such as "2026-11-21T07:00:00.123456Z".
inline std::optional<double> unix_seconds(const std::string& time) {
  int year = 0;
  unsigned month = 0, day = 0, hour = 0, minute = 0;
  double second = 0;
  char zone = 0;
  if (std::sscanf(time.c_str(), "%4d-%2u-%2uT%2u:%2u:%lf%c", &year, &month, &day, &hour, &minute, &second, &zone) !=
          7 ||
      zone != 'Z') {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  if (!date.ok() || !(second >= 0 && second < 61)) return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return static_cast<double>(days) * 86400.0 + hour * 3600.0 + minute * 60.0 + second;
}

}  // namespace weir::lab
