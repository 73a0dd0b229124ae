// A dialect says here where its whole answers (JSON documents, no streams) have what weir reads.
//
// The shape alone tells a whole answer's dialect, because gateways answer in another dialect than they were asked in.
// So the members of all dialects are read at once. No two dialects may give one name in one place different meanings.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "metrics/vocabulary.hpp"
#include "metrics/wire/engine/report.hpp"
#include "metrics/wire/json/parser.hpp"

namespace weir::metrics::wire {

/// The meaning of a value, found by the keys that lead to it.
enum class AnswerPlace : std::uint8_t {
  ignored,
  root,
  error,
  object_name,
  id,  ///< The engine may keep the answer under it.
  choices,
  choice,
  message,
  items,  ///< OpenAI Responses' output.
  item,
  content,  ///< A string or a list of parts.
  part,
  text,
  reasoning,          ///< Reasoning under its new name,
  reasoning_content,  ///< and this under its old one. If both are there, they are one text.
  thinking,           ///< Ollama's reasoning.
  calls,              ///< An object or an array of them.
  call_function,
  call_name,
  arguments,  ///< JSON in a string, or an object.
  finish_reason,
  native_reason,  ///< SGLang's, an object.
  native_reason_type,
  status,  ///< OpenAI Responses'.
  incomplete,
  incomplete_reason,
  usage,
  prompt_details,
  completion_details,
  meta_info,
  timings,
  metrics,
  drafts,
  details,
  sequences,  ///< TGI's answers that were not the best of best_of.
  ids,        ///< Token ids, or lists of them: output without a text.
  number,
};

/// Returns SGLang's own count of reasoning tokens. It writes 0 also where nobody counted, so a 0 tells nothing.
constexpr std::optional<std::uint64_t> told_by_sglang(std::optional<std::uint64_t> reasoning_tokens) {
  return reasoning_tokens == 0U ? std::nullopt : reasoning_tokens;
}

/// The numbers of one document, grouped by where they stand.
struct AnswerCounts {
  using Count = std::optional<std::uint64_t>;
  Count prompt, completion, cached;                       // A usage object has these under OpenAI's chat names.
  Count total;                                            // Where nothing is generated, it is the prompt's.
  Count input, output;                                    // Responses and Anthropic use these names; gateways give
                                                          // both.
  Count cache_created, cache_read;                        // Anthropic's; its input_tokens do not include
                                                          // them.
  Count native_prompt, native_completion, native_cached;  // An engine's own route has these.
  Count reasoning;                                        // Some of the completion.
  Count native_reasoning;                                 // SGLang's: 0 also where nobody counted.
  Count native_others;                                    // The tokens of all answers that were not the best.
  EngineReport engine;                                    // The engine reports this of its own work.

  static Count first_of(std::initializer_list<Count> counts) {
    const auto known = std::find_if(counts.begin(), counts.end(), [](Count count) { return count.has_value(); });
    return known == counts.end() ? std::nullopt : *known;
  }
  static Count sum(Count count, Count more) { return more ? plus(count, more) : std::nullopt; }
  static Count plus(Count count, Count more) { return count ? Count(*count + more.value_or(0)) : count; }
  Count all_completion() const {
    return first_of({completion, output, plus(native_completion, native_others), engine.predicted});
  }
  Count all_cached() const { return first_of({cached, cache_read, native_cached, engine.prompt_cached}); }
  Count all_reasoning() const { return first_of({reasoning, told_by_sglang(native_reasoning)}); }
  Count all_prompt() const {
    return first_of({prompt, plus(plus(input, cache_created), cache_read), native_prompt, engine.prompt()});
  }
};

struct AnswerMember {
  AnswerPlace in;
  std::string_view key;
  AnswerPlace place;
  AnswerCounts::Count AnswerCounts::* count = nullptr;
  const FigureMember* figure = nullptr;  ///< Set if the member tells of the engine's work.
};

constexpr AnswerMember counts(AnswerPlace in, std::string_view key, AnswerCounts::Count AnswerCounts::* count) {
  return {in, key, AnswerPlace::number, count};
}

/// An object whose members are an engine's figures.
struct AnswerFigures {
  AnswerPlace in;
  std::span<const FigureMember> members;
};

using AnswerMembers = MemberIndex<AnswerMember, AnswerPlace::number>;

/// Returns what the members of an answer mean in any dialect.
const AnswerMembers& answer_members();

// A dialect says here what the members of its requests mean. Each member leads from one place to the next.
//
// The names are the engines' own: vLLM, TGI, SGLang, llama.cpp, Aphrodite, Ollama, and the OpenAI and Anthropic APIs
// that most of them serve. A member that no dialect names counts where prompts' beginnings are compared, and nowhere
// else: a template may render it. If an engine adds a name, it costs a line here.

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
  tool_choice,      ///< "none", or an object that names tools: some engines render no tools then, or these alone.
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
