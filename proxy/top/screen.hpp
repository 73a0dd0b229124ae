// A screen of character cells, the terminal's bytes, and figures as text. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/net/address.hpp"

namespace weir::proxy::top {

enum class Colour : std::uint8_t { plain, good, warn, bad, faded };

struct Style {
  Colour colour = Colour::plain;
  bool bold = false, reversed = false;
  bool operator==(const Style&) const = default;
};

struct Cell {
  char letter = ' ';
  Style style{};
  bool operator==(const Cell&) const = default;
};

struct Size {
  std::size_t columns = 80;
  std::size_t lines = 24;  ///< 0: as many as there is to show.
  bool operator==(const Size&) const = default;
};

/// Returns how many columns a screen that is printed once has: what COLUMNS in the environment says if that is a number
/// from 1 to 1000, the terminal's if it has some, or else 100. `environment` is the variable's value, or nullptr.
std::size_t printed_columns(const char* environment, std::size_t terminal);

/// A line of cells. Only printable ASCII is kept: engines, clients and peers have a part in what is shown, and no
/// byte of theirs may steer the terminal. Any other character becomes one "?".
class Line {
 public:
  explicit Line(std::size_t columns) : cells_(columns) {}

  /// Writes from a column on. Text beyond the line's end, or beyond `width` cells, is cut, and its last cell is "~".
  /// Returns the column behind the text.
  std::size_t put(std::size_t column, std::string_view text, Style style = {}, std::size_t width = std::string::npos);
  /// Gives all cells that style.
  void set(Style style);
  const std::vector<Cell>& cells() const { return cells_; }
  std::string text() const;  ///< Without blanks at the end.
  bool operator==(const Line&) const = default;

 private:
  std::vector<Cell> cells_;
};

using Screen = std::vector<Line>;

/// Returns the lines as text, each with its end; with escape sequences where `colours` is set.
std::string text_of(const Screen& screen, bool colours);

/// Returns the bytes that turn a terminal that shows `before` into one that shows `now`: only cells that differ are
/// written. Another size, or an empty `before`, has everything written anew. Without `colours`, bold and reversed are
/// all that is used.
std::string difference(const Screen& before, const Screen& now, bool colours);

// The terminal of `weir top`: raw, on its alternate screen, and put back as it was on every way out, signals that end
// the program among them.

class Terminal {
 public:
  /// There is one at a time. Throws std::system_error if standard output is no terminal that can be read, too.
  Terminal();
  ~Terminal() { leave(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// The descriptor that keys come from. It is opened anew: it may not block, and the shell's may.
  int keys() const { return keys_.get(); }
  Size size() const;
  /// Blocks until the terminal has taken all bytes. Returns false if it is gone.
  bool write(std::string_view bytes) const;
  void enter();
  void leave();
  /// Gives the terminal back and stops the program, as Ctrl-Z does, until it is continued.
  void suspend();

 private:
  net::UniqueFd keys_;
};

// Numbers and times as the page and `weir top` show them: proxy/live/page/format.js has the same functions. Pure.

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
