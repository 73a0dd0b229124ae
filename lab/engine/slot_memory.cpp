#include "lab/engine/slot_memory.hpp"

#include <algorithm>

namespace weir::lab::engine {

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

}  // namespace weir::lab::engine
