#include "proxy/top/table.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::proxy::top {
namespace {

constexpr std::size_t widest_name = 32;
constexpr std::string_view between_columns = " ";

struct Table {
  std::vector<std::pair<const Column*, std::size_t>> columns;  ///< With their widths.
};

Table fitted(std::span<const Column> all, const std::vector<Row>& rows, std::size_t room) {
  std::size_t longest = all[0].width;
  for (const auto& row : rows) longest = std::max(longest, row.name.size());
  const auto wanted = std::min(longest, widest_name);
  Table table;
  for (const auto& column : all) table.columns.emplace_back(&column, column.width);
  const auto others = [&] {
    std::size_t width = 0;
    for (auto one = table.columns.begin() + 1; one != table.columns.end(); ++one)
      width += one->second + between_columns.size();
    return width;
  };
  const auto least = std::min<std::size_t>(wanted, 16);
  while (table.columns.size() > 1 && others() + least > room) {
    // Among columns of equal rank the rightmost one goes.
    auto goes = table.columns.begin() + 1;
    for (auto one = goes; one != table.columns.end(); ++one)
      if (one->first->rank >= goes->first->rank) goes = one;
    table.columns.erase(goes);
  }
  const auto left = room > others() ? room - others() : 1;
  table.columns[0].second = std::min(std::max(wanted, least), left);
  return table;
}

/// A name keeps its end, which tells the members of a host's name apart.
std::string name_cut_to(std::string name, std::size_t width) {
  constexpr std::size_t end = 5;
  if (name.size() > width && width > end + 1) name.replace(width - end - 1, name.size() - width + 1, "~");
  return name;
}

void put_cell(Line& line, std::size_t column, std::size_t width, const std::string& text, Style style, bool left) {
  const auto blank = left || text.size() >= width ? 0 : width - text.size();
  line.put(column + blank, text, style, width - blank);
}

}  // namespace

Block table_of(Json document, Section section, const State& state, const Writer& writer, Shown* shown) {
  const auto all = columns_of(section);
  const auto rows = rows_of(document, section, state);
  const auto table = fitted(all, rows, writer.columns());
  Block block{.pinned = 1};
  block.lines.push_back(writer.line());
  std::size_t at = 0;
  for (const auto& [column, width] : table.columns) {
    const bool is_sorted_by =
        shown != nullptr && state.sorted_by == static_cast<std::size_t>(column - all.data()) + 1;
    const auto style = is_sorted_by ? Style{Colour::plain, true, true} : title;
    put_cell(block.lines[0], at, width, std::string(column->title), style, is_text(*column));
    at += width + between_columns.size();
  }
  if (shown != nullptr) shown->columns = all.size();
  for (const auto& row : rows) {
    auto line = writer.line();
    at = 0;
    for (const auto& [column, width] : table.columns) {
      auto text = text_of(*column, row);
      if (is_text(*column)) text = name_cut_to(std::move(text), width);
      const bool coloured = column->as == As::state || (column->as == As::name && section != Section::replicas);
      put_cell(line, at, width, text, coloured ? row.state : plain, is_text(*column));
      at += width + between_columns.size();
    }
    if (shown != nullptr) {
      shown->rows.push_back(row.name);
      if (row.name == state.chosen) {
        block.anchor = block.lines.size();
        line.set({Colour::plain, false, true});
      }
    }
    block.lines.push_back(std::move(line));
    if (!row.below.empty()) writer.add(block.lines, row.below, row.state, 4);
  }
  if (rows.empty() && !state.filter.empty() && shown != nullptr)
    writer.add(block.lines, "nothing matches the filter; Esc ends it", faded);
  return block;
}

}  // namespace weir::proxy::top
