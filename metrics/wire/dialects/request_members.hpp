// A dialect says here what the members of its requests mean. Each member leads from one place to the next.
//
// The names are the engines' own: vLLM, TGI, SGLang, llama.cpp, Aphrodite, Ollama, and the OpenAI and Anthropic APIs
// that most of them serve. A member that no dialect names counts where prompts' beginnings are compared, and nowhere
// else: a template may render it. If an engine adds a name, it costs a line here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "metrics/names.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/json/member_index.hpp"

namespace weir::metrics::wire {

/// The meaning of a value, found by the keys that lead to it.
enum class RequestPlace : std::uint8_t {
  ignored,
  root,
  model,
  stream,
  stream_options,
  include_usage,
  timings_per_token,
  stored_context,  ///< Names context that the engine keeps and weir cannot see: a string, or an object with an id.
  store,           ///< False: the engine does not keep the answer.
  // Sampling.
  options,          ///< TGI's parameters or Ollama's options.
  sampling_params,  ///< SGLang's.
  max_tokens,
  preferred_max_tokens,  ///< Where a dialect has two names, this one holds.
  n,
  temperature,
  do_sample,
  top_k,
  top_p,
  typical_p,
  // Content.
  text,            ///< A string.
  content,         ///< A string or a list of parts.
  system,          ///< The same, and a message by itself.
  part,            ///< An element of content.
  messages,        ///< A list of messages.
  input,           ///< A list of messages, or a string that is one.
  message,         //
  role,            //
  prompt,          ///< A string, token ids, a mix of both, or a list of such.
  prompt_of_list,  //
  token_of_list,   //
  token_ids,       ///< A list of them.
  images,          ///< A string, or a list of them.
  image,           //
  tools,           //
  // With these the engine reads nothing of the prompt from its cache, or cuts it. Engines take "7", [7], 1 and true for
  // one another, so any value counts that is not named here. Null is as if the member were not there.
  whole_prompt,     ///< Any value.
  whole_prompt_if,  ///< True. False changes nothing.
  cache_prompt,     ///< False. True changes nothing.
  logprob_start,    ///< A number from 0 on. A negative one changes nothing.
  tool_choice,    ///< "none", or an object that names tools: some engines render no tools then, or these alone.
  // Only PrefixChain reads these; without it they are ignored.
  label,  ///< A short string that tells messages or parts apart.
  // Trees, with keys, strings, numbers and brackets. Below them every member leads to the same place.
  tool_tree,  //
  text_tree,  ///< Every string and key is text.
  seed_tree,  ///< A template renders it before the messages, or it keeps caches apart. For PrefixChain only.
  data_tree,  ///< A part's member that is no text. For PrefixChain only; no table names it.
};

constexpr bool is_tree(RequestPlace place) { return place >= RequestPlace::tool_tree; }

/// The outermost members that bring text. Each is summed by itself, because the last of duplicate members counts.
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

/// A set of sources has a bit for each.
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
  NamedBy names = NamedBy::nothing;  ///< The value is such a name.
};

constexpr RequestMember named(RequestPlace in, std::string_view key, RequestPlace place, NamedBy names) {
  return {in, key, place, RequestSource::prompt, names};
}

/// Says how a request wants its answer sampled.
struct Sampling {
  std::optional<std::uint64_t> max_tokens, preferred_max_tokens, n;
  std::optional<double> temperature;
  bool do_sample = false, top_k = false, top_p = false, typical_p = false;
};

using RequestMembers = MemberIndex<RequestMember, RequestPlace::data_tree>;

/// Returns what the members of a request to a route of `api` mean: the dialect's own members, and those that all
/// dialects have.
const RequestMembers& request_members(Api api);

}  // namespace weir::metrics::wire
