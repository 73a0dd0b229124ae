// Reports what the loss of a replica cost: what its clients saw, what weir counted, and when it answered again.
//
// The sources are weir's request log, its /metrics page and the report of the load. The caller gives the moments of the
// loss, in Unix seconds on the same machine.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <ostream>
#include <string>

#include "lab/json_fields.hpp"
#include "lab/report/metrics_text.hpp"

namespace weir::lab::report {

struct Outage {
  std::string replica;
  double killed = 0, restarted = 0;  ///< Unix seconds.

  std::uint64_t ok = 0;                           ///< Counts requests that succeeded, on all replicas.
  std::map<std::string, std::uint64_t> client;    ///< Counts the failures that clients saw, by kind.
  std::map<std::string, std::uint64_t> outcomes;  ///< The counter weir_requests_total.
  std::map<std::string, std::uint64_t> retries;   ///< The counter weir_retries_total, by reason.
  std::uint64_t meanwhile_ok = 0;              ///< Requests that began between the two moments and that others answered
                                               ///< them.
  std::optional<double> back_begin, back_end;  ///< The first success that began after the restart, in seconds after
                                               ///< it.
};

/// `outage` holds replica and moments; the call fills in the rest. Requests that clients lost to the kill come from
/// `report`. Throws std::invalid_argument with a sentence if the log has no line of the replica, or the page no
/// counter of requests.
void read_outage(Outage& outage, std::istream& request_log, const JsonObject& report, const MetricsText& metrics);

void print_outage(std::ostream& out, const Outage& outage);

}  // namespace weir::lab::report
