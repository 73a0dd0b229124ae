// Reads from a request's whole body what it asks a simulated replica for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "lab/engine/prompt_blocks.hpp"
#include "lab/engine/random.hpp"

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
  std::uint64_t prompt_chars = 0;       ///< Bytes of text, for TGI's x-compute-characters.
  engine::PromptBlocks blocks{};  ///< The prompt's, to which the answer's may be added; only if they were asked for.
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

}  // namespace weir::lab::sim
