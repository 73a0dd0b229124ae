// Blocks of lines that share a screen: which block gets how many lines of it. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "proxy/top/screen.hpp"

namespace weir::proxy::top {

/// Lines that belong together.
struct Block {
  std::vector<Line> lines{};
  std::size_t pinned = 0;                ///< So many of its first lines are always there: a table's titles.
  std::size_t least = 0;                 ///< The section gets so many lines before another one gets more than its own.
  int rank = 0;                          ///< The order in which blocks get lines.
  std::optional<std::size_t> anchor{};   ///< The line that is to be seen.
  std::string_view key{};                ///< The key that shows all of it.
  std::size_t granted = 0;
};

/// Gives each block lines until there are none left: first its least, then, in the order of ranks, all it has.
void grant(std::vector<Block>& blocks, std::size_t room);

/// Appends the lines that a block was granted. Says in the last one how many have no room.
void append(Screen& screen, const Block& block, std::size_t columns);

}  // namespace weir::proxy::top
