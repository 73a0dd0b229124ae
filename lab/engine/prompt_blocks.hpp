// Names of a sequence's tokens by which engines find what sequences have in common.
//
// Tokens are grouped into blocks, as vLLM's prefix caching does. A block is known by a number that depends on all
// tokens up to its end, so that a block is found only behind the same beginning.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::lab::engine {

/// A block has so many tokens.
inline constexpr std::uint64_t block_tokens = 16;

/// Makes the blocks of a sequence from its tokens, prompt and answer. Tokens that do not fill a block are in none.
class PromptBlocks {
 public:
  /// Sequences of different salts have no block in common. vLLM's salts are `cache_salt` and the LoRA adapter.
  explicit PromptBlocks(std::string_view salt = {});
  /// `token` is any number that stands for it.
  void add(std::uint64_t token);
  std::vector<std::uint64_t> take() { return std::move(blocks_); }

 private:
  std::vector<std::uint64_t> blocks_;
  std::uint64_t hash_ = 0xcbf29ce484222325u;
  std::uint64_t tokens_ = 0;
};

/// Returns how many blocks two sequences have in common at their beginning. Costs time linear in that number.
std::size_t common_blocks(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b);

}  // namespace weir::lab::engine
