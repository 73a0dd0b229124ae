#include <algorithm>
#include <cmath>
#include <optional>

#include "lab/load/traces/formats.hpp"
#include "lab/load/traces/logged_lines.hpp"
#include "lab/text.hpp"

namespace weir::lab::load::traces {
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
