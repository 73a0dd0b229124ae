// What a request asks for, as plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "metrics/vocabulary.hpp"

namespace weir::metrics::wire {

/// Classes of script by which prompt tokens are estimated (WIRE.md, section 5). Each has a row of its own in
/// balancer/token_weights.cpp. A ninth class needs a wider counter in script.cpp, which holds eight in one register.
enum class Script : std::uint8_t {
  letters,
  punctuation,
  digits,
  latin_extended,
  cyrillic_greek,
  abjad_indic_thai,
  cjk,
  other
};
inline constexpr std::size_t script_count = 8;

/// Code points of a request's text by class of script, and what a chat template adds to.
struct TextFeatures {
  std::array<std::uint64_t, script_count> code_points{};
  std::uint32_t messages = 0;    ///< Messages, a system text by itself among them; 0 for a plain prompt.
  std::uint64_t tool_bytes = 0;  ///< Bytes of the `tools` schema (its text counts in code_points too).
  std::uint64_t chars() const;   ///< Sum of code_points.
};

/// Facts of one request. Numbers a client sent out of range are treated as absent: the replica answers for them.
struct RequestFacts {
  Api api = Api::other;
  bool gives_work = true;  ///< It is a POST. A GET or an OPTIONS gives the engine no tokens to work on.
  std::string model;       ///< As sent, cut at 128 bytes; "" where absent.
  bool stream = false;     ///< The client asked for an event stream.
  std::optional<std::uint64_t> max_tokens;  ///< By each dialect's own name; absent: the engine's default.
  std::uint32_t n = 1;                      ///< Choices, times prompts of a list: what multiplies the output.
  std::uint32_t prompts = 1;                ///< Prompts of the list; 1 where there is none.
  bool greedy = false;       ///< It asks for temperature 0; on TGI's route, for nothing that only sampling knows.
  bool tools = false;        ///< It offers some.
  std::uint32_t images = 0;  ///< Parts that are no text: images, audio, files. Their data counts nowhere else.
  std::optional<std::uint64_t> prompt_token_ids;  ///< Those given as token ids. `text` comes on top of them.
  TextFeatures text;
  bool stored_context = false;   ///< The engine adds to the prompt what it kept of earlier ones (Responses).
  bool usage_requested = false;  ///< stream_options.include_usage is true.
  bool stream_options = false;   ///< The client sent stream_options itself, of whatever type.
  bool token_timings = false;    ///< The client sent llama.cpp's timings_per_token itself.
  bool whole_json = false;       ///< The body was one JSON object. What is none is relayed all the same.
  /// Where a member can be put into the body's outermost object: just behind its `{`. Absent unless whole_json.
  std::optional<std::uint64_t> first_member_at;
  bool empty_object = false;  ///< `{}`: a member put there takes no comma.
};

}  // namespace weir::metrics::wire
