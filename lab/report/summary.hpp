// `weir-lab summary` shows weir's request log as a table per replica and per configuration.
//
// Lines are those of metrics/record/request_log.hpp, latencies those of successful streams. The table gives no
// verdicts; `weir compare` does. lab/report/observers.hpp shows beside it what others measured of the same streams.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/load/report.hpp"

namespace weir::lab::report {

/// The members of a log line that the summary uses.
struct LogRow {
  std::string replica, config, outcome;
  double begin = 0;                                    ///< Unix seconds.
  std::optional<double> ttft, ttft_client, tpot, e2e;  ///< Seconds.
  std::uint64_t prompt_tokens = 0, output_tokens = 0;
  /// The inter-token latencies: bins of metrics::GapSketch and their counts. The list is empty if k is
  /// unknown.
  std::vector<std::pair<std::uint16_t, std::uint64_t>> gaps;
};

/// Returns nothing for a line that is no request of a primary replica or cannot be read; `readable` tells the two
/// apart.
std::optional<LogRow> read_log_line(std::string_view line, bool& readable);

/// Holds the requests of one replica, one configuration, or all.
struct LogGroup {
  std::uint64_t ok = 0, failed = 0, aborted = 0, prompt_tokens = 0, output_tokens = 0;
  std::vector<float> ttft, ttft_client, tpot;
  std::map<std::uint16_t, std::uint64_t> gaps;

  void add(const LogRow& row);
  /// The ITL by the sketches, right to 1.6 %.
  std::optional<load::Distribution> itl() const;
};

struct LogSummary {
  LogGroup all;
  /// The key is the configuration, then the replica.
  std::map<std::pair<std::string, std::string>, LogGroup> replicas;
  std::map<std::string, LogGroup> configs;
  std::uint64_t unreadable = 0;  ///< Lines; an unfinished last line is not counted.
  double begin = 0, end = 0;     ///< Unix seconds: the first request's start and the last one's end.

  double elapsed() const { return end - begin; }
};

LogSummary read_log(std::istream& in);

void print_summary(std::ostream& out, const LogSummary& summary);

}  // namespace weir::lab::report
