// What a request asks for, read from its body while the body arrives: one pass, no copy of the body, bounded state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "metrics/vocabulary.hpp"

namespace weir::metrics::wire {

/// Classes of script by which prompt tokens are estimated (WIRE.md, section 5).
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
  bool inference = true;  ///< False: a GET or an OPTIONS, which gives the engine no tokens to work on.
  std::string model;      ///< As sent, cut at 128 bytes; "" where absent.
  bool stream = false;    ///< The client asked for an event stream.
  std::optional<std::uint64_t> max_tokens;  ///< By each dialect's own name; absent: the engine's default.
  std::uint32_t n = 1;                      ///< Choices, times prompts of a list: what multiplies the output.
  std::uint32_t prompts = 1;                ///< Of these.
  bool greedy = false;       ///< temperature 0; of TGI's own route: nothing asked for that only sampling knows.
  bool tools = false;        ///< Some are offered.
  std::uint32_t images = 0;  ///< Parts that are no text: images, audio, files. Their data counts nowhere else.
  std::optional<std::uint64_t> prompt_token_ids;  ///< Given as token ids: counted. `text` comes on top of them.
  TextFeatures text;
  bool stored_context = false;   ///< The engine adds to the prompt what it kept of earlier ones (Responses).
  bool usage_requested = false;  ///< stream_options.include_usage is true.
  bool stream_options = false;   ///< The client sent stream_options itself, of whatever type.
  bool token_timings = false;    ///< The client sent llama.cpp's timings_per_token itself.
  bool whole_json = false;       ///< The body was one JSON object. Else: counted, relayed, the replica answers for it.
  /// Where a member can be put into the body's outermost object: just behind its `{`. Absent unless whole_json.
  std::optional<std::uint64_t> first_member_at;
  bool empty_object = false;  ///< `{}`: a member put there takes no comma.
};

/// Tells the API by method and path (query and prefix excluded), all POST; other otherwise. /generate is TGI's or
/// SGLang's: here it is TGI's, and RequestFacts::api tells by the body (`inputs`, or `text` and `input_ids`).
Api api_of(std::string_view method, std::string_view path);

/// Reads a request's body piece by piece. One thread; a call costs time linear in its piece, at most about 2 ns a byte.
/// Any split of a body gives the same facts.
class RequestInspector {
 public:
  /// `path` decides what a route's path says by itself: /generate_stream and Kobold's /stream stream.
  RequestInspector(Api api, std::string_view path);
  ~RequestInspector();
  RequestInspector(RequestInspector&&) noexcept;
  RequestInspector& operator=(RequestInspector&&) noexcept;

  void feed(std::span<const char> piece);
  /// To be called once, when the body has ended.
  RequestFacts finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::metrics::wire
