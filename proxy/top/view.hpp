// The screen of `weir top`: a pure function of the document of /api/live, the terminal's size and what keys have done.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/top/rows.hpp"
#include "proxy/top/screen.hpp"
#include "proxy/top/state.hpp"

namespace weir::proxy::top {

/// How weir has answered.
struct Standing {
  std::string trouble{};  ///< Why there is no new document, as a sentence; "" if the last one is new.
  Number old{};           ///< The document came so many seconds ago.
};

/// `document` is nullptr before the first.
std::vector<Line> head_of(const Json* document, const Writer& writer, const Standing& standing);

struct View {
  Screen screen;
  Shown shown;  ///< For the next key.
};

/// `document` is that of GET /api/live; nullptr before the first. Costs O(rows × log(rows)).
View view(const Json* document, Size size, const State& state, const Standing& standing);

// The last lines of the screen: the question before a change of weir, the filter that is typed, or the keys; and the
// page that explains them. Pure.

/// `document` is nullptr before the first.
std::vector<Line> foot_of(const Json* document, const State& state, const Writer& writer);

std::vector<Line> help_lines(const Writer& writer);

// Blocks of lines that share a screen: which block gets how many lines of it. Pure.

/// Lines that belong together.
struct Block {
  std::vector<Line> lines{};
  std::size_t pinned = 0;               ///< So many of its first lines are always there: a table's titles.
  std::size_t least = 0;                ///< The section gets so many lines before another one gets more than its own.
  int rank = 0;                         ///< The order in which blocks get lines.
  std::optional<std::size_t> anchor{};  ///< The line that is to be seen.
  std::string_view key{};               ///< The key that shows all of it.
  std::size_t granted = 0;
};

/// Gives each block lines until there are none left: first its least, then, in the order of ranks, all it has.
void grant(std::vector<Block>& blocks, std::size_t room);

/// Appends the lines that a block was granted. Says in the last one how many have no room.
void append(Screen& screen, const Block& block, std::size_t columns);

}  // namespace weir::proxy::top
