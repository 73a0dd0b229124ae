// The formats of traces, and what their readers have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lab/load/trace.hpp"
#include "lab/load/traces/logged_prompts.hpp"
#include "metrics/compare/samples/log_reading.hpp"

namespace weir::lab::load::traces {

/// Entries, or a sentence that says what is wrong.
using Trace = std::variant<std::vector<TraceEntry>, std::string>;

/// The reading of one line: an entry; nothing, if it has none; or a sentence that goes on behind "line N: ".
using Entry = std::variant<std::monostate, TraceEntry, std::string>;

/// Reads line by line, the first of which has been taken already, until there are `limit` entries (0 means all). Blank
/// lines are skipped. With `in_order`, an entry before the one above it is an error.
Trace read_lines(std::istream& in, std::string first, std::size_t limit, bool in_order,
                 const std::function<Entry(std::string_view)>& read);

/// A prompt or an answer of more tokens is a mistake in the file.
inline constexpr double most_tokens = 1e7;

/// A timestamp far from those of this age is a mistake, and would not fit a timer.
inline constexpr double most_seconds = 4e9;

/// A token of an answer takes so long where a trace tells no ends.
inline constexpr double token_s = 0.03;

/// Returns the number of a text of which two numbers tell what it is.
constexpr std::uint64_t named(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t x = (a ^ b * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  return x ^ x >> 31;
}

/// Takes the line break's carriage return away.
void trim(std::string& line);

/// CSV of arrivals and lengths behind a line of the columns: Azure's traces of LLM inference (AzurePublicDataset; of
/// 2025's images only the count is known, and none are sent) and BurstGPT's, whose third one has conversations. A turn
/// of a conversation is one if the turn before it had ended; their prompts have no text in common.
bool is_csv(std::string_view first_line);
Trace read_csv(std::istream& in, std::string first_line, std::size_t limit, LogFacts& facts);

/// Mooncake's traces have a JSON object a line with `timestamp` (milliseconds), `input_length`, `output_length` and
/// `hash_ids`, one for each 512 tokens of the prompt. The same id is the same text behind the same text, so that
/// prompts share prefixes as those of the trace did.
///
/// AIPerf's lines may besides have `session_id`. A session's lines are its turns in order, and `input_length` is then
/// what the turn adds to what was said before, unless `context_mode` says message_array. `delay` is the milliseconds
/// from the end of the turn before. A session without `timestamp` begins with the one above, and a turn comes token_s a
/// token of the answer and the delay later. Of `text_input` the length by the lab's tokenizer counts; equal texts stay
/// equal.
bool is_mooncake(std::string_view first_line);
Trace read_mooncake(std::istream& in, std::string first_line, std::size_t limit, LogFacts& facts);

/// Qwen-Bailian's traces (qwen-bailian-usagetraces-anon) have a JSON object a line with `chat_id`, `parent_chat_id` (-1
/// where there is none), `timestamp` (seconds), `input_length`, `output_length`, `turn`, and `hash_ids`, one for each
/// 16 tokens of the prompt. A turn's parent is the request of that chat id further up; where none is, it has none.
///
/// A line may have `think`, the seconds from the parent's end to the turn. Where it is missing, it is the time between
/// their arrivals less what the parent's answer took at token_s a token, because the traces tell no ends.
bool is_bailian(std::string_view first_line);
Trace read_bailian(std::istream& in, std::string first_line, std::size_t limit, LogFacts& facts);

/// A request log of weir's, or of `weir-lab load --log`: arrivals, lengths and turns of what was served once. It holds
/// no texts, so prompts are made up; what they have in common is what the log tells of it (logged_prompts.hpp). A
/// shadow's lines are no arrivals and are left out. The lines stand in the order in which requests ended; they are put
/// into that of their arrivals.
bool is_request_log(std::string_view first_line);
Trace read_request_log(std::istream& in, std::string first_line, std::size_t limit, LogFacts& facts);

// The lines of a request log, for those who send its requests again or simulate them.

struct LoggedLine {
  metrics::compare::samples::Sample sample;
  metrics::compare::samples::ForReplay replay;

  double at() const { return 1e-6 * static_cast<double>(sample.received_us); }  ///< Unix seconds.
};

struct LoggedLines {
  std::vector<LoggedLine> lines{};  ///< Those of requests, in their order; a shadow's lines are left out.
  metrics::compare::samples::Names names{};
  std::uint64_t damaged = 0;      ///< Other lines. The last line of the log does not count if it has no end.
  std::size_t first_damaged = 0;  ///< The number of the first such line, from 1 on.
  std::string damaged_text{};     ///< Its beginning.

  std::string name(metrics::compare::samples::Names::Name of) const { return std::string(names.text(of)); }
};

/// Reads to the end; the first line has been taken already. A last line without a newline is being written.
LoggedLines read_logged_lines(std::istream& in, std::string first_line);

/// Returns what a line tells of its prompt; nothing if the request was refused, or tells no lengths that a request can
/// have, which `facts` count.
std::optional<LoggedPrompt> prompt_of(const LoggedLine& line, const LoggedLines& log, LogFacts& facts);

/// Makes entries of prompts in the order of their arrivals.
std::vector<TraceEntry> entries_of(const std::vector<LoggedPrompt>& log, LogFacts& facts);

}  // namespace weir::lab::load::traces
