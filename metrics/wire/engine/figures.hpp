// The engine's own numbers of one request, where the wire carries them (TGI's headers, llama.cpp's and
// Ollama's timings, vLLM's request metrics, SGLang's e2e_latency). They let a reader compare weir's view with the
// engine's. Times are seconds.
#pragma once

#include <cstdint>
#include <optional>

namespace weir::metrics::wire {

struct EngineFigures {
  std::optional<double> queue{};    ///< The request waited so long in the engine.
  std::optional<double> prefill{};  ///< Reading the prompt took so long.
  std::optional<double> ttft{};     ///< The time to first token, where the engine reports it.
  std::optional<double> decode{};   ///< Making the output took so long.
  std::optional<double> total{};    ///< The whole request took so long.
  std::optional<double>
      time_per_token{};  ///< Set where the engine reports it: TGI's includes prefill, vLLM's is its mean ITL.
  std::optional<std::uint64_t> draft_tokens{}, draft_accepted_tokens{};  ///< Speculative decoding has these.
  std::optional<std::uint64_t> prompt_tokens{}, output_tokens{};         ///< Some answers have them in no body (TGI).
  bool operator==(const EngineFigures&) const = default;

  /// Takes what `later` has; the rest stays.
  void update(const EngineFigures& later) {
    const auto take = [](auto& mine, const auto& said) {
      if (said) mine = said;
    };
    take(queue, later.queue);
    take(prefill, later.prefill);
    take(ttft, later.ttft);
    take(decode, later.decode);
    take(total, later.total);
    take(time_per_token, later.time_per_token);
    take(draft_tokens, later.draft_tokens);
    take(draft_accepted_tokens, later.draft_accepted_tokens);
    take(prompt_tokens, later.prompt_tokens);
    take(output_tokens, later.output_tokens);
  }
};

}  // namespace weir::metrics::wire
