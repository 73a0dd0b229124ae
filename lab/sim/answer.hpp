// An answer as bytes on the wire, in the shapes of vLLM (OpenAI routes) and TGI (native routes).
//
// JSON is compact, and each event is one chunk, as uvicorn and axum frame them. vLLM sends the role event with the
// first token. A stop ends in an empty event with finish_reason; a length joins it to the last token. It sends usage
// only if asked for, [DONE] always, and the tokens of one step in one event. TGI sends no blank after "data:", no
// [DONE], and always one token an event; its last event carries generated_text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lab/sim/request.hpp"

namespace weir::lab::sim {

class Answer {
 public:
  /// `seed` names the text; `created` is in Unix seconds.
  Answer(const Request& request, const AnswerPlan& plan, std::string_view model, std::uint64_t seed,
         std::int64_t created);

  /// Says how many cached tokens of the prompt usage tells, if any, as vLLM's does if asked to.
  void cached(std::optional<std::uint64_t> tokens) { cached_tokens_ = tokens; }
  /// Returns what the answer says.
  std::string text() const;
  /// Appends the response head of a stream. It is sent before prefill, as vLLM and TGI do.
  void append_head(std::string& out, bool keep_alive) const;
  /// Appends the chunks that one step's tokens bring, `first` to `last` of 1 to plan.tokens; with the last token the
  /// end of the body too.
  void append_tokens(std::string& out, std::uint64_t first, std::uint64_t last) const;
  /// Returns the body of an answer that is not streamed.
  std::string whole() const;

 private:
  void append_openai(std::string& out, std::uint64_t first, std::uint64_t last) const;
  void append_tgi(std::string& out, std::uint64_t index) const;
  std::string usage(std::uint64_t completion_tokens) const;
  std::string whole_usage() const;
  std::string text_json(std::uint64_t first, std::uint64_t last) const;
  std::string text_json() const { return text_json(1, plan_.tokens); }
  bool has_text(std::uint64_t index) const { return !(plan_.by_stop && index == plan_.tokens); }

  Request request_;
  AnswerPlan plan_;
  std::uint64_t seed_;
  std::optional<std::uint64_t> cached_tokens_;
  std::string envelope_;      ///< From "data: {" to before "choices".
  std::string whole_prefix_;  ///< The same for an answer that is not streamed.
};

/// Appends a chunk of chunked framing (RFC 9112, section 7.1).
void append_chunk(std::string& out, std::string_view payload);

/// Returns the body of a refusal in the shape of the route's engine.
std::string refusal_body(Route route, const Refusal& refusal);

}  // namespace weir::lab::sim
