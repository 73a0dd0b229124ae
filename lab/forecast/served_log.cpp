#include "lab/forecast/served_log.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include "lab/load/traces/formats.hpp"
#include "lab/text.hpp"

namespace weir::lab::forecast {
namespace {

using load::traces::LoggedLine;
using load::traces::LoggedLines;

struct Line {
  const LoggedLine* logged = nullptr;
  LoggedRequest request;  ///< `arrived` is in Unix seconds; `sent` and `ended` count from it.
  std::string replica;
};

/// A line that says no more than that a replica was there.
struct Seen {
  double at = 0;  ///< Unix seconds.
  std::string replica;
};

/// Returns a line that says what a replica did, or nothing.
std::optional<Line> read_line(const LoggedLine& logged, const LoggedLines& log) {
  const auto& sample = logged.sample;
  // A time is part of what the request took. One that is not was never measured.
  const auto within = [&](double time) {
    return time <= static_cast<double>(sample.e2e) ? std::optional(time) : std::nullopt;
  };
  const auto is_length = [](std::uint32_t tokens) { return tokens >= 1 && tokens <= load::traces::most_tokens; };
  const std::uint32_t prompt = sample.prompt_tokens, output = logged.replay.output_tokens;
  if (!sample.served || sample.replica == 0 || std::isnan(sample.e2e) || !is_length(prompt) || !is_length(output))
    return std::nullopt;
  Line line{&logged, {}, log.name(sample.replica)};
  LoggedRequest& request = line.request;
  request.arrived = logged.at();
  request.sent = within(1e-6 * static_cast<double>(sample.dispatched_us - sample.received_us)).value_or(0);
  request.ended = static_cast<double>(sample.e2e);
  request.ttft = within(static_cast<double>(sample.ttft));
  request.tpot = within(static_cast<double>(sample.tpot));
  request.prompt_tokens = prompt;
  request.output_tokens = output;
  request.cached_tokens = sample.cached_tokens < prompt ? sample.cached_tokens : 0;
  if (const auto most = logged.replay.max_tokens; most > 0 && most != metrics::compare::samples::unknown_count)
    request.max_tokens = most;
  return line;
}

/// Returns the lines of the pool that say what a replica did. Others say no more than that a replica was there.
std::vector<Line> lines_of(const LoggedLines& read, const ServedLogSettings& settings, std::vector<Seen>& others) {
  std::vector<Line> lines;
  std::set<std::string> pools, all_pools;
  for (const LoggedLine& logged : read.lines) {
    const std::string pool = read.name(logged.sample.pool);
    all_pools.insert(pool);
    if (!settings.pool.empty() && pool != settings.pool) continue;
    load::LogFacts refused;
    auto line = load::traces::prompt_of(logged, read, refused) ? read_line(logged, read) : std::nullopt;
    if (!line) {
      others.push_back({logged.at(), read.name(logged.sample.replica)});
      continue;
    }
    pools.insert(pool);
    lines.push_back(*std::move(line));
  }
  if (all_pools.empty() && read.damaged > 0) {
    throw std::invalid_argument("line " + std::to_string(read.first_damaged) +
                                ": expected a line of weir's request log, got \"" + read.damaged_text + "\"");
  }
  const auto names_of = [](const std::set<std::string>& some) {
    std::string names;
    for (const std::string& pool : some)
      names += (names.empty() ? "" : ", ") + (pool.empty() ? "(none)" : config::printable(pool));
    return names;
  };
  if (pools.size() > 1)
    throw std::invalid_argument("the log has requests of several pools (" + names_of(pools) +
                                "); choose one with --pool");
  if (!settings.pool.empty() && !all_pools.empty() && !all_pools.contains(settings.pool))
    throw std::invalid_argument("no request of the log is of the pool \"" + settings.pool + "\"; its pools are " +
                                names_of(all_pools));
  return lines;
}

/// Names the replicas: those of the lines, and of other lines of their time, failed requests for example.
void name_replicas(ServedLog& log, std::span<const Line> lines, std::span<const Seen> others,
                   const ServedLogSettings& settings) {
  std::set<std::string> names, before;
  for (const Line& line : lines) names.insert(line.replica);
  for (const Seen& seen : others)
    if (!seen.replica.empty()) (seen.at >= lines.front().request.arrived ? names : before).insert(seen.replica);
  log.replicas.assign(names.begin(), names.end());
  std::ranges::set_difference(before, names, std::back_inserter(log.before));
  if (settings.replicas == 0) return;
  if (settings.replicas < names.size()) {
    throw std::invalid_argument("the log has requests of " + counted(names.size(), "replica") + ", and not of " +
                                std::to_string(settings.replicas));
  }
  for (std::size_t n = 1; log.replicas.size() < settings.replicas; ++n)
    log.replicas.push_back("idle " + std::to_string(n));
}

}  // namespace

std::string ServedLog::damaged_lines() const {
  if (damaged == 0) return "";
  return counted(damaged, "line") + " cannot be read and " + (damaged == 1 ? "is" : "are") + " skipped, the first is " +
         "line " + std::to_string(first_damaged);
}

ServedLog read_served_log(std::istream& in, const ServedLogSettings& settings) {
  if (settings.most_requests != 0 && settings.most_requests < least_requests)
    throw std::invalid_argument("the last " + counted(settings.most_requests, "request") + " are too few; at least " +
                                std::to_string(least_requests) + " are needed, or 0 for all (--requests)");
  ServedLog log;
  std::string first_line;
  std::getline(in, first_line);
  if (is_compressed(first_line)) throw std::invalid_argument(std::string(compressed_file));
  const LoggedLines read = load::traces::read_logged_lines(in, std::move(first_line));
  log.damaged = read.damaged;
  log.first_damaged = read.first_damaged;
  std::vector<Seen> others;
  std::vector<Line> lines = lines_of(read, settings, others);
  log.left_out = others.size();
  std::ranges::stable_sort(lines, {}, [](const Line& line) { return line.request.arrived; });
  if (settings.most_requests != 0 && lines.size() > settings.most_requests) {
    const auto begin = lines.end() - static_cast<std::ptrdiff_t>(settings.most_requests);
    for (auto line = lines.begin(); line != begin; ++line)
      others.push_back({line->request.arrived, std::move(line->replica)});
    lines.erase(lines.begin(), begin);
  }
  if (lines.size() < least_requests) {
    throw std::invalid_argument(
        "the log has " + counted(lines.size(), "request") +
        " that a replica served, with prompt_tokens, output_tokens and e2e_s; at least " +
        std::to_string(least_requests) + " are needed. " +
        (log.left_out > 0 ? "Left out were " + std::to_string(log.left_out) + " that failed or tell too little"
                          : std::string("A longer log has more")) +
        (log.damaged > 0 ? "; " + log.damaged_lines() : ""));
  }
  if (lines.back().request.arrived <= lines.front().request.arrived) {
    throw std::invalid_argument("all requests of the log arrived at one moment");
  }

  name_replicas(log, lines, others, settings);
  std::map<std::string, std::size_t> places;
  for (std::size_t r = 0; r < log.replicas.size(); ++r) places.emplace(log.replicas[r], r);
  const double first = lines.front().request.arrived;
  std::vector<load::traces::LoggedPrompt> prompts;
  std::size_t streams = 0;
  for (Line& line : lines) {
    LoggedRequest& request = log.requests.emplace_back(line.request);
    request.arrived -= first;
    request.sent += request.arrived;
    request.ended += request.arrived;
    request.replica = places.at(line.replica);
    log.cached_tokens_told = log.cached_tokens_told || request.cached_tokens > 0;
    streams += request.ttft && request.tpot ? 1 : 0;
    prompts.push_back(*load::traces::prompt_of(*line.logged, read, log.facts));
  }
  if (streams < least_requests / 2) {
    throw std::invalid_argument("only " + std::to_string(streams) +
                                " lines have both ttft_s and tpot_s, from which an engine's constants are fitted; " +
                                "at least " + std::to_string(least_requests / 2) + " streams are needed");
  }
  log.trace = load::traces::entries_of(prompts, log.facts);
  std::set<std::uint64_t> conversations;
  for (const load::TraceEntry& entry : log.trace)
    if (entry.parent) conversations.insert(entry.conversation);
  log.conversations = conversations.size();
  return log;
}

}  // namespace weir::lab::forecast
