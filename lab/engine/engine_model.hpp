// An inference engine as a model: its scheduler, its options and its presets.
//
// The scheduler decides which sequence gets a token in which step, and how long the step takes.
//
// The model has no I/O and no clock. The caller begins a step, is told how long it lasts, and ends it when that time
// has passed, real (sim_replica) or simulated. One thread uses it. A step costs time linear in the sequences that run.
//
// A step lasts the sum of: step_base (reading the weights), its prompt tokens, the keys and values that are resident,
// and the decoded sequences beyond `knee`. Below the knee their arithmetic hides behind the reading of the weights. So
// a decode step against the batch is flat and then bends, and prefill is linear in the batch, as in the published
// charts of TGI's benchmark tool (flat to 32 sequences, bent at 64 and 128).
//
// SIMULATED. The defaults resemble a 7B model with grouped-query attention in 16 bit on one mid-range GPU (24 GB, about
// 600 GB/s): reading the weights once a step takes about 18 ms, a resident token has about 57 KB of keys and values to
// read, and prefill runs at 8,000 to 9,000 tokens/s. They are computed from such data sheets, not measured on a GPU.
//
// There are two schedulers:
// - continuous: every step decodes one token of each running sequence, then spends what is left of the token budget on
//   prompts, first come first served, in pieces (chunked prefill as in vLLM and Sarathi-Serve);
// - static_batches: a batch is formed, prefilled in one step and decoded to the end of its longest answer before the
//   next is formed. A finished sequence keeps its place, its memory and its share of the step time until then.
//
// Either can decode speculatively: of K drafted tokens each is accepted with one probability until the first that is
// not, so that a decode step yields 1 to K + 1 tokens of a sequence, all in one event. All K + 1 are computed, accepted
// or not, and count against the knee and the token budget. Drafting itself costs nothing (as with n-gram lookup).
//
// With prefix caching (lab/engine/memory.hpp) a prompt costs no more than what it does not share with an earlier
// sequence. Whether it does is decided when it is admitted.
//
// A sequence that does not fit into the memory waits, and everyone behind it waits too.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/engine/memory.hpp"
#include "lab/engine/words.hpp"

namespace weir::lab::engine {

using std::chrono::nanoseconds;

enum class Batching { continuous, static_batches };

struct EngineSettings {
  Batching batching = Batching::continuous;
  double speed = 1.0;                   ///< Divides every step time; > 0.
  std::uint32_t max_batch = 64;         ///< Sequences that run at a time.
  std::uint64_t kv_tokens = 60'000;     ///< Tokens that the KV cache holds.
  std::uint32_t prefill_budget = 2048;  ///< Tokens of a step, decode included; > 0.
  nanoseconds step_base{18'000'000};
  nanoseconds per_prefill_token{105'000};
  nanoseconds per_decode_sequence{100'000};  ///< With speculation for each token of each sequence.
  std::uint32_t knee = 0;                    ///< Decoded sequences of a step that cost nothing.
  nanoseconds per_kv_token{95};
  double jitter = 0.02;                  ///< Step times vary by up to this share, drawn by the seed; 0 to 1.
  std::uint32_t speculative_tokens = 0;  ///< Tokens drafted for each sequence and step.
  double acceptance = 0.7;               ///< Each draft is accepted with this probability, given that those before it
                                         ///< were right; 0 to 1.
  PrefixCaching prefix_caching = PrefixCaching::none;  ///< With `slots` there are max_batch of them.
  std::uint64_t hit_tokens = block_tokens;  ///< With `blocks` hits are multiples of it: a multiple of 16, above 0.
};

/// The tokens that a step made for one sequence: one, or several that were drafted.
struct TokenEvent {
  SequenceId id = 0;
  std::uint64_t index = 0;  ///< The index of the last token; the first token of an answer has 1.
  bool last = false;
  std::uint32_t tokens = 1;
  std::uint64_t cached_tokens = 0;  ///< Prompt tokens that were found when the sequence was admitted.
  bool operator==(const TokenEvent&) const = default;
};

class EngineModel {
 public:
  EngineModel(const EngineSettings& settings, std::uint64_t seed);

  /// Queues a sequence. Returns false if it has no prompt or no output, or could never fit into the KV cache.
  bool submit(const Sequence& sequence);

  /// Forgets a sequence and frees its memory at once; the current step yields nothing for it. Returns false if it is
  /// unknown.
  bool abort(SequenceId id);

  /// Admits what fits, fixes the work of the next step and returns how long it takes; nothing if there is no work. It
  /// is not to be called again before end_step().
  std::optional<nanoseconds> begin_step();

  /// Ends the step and returns the tokens it made, in order of admission. They are valid until the next call of
  /// end_step().
  std::span<const TokenEvent> end_step();

  /// Returns how many tokens of the sequence's prompt would be found if it were admitted now.
  std::uint64_t cached(const Sequence& sequence) const { return memory_->cached(sequence); }
  /// Forgets what earlier sequences left. Those in the model go on, and nobody finds what they have computed so far.
  void flush() { memory_->flush(); }

  /// The sequences in the model, and their memory.
  struct Occupancy {
    std::size_t waiting = 0;
    std::size_t running = 0;        ///< Admitted and not finished.
    std::uint64_t kv_resident = 0;  ///< Tokens in the KV cache.
    /// Tokens promised to admitted sequences; never above kv_tokens. What several of them share counts once.
    std::uint64_t kv_reserved = 0;
  };
  /// Costs time linear in the sequences that run.
  Occupancy occupancy() const;

  /// The tokens of a step.
  struct Step {
    std::uint64_t prefill = 0;
    std::uint64_t decode = 0;  ///< Drafts included.
  };
  const Step& last_step() const { return step_; }
  const EngineSettings& settings() const { return settings_; }
  /// A prompt token takes this long from the next step on.
  void set_prefill_time(nanoseconds per_prefill_token) { settings_.per_prefill_token = per_prefill_token; }

  /// A sequence as it will stand when the step that has begun ends.
  struct Standing {
    const Sequence* sequence = nullptr;
    bool admitted = false;
    std::uint64_t prefilled = 0;  ///< Prompt tokens in the KV cache, cached ones included.
    std::uint64_t produced = 0;   ///< Output tokens that were made, drafts aside.
    std::uint64_t cached = 0;     ///< Prompt tokens that were found.
  };
  /// Returns the sequences that are not finished then: those that run in order of admission, then those that wait. They
  /// are valid until the model changes.
  std::vector<Standing> standing() const;

 private:
  struct Running {
    Sequence sequence;
    std::uint64_t cached = 0;     ///< Prompt tokens that were found.
    std::uint64_t prefilled = 0;  ///< Prompt tokens in the KV cache, cached ones included.
    std::uint64_t produced = 0;   ///< Output tokens that were made.
    std::uint64_t prefill_now = 0;
    bool decode_now = false;
    bool finished() const { return produced == sequence.output_tokens; }
    std::uint64_t resident() const { return prefilled + produced; }
    /// Keys and values of the last token are computed with the next one.
    std::uint64_t computed() const { return prefilled + (produced > 0 ? produced - 1 : 0); }
  };

  void plan_continuous();
  void plan_static();
  bool admit_next();
  void release_finished();
  std::uint64_t decode_width() const { return std::uint64_t{1} + settings_.speculative_tokens; }
  std::uint64_t accepted_drafts();
  nanoseconds step_time();
  std::uint64_t kv_resident() const;

  EngineSettings settings_;
  Random random_;
  std::unique_ptr<KvMemory> memory_;
  std::deque<Sequence> waiting_;
  std::vector<Running> running_;  ///< In order of admission.
  std::vector<TokenEvent> events_;
  Step step_;
};

}  // namespace weir::lab::engine

// The options of `weir-lab sim` that describe its engine, as CLI11 options of a command.
//
// The preset is applied first, wherever it stands on the command line. Every other option then overrides its value.

namespace CLI {
class App;
}

namespace weir::lab::engine {

/// Adds the options. When the command line has been read, `settings` holds what was asked for. It must outlive
/// `command`.
void add_engine_options(CLI::App& command, EngineSettings& settings);

// Engine settings named after cards: h800, a800, 4090, h20. SIMULATED: no figure here was measured on such a card.
//
// Demonstrations and tests use them. They need replicas that differ as real ones do, in prefill and in decode
// separately.
//
// The order is given by the project's specification, as what is known of these cards with one model: time to first
// token H800 < A800 < 4090 < H20, time per output token H800 < A800 < H20 < 4090. The first follows the data sheets'
// dense 16-bit rates (989, 312, 165 and 148 TFLOPS), as arithmetic bounds prefill. The second follows their memory
// rates (3.35, 2.0 and 1.0 TB/s), except for the H20: with 4.0 TB/s it should be first, and some published comparisons
// have it ahead of the A100. Whoever has one should measure it with weir. The H20's prefill order holds for prompts of
// about 100 tokens and more; shorter ones cost no more than a step.
//
// The figures are computed for a 7B model with grouped-query attention in 16 bit: 15.2 GB of weights and 15.2 GFLOP a
// token, and 57 KB of keys and values a token. They assume about three quarters of the memory rate and half to two
// thirds of the arithmetic. The knee (see above) stands at 32 sequences; a step of 128 lasts 1.9 to 2.4 times
// one of 32.

struct EnginePreset {
  std::string_view name;
  EngineSettings settings;
};

/// Returns all presets, in the order of their time to first token.
std::span<const EnginePreset> engine_presets();

/// Returns nothing if there is none of that name.
std::optional<EngineSettings> engine_preset(std::string_view name);

/// Returns the time of an idle engine, without jitter.
nanoseconds time_to_first_token(const EngineSettings& settings, std::uint64_t prompt_tokens);
/// Returns the time of a step in which `batch` sequences decode, each with `context` tokens in the KV cache; without
/// jitter.
nanoseconds decode_step(const EngineSettings& settings, std::uint32_t batch, std::uint64_t context);

/// Returns a table of the presets' times, for --help.
std::string describe_engine_presets();

}  // namespace weir::lab::engine
