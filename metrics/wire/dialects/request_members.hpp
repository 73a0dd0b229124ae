// Which members of a request mean something, by API: the vocabulary of all dialects in one table.
//
// The names are the engines' own: vLLM, TGI, SGLang, llama.cpp, Aphrodite, Ollama, and the OpenAI and Anthropic APIs
// that most of them serve. What is not in the table is not read: a name added by an engine costs a line here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "metrics/vocabulary.hpp"

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
  messages,        ///< A list of messages; of some APIs a string that is one.
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

/// The outermost members that bring text, each summed by itself.
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

struct RequestMember {
  RequestPlace in;
  std::string_view key;
  RequestPlace place;
  unsigned apis;  ///< A bit for each.
  RequestSource from = RequestSource::prompt;
};

/// The member `key` of an object at `in`; place `ignored` where it means nothing.
const RequestMember& member_of(RequestPlace in, std::string_view key, Api api);

}  // namespace weir::metrics::wire
