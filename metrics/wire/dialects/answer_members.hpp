// A dialect says here where its whole answers (JSON documents, no streams) have what weir reads.
//
// The shape alone tells a whole answer's dialect, because gateways answer in another dialect than they were asked in.
// So the members of all dialects are read at once. No two dialects may give one name in one place different meanings.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "metrics/wire/engine/members.hpp"
#include "metrics/wire/json/member_index.hpp"

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
  AnswerCounts::Count AnswerCounts::*count = nullptr;
  const FigureMember* figure = nullptr;  ///< Set if the member tells of the engine's work.
};

constexpr AnswerMember counts(AnswerPlace in, std::string_view key, AnswerCounts::Count AnswerCounts::*count) {
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

}  // namespace weir::metrics::wire
