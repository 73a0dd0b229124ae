// The request log has one JSON object a line (docs/reference/request-log.md). A thread of its own writes it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "metrics/record/request_record.hpp"

namespace weir::metrics::record {

/// Returns a record's line, without the newline. An unknown value is null. The only texts of a client in it
/// are the capped model name and its x-request-id.
std::string log_line(const RequestRecord& record, const std::string& instance);

/// Never blocks its callers: if the writer falls behind, lines are dropped and counted.
class RequestLog {
 public:
  /// So many lines wait for the writer. All connections of limits.connections, by its default, may end together.
  static constexpr std::size_t queue_lines = 16'384;

  /// The fate of all its lines since it began.
  struct Account {
    std::uint64_t written = 0;
    std::uint64_t dropped = 0;      ///< The writer was behind, or the file did not take them.
    int error = 0;                  ///< The errno of the last lines that were to be written; 0 if the file took them.
    bool waits_for_reader = false;  ///< The log is a named pipe that nobody has read yet: lines gather.
    std::uint64_t queued = 0;       ///< Lines that wait for the writer.
  };

  /// `path` is a file (appended to), "-" for standard output, or "" for off. Throws std::runtime_error if the file
  /// cannot be opened; its sentence names the file and the reason. A named pipe without a reader is waited for by the
  /// writer alone.
  RequestLog(const std::string& path, std::string instance);
  ~RequestLog();  ///< Writes the queued lines, however long that takes, unless finish() was called.
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  /// Takes no more lines, and writes the queued ones. Returns 0 when that is done. A pipe that nobody reads takes
  /// nothing: after `at_most` the writer is left to itself, and the answer is how many lines are lost at most.
  std::uint64_t finish(std::chrono::milliseconds at_most);

  void write(const RequestRecord& record);  ///< May be called on any thread.
  /// Counts a line that was lost before it could be written, on any thread.
  void count_lost();
  /// Opens the file again by its name, for use after logrotate has moved it. Each line written before this call goes to
  /// the old file, each later one to the new. If the file cannot be opened, lines go on into the old one, and the
  /// answer is a sentence that says why. Does nothing where the log is off or standard output. On the thread that made
  /// the log.
  std::optional<std::string> reopen();
  /// A file that is open for a log. It is closed again unless a log takes it.
  struct Opened {
    explicit Opened(std::string path);
    ~Opened();
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

    std::string path;
    int fd = -1;
    std::optional<std::string> problem;  ///< Why the file cannot be opened.
  };
  /// Goes on with this file, and another name of this weir. If the file could not be opened, the answer says why, and
  /// nothing changes but the name, and that only where the path is the same. The rest is as for reopen().
  std::optional<std::string> change(Opened&& opened, const std::string& instance);
  std::optional<std::string> change(const std::string& path, const std::string& instance) {
    return change(Opened(path), instance);
  }
  void flush();             ///< Returns when all lines queued before are written. Tests call it.
  Account account() const;  ///< Any thread may read it.
  std::uint64_t dropped() const { return account().dropped; }

 private:
  struct State;
  std::shared_ptr<State> state_;  ///< The writer has it, too.
  std::thread writer_;
};

}  // namespace weir::metrics::record
