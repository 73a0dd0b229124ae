// A request as an engine has it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "lab/engine/prompt_blocks.hpp"

namespace weir::lab::engine {

using SequenceId = std::uint64_t;

struct Sequence {
  SequenceId id = 0;  ///< The caller chooses it; it is unique among those in the model.
  std::uint64_t prompt_tokens = 1;
  std::uint64_t output_tokens = 1;
  /// By PromptBlocks; without them nothing is found or kept. Blocks beyond the prompt are the answer's.
  std::vector<std::uint64_t> blocks{};

  std::uint64_t tokens() const { return prompt_tokens + output_tokens; }
  /// Returns the blocks that may be found in a cache. The last token of a prompt is always computed, because it makes
  /// the first of the answer.
  std::span<const std::uint64_t> reusable_blocks() const {
    return std::span(blocks).first(std::min<std::size_t>(blocks.size(), (prompt_tokens - 1) / block_tokens));
  }
};

}  // namespace weir::lab::engine
