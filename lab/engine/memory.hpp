// The memory in which an engine has keys and values: of the sequences that run, and of earlier ones for those that
// begin alike.
//
// Memory is reserved for prompt and answer when a sequence is admitted (as TGI does), so that nothing is ever
// preempted. Nothing of a sequence is found by others until it has been computed. One thread uses a memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
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

// A request as an engine has it.

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

/// The ways in which an engine keeps sequences that have ended.
enum class PrefixCaching : std::uint8_t {
  none,
  blocks,  ///< Blocks of 16 tokens in the memory that no sequence needs now, as vLLM.
  slots,   ///< The last sequence of each slot, as llama.cpp.
};

class KvMemory {
 public:
  virtual ~KvMemory() = default;

  /// Returns false if the sequence would not fit even if no other was there.
  virtual bool could_fit(const Sequence& sequence) const = 0;
  /// Reserves what the sequence needs. Returns how many tokens of its prompt are there already; nothing if it does not
  /// fit now. Fails for no sequence that could fit, if no other is admitted.
  virtual std::optional<std::uint64_t> admit(const Sequence& sequence) = 0;
  /// Says that the keys and values of the first `tokens` tokens of an admitted sequence are there now.
  virtual void computed(const Sequence& sequence, std::uint64_t tokens) = 0;
  /// Says that an admitted sequence has ended or was aborted.
  virtual void release(const Sequence& sequence) = 0;

  /// Returns how many tokens of the prompt would be there if the sequence were admitted now.
  virtual std::uint64_t cached(const Sequence& sequence) const = 0;
  /// Forgets what earlier sequences left. Admitted ones keep theirs, but no other finds it.
  virtual void flush() = 0;
  /// Returns the tokens of memory that admitted sequences use or may still use. What several of them share counts once.
  virtual std::uint64_t reserved() const = 0;
};

/// Makes a memory of `kv_tokens` tokens; `most_sequences` are admitted at a time. Memory in blocks finds whole
/// multiples of `hit_tokens`.
std::unique_ptr<KvMemory> make_kv_memory(PrefixCaching caching, std::uint64_t kv_tokens, std::uint32_t most_sequences,
                                         std::uint64_t hit_tokens);

// Memory in blocks of 16 tokens that sequences share, as vLLM's: a block that no sequence uses stays findable until its
// memory is needed.
//
// A block is named once all of its tokens are computed. Of blocks that nobody uses, the one that was freed longest ago
// is overwritten first. A sequence frees its last block first, so that the beginning outlives the rest. Two sequences
// that compute the same block at the same time have one each; only the first has the name. An engine of larger blocks
// finds as much less of a prompt: hits are whole multiples of its block.

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
    std::vector<Index> blocks;   ///< In the order of the sequence's tokens.
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
  std::list<Index> kept_;       ///< Named blocks without users, freed longest ago first.
  std::vector<Index> blank_;    ///< Blocks with neither name nor users.
  std::uint64_t promised_ = 0;  ///< Blocks that admitted sequences may still take.
  std::unordered_map<SequenceId, Held> held_;
};

// Memory in slots of equal size, as llama.cpp's server has it without --cache-ram and with --no-kv-unified: each slot
// runs one sequence at a time, and keeps it until the next one comes.
//
// A sequence gets the idle slot whose last one begins most like it, if they have more than a tenth of the prompt in
// common (llama.cpp's --slot-prompt-similarity); else the one that was used longest ago. All that the slot had behind
// the common beginning is lost at that moment. llama.cpp compares tokens; here beginnings are compared by blocks, so
// that up to 15 tokens fewer are found.

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

// Reports of an engine about the prompt tokens that it found in its cache, true or not.

enum class CacheReport : std::uint8_t {
  exact,
  none,     ///< Nothing is said, as by vLLM without --enable-prompt-tokens-details.
  half,     ///< Half of them: a wrong report.
  coarse,   ///< Whole pages of 64 tokens only.
  nonzero,  ///< Nothing is said where nothing was found, as by SGLang and many versions of vLLM.
};

/// Returns what is said of `cached` tokens.
inline std::optional<std::uint64_t> reported_tokens(CacheReport report, std::uint64_t cached) {
  constexpr std::uint64_t page = 64;
  switch (report) {
    case CacheReport::none:
      return std::nullopt;
    case CacheReport::half:
      return cached / 2;
    case CacheReport::coarse:
      return cached / page * page;
    case CacheReport::nonzero:
      return cached > 0 ? std::optional(cached) : std::nullopt;
    case CacheReport::exact:
      break;
  }
  return cached;
}

}  // namespace weir::lab::engine
