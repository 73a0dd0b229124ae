// Compares the same streams as several observers saw them: the engine itself, weir, the client, and a client without
// weir.
//
// TTFT and TPOT are defined alike for all of them (docs/reference/metrics.md), but they stand in different places: the
// engine's TTFT begins when it has read the request, the client's before it connects.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "lab/json_fields.hpp"
#include "lab/load/report.hpp"
#include "lab/report/metrics_text.hpp"
#include "lab/report/summary.hpp"

namespace weir::lab::report {

/// The figures of one observer, of successful streams.
struct Observed {
  std::string who;
  std::uint64_t requests = 0;
  std::optional<load::Distribution> ttft, itl, tpot;
};

/// Gathers successful streams from logs that hold a line a request. Such a log has no gaps, so ITL is absent.
class StreamTimes {
 public:
  /// Reads the truth log of a simulated replica (lab/sim/truth.hpp).
  void read_truth(std::istream& in);
  /// Reads what `weir-lab load --log` writes.
  void read_load(std::istream& in);
  Observed observed(std::string who) const;

 private:
  void add(double ttft, const std::optional<double>& tpot);

  std::uint64_t requests_ = 0;
  std::vector<float> ttft_, tpot_;
};

/// Reads what a report of `weir-lab load --json` observed.
Observed observed(std::string who, const JsonObject& report);

/// The weir_token_overhead_seconds over all replicas: how long weir held the events that it could write at once.
struct Overhead {
  std::uint64_t events = 0;
  double mean = 0;  ///< Seconds.
  /// The least bucket bounds that hold half and 99 % of the events; so both are exact. Absent beyond the last
  /// bound.
  std::optional<double> half_within, most_within;
};

std::optional<Overhead> overhead(const MetricsText& page);

void print_observers(std::ostream& out, const std::vector<Observed>& rows);
/// Prints what weir adds: the medians of a client through weir less those of one without it.
void print_added(std::ostream& out, const Observed& through, const Observed& direct);
void print_overhead(std::ostream& out, const Overhead& overhead);

/// Prints the TTFT of several loads side by side, a row a run. Then it prints each tail against the first run's, with
/// the number of requests behind it: p99, or p95 if a run has fewer than 100 requests.
void print_reports(std::ostream& out, const std::vector<Observed>& runs);

}  // namespace weir::lab::report
