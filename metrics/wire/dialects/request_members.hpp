// How a dialect says what the members of its requests mean: each of them leads from one place to the next.
//
// The names are the engines' own: vLLM, TGI, SGLang, llama.cpp, Aphrodite, Ollama, and the OpenAI and Anthropic APIs
// that most of them serve. A member that no dialect names is not read: a name added by an engine costs a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "metrics/vocabulary.hpp"
#include "metrics/wire/json/member_index.hpp"

namespace weir::metrics::wire {

/// What a value means, by the keys that lead to it.
enum class RequestPlace : std::uint8_t {
  ignored,
  root,
  model,
  stream,
  stream_options,
  include_usage,
  timings_per_token,
  stored_context,  ///< Names context that the engine keeps: not to be seen here.
  // How to sample.
  options,          ///< TGI's parameters, Ollama's options.
  sampling_params,  ///< SGLang's.
  max_tokens,
  preferred_max_tokens,  ///< Where a dialect has two names, the one that holds.
  n,
  temperature,
  do_sample,
  top_k,
  top_p,
  typical_p,
  // What is asked.
  text,            ///< A string.
  text_tree,       ///< Every string and key below is text.
  content,         ///< A string, or parts.
  system,          ///< The same, and a message by itself.
  part,            ///< An element of content.
  messages,        ///< A list of messages.
  input,           ///< A list of messages, or a string that is one.
  message,         //
  prompt,          ///< A string, token ids, a mix of both, or a list of such.
  prompt_of_list,  //
  token_of_list,   //
  token_ids,       ///< A list of them.
  images,          ///< A string, or a list of them.
  image,           //
  tools,           //
  tool_tree,       //
};

/// The outermost members that bring text. Each is summed by itself, because of duplicate members the last one counts.
enum class RequestSource : std::uint8_t {
  prompt,
  system,
  suffix,
  tools,
  images,
  context,
  sglang_images,
  text,
  input_ids
};
inline constexpr std::size_t request_source_count = 9;

/// A set of them: a bit for each.
using RequestSources = std::uint16_t;
constexpr RequestSources only(RequestSource source) {
  return static_cast<RequestSources>(1U << static_cast<unsigned>(source));
}
constexpr bool contains(RequestSources sources, RequestSource source) { return (sources & only(source)) != 0; }

struct RequestMember {
  RequestPlace in;
  std::string_view key;
  RequestPlace place;
  RequestSource from = RequestSource::prompt;
};

/// How a request wants its answer made.
struct Sampling {
  std::optional<std::uint64_t> max_tokens, preferred_max_tokens, n;
  std::optional<double> temperature;
  bool do_sample = false, top_k = false, top_p = false, typical_p = false;
};

using RequestMembers = MemberIndex<RequestMember, RequestPlace::tool_tree>;

/// What the members of a request mean that came by a route of `api`: the dialect's own, and those that all have.
const RequestMembers& request_members(Api api);

}  // namespace weir::metrics::wire
