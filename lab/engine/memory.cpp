#include "lab/engine/memory.hpp"

#include <algorithm>

namespace weir::lab::engine {
namespace {

/// A memory that keeps nothing.
class PlainMemory final : public KvMemory {
 public:
  explicit PlainMemory(std::uint64_t kv_tokens) : kv_tokens_(kv_tokens) {}

  bool could_fit(const Sequence& sequence) const override { return sequence.tokens() <= kv_tokens_; }
  std::optional<std::uint64_t> admit(const Sequence& sequence) override {
    if (reserved_ + sequence.tokens() > kv_tokens_) return std::nullopt;
    reserved_ += sequence.tokens();
    return 0;
  }
  void computed(const Sequence&, std::uint64_t) override {}
  void release(const Sequence& sequence) override { reserved_ -= sequence.tokens(); }
  std::uint64_t cached(const Sequence&) const override { return 0; }
  void flush() override {}
  std::uint64_t reserved() const override { return reserved_; }

 private:
  std::uint64_t kv_tokens_;
  std::uint64_t reserved_ = 0;
};

}  // namespace

std::unique_ptr<KvMemory> make_kv_memory(PrefixCaching caching, std::uint64_t kv_tokens, std::uint32_t most_sequences,
                                         std::uint64_t hit_tokens) {
  switch (caching) {
    case PrefixCaching::blocks:
      return std::make_unique<BlockMemory>(kv_tokens, hit_tokens);
    case PrefixCaching::slots:
      return std::make_unique<SlotMemory>(kv_tokens, most_sequences);
    case PrefixCaching::none:
      break;
  }
  return std::make_unique<PlainMemory>(kv_tokens);
}

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

std::optional<SlotMemory::Choice> SlotMemory::choose(const Sequence& sequence) const {
  std::optional<Choice> most_alike, longest_unused;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].runs) continue;
    const std::size_t common = common_blocks(slots_[i].blocks, sequence.reusable_blocks());
    const bool alike = 10 * common * block_tokens > sequence.prompt_tokens;
    if (alike && (!most_alike || common > most_alike->common)) most_alike = {i, common};
    if (!longest_unused || slots_[i].used < slots_[longest_unused->slot].used) longest_unused = {i, common};
  }
  return most_alike ? most_alike : longest_unused;
}

std::optional<std::uint64_t> SlotMemory::admit(const Sequence& sequence) {
  const auto choice = choose(sequence);
  if (!choice) return std::nullopt;
  Slot& slot = slots_[choice->slot];
  slot.blocks.resize(choice->common);
  slot.runs = sequence.id;
  slot.flushed = false;
  reserved_ += sequence.tokens();
  return choice->common * block_tokens;
}

SlotMemory::Slot& SlotMemory::slot_of(SequenceId id) { return *std::ranges::find(slots_, id, &Slot::runs); }

void SlotMemory::computed(const Sequence& sequence, std::uint64_t tokens) {
  Slot& slot = slot_of(sequence.id);
  const std::size_t full = std::min<std::size_t>(tokens / block_tokens, sequence.blocks.size());
  while (!slot.flushed && slot.blocks.size() < full) slot.blocks.push_back(sequence.blocks[slot.blocks.size()]);
}

void SlotMemory::release(const Sequence& sequence) {
  Slot& slot = slot_of(sequence.id);
  slot.runs.reset();
  slot.used = ++uses_;
  reserved_ -= sequence.tokens();
}

std::uint64_t SlotMemory::cached(const Sequence& sequence) const {
  const auto choice = choose(sequence);
  return choice ? choice->common * block_tokens : 0;
}

void SlotMemory::flush() {
  for (Slot& slot : slots_) {
    slot.blocks.clear();
    slot.flushed = slot.runs.has_value();
  }
}

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
