#include "lab/engine/block_memory.hpp"

namespace weir::lab::engine {

BlockMemory::BlockMemory(std::uint64_t kv_tokens, std::uint64_t hit_tokens)
    : blocks_(kv_tokens / block_tokens), blocks_of_hit_(hit_tokens / block_tokens) {
  for (std::size_t i = blocks_.size(); i > 0; --i) blank_.push_back(static_cast<Index>(i - 1));
}

std::size_t BlockMemory::found(const Sequence& sequence) const {
  const auto blocks = sequence.reusable_blocks();
  std::size_t n = 0;
  while (n < blocks.size() && by_name_.contains(blocks[n])) ++n;
  return n - n % blocks_of_hit_;
}

std::optional<std::uint64_t> BlockMemory::admit(const Sequence& sequence) {
  const std::size_t n = found(sequence);
  std::uint64_t revived = 0;
  for (std::size_t i = 0; i < n; ++i) revived += blocks_[by_name_.at(sequence.blocks[i])].users == 0 ? 1 : 0;
  const std::uint64_t fresh = blocks_of(sequence) - n;
  if (promised_ + revived + fresh > unused()) return std::nullopt;
  Held& held = held_[sequence.id];
  for (std::size_t i = 0; i < n; ++i) {
    const Index index = by_name_.at(sequence.blocks[i]);
    Block& block = blocks_[index];
    if (block.users++ == 0) kept_.erase(block.kept);
    held.blocks.push_back(index);
  }
  held.considered = n;
  held.promised = fresh;
  promised_ += fresh;
  return n * block_tokens;
}

void BlockMemory::computed(const Sequence& sequence, std::uint64_t tokens) {
  Held& held = held_.at(sequence.id);
  while (held.blocks.size() * block_tokens < tokens) {
    held.blocks.push_back(take());
    --held.promised;
    --promised_;
  }
  const std::size_t full = std::min<std::size_t>(tokens / block_tokens, sequence.blocks.size());
  for (; held.considered < full; ++held.considered) {
    const Index index = held.blocks[held.considered];
    const std::uint64_t name = sequence.blocks[held.considered];
    if (!by_name_.try_emplace(name, index).second) continue;
    blocks_[index].name = name;
    blocks_[index].named = true;
  }
}

/// Takes a block into use. A promise says that there is one.
BlockMemory::Index BlockMemory::take() {
  Index index = 0;
  if (!blank_.empty()) {
    index = blank_.back();
    blank_.pop_back();
  } else {
    index = kept_.front();
    kept_.pop_front();
    forget(blocks_[index]);
  }
  blocks_[index].users = 1;
  return index;
}

void BlockMemory::forget(Block& block) {
  by_name_.erase(block.name);
  block.named = false;
}

void BlockMemory::release(const Sequence& sequence) {
  const auto held = held_.extract(sequence.id);
  const auto& blocks = held.mapped().blocks;
  for (auto last = blocks.rbegin(); last != blocks.rend(); ++last) {
    const Index index = *last;
    Block& block = blocks_[index];
    if (--block.users > 0) continue;
    if (block.named) {
      block.kept = kept_.insert(kept_.end(), index);
    } else {
      blank_.push_back(index);
    }
  }
  promised_ -= held.mapped().promised;
}

void BlockMemory::flush() {
  for (const Index index : kept_) blank_.push_back(index);
  kept_.clear();
  by_name_.clear();
  for (Block& block : blocks_) block.named = false;
}

}  // namespace weir::lab::engine
