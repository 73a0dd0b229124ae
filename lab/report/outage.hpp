// What the loss of a replica cost: what its clients saw, what weir counted, and when it answered again.
//
// It is read from weir's request log, its /metrics page and the report of the load. The caller gives the moments of the
// loss, in Unix seconds on the same machine.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <ostream>
#include <string>

#include "lab/report/metrics_text.hpp"

namespace weir::lab::report {

struct Outage {
  std::string replica;
  double killed = 0, restarted = 0;  ///< Unix seconds.

  std::uint64_t ok = 0;                           ///< Requests that succeeded, of all replicas.
  std::map<std::string, std::uint64_t> client;    ///< What clients saw fail, by kind.
  std::map<std::string, std::uint64_t> outcomes;  ///< weir_requests_total.
  std::map<std::string, std::uint64_t> retries;   ///< weir_retries_total, by reason.
  std::uint64_t meanwhile_ok = 0;                 ///< Begun between the two moments and answered by others.
  std::optional<double> back_begin, back_end;     ///< Its first success begun after the restart, in seconds after it.
};

/// `outage` holds replica and moments; fills in the rest. Requests that clients lost to the kill come from `report`.
void read_outage(Outage& outage, std::istream& request_log, const boost::json::object& report,
                 const MetricsText& metrics);

void print_outage(std::ostream& out, const Outage& outage);

}  // namespace weir::lab::report
