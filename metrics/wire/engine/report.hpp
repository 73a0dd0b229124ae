// Reads the objects of an event in which an engine reports its own work, by the tables of dialects/members.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "metrics/wire/json/text.hpp"

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

// The tables of members in which engines report their own work: one table for each object, or head, that has such
// figures. The readers of events, of whole answers and of heads all use these tables.

/// The report in one object: figures, and counts that an answer's own usage object may lack.
struct EngineReport : EngineFigures {
  std::optional<std::uint64_t> predicted{};                     ///< Counts the output tokens so far.
  std::optional<std::uint64_t> prompt_read{}, prompt_cached{};  ///< The prompt is the sum of both.

  std::optional<std::uint64_t> prompt() const {
    if (!prompt_read) return std::nullopt;
    return *prompt_read + prompt_cached.value_or(0);
  }
  /// Adds the queue to the time to first token. vLLM's begins when the request is scheduled, as its prefill time does;
  /// others count from the queue on.
  void add_queue_to_prefill() {
    if (queue && prefill) ttft = *queue + *prefill;
  }
};

/// A member: a count, or a time in so many units a second.
struct FigureMember {
  std::string_view key;
  std::optional<std::uint64_t> EngineReport::* count = nullptr;
  std::optional<double> EngineReport::* time = nullptr;
  double units_a_second = 1;

  /// Takes a count, if there is one that is not beyond belief.
  void take_count(EngineReport& into, std::optional<std::uint64_t> said) const {
    if (count != nullptr) into.*count = said;
  }
  /// Takes a time, unless no request can take that long.
  void take_time(EngineReport& into, double said) const {
    constexpr double most = 1e9;
    if (time == nullptr) return;
    const double seconds = said / units_a_second;
    into.*time = seconds >= 0 && seconds <= most ? std::optional(seconds) : std::nullopt;
  }
};

namespace engine_members {

constexpr FigureMember count(std::string_view key, std::optional<std::uint64_t> EngineReport::* into) {
  return {key, into, nullptr, 1};
}
constexpr FigureMember time(std::string_view key, std::optional<double> EngineReport::* into, double units_a_second) {
  return {key, nullptr, into, units_a_second};
}
inline constexpr double milliseconds = 1e3;
inline constexpr double nanoseconds = 1e9;

}  // namespace engine_members

/// llama.cpp's `timings` (tools/server/server-task.cpp).
inline constexpr FigureMember llamacpp_timings[] = {
    engine_members::count("predicted_n", &EngineReport::predicted),
    engine_members::count("prompt_n", &EngineReport::prompt_read),
    engine_members::count("cache_n", &EngineReport::prompt_cached),
    engine_members::time("prompt_ms", &EngineReport::prefill, engine_members::milliseconds),
    engine_members::time("predicted_ms", &EngineReport::decode, engine_members::milliseconds),
    engine_members::count("draft_n", &EngineReport::draft_tokens),
    engine_members::count("draft_n_accepted", &EngineReport::draft_accepted_tokens),
};

/// vLLM's `metrics` (docs/features/per_request_metrics.md), with the object in it that reports speculative
/// decoding.
inline constexpr FigureMember vllm_metrics[] = {
    engine_members::time("time_to_first_token_ms", &EngineReport::prefill, engine_members::milliseconds),
    engine_members::time("generation_time_ms", &EngineReport::decode, engine_members::milliseconds),
    engine_members::time("queue_time_ms", &EngineReport::queue, engine_members::milliseconds),
    engine_members::time("mean_itl_ms", &EngineReport::time_per_token, engine_members::milliseconds),
};
inline constexpr std::string_view vllm_drafts_key = "speculative_decoding";
inline constexpr FigureMember vllm_drafts[] = {
    engine_members::count("num_draft_tokens", &EngineReport::draft_tokens),
    engine_members::count("num_accepted_draft_tokens", &EngineReport::draft_accepted_tokens),
};

/// SGLang's `meta_info` has its counts beside it.
inline constexpr FigureMember sglang_meta_info[] = {
    engine_members::time("e2e_latency", &EngineReport::total, 1),
};

/// Ollama's figures stand in the document itself.
inline constexpr FigureMember ollama_durations[] = {
    engine_members::time("prompt_eval_duration", &EngineReport::prefill, engine_members::nanoseconds),
    engine_members::time("eval_duration", &EngineReport::decode, engine_members::nanoseconds),
    engine_members::time("total_duration", &EngineReport::total, engine_members::nanoseconds),
};

/// TGI puts these headers on answers that are no stream, in whole milliseconds (router/src/server.rs).
inline constexpr FigureMember tgi_headers[] = {
    engine_members::time("x-queue-time", &EngineReport::queue, engine_members::milliseconds),
    engine_members::time("x-total-time", &EngineReport::total, engine_members::milliseconds),
    engine_members::time("x-time-per-token", &EngineReport::time_per_token, engine_members::milliseconds),
    engine_members::count("x-prompt-tokens", &EngineReport::prompt_tokens),
    engine_members::count("x-generated-tokens", &EngineReport::output_tokens),
};

/// Takes the member's value, if the table has its key.
void take_figure(simdjson::ondemand::raw_json_string key, simdjson::ondemand::value& part,
                 std::span<const FigureMember> table, EngineReport& into);

/// Reads the members of a whole object. Returns false if it is broken.
bool read_figures(simdjson::ondemand::object object, std::span<const FigureMember> table, EngineReport& into);

/// Reads vLLM's `metrics`. Returns false if it is broken.
bool read_vllm_metrics(simdjson::ondemand::value& metrics, EngineFigures& into);

// Reads what a response head says of the engine's work: TGI's headers.

/// All names of these headers begin so: a head without such a name needs no reading.
inline constexpr std::string_view engine_headers_begin = "x-";

/// `value_of` returns a header's value by its lower-case name, and "" if there is none.
EngineFigures engine_head(const std::function<std::string_view(std::string_view)>& value_of);

}  // namespace weir::metrics::wire
