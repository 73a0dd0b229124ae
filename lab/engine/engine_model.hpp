// A model of an inference engine's scheduler: which sequence gets a token in which step, and how long the step takes.
//
// No I/O and no clock: the caller begins a step, is told how long it lasts, and ends it when that time has passed, be
// it real (sim_replica) or simulated. One thread. A step costs time linear in the sequences that run.
//
// A step lasts step_base (reading the weights), plus its prompt tokens, plus the keys and values that are resident,
// plus the decoded sequences beyond `knee`: below it their arithmetic hides behind the reading of the weights. So a
// decode step against the batch is flat and then bends, and prefill is linear in the batch, as in the published charts
// of TGI's benchmark tool (flat to 32 sequences, bent at 64 and 128).
//
// SIMULATED. The defaults resemble a 7B model with grouped-query attention in 16 bit on one mid-range GPU (24 GB, about
// 600 GB/s): reading the weights once a step takes about 18 ms, a resident token has about 57 KB of keys and values to
// read, prefill runs at 8,000 to 9,000 tokens/s. They are worked out from such data sheets, not measured on a GPU.
//
// Two schedulers:
// - continuous: every step decodes one token of each running sequence, then spends what is left of the token budget on
//   prompts, first come first served, in pieces (chunked prefill as in vLLM and Sarathi-Serve);
// - static_batches: a batch is formed, prefilled in one step and decoded to the end of its longest answer before the
//   next is formed; who has finished keeps its place, its memory and its share of the step time until then.
//
// Speculative decoding, in either: of K drafted tokens each is accepted with one probability until the first that is
// not, so that a decode step yields 1 to K + 1 tokens of a sequence, all in one event. All K + 1 are computed, accepted
// or not, and count against the knee and the token budget; drafting itself costs nothing (as with n-gram lookup).
//
// Memory is reserved for prompt and answer when a sequence is admitted (as TGI does), so that nothing is ever
// preempted; who does not fit waits, and everyone behind waits too.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "lab/engine/random.hpp"

namespace weir::lab::engine {

using SequenceId = std::uint64_t;
using std::chrono::nanoseconds;

enum class Batching { continuous, static_batches };

struct EngineSettings {
  Batching batching = Batching::continuous;
  double speed = 1.0;                   ///< Divides every step time; > 0.
  std::uint32_t max_batch = 64;         ///< Sequences that run at a time.
  std::uint64_t kv_tokens = 60'000;     ///< Tokens the KV cache holds.
  std::uint32_t prefill_budget = 2048;  ///< Tokens of one step, decode included; > 0.
  nanoseconds step_base{18'000'000};
  nanoseconds per_prefill_token{105'000};
  nanoseconds per_decode_sequence{100'000};  ///< With speculation it counts for each token of each sequence.
  std::uint32_t knee = 0;                    ///< So many of a step cost nothing.
  nanoseconds per_kv_token{95};
  double jitter = 0.02;                  ///< Step times vary by up to this share, drawn by the seed; 0 to 1.
  std::uint32_t speculative_tokens = 0;  ///< Drafted for each sequence and step.
  double acceptance = 0.7;               ///< Probability of each draft, given that those before it were right; 0 to 1.
};

struct Sequence {
  SequenceId id = 0;  ///< The caller's; unique among those in the model.
  std::uint64_t prompt_tokens = 1;
  std::uint64_t output_tokens = 1;
};

/// What a step made for one sequence: one token, or several that were drafted.
struct TokenEvent {
  SequenceId id = 0;
  std::uint64_t index = 0;  ///< The index of its last token; the first of an answer has 1.
  bool last = false;
  std::uint32_t tokens = 1;
  bool operator==(const TokenEvent&) const = default;
};

class EngineModel {
 public:
  EngineModel(const EngineSettings& settings, std::uint64_t seed);

  /// Queues a sequence. False where it has no prompt or no output, or could never fit into the KV cache.
  bool submit(const Sequence& sequence);

  /// Forgets a sequence and frees its memory at once; a step under way yields nothing for it. False if unknown.
  bool abort(SequenceId id);

  /// Admits what fits, fixes the work of the next step and says how long it takes; nothing where there is no work.
  /// Not to be called again before end_step().
  std::optional<nanoseconds> begin_step();

  /// The step has been done: the tokens it made, in order of admission. Valid until the next call of end_step().
  std::span<const TokenEvent> end_step();

  std::size_t waiting() const { return waiting_.size(); }
  std::size_t running() const;        ///< Admitted and not finished.
  std::uint64_t kv_resident() const;  ///< Tokens that are in the KV cache.
  std::uint64_t kv_reserved() const {
    return kv_reserved_;
  }  ///< Promised to admitted sequences; never above kv_tokens.
  std::uint64_t last_step_prefill_tokens() const { return step_prefill_; }
  std::uint64_t last_step_decode_tokens() const { return step_decode_; }  ///< Computed, drafts included.
  const EngineSettings& settings() const { return settings_; }

 private:
  struct Running {
    Sequence sequence;
    std::uint64_t prefilled = 0;  ///< Prompt tokens in the KV cache.
    std::uint64_t produced = 0;   ///< Output tokens.
    std::uint64_t prefill_now = 0;
    bool decode_now = false;
    bool finished() const { return produced == sequence.output_tokens; }
    std::uint64_t resident() const { return prefilled + produced; }
    std::uint64_t reserved() const { return sequence.prompt_tokens + sequence.output_tokens; }
  };

  void plan_continuous();
  void plan_static();
  bool admit_next();
  void release_finished();
  std::uint64_t decode_width() const { return std::uint64_t{1} + settings_.speculative_tokens; }
  std::uint64_t accepted_drafts();
  nanoseconds step_time();

  EngineSettings settings_;
  Random random_;
  std::deque<Sequence> waiting_;
  std::vector<Running> running_;  ///< They stand in order of admission.
  std::vector<TokenEvent> events_;
  std::uint64_t kv_reserved_ = 0;
  std::uint64_t step_prefill_ = 0;
  std::uint64_t step_decode_ = 0;
};

}  // namespace weir::lab::engine
