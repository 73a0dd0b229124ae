#include "tests/integration/chaos/reckoning.hpp"

#include <boost/json.hpp>
#include <map>
#include <set>
#include <sstream>

namespace weir::chaos {
namespace {

using integration::member;
using Line = boost::json::object;

std::string tell(const Seen& seen, const Line& line) {
  static constexpr const char* ends[]{"whole", "cut", "left", "nothing"};
  std::ostringstream text;
  text << seen.id << ", request " << seen.on_connection << " of its connection: the client saw "
       << ends[static_cast<int>(seen.end)] << (seen.reset ? " by a reset, " : " ") << seen.status << " of '"
       << seen.replica << "' with " << seen.bytes << " bytes" << (seen.complete ? ", complete" : "")
       << (seen.error ? ", an error event" : "") << "; the log says " << boost::json::serialize(line);
  return text.str();
}

/// Returns what is wrong with what weir says of a request, or "".
std::string disagreement(const Seen& seen, const Line& line) {
  const auto outcome = member(line, "outcome");
  const bool ok = outcome == "ok" || outcome == "ok_empty";
  if (seen.wrong) return "the client has bytes that the replica did not send so";
  if (seen.end == Seen::End::left) return "";
  if (seen.complete && !ok) return "the client has all, and weir counts no success";
  if (seen.end == Seen::End::cut && ok) return "the client was cut, and weir counts a success";
  if (seen.end == Seen::End::whole && seen.error && ok) return "the client has an error, and weir counts a success";
  if (seen.end == Seen::End::nothing && outcome != "client_abort") return "the client has nothing";
  if (seen.end == Seen::End::nothing) return "";
  if (member(line, "status") != std::to_string(seen.status)) return "the status differs";
  if (member(line, "id") != seen.weir_id) return "x-weir-id differs";
  if (!seen.replica.empty() && member(line, "replica") != seen.replica) return "the replica differs";
  if (!seen.replica.empty() && outcome != "client_abort" && member(line, "bytes_out") != std::to_string(seen.bytes))
    return "the bytes differ";
  return "";
}

using Counts = std::map<std::pair<std::string, std::string>, double>;

}  // namespace

std::vector<std::string> disagreements(const std::vector<Seen>& seen, const integration::WeirUnderTest& weir) {
  std::vector<std::string> all;
  std::map<std::string, Line> lines;
  std::set<std::string> weir_ids;
  Counts logged;
  double shadows = 0;
  std::istringstream log(weir.log_text());
  for (std::string text; std::getline(log, text);) {
    auto line = boost::json::parse(text).as_object();
    const auto dropped = line.if_contains("drop_reason");
    if (member(line, "role") == "shadow") {
      shadows += dropped == nullptr || dropped->is_null();
      continue;
    }
    if (!weir_ids.insert(member(line, "id")).second) all.push_back("the log has an id twice: " + text);
    const auto replica = member(line, "replica");
    ++logged[{replica == "null" ? "" : replica, member(line, "outcome")}];
    const auto id = member(line, "client_id");
    if (!lines.emplace(id, std::move(line)).second) all.push_back("the log has a request twice: " + text);
  }
  for (const auto& one : seen) {
    const auto found = lines.find(one.id);
    if (found == lines.end()) {
      // A reset can overtake the request, or meet a connection that weir was closing: weir has seen nothing then.
      if (one.end == Seen::End::left && one.reset && one.status == 0) continue;
      all.push_back("weir has not logged what a client asked: " + tell(one, {}));
      continue;
    }
    if (const auto what = disagreement(one, found->second); !what.empty())
      all.push_back(what + ": " + tell(one, found->second));
    lines.erase(found);
  }
  for (const auto& [id, line] : lines)
    all.push_back("weir has logged what nobody asked: " + boost::json::serialize(line));

  const auto page = weir.metrics();
  double sum = 0;
  for (const auto& [what, n] : logged) {
    const auto counted =
        page.sum("weir_requests_total", {{"replica", what.first}, {"outcome", what.second}, {"role", "primary"}});
    sum += n;
    if (counted != n)
      all.push_back("of replica '" + what.first + "' the log has " + std::to_string(n) + " " + what.second +
                    " and weir_requests_total " + std::to_string(counted));
  }
  for (const auto* const series : {"weir_requests_total", "weir_api_requests_total"}) {
    const auto total = page.sum(series, {{"role", "primary"}});
    if (total != sum)
      all.push_back(std::string(series) + " is " + std::to_string(total) + ", the log has " + std::to_string(sum));
    const auto of_shadow = page.sum(series, {{"role", "shadow"}});
    if (of_shadow != shadows)
      all.push_back(std::string(series) + " of the shadow is " + std::to_string(of_shadow) + ", the log has " +
                    std::to_string(shadows));
  }
  if (const auto lost = page.sum("weir_log_lines_dropped_total"); lost > 0)
    all.push_back(std::to_string(lost) + " lines of the log were dropped");
  for (const auto* const gauge : {"weir_queued_tokens", "weir_resident_tokens", "weir_requests_in_flight",
                                  "weir_requests_waiting", "weir_oldest_unanswered_seconds"})
    if (page.sum(gauge) != 0) all.push_back(std::string(gauge) + " is " + std::to_string(page.sum(gauge)) + " at rest");
  return all;
}

}  // namespace weir::chaos
