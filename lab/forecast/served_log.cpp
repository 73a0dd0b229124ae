#include "lab/forecast/served_log.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <variant>

#include "lab/json_fields.hpp"
#include "lab/text.hpp"
#include "metrics/compare/samples/rfc3339.hpp"

namespace weir::lab::forecast {
namespace {

struct Line {
  LoggedRequest request;  ///< `arrived` is in Unix seconds; `sent` and `ended` count from it.
  std::string text, replica;
  std::string group;
};

/// Returns a line that says what a replica did, or nothing.
std::optional<Line> read_line(const JsonObject& object, std::int64_t at) {
  const std::string_view replica = text_at(object, "replica");
  const auto prompt = number_of(object, "prompt_tokens"), output = number_of(object, "output_tokens");
  const auto ended = number_of(object, "e2e_s");
  if (!flag_at(object, "served") || replica.empty() || !ended) return std::nullopt;
  if (prompt.value_or(0) < 1 || output.value_or(0) < 1) return std::nullopt;
  Line line;
  line.replica = replica;
  line.group = text_at(object, "group");
  LoggedRequest& request = line.request;
  request.arrived = 1e-6 * static_cast<double>(at);
  request.sent = number_of(object, "queue_s").value_or(0);
  request.ended = *ended;
  request.ttft = number_of(object, "ttft_s");
  request.tpot = number_of(object, "tpot_s");
  request.prompt_tokens = static_cast<std::uint64_t>(*prompt);
  request.output_tokens = static_cast<std::uint64_t>(*output);
  request.cached_tokens = std::min(count_of(object, "cached_tokens"), request.prompt_tokens - 1);
  if (const auto most = count_of(object, "max_tokens"); most > 0) request.max_tokens = most;
  return line;
}

std::vector<Line> read_lines(std::istream& in, const ServedLogSettings& settings, std::uint64_t& left_out) {
  std::vector<Line> lines;
  std::set<std::string> pools;
  std::string text;
  for (std::size_t number = 1; std::getline(in, text); ++number) {
    if (text.empty()) continue;
    const auto object = object_of(text);
    const auto at = object ? metrics::compare::samples::parse_rfc3339(text_at(*object, "time")) : std::nullopt;
    if (!at) {
      if (in.eof()) break;  // The last line has no end: it is being written.
      throw std::invalid_argument("line " + std::to_string(number) + ": expected a line of weir's request log, got \"" +
                                  text.substr(0, 100) + "\"");
    }
    if (text_at(*object, "role") == "shadow") continue;
    const std::string pool(text_at(*object, "pool"));
    if (!settings.pool.empty() && pool != settings.pool) continue;
    auto line = read_line(*object, *at);
    if (!line) {
      ++left_out;
      continue;
    }
    pools.insert(pool);
    line->text = std::move(text);
    lines.push_back(*std::move(line));
  }
  if (pools.size() > 1) {
    std::string names;
    for (const std::string& pool : pools) names += (names.empty() ? "" : ", ") + (pool.empty() ? "(none)" : pool);
    throw std::invalid_argument("the log has requests of several pools (" + names + "); choose one with --pool");
  }
  return lines;
}

}  // namespace

ServedLog read_served_log(std::istream& in, const ServedLogSettings& settings) {
  ServedLog log;
  std::vector<Line> lines = read_lines(in, settings, log.left_out);
  std::ranges::stable_sort(lines, {}, [](const Line& line) { return line.request.arrived; });
  if (settings.most_requests != 0 && lines.size() > settings.most_requests) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(settings.most_requests));
  }
  if (lines.size() < least_requests) {
    throw std::invalid_argument(
        "the log has " + counted(lines.size(), "request") +
        " that a replica served, with prompt_tokens, output_tokens and e2e_s; at least " +
        std::to_string(least_requests) + " are needed. " +
        (log.left_out > 0 ? "Left out were " + std::to_string(log.left_out) + " that failed or tell too little"
                          : std::string("A longer log has more")));
  }
  if (lines.back().request.arrived <= lines.front().request.arrived) {
    throw std::invalid_argument("all requests of the log arrived at one moment");
  }

  std::map<std::string, std::size_t> places;
  for (const Line& line : lines) places.emplace(line.replica, 0);
  for (auto& [name, place] : places) {
    place = log.replicas.size();
    log.replicas.push_back(name);
  }
  const double first = lines.front().request.arrived;
  std::unordered_map<std::string, std::size_t> turns;
  std::set<std::string> conversations;
  std::stringstream texts;
  std::size_t streams = 0;
  for (Line& line : lines) {
    LoggedRequest& request = log.requests.emplace_back(std::move(line.request));
    request.arrived -= first;
    request.sent += request.arrived;
    request.ended += request.arrived;
    request.replica = places.at(line.replica);
    log.cached_tokens_told = log.cached_tokens_told || request.cached_tokens > 0;
    streams += request.ttft && request.tpot ? 1 : 0;
    texts << line.text << '\n';
    if (line.group.empty()) continue;
    const auto [turn, is_first] = turns.try_emplace(line.group, log.requests.size() - 1);
    if (!is_first) {
      if (log.requests[turn->second].ended <= request.arrived) request.parent = turn->second;
      turn->second = log.requests.size() - 1;
      conversations.insert(line.group);
    }
  }
  log.conversations = conversations.size();
  if (streams < least_requests / 2) {
    throw std::invalid_argument("only " + std::to_string(streams) +
                                " lines have both ttft_s and tpot_s, from which an engine's constants are fitted; " +
                                "at least " + std::to_string(least_requests / 2) + " streams are needed");
  }
  auto trace = load::read_trace(texts, 0);
  if (const auto* wrong = std::get_if<std::string>(&trace)) throw std::invalid_argument(*wrong);
  log.trace = std::get<std::vector<load::TraceEntry>>(std::move(trace));
  return log;
}

}  // namespace weir::lab::forecast
