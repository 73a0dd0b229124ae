#include "proxy/top/view.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "proxy/top/blocks.hpp"
#include "proxy/top/details.hpp"
#include "proxy/top/foot.hpp"
#include "proxy/top/lists.hpp"
#include "proxy/top/table.hpp"
#include "proxy/top/writer.hpp"

namespace weir::proxy::top {
namespace {

constexpr double late_seconds = 3.5;  ///< Figures that are older are faded.

std::vector<Block> blocks_of(Json document, Size size, const State& state, const Writer& writer, Shown& shown) {
  std::vector<Block> blocks;
  const auto add = [&](Block block, std::size_t least, int rank, std::string_view key) {
    if (block.lines.size() <= block.pinned) return;
    block.least = least;
    block.rank = rank;
    block.key = key;
    blocks.push_back(std::move(block));
  };
  switch (state.section) {
    case Section::all:
      add(table_of(document, Section::pools, state, writer, nullptr), 3, 2, "p shows them");
      add(findings_of(document, writer), 3, 0, "a larger terminal shows them");
      add(table_of(document, Section::replicas, state, writer, &shown), 7, 1, "r shows them");
      add(shadows_of(document, writer), 2, 3, "a larger terminal shows them");
      add(table_of(document, Section::keys, state, writer, nullptr), 3, 4, "K shows them");
      add(limits_of(document, writer), 1, 5, "");
      {
        constexpr std::size_t printed = 10;
        Block events{.lines = events_of(document, writer, state.filter)};
        if (size.lines == 0 && events.lines.size() > printed) events.lines.resize(printed, writer.line());
        add(std::move(events), 3, 6, "e shows them");
      }
      break;
    case Section::pools:
    case Section::replicas:
    case Section::keys: add(table_of(document, state.section, state, writer, &shown), 0, 0, ""); break;
    case Section::events: add({.lines = events_of(document, writer, state.filter)}, 0, 0, ""); break;
    case Section::row: add({.lines = row_lines(document, state, writer)}, 0, 0, ""); break;
    case Section::help: add({.lines = help_lines(writer)}, 0, 0, ""); break;
    case Section::weir: {
      Block block;
      add_members(block.lines, writer, "", document["weir"].value());
      add(std::move(block), 0, 0, "");
      break;
    }
  }
  return blocks;
}

}  // namespace

View view(const Json* document, Size size, const State& state, const Standing& standing) {
  View made;
  const bool alone = state.section != Section::all;
  const Writer writer(size.columns, alone || size.lines == 0), short_writer(size.columns, size.lines == 0);
  auto head = head_of(document, short_writer, standing);
  auto foot = size.lines == 0 ? std::vector<Line>{} : foot_of(document, state, short_writer);
  if (size.lines > 0) {
    // Whatever is wrong, a few rows are seen.
    if (foot.size() + 1 > size.lines) foot.clear();
    const auto most = std::max<std::size_t>(1, (size.lines - foot.size()) / 2);
    if (head.size() > most) head.erase(head.begin() + static_cast<std::ptrdiff_t>(most), head.end());
  }
  const auto room = size.lines == 0 ? std::string::npos : size.lines - head.size() - foot.size();
  made.screen = std::move(head);
  std::vector<Block> blocks;
  if (document != nullptr) blocks = blocks_of(*document, size, state, writer, made.shown);
  const bool scrolls = alone && blocks.size() == 1 && blocks[0].pinned == 0;
  if (scrolls && blocks[0].lines.size() > room) {
    auto& lines = blocks[0].lines;
    made.shown.last_first = lines.size() - room;
    const auto first = std::min(state.first, made.shown.last_first);
    lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(first));
  }
  grant(blocks, room);
  for (const auto& block : blocks) append(made.screen, block, size.columns);
  made.shown.page = room == std::string::npos ? 10 : std::max<std::size_t>(1, room / 2);
  if (standing.old.value_or(0) > late_seconds)
    for (std::size_t i = 2; i < made.screen.size(); ++i) made.screen[i].set(faded);
  if (size.lines > 0) {
    made.screen.resize(size.lines - foot.size(), Line(size.columns));
    std::ranges::move(foot, std::back_inserter(made.screen));
  }
  return made;
}

}  // namespace weir::proxy::top
