// A screen of character cells, and the bytes that make a terminal show it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
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

}  // namespace weir::proxy::top
