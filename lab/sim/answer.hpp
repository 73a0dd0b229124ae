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
#include <variant>

#include "lab/engine/memory.hpp"
#include "lab/engine/words.hpp"

namespace weir::lab::sim {

/// The inference routes of a simulated replica.
enum class Route { chat, completions, tgi_generate, tgi_generate_stream };

std::optional<Route> route_of(std::string_view path);
inline bool is_tgi(Route route) { return route == Route::tgi_generate || route == Route::tgi_generate_stream; }

/// True if a Content-Type is JSON's, which vLLM requires before it reads a body. Parameters and upper case do not
/// matter; a missing type is not JSON's.
bool is_json(std::string_view content_type);

struct Request {
  Route route = Route::chat;
  std::string model;  ///< The name as it was sent; "" if there was none.
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool details = false;     ///< TGI's parameters.details.
  bool ignore_eos = false;  ///< The answer ends only by its length.
  std::uint64_t prompt_tokens = 0;
  std::uint64_t prompt_chars = 0;  ///< Bytes of text, for TGI's x-compute-characters.
  engine::PromptBlocks blocks{};   ///< The prompt's, to which the answer's may be added; only if they were asked for.
  std::optional<std::uint64_t> max_tokens;  ///< If it is absent, the answer's length is drawn.
};

/// Why a request is refused, in a sentence.
struct Refusal {
  unsigned status = 400;
  std::string message;
};

/// A chat template adds so many tokens for each message, and so many once. Three of a message's stand before it and say
/// whose it is. Three of those that are added once stand behind the last message and begin the answer, so that a prompt
/// goes on as the one before it and its answer did.
inline constexpr std::uint64_t tokens_per_message = 4;
inline constexpr std::uint64_t tokens_per_chat = 6;

/// `with_blocks` makes the prompt's blocks too, which costs about as much again. Prompts whose `cache_salt` (vLLM),
/// `extra_key` or `lora_path` (SGLang), or `adapter_id` (TGI) differ have none in common.
std::variant<Request, Refusal> read_request_body(Route route, std::string_view body, bool with_blocks = false);

/// How long an answer will be and how it ends.
struct AnswerPlan {
  std::uint64_t tokens = 1;  ///< The engine's count: with `by_stop`, the last token is EOS and has no text.
  bool by_stop = false;
};

/// Adds an answer to the blocks of its prompt, as a later prompt repeats it. With `thoughts`, the engine made other
/// tokens than these, which a chat template leaves out later; the argument tells them apart.
void add_answer(engine::PromptBlocks& blocks, const AnswerPlan& plan, std::string_view text,
                std::optional<std::uint64_t> thoughts);

/// Plans an answer. It has exactly max_tokens if the request gives them; half of such answers end in EOS. Else the
/// length is drawn (log-normal around 130, as in the Azure conversation trace; 2 to 1024), and the answer ends in EOS.
/// An answer of one token ends by length.
AnswerPlan plan_answer(const Request& request, engine::Random& random);

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
