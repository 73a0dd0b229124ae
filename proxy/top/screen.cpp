#include "proxy/top/screen.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "config/controls.hpp"

namespace weir::proxy::top {
namespace {

std::string sequence_of(Style style, bool colours) {
  std::string out = "\x1b[0";
  if (style.bold) out += ";1";
  if (style.reversed) out += ";7";
  if (colours) {
    switch (style.colour) {
      case Colour::plain: break;
      case Colour::good: out += ";38;5;71"; break;
      case Colour::warn: out += ";38;5;178"; break;
      case Colour::bad: out += ";38;5;203"; break;
      case Colour::faded: out += ";38;5;245"; break;
    }
  }
  return out + 'm';
}

void write_cells(std::string& out, const std::vector<Cell>& cells, std::size_t begin, std::size_t end, bool colours) {
  Style style;
  for (std::size_t i = begin; i < end; ++i) {
    if (cells[i].style != style) out += sequence_of(style = cells[i].style, colours);
    out += cells[i].letter;
  }
  if (style != Style{}) out += "\x1b[0m";
}

std::size_t length_of(const std::vector<Cell>& cells) {
  std::size_t length = cells.size();
  while (length > 0 && cells[length - 1] == Cell{}) --length;
  return length;
}

}  // namespace

std::size_t printed_columns(const char* environment, std::size_t terminal) {
  constexpr std::size_t usual = 100, most = 1000;
  const std::string_view text(environment == nullptr ? "" : environment);
  std::size_t wanted = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), wanted);
  if (error == std::errc() && end == text.data() + text.size() && wanted >= 1 && wanted <= most) return wanted;
  return terminal > 0 ? terminal : usual;
}

std::size_t Line::put(std::size_t column, std::string_view text, Style style, std::size_t width) {
  if (column >= cells_.size()) return cells_.size();
  const auto room = std::min(width, cells_.size() - column);
  auto shown = config::printable_ascii(text);
  if (shown.size() > room) {
    shown.resize(room);
    if (room > 0) shown.back() = '~';
  }
  for (const char letter : shown) cells_[column++] = {letter, style};
  return column;
}

void Line::set(Style style) {
  for (auto& cell : cells_) cell.style = style;
}

std::string Line::text() const {
  std::string text;
  for (const auto& cell : cells_) text += cell.letter;
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string text_of(const Screen& screen, bool colours) {
  std::string out;
  for (const auto& line : screen) {
    if (colours)
      write_cells(out, line.cells(), 0, length_of(line.cells()), true);
    else
      out += line.text();
    out += '\n';
  }
  return out;
}

std::string difference(const Screen& before, const Screen& now, bool colours) {
  std::string out;
  const bool anew = before.size() != now.size() || before.empty() ||
                    before[0].cells().size() != now[0].cells().size();
  if (anew) out = "\x1b[0m\x1b[2J";
  for (std::size_t i = 0; i < now.size(); ++i) {
    const auto& cells = now[i].cells();
    std::size_t begin = 0, end = cells.size();
    if (anew) {
      end = length_of(cells);
    } else {
      const auto& old = before[i].cells();
      while (begin < end && cells[begin] == old[begin]) ++begin;
      while (end > begin && cells[end - 1] == old[end - 1]) --end;
    }
    if (begin == end) continue;
    out += "\x1b[" + std::to_string(i + 1) + ';' + std::to_string(begin + 1) + 'H';
    write_cells(out, cells, begin, end, colours);
  }
  return out;
}

}  // namespace weir::proxy::top
