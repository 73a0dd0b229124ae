#include "lab/engine/prompt_blocks.hpp"

#include <algorithm>

namespace weir::lab::engine {

PromptBlocks::PromptBlocks(std::string_view salt) {
  for (const char c : salt) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;  // FNV-1a.
}

void PromptBlocks::add(std::uint64_t token) {
  hash_ = (hash_ ^ token) * 0x9e3779b97f4a7c15u;
  hash_ ^= hash_ >> 32;
  if (++tokens_ % block_tokens == 0) blocks_.push_back(hash_);
}

std::size_t common_blocks(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace weir::lab::engine
