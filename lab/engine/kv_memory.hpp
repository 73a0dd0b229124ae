// The memory in which an engine has keys and values: of the sequences that run, and of earlier ones for those that
// begin alike.
//
// Memory is reserved for prompt and answer when a sequence is admitted (as TGI does), so that nothing is ever
// preempted. Nothing of a sequence is found by others until it has been computed. One thread uses a memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "lab/engine/sequence.hpp"

namespace weir::lab::engine {

/// The ways in which an engine keeps sequences that have ended.
enum class PrefixCaching : std::uint8_t {
  none,
  blocks,  ///< Blocks of 16 tokens in the memory that no sequence needs now, as vLLM: see block_memory.hpp.
  slots,   ///< The last sequence of each slot, as llama.cpp: see slot_memory.hpp.
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

}  // namespace weir::lab::engine
