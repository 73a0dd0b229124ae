// `weir-lab summary` shows weir's request log as a table per replica and per configuration.
//
// It reads the lines of metrics/record/request_log.hpp. Latencies are those of successful streams. It gives no
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

/// What the summary uses of a log line.
struct LogRow {
  std::string replica, config, outcome;
  double begin = 0;                                    ///< It is in Unix seconds.
  std::optional<double> ttft, ttft_client, tpot, e2e;  ///< They are in seconds.
  std::uint64_t prompt_tokens = 0, output_tokens = 0;
  /// These gaps are inter-token latencies: bins of metrics::GapSketch and their counts. The list is empty if k is
  /// unknown.
  std::vector<std::pair<std::uint16_t, std::uint64_t>> gaps;
};

/// Returns nothing for a line that is no request of a primary replica or cannot be read; `readable` tells the two
/// apart.
std::optional<LogRow> read_log_line(std::string_view line, bool& readable);

/// Holds the requests of one replica, one configuration, or all.
class LogGroup {
 public:
  void add(const LogRow& row);
  std::uint64_t ok() const { return ok_; }
  std::uint64_t failed() const { return failed_; }
  std::uint64_t aborted() const { return aborted_; }
  std::uint64_t output_tokens() const { return output_tokens_; }
  std::uint64_t prompt_tokens() const { return prompt_tokens_; }
  std::optional<load::Distribution> ttft() const { return load::distribution(ttft_); }
  std::optional<load::Distribution> ttft_client() const { return load::distribution(ttft_client_); }
  std::optional<load::Distribution> tpot() const { return load::distribution(tpot_); }
  /// The sketches give it, right to 1.6 %.
  std::optional<load::Distribution> itl() const;

 private:
  std::uint64_t ok_ = 0, failed_ = 0, aborted_ = 0, prompt_tokens_ = 0, output_tokens_ = 0;
  std::vector<float> ttft_, ttft_client_, tpot_;
  std::map<std::uint16_t, std::uint64_t> gaps_;
};

struct LogSummary {
  LogGroup all;
  /// The key is the configuration, then the replica.
  std::map<std::pair<std::string, std::string>, LogGroup> replicas;
  std::map<std::string, LogGroup> configs;
  std::uint64_t unreadable = 0;  ///< It counts lines; an unfinished last line is not counted.
  double begin = 0, end = 0;     ///< They are in Unix seconds: the first request's start and the last one's end.

  double elapsed() const { return end - begin; }
};

LogSummary read_log(std::istream& in);

void print_summary(std::ostream& out, const LogSummary& summary);

}  // namespace weir::lab::report
