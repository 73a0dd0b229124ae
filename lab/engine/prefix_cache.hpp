// The earlier prompts that an engine still has: a prompt that begins like one of them is not computed anew up to where
// they part.
//
// Prompts are kept in blocks of tokens, as vLLM's prefix caching does. A block is known by a number that depends on all
// tokens up to its end, so that a block is found only behind the same beginning. What was used longest ago goes first,
// of one prompt its end. A real engine shares this memory with the sequences that run; here it has its own. One thread
// uses it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weir::lab::engine {

/// A block has so many tokens.
inline constexpr std::uint64_t prefix_block_tokens = 16;

/// Makes the blocks of a prompt from its tokens. What does not fill a block is in none.
class PromptBlocks {
 public:
  /// `token` is any number that stands for it.
  void add(std::uint64_t token);
  std::vector<std::uint64_t> take() { return std::move(blocks_); }

 private:
  std::vector<std::uint64_t> blocks_;
  std::uint64_t hash_ = 0xcbf29ce484222325u;
  std::uint64_t tokens_ = 0;
};

class PrefixCache {
 public:
  /// A cache of 0 tokens keeps nothing.
  explicit PrefixCache(std::uint64_t tokens) : most_blocks_(tokens / prefix_block_tokens) {}

  /// Returns how many tokens at the beginning of a prompt are there. They count as used now. Costs O(log n) a block.
  std::uint64_t find(std::span<const std::uint64_t> blocks);
  /// Keeps a prompt that was computed. Costs O(log n) a block.
  void keep(std::span<const std::uint64_t> blocks);

 private:
  /// Marks blocks as used, so that the end of a prompt goes before its beginning.
  void use(std::span<const std::uint64_t> blocks);

  std::uint64_t most_blocks_;
  std::uint64_t uses_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> used_;  ///< When each block was used, in uses.
  std::map<std::uint64_t, std::uint64_t> by_use_;          ///< The same, from the longest ago on.
};

}  // namespace weir::lab::engine
