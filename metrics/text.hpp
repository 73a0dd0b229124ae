// Figures, words and moments as text, for tables and sentences. fmt checks patterns when they are compiled.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::metrics {

/// Writes a number with so many digits behind its point, and with its sign unless all digits are 0: "+8.1", "-0.3",
/// "0.0".
inline std::string with_sign(double value, int digits) {
  auto text = fmt::format("{:+.{}f}", value, digits);
  if (text.find_first_not_of("+-0.") == std::string::npos) text.erase(0, 1);
  return text;
}

/// "+8.1 %"
inline std::string signed_percent(double share) { return with_sign(100 * share, 1) + " %"; }

/// "1 stream", "2 streams"
inline std::string counted(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// Writes RFC 3339 in UTC, with 0 to 6 digits of the second behind its point: "2026-11-21T07:10:00Z".
inline std::string timestamp(std::chrono::sys_time<std::chrono::microseconds> time, std::size_t digits) {
  const auto midnight = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{midnight};
  const std::int64_t us = (time - midnight).count();
  auto text = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}", static_cast<int>(date.year()),
                          static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), us / 3'600'000'000,
                          us / 60'000'000 % 60, us / 1'000'000 % 60, us % 1'000'000);
  text.resize(text.size() - (digits > 0 ? 6 - digits : 7));
  return text += 'Z';
}

}  // namespace weir::metrics
