// I6: the request log, the metrics and the clients tell the same.
#include <boost/json.hpp>
#include <map>

#include "tests/integration/model/invariants.hpp"

namespace weir::model {
namespace {

using namespace integration;
using namespace std::chrono_literals;
using Line = boost::json::object;

struct Log {
  std::map<std::string, std::vector<Line>> by_client;  ///< By the name that the client gave.
  std::map<std::string, double> outcomes;
  std::size_t flooded = 0;  ///< The lines of clients of floods, which have no names.
};

Log read(std::vector<Line> lines) {
  Log log;
  for (auto& line : lines) {
    if (member(line, "role") != "primary") continue;
    ++log.outcomes[member(line, "outcome")];
    log.flooded += member(line, "replica") == "still";
    log.by_client[member(line, "client_id")].push_back(std::move(line));
  }
  return log;
}

/// Returns what differs, or "".
std::string difference(Stage& stage, const Log& log) {
  for (const auto& client : stage.clients()) {
    const auto& id = client->asked().id;
    const auto got = client->answer();
    const auto found = log.by_client.find(id);
    const auto lines = found == log.by_client.end() ? 0 : found->second.size();
    // A client that left may have left before weir knew of it.
    if (lines > 1 || (lines == 0 && !client->has_left()))
      return id + " (" + client->asked().what + ") has " + std::to_string(lines) + " lines in the log";
    if (lines == 0 || got.status == 0) continue;
    const auto& line = found->second.front();
    if (member(line, "status") != std::to_string(got.status))
      return id + " got " + std::to_string(got.status) + ", its line is " + boost::json::serialize(line);
    if (!got.replica.empty() && member(line, "replica") != got.replica)
      return id + " was answered by " + got.replica + ", its line is " + boost::json::serialize(line);
    const bool ok = member(line, "outcome") == "ok" || member(line, "outcome") == "ok_empty";
    if (!client->has_left() && got.status == 200 && ok != got.whole)
      return id + (got.whole ? " got all of it" : " got a part of it") + ", its line is " +
             boost::json::serialize(line);
  }
  if (log.flooded != stage.flooded())
    return std::to_string(stage.flooded()) + " streams of floods have " + std::to_string(log.flooded) +
           " lines in the log";
  if (stage.model().replicas_changed) return "";
  const auto metrics = stage.page().metrics;
  for (const auto& [outcome, n] : log.outcomes) {
    const auto counted = metrics.sum("weir_requests_total", {{"role", "primary"}, {"outcome", outcome}});
    if (counted != n)
      return "weir_requests_total{outcome=" + outcome + "} is " + std::to_string(counted) + ", the log has " +
             std::to_string(n);
  }
  return "";
}

}  // namespace

void log_is_what_clients_saw(Stage& stage) {
  std::string differs;
  // A line is written a moment after the answer.
  if (!Stage::look([&] { return (differs = difference(stage, read(stage.weir().all_log_lines()))).empty(); }, 10s))
    throw Violation("I6: " + differs);
}

}  // namespace weir::model
