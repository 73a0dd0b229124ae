// Writes text on lines of a terminal's width, in the styles that the screen has. Pure.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "proxy/top/screen.hpp"

namespace weir::proxy::top {

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
