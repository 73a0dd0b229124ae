#include "proxy/top/blocks.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include "proxy/top/writer.hpp"

namespace weir::proxy::top {

void grant(std::vector<Block>& blocks, std::size_t room) {
  std::vector<Block*> order;
  for (auto& block : blocks) order.push_back(&block);
  std::ranges::sort(order, {}, [](const Block* block) { return block->rank; });
  for (const bool all : {false, true})
    for (auto* const block : order) {
      const auto wanted = all ? block->lines.size() : std::min(block->least, block->lines.size());
      const auto more = std::min(room, wanted - std::min(wanted, block->granted));
      block->granted += more;
      room -= more;
    }
}

void append(Screen& screen, const Block& block, std::size_t columns) {
  const auto pinned = std::min(block.pinned, block.granted);
  const auto room = block.granted - pinned;
  auto first = pinned;
  if (block.anchor && *block.anchor >= pinned + room && room > 0) first = *block.anchor + 1 - room;
  std::copy_n(block.lines.begin(), pinned, std::back_inserter(screen));
  std::copy_n(block.lines.begin() + static_cast<std::ptrdiff_t>(first), room, std::back_inserter(screen));
  const auto hidden = block.lines.size() - block.granted;
  if (hidden == 0 || room < 2 || block.key.empty() || (block.anchor && first > pinned)) return;
  if (block.anchor && *block.anchor + 1 == first + room) return;
  Line line(columns);
  line.put(0, "  " + std::to_string(hidden + 1) + " more lines: " + std::string(block.key), faded);
  screen.back() = line;
}

}  // namespace weir::proxy::top
