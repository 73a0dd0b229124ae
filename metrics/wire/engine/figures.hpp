// The engine's own numbers of one request, where the wire carries them (WIRE.md: TGI's headers, llama.cpp's and
// Ollama's timings, vLLM's request metrics, SGLang's e2e_latency), so that weir's view and the engine's can be laid
// side by side. Seconds.
#pragma once

#include <cstdint>
#include <optional>

namespace weir::metrics::wire {

struct EngineFigures {
  std::optional<double> queue{};    ///< Waiting in the engine.
  std::optional<double> prefill{};  ///< Reading the prompt.
  std::optional<double> ttft{};     ///< Time to first token, where the engine says it itself.
  std::optional<double> decode{};   ///< Making the output.
  std::optional<double> total{};    ///< The whole request.
  std::optional<double>
      time_per_token{};  ///< Where the engine says it itself: TGI's with prefill in it, vLLM's mean ITL.
  std::optional<std::uint64_t> draft_tokens{}, draft_accepted_tokens{};  ///< Those of speculative decoding.
  std::optional<std::uint64_t> prompt_tokens{}, output_tokens{};  ///< Of an answer whose body may not say them (TGI).
  bool operator==(const EngineFigures&) const = default;

  /// Takes over what `later` says; the rest stays.
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
