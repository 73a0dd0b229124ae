#include "lab/engine/prefix_cache.hpp"

namespace weir::lab::engine {

void PromptBlocks::add(std::uint64_t token) {
  hash_ = (hash_ ^ token) * 0x9e3779b97f4a7c15u;
  hash_ ^= hash_ >> 32;
  if (++tokens_ % prefix_block_tokens == 0) blocks_.push_back(hash_);
}

std::uint64_t PrefixCache::find(std::span<const std::uint64_t> blocks) {
  std::size_t there = 0;
  while (there < blocks.size() && used_.contains(blocks[there])) ++there;
  use(blocks.first(there));
  return there * prefix_block_tokens;
}

void PrefixCache::keep(std::span<const std::uint64_t> blocks) {
  if (most_blocks_ == 0) return;
  use(blocks);
  while (used_.size() > most_blocks_) {
    const auto longest_ago = by_use_.begin();
    used_.erase(longest_ago->second);
    by_use_.erase(longest_ago);
  }
}

void PrefixCache::use(std::span<const std::uint64_t> blocks) {
  for (std::size_t i = blocks.size(); i > 0; --i) {
    const auto [known, fresh] = used_.try_emplace(blocks[i - 1], 0);
    if (!fresh) by_use_.erase(known->second);
    known->second = ++uses_;
    by_use_[uses_] = known->first;
  }
}

}  // namespace weir::lab::engine
