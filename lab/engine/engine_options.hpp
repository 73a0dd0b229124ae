// The options of `weir-lab sim` that describe its engine, as CLI11 options of a command.
//
// The preset is applied first, wherever it stands on the command line. Every other option then overrides its value.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lab/engine/engine_model.hpp"

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
// thirds of the arithmetic. The knee (engine_model.hpp) stands at 32 sequences; a step of 128 lasts 1.9 to 2.4 times
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
