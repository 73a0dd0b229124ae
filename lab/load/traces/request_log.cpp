#include <algorithm>
#include <optional>

#include "lab/json_fields.hpp"
#include "lab/load/traces/formats.hpp"
#include "lab/load/traces/logged_prompts.hpp"
#include "lab/text.hpp"
#include "metrics/compare/samples/rfc3339.hpp"

namespace weir::lab::load::traces {
namespace {

std::optional<double> first_positive(const JsonObject& line, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const auto number = number_of(line, key); number && *number >= 1) return number;
  }
  return std::nullopt;
}

/// Returns the marks of a line; none if they are no pairs of numbers in the order of their positions.
std::vector<metrics::wire::PrefixMark> marks_of(const JsonObject& line) {
  std::vector<metrics::wire::PrefixMark> marks;
  const auto pairs = field<JsonArray>(line, "prefixes");
  if (!pairs) return marks;
  for (const JsonValue one : *pairs) {
    JsonArray pair;
    std::uint64_t position = 0, key = 0;
    if (one.get(pair) != simdjson::SUCCESS || pair.size() != 2 || pair.at(0).get(position) != simdjson::SUCCESS ||
        pair.at(1).get(key) != simdjson::SUCCESS || (!marks.empty() && position <= marks.back().position)) {
      return {};
    }
    marks.push_back({position, static_cast<std::uint32_t>(key)});
  }
  return marks;
}

bool was_refused(const JsonObject& line) {
  const auto status = number_of(line, "status");
  return (status && *status >= 400 && *status < 500) || number_of(line, "attempt") == 0.0;
}

}  // namespace

bool is_request_log(std::string_view first_line) {
  const auto line = object_of(first_line);
  return line && value_at(*line, "time") && value_at(*line, "outcome") && value_at(*line, "role");
}

Trace read_request_log(std::istream& in, std::string first_line, std::size_t limit, LogFacts& facts) {
  std::vector<LoggedPrompt> log;
  const auto read = [&](std::string_view text) -> Entry {
    const auto line = object_of(text);
    const auto time = line ? metrics::compare::samples::parse_rfc3339(text_at(*line, "time")) : std::nullopt;
    if (!time) {
      facts.damaged += in.eof() ? 0 : 1;
      return std::monostate();
    }
    if (text_at(*line, "role") == "shadow") return std::monostate();
    if (was_refused(*line)) {
      ++facts.refused;
      return std::monostate();
    }
    const auto prompt = first_positive(*line, {"prompt_tokens", "prompt_tokens_estimate"});
    const auto output = first_positive(*line, {"output_tokens", "max_tokens"});
    if (!prompt || !output) {
      ++facts.without_lengths;
      return std::monostate();
    }
    if (std::max(*prompt, *output) > most_tokens) {
      ++facts.damaged;
      return std::monostate();
    }
    LoggedPrompt logged;
    logged.at = 1e-6 * static_cast<double>(*time);
    if (const auto lasted = number_of(*line, "e2e_s")) logged.ended = logged.at + *lasted;
    logged.prompt_tokens = static_cast<std::uint64_t>(*prompt);
    logged.cached_tokens = count_of(*line, "cached_tokens");
    logged.output_tokens = static_cast<std::uint64_t>(*output);
    // A turn has a message of its own at least, so there are no more turns than tokens.
    logged.turn = static_cast<std::uint64_t>(std::min(first_positive(*line, {"turn"}).value_or(1), most_tokens));
    logged.group = number_in<std::uint64_t>(text_at(*line, "group"), 16);
    logged.replica = text_at(*line, "replica");
    logged.marks = marks_of(*line);
    log.push_back(std::move(logged));
    return std::monostate();
  };
  Trace trace = read_lines(in, std::move(first_line), 0, false, read);
  if (std::holds_alternative<std::string>(trace)) return trace;

  std::ranges::stable_sort(log, {}, &LoggedPrompt::at);
  if (limit != 0 && log.size() > limit) log.resize(limit);
  std::vector<TraceEntry> entries;
  for (const LoggedPrompt& logged : log) {
    TraceEntry& entry = entries.emplace_back();
    entry.at = logged.at - log.front().at;
    entry.prompt_tokens = logged.prompt_tokens;
    entry.output_tokens = logged.output_tokens;
    facts.keyed += logged.marks.empty() ? 0 : 1;
  }
  give_parts(log, entries, facts);
  return entries;
}

}  // namespace weir::lab::load::traces
