#include "lab/report/outage.hpp"

#include <set>
#include <stdexcept>

#include "lab/report/summary.hpp"
#include "lab/text.hpp"

namespace weir::lab::report {
namespace {

std::map<std::string, std::uint64_t> whole(const std::map<std::string, double>& counts) {
  std::map<std::string, std::uint64_t> out;
  for (const auto& [name, n] : counts) out[name] = static_cast<std::uint64_t>(n);
  return out;
}

std::string list(const std::map<std::string, std::uint64_t>& counts) {
  std::string out;
  for (const auto& [name, n] : counts) {
    out += (out.empty() ? "" : ", ") + name + " " + std::to_string(n);
  }
  return out.empty() ? "none" : out;
}

}  // namespace

void read_outage(Outage& outage, std::istream& request_log, const JsonObject& report, const MetricsText& metrics) {
  outage.ok = count_of(report, "requests_ok");
  if (const auto errors = field<JsonObject>(report, "errors")) {
    for (const auto [kind, n] : *errors) {
      if (std::uint64_t count = 0; n.get(count) == simdjson::SUCCESS) outage.client[std::string(kind)] = count;
    }
  }
  outage.outcomes = whole(metrics.by_label("weir_requests_total", "outcome"));
  outage.retries = whole(metrics.by_label("weir_retries_total", "reason"));

  if (outage.outcomes.empty()) {
    throw std::invalid_argument("--metrics has no weir_requests_total, so it is no page of weir's metrics");
  }
  std::set<std::string> seen;
  std::string text;
  while (std::getline(request_log, text)) {
    bool readable = false;
    const auto row = read_log_line(text, readable);
    if (row) seen.insert(row->replica);
    if (!row || row->outcome != "ok") continue;
    if (row->replica != outage.replica) {
      outage.meanwhile_ok += row->begin >= outage.killed && row->begin < outage.restarted;
      continue;
    }
    const double end = row->begin + row->e2e.value_or(0);
    if (row->begin < outage.restarted || !row->e2e) continue;
    if (outage.back_end && *outage.back_end <= end - outage.restarted) continue;
    outage.back_begin = row->begin - outage.restarted;
    outage.back_end = end - outage.restarted;
  }
  if (seen.contains(outage.replica)) return;
  std::string known;
  for (const auto& name : seen) known += (known.empty() ? "" : ", ") + name;
  throw std::invalid_argument("--replica: no line of the log is of \"" + outage.replica +
                              "\"; it has lines of: " + (known.empty() ? "none" : known));
}

void print_outage(std::ostream& out, const Outage& o) {
  std::uint64_t lost = 0;
  for (const auto& [kind, n] : o.client) lost += n;
  out << "what clients saw    " << o.ok << " ok, " << lost << " failed: " << list(o.client) << '\n'
      << "what weir counted   requests: " << list(o.outcomes) << "; sent once more: " << list(o.retries) << '\n'
      << "while it was away   " << format("%.1f s, ", o.restarted - o.killed) << o.meanwhile_ok
      << " requests begun then were answered by the others\n"
      << "back                ";
  if (o.back_end) {
    out << format("first ok answer %.2f s after its restart (a request that came %.2f s after it)\n", *o.back_end,
                  *o.back_begin);
  } else {
    out << "no ok answer after its restart within this run\n";
  }
}

}  // namespace weir::lab::report
