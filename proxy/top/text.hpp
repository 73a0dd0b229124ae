// Numbers and times as the page and `weir top` show them: proxy/live/page/format.js has the same functions. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/top/screen.hpp"

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

// Writes text on lines of a terminal's width, in the styles that the screen has. Pure.

inline constexpr Style plain{}, bold{Colour::plain, true}, faded{Colour::faded}, title{Colour::faded, true},
    good{Colour::good}, warn{Colour::warn}, bad{Colour::bad}, loud{Colour::bad, true};

/// Makes lines of one width.
class Writer {
 public:
  Writer(std::size_t columns, bool wraps) : columns_(columns), wraps_(wraps) {}

  Line line() const { return Line(columns_); }

  /// Adds a text behind an indent, on as many lines as it takes where all is to be read, and else on one.
  void add(std::vector<Line>& lines, std::string_view text, Style style = {}, std::size_t indent = 0) const;

  std::size_t columns() const { return columns_; }

 private:
  std::size_t columns_;
  bool wraps_;
};

}  // namespace weir::proxy::top
