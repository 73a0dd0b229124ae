// The request log: one JSON object a line (MEASUREMENT.md, section 4), written by a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "metrics/record/request_record.hpp"

namespace weir::metrics::record {

/// The line of a record, without the newline. Unknown is null; no text of a client but the capped model name.
std::string log_line(const RequestRecord& record, const std::string& instance);

/// Never blocks its callers: where the writer falls behind, lines are dropped and counted.
class RequestLog {
 public:
  /// `path`: a file (appended to), "-" = standard output, "" = off. Throws std::runtime_error with a sentence that
  /// names the file and the reason where it cannot be opened.
  RequestLog(const std::string& path, std::string instance);
  ~RequestLog();  ///< Writes what is queued.

  void write(const RequestRecord& record);  ///< Any thread.
  /// Opens the file by its name anew, as after logrotate has moved it: each line written before this call goes to the
  /// old file, each later one to the new. Where it cannot be opened, lines go on into the old one, and the answer is a
  /// sentence that says why. Nothing happens where the log is off or standard output. Any thread.
  std::optional<std::string> reopen();
  void flush();                   ///< Returns when all lines queued before are written. For tests.
  std::uint64_t dropped() const;  ///< Lines lost: the writer was behind, or the file did not take them. Any thread.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::metrics::record
