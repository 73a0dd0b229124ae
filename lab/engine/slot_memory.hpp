// Memory in slots of equal size, as llama.cpp's server has it without --cache-ram and with --no-kv-unified: each slot
// runs one sequence at a time, and keeps it until the next one comes.
//
// A sequence gets the idle slot whose last one begins most like it, if they have more than a tenth of the prompt in
// common (llama.cpp's --slot-prompt-similarity); else the one that was used longest ago. All that the slot had behind
// the common beginning is lost at that moment. llama.cpp compares tokens; here beginnings are compared by blocks, so
// that up to 15 tokens fewer are found.
#pragma once

#include <cstddef>
#include <vector>

#include "lab/engine/kv_memory.hpp"

namespace weir::lab::engine {

class SlotMemory final : public KvMemory {
 public:
  SlotMemory(std::uint64_t kv_tokens, std::uint32_t slots) : tokens_a_slot_(kv_tokens / slots), slots_(slots) {}

  bool could_fit(const Sequence& sequence) const override { return sequence.tokens() <= tokens_a_slot_; }
  /// Costs O(slots).
  std::optional<std::uint64_t> admit(const Sequence& sequence) override;
  void computed(const Sequence& sequence, std::uint64_t tokens) override;
  void release(const Sequence& sequence) override;
  std::uint64_t cached(const Sequence& sequence) const override;
  void flush() override;
  std::uint64_t reserved() const override { return reserved_; }

 private:
  struct Slot {
    std::vector<std::uint64_t> blocks;  ///< The blocks that are computed.
    std::uint64_t used = 0;             ///< When it was used last, in uses of the memory.
    std::optional<SequenceId> runs{};
    bool flushed = false;  ///< The slot keeps nothing of the sequence that it runs.
  };
  struct Choice {
    std::size_t slot = 0;
    std::size_t common = 0;  ///< Blocks.
  };

  std::optional<Choice> choose(const Sequence& sequence) const;
  Slot& slot_of(SequenceId id);

  std::uint64_t tokens_a_slot_;
  std::vector<Slot> slots_;
  std::uint64_t uses_ = 0;
  std::uint64_t reserved_ = 0;
};

}  // namespace weir::lab::engine
