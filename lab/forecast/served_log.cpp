#include "lab/forecast/served_log.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <variant>

#include "lab/json_fields.hpp"
#include "lab/load/traces/formats.hpp"
#include "lab/text.hpp"
#include "metrics/compare/samples/rfc3339.hpp"

namespace weir::lab::forecast {
namespace {

struct Line {
  LoggedRequest request;  ///< `arrived` is in Unix seconds; `sent` and `ended` count from it.
  std::string text, replica;
};

/// A line that says no more than that a replica was there.
struct Seen {
  double at = 0;  ///< Unix seconds.
  std::string replica;
};

/// Returns a line that says what a replica did, or nothing.
std::optional<Line> read_line(const JsonObject& object, std::int64_t at) {
  const std::string_view replica = text_at(object, "replica");
  const auto prompt = number_of(object, "prompt_tokens"), output = number_of(object, "output_tokens");
  // A time is part of what the request took. One that is not was never measured.
  constexpr double longest = 1e7;
  const auto seconds = [&](std::string_view key, double most) {
    const auto time = number_of(object, key);
    return time && *time >= 0 && *time <= most ? time : std::nullopt;
  };
  const auto ended = seconds("e2e_s", longest);
  if (!flag_at(object, "served") || replica.empty() || !ended) return std::nullopt;
  const auto is_length = [](const std::optional<double>& tokens) {
    return tokens && *tokens >= 1 && *tokens <= load::traces::most_tokens;
  };
  if (!is_length(prompt) || !is_length(output)) return std::nullopt;
  Line line;
  line.replica = replica;
  LoggedRequest& request = line.request;
  request.arrived = 1e-6 * static_cast<double>(at);
  request.sent = seconds("queue_s", *ended).value_or(0);
  request.ended = *ended;
  request.ttft = seconds("ttft_s", *ended);
  request.tpot = seconds("tpot_s", *ended);
  request.prompt_tokens = static_cast<std::uint64_t>(*prompt);
  request.output_tokens = static_cast<std::uint64_t>(*output);
  request.cached_tokens = std::min(count_of(object, "cached_tokens"), request.prompt_tokens - 1);
  if (const auto most = count_of(object, "max_tokens"); most > 0) request.max_tokens = most;
  return line;
}

/// Puts lines that cannot be read into `log`, and those that say no more than that a replica was there into `others`.
std::vector<Line> read_lines(std::istream& in, const ServedLogSettings& settings, ServedLog& log,
                             std::vector<Seen>& others) {
  std::vector<Line> lines;
  std::set<std::string> pools, all_pools;
  std::string text, first_damaged;
  for (std::size_t number = 1; std::getline(in, text); ++number) {
    if (text.empty()) continue;
    if (number == 1 && is_compressed(text)) throw std::invalid_argument(std::string(compressed_file));
    const auto object = object_of(text);
    const auto at = object ? metrics::compare::samples::parse_rfc3339(text_at(*object, "time")) : std::nullopt;
    if (!at) {
      if (in.eof()) break;  // The last line has no end: it is being written.
      if (log.damaged++ == 0) {
        log.first_damaged = number;
        first_damaged = beginning_of(text);
      }
      continue;
    }
    if (text_at(*object, "role") == "shadow") continue;
    const std::string pool(text_at(*object, "pool"));
    all_pools.insert(pool);
    if (!settings.pool.empty() && pool != settings.pool) continue;
    auto line = read_line(*object, *at);
    if (!line) {
      others.push_back({1e-6 * static_cast<double>(*at), std::string(text_at(*object, "replica"))});
      continue;
    }
    pools.insert(pool);
    line->text = std::move(text);
    lines.push_back(*std::move(line));
  }
  if (all_pools.empty() && log.damaged > 0) {
    throw std::invalid_argument("line " + std::to_string(log.first_damaged) +
                                ": expected a line of weir's request log, got \"" + first_damaged + "\"");
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
  std::vector<Seen> others;
  std::vector<Line> lines = read_lines(in, settings, log, others);
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
  std::stringstream texts;
  std::size_t streams = 0;
  for (Line& line : lines) {
    LoggedRequest& request = log.requests.emplace_back(line.request);
    request.arrived -= first;
    request.sent += request.arrived;
    request.ended += request.arrived;
    request.replica = places.at(line.replica);
    log.cached_tokens_told = log.cached_tokens_told || request.cached_tokens > 0;
    streams += request.ttft && request.tpot ? 1 : 0;
    texts << line.text << '\n';
  }
  if (streams < least_requests / 2) {
    throw std::invalid_argument("only " + std::to_string(streams) +
                                " lines have both ttft_s and tpot_s, from which an engine's constants are fitted; " +
                                "at least " + std::to_string(least_requests / 2) + " streams are needed");
  }
  auto trace = load::read_trace(texts, 0, &log.facts);
  if (const auto* wrong = std::get_if<std::string>(&trace)) throw std::invalid_argument(*wrong);
  log.trace = std::get<std::vector<load::TraceEntry>>(std::move(trace));
  if (log.trace.size() != log.requests.size())
    throw std::invalid_argument(
        "some lines have \"served\":true and a status of 4xx or no attempt: no weir wrote them");
  std::set<std::uint64_t> conversations;
  for (const load::TraceEntry& entry : log.trace)
    if (entry.parent) conversations.insert(entry.conversation);
  log.conversations = conversations.size();
  return log;
}

}  // namespace weir::lab::forecast
