// Numbers and times as the page and `weir top` show them: proxy/live/page/format.js has the same functions. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir::proxy::top {

/// A figure that is unknown is a dash, never 0.
inline constexpr std::string_view unknown = "-";

using Number = std::optional<double>;

/// Writes a count or a rate with at most three digits that count: 7, 0.40, 41.2, 1.9k, 23k, 4.1M.
std::string short_number(Number value);
/// Writes a latency in seconds: 0.20ms, 71ms, 1.20s, 12.3s, 2m05s.
std::string latency(Number seconds);
/// Writes how long something has lasted: 7s, 4m12s, 3h04m, 5d02h.
std::string age(Number seconds);
/// Writes a share from 0 to 1 in percent, without a sign: 4.2, 61, 99.95.
std::string percent(Number share);
std::string bytes(Number count);
/// Returns the seconds between two RFC 3339 times in UTC, at least 0; nothing if one is none.
Number between(std::string_view from, std::string_view to);
/// Returns "12:40:07" of an RFC 3339 time in UTC; a dash if it is none.
std::string clock(std::string_view time);
/// Writes a name of the API as words.
std::string words(std::string_view name);

}  // namespace weir::proxy::top
