#include "lab/load/traces/formats.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lab/text.hpp"
#include "metrics/compare/samples/log_reading.hpp"

namespace weir::lab::load::traces {
namespace {

/// The columns that are read; others may stand between them.
struct Columns {
  std::string_view time, prompt, output;
  std::string_view session{}, lasted{};  ///< Conversations, and the seconds that a request took; "" if there are none.
};
constexpr Columns formats[] = {
    {"TIMESTAMP", "ContextTokens", "GeneratedTokens"},  // Azure: 2023, 2024, and 2025 with NumImages
    {"Timestamp", "Request tokens", "Response tokens", "Session ID", "Elapsed time"},  // BurstGPT
};

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const auto comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == line.npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

std::optional<std::size_t> column(std::span<const std::string_view> all, std::string_view name) {
  const auto found = std::ranges::find(all, name);
  return found == all.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - all.begin()));
}

const Columns* columns_of(std::string_view first_line) {
  const auto all = fields_of(first_line);
  const auto found = std::ranges::find_if(formats, [&all](const Columns& one) {
    return column(all, one.time) && column(all, one.prompt) && column(all, one.output);
  });
  return found == std::end(formats) ? nullptr : found;
}

/// Reads a number of seconds, or a date with a time, of UTC unless it names its zone. Returns microseconds, which are
/// exact.
std::optional<double> time_in(std::string_view text) {
  if (const auto seconds = number_in<double>(text))
    return std::abs(*seconds) <= most_seconds ? std::optional(std::round(*seconds * 1e6)) : std::nullopt;
  auto time = metrics::compare::samples::parse_rfc3339(text);
  if (!time) time = metrics::compare::samples::parse_rfc3339(std::string(text) + 'Z');
  return time ? std::optional(static_cast<double>(*time)) : std::nullopt;
}

std::optional<std::uint64_t> tokens_in(std::string_view text) {
  const auto tokens = number_in<std::uint64_t>(text);
  if (!tokens || static_cast<double>(*tokens) > most_tokens) return std::nullopt;
  return std::max<std::uint64_t>(1, *tokens);
}

}  // namespace

bool is_csv(std::string_view first_line) { return columns_of(first_line) != nullptr; }

Trace read_csv(std::istream& in, std::string first_line, std::size_t limit, LogFacts&) {
  const std::string head = std::move(first_line);
  const Columns& names = *columns_of(head);
  const auto all = fields_of(head);
  const std::size_t time = *column(all, names.time), prompt = *column(all, names.prompt),
                    output = *column(all, names.output), count = all.size();
  const auto session = column(all, names.session), lasted = column(all, names.lasted);
  struct Turn {
    std::size_t entry = 0;
    double ended = 0;
  };
  std::unordered_map<std::string, Turn> turns;
  std::optional<double> first;
  std::size_t number = 0;
  // The line of the columns has been read, and stands here as an empty one.
  return read_lines(in, "", limit, true, [&](std::string_view text) -> Entry {
    const auto fields = fields_of(text);
    const bool whole = fields.size() == count;
    const auto at = whole ? time_in(fields[time]) : std::nullopt;
    const auto input = whole ? tokens_in(fields[prompt]) : std::nullopt;
    const auto made = whole ? tokens_in(fields[output]) : std::nullopt;
    if (!at || !input || !made) {
      return "expected " + counted(count, "field") + ", of them a time (YYYY-MM-DD HH:MM:SS, or seconds), " +
             std::string(names.prompt) + " and " + std::string(names.output) + ", got \"" + beginning_of(text) + "\"";
    }
    if (!first) first = *at;
    TraceEntry entry{(*at - *first) / 1e6, *input, *made};
    entry.conversation = number;
    if (session && !fields[*session].empty()) {
      const double took = lasted ? number_in<double>(fields[*lasted]).value_or(0) : 0;
      const Turn turn{number, entry.at + std::max(0.0, took)};
      const auto [last, is_first] = turns.try_emplace(std::string(fields[*session]), turn);
      if (!is_first && last->second.ended <= entry.at) {
        entry.parent = last->second.entry;
        entry.think = entry.at - last->second.ended;
      }
      last->second = turn;
    }
    ++number;
    return entry;
  });
}

namespace {

namespace samples = metrics::compare::samples;

samples::LineKind read_line(std::string text, samples::Names& names, LoggedLine& line) {
  const std::size_t size = text.size();
  text.append(samples::line_padding, ' ');
  const auto kind = samples::read_log_line(std::string_view(text).substr(0, size), names, line.sample, &line.replay);
  return kind == samples::LineKind::warm_up ? samples::LineKind::request : kind;  // It was sent like all others.
}

/// Returns the first that is known and not 0.
std::optional<std::uint32_t> first_of(std::uint32_t first, std::uint32_t second) {
  for (const std::uint32_t count : {first, second}) {
    if (count != samples::unknown_count && count > 0) return count;
  }
  return std::nullopt;
}

}  // namespace

LoggedLines read_logged_lines(std::istream& in, std::string first_line) {
  LoggedLines log;
  std::string text = std::move(first_line);
  std::size_t number = 1;
  do {
    trim(text);
    if (text.empty()) continue;
    LoggedLine line;
    if (read_line(text, log.names, line) == samples::LineKind::request) {
      line.sample.gaps = {};
      if (line.sample.role != metrics::Role::shadow) log.lines.push_back(std::move(line));
    } else if (!in.eof() && log.damaged++ == 0) {
      log.first_damaged = number;
      log.damaged_text = beginning_of(text);
    }
  } while (++number, std::getline(in, text));
  return log;
}

std::optional<LoggedPrompt> prompt_of(const LoggedLine& line, const LoggedLines& log, LogFacts& facts) {
  const samples::Sample& sample = line.sample;
  if ((sample.status >= 400 && sample.status < 500) || line.replay.attempt == 0) {
    ++facts.refused;
    return std::nullopt;
  }
  const auto prompt = first_of(sample.prompt_tokens, line.replay.prompt_tokens_estimate);
  const auto output = first_of(line.replay.output_tokens, line.replay.max_tokens);
  if (!prompt || !output || std::max(*prompt, *output) > most_tokens) {
    ++facts.without_lengths;
    return std::nullopt;
  }
  LoggedPrompt logged;
  logged.at = line.at();
  if (!std::isnan(sample.e2e)) logged.ended = logged.at + static_cast<double>(sample.e2e);
  logged.prompt_tokens = *prompt;
  logged.cached_tokens = first_of(sample.cached_tokens, 0).value_or(0);
  logged.output_tokens = *output;
  // A turn has a message of its own at least, so there are no more turns than tokens.
  logged.turn = std::min<std::uint64_t>(std::max(sample.turn, 1U), static_cast<std::uint64_t>(most_tokens));
  if (sample.group != 0) logged.group = sample.group;
  logged.replica = log.name(sample.replica);
  logged.marks = line.replay.prefixes;
  return logged;
}

std::vector<TraceEntry> entries_of(const std::vector<LoggedPrompt>& log, LogFacts& facts) {
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

bool is_request_log(std::string_view first_line) {
  samples::Names names;
  LoggedLine line;
  return read_line(std::string(first_line), names, line) == samples::LineKind::request;
}

Trace read_request_log(std::istream& in, std::string first_line, std::size_t limit, LogFacts& facts) {
  const LoggedLines lines = read_logged_lines(in, std::move(first_line));
  facts.damaged = lines.damaged;
  std::vector<LoggedPrompt> log;
  for (const LoggedLine& line : lines.lines) {
    if (auto prompt = prompt_of(line, lines, facts)) log.push_back(*std::move(prompt));
  }
  std::ranges::stable_sort(log, {}, &LoggedPrompt::at);
  if (limit != 0 && log.size() > limit) log.resize(limit);
  return entries_of(log, facts);
}

}  // namespace weir::lab::load::traces
