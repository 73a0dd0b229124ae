// Memory in blocks of 16 tokens that sequences share, as vLLM's: a block that no sequence uses stays findable until its
// memory is needed.
//
// A block is named once all of its tokens are computed. Of blocks that nobody uses, the one that was freed longest ago
// is overwritten first. A sequence frees its last block first, so that the beginning outlives the rest. Two sequences
// that compute the same block at the same time have one each; only the first has the name. An engine of larger blocks
// finds as much less of a prompt: hits are whole multiples of its block.
#pragma once

#include <cstddef>
#include <list>
#include <unordered_map>
#include <vector>

#include "lab/engine/kv_memory.hpp"

namespace weir::lab::engine {

class BlockMemory final : public KvMemory {
 public:
  /// Tokens that do not fill a block are not used. `hit_tokens` is a multiple of 16, and more than 0.
  BlockMemory(std::uint64_t kv_tokens, std::uint64_t hit_tokens);

  bool could_fit(const Sequence& sequence) const override { return blocks_of(sequence) <= blocks_.size(); }
  /// Costs O(1) for each block that is found.
  std::optional<std::uint64_t> admit(const Sequence& sequence) override;
  void computed(const Sequence& sequence, std::uint64_t tokens) override;
  /// Costs O(1) for each block.
  void release(const Sequence& sequence) override;
  std::uint64_t cached(const Sequence& sequence) const override { return found(sequence) * block_tokens; }
  void flush() override;
  std::uint64_t reserved() const override { return (blocks_.size() - unused() + promised_) * block_tokens; }

 private:
  using Index = std::uint32_t;
  struct Block {
    std::uint64_t name = 0;
    std::uint32_t users = 0;
    bool named = false;
    std::list<Index>::iterator kept{};  ///< Its place in kept_, if it has a name and no users.
  };
  struct Held {
    std::vector<Index> blocks;  ///< In the order of the sequence's tokens.
    std::size_t considered = 0;  ///< So many of them are full, and have a name if it was free.
    std::uint64_t promised = 0;
  };

  static std::uint64_t blocks_of(const Sequence& sequence) {
    return (sequence.tokens() + block_tokens - 1) / block_tokens;
  }
  std::uint64_t unused() const { return blank_.size() + kept_.size(); }
  std::size_t found(const Sequence& sequence) const;
  Index take();
  void forget(Block& block);

  std::vector<Block> blocks_;
  const std::size_t blocks_of_hit_;
  std::unordered_map<std::uint64_t, Index> by_name_;
  std::list<Index> kept_;      ///< Named blocks without users, freed longest ago first.
  std::vector<Index> blank_;   ///< Blocks with neither name nor users.
  std::uint64_t promised_ = 0;  ///< Blocks that admitted sequences may still take.
  std::unordered_map<SequenceId, Held> held_;
};

}  // namespace weir::lab::engine
