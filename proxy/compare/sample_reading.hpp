// Reads request logs into samples, and keeps those that are asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/sides/side_choice.hpp"
#include "proxy/compare/request.hpp"

namespace weir::proxy::compare {

/// More requests than these are not held. One takes about 250 bytes, and 8 for each bin of its token gaps.
inline constexpr std::size_t most_samples = 5'000'000;

struct Filter {
  std::string pool, model;  ///< "" is any.
  std::optional<PromptRange> prompt_tokens;
  std::optional<std::int64_t> from_us, to_us;
};

/// The requests that were read of one log.
struct ReadLog {
  std::string path;
  std::uint64_t requests = 0;
  std::int64_t first_us = 0, last_us = 0;  ///< When the first and the last request arrived.
  /// Logs of one number belong together: they share a request, or a pair, or one goes on where another ends.
  std::size_t run = 0;
  /// Configuration, replica, shadow and role of the requests that were kept.
  std::set<std::tuple<metrics::compare::samples::Names::Name, metrics::compare::samples::Names::Name,
                      metrics::compare::samples::Names::Name, metrics::Role>>
      sides;

  bool has(const metrics::compare::sides::Selection& side) const;
};

struct ReadSamples {
  std::vector<metrics::compare::samples::Sample> samples;
  std::uint64_t lines = 0, unread = 0;
  std::string first_unread;                    ///< FILE:LINE of the first line that is no request.
  std::uint64_t warm_up = 0;                   ///< Lines of a load's warm-up, which the load itself does not count.
  std::uint64_t strays = 0;                    ///< Requests of another time than the bulk (ReadTimes).
  std::string first_stray;                     ///< FILE:LINE (TIME) of the first of them.
  std::uint64_t repeated = 0;                  ///< Lines of requests that had been read before: each counts once.
  std::string first_repeated;                  ///< FILE:LINE of the first of them.
  std::uint64_t requests = 0;                  ///< All that were read and are no strays, whatever the filter says.
  std::int64_t first_us = 0, last_us = 0;      ///< When the first and the last of them arrived.
  std::vector<ReadLog> logs;                   ///< Those that have requests, in the order in which they were named.
  metrics::compare::pairs::Mirrored mirrored;  ///< Requests sent to shadows, whatever the filter says.
};

/// Takes samples one by one and holds those that are asked for. The filter is about primaries, and a shadow's request
/// is kept where its primary is; times have an hour to spare, because the comparison cuts its window itself. Samples
/// are held as the log has them, which is as a running weir has them. What shadows were sent is for others to note.
class Selecting {
 public:
  /// The arguments outlive the object.
  Selecting(const Filter& filter, const metrics::compare::samples::Names& names, ReadSamples& read)
      : filter_(filter), names_(names), read_(read) {}

  /// Returns false once there are more than `most_samples`.
  bool add(metrics::compare::samples::Sample sample);
  /// True if the filter lets it pass.
  bool wanted(const metrics::compare::samples::Sample& sample) const;
  /// Drops the shadows' requests whose primary was not kept. To be called once, at the end.
  void follow_primaries();

 private:
  bool about_primaries() const { return !filter_.pool.empty() || !filter_.model.empty() || filter_.prompt_tokens; }

  const Filter& filter_;
  const metrics::compare::samples::Names& names_;
  ReadSamples& read_;
};

/// Called now and then with the number of lines read.
using OnProgress = std::function<void(std::uint64_t lines)>;

/// Reads one log after the other, as Selecting says. A request that stands in them twice counts once: a log may be
/// named twice, or overlap with another. Lines of a warm-up, and of a time far from that of the bulk, are left out.
/// Returns a sentence if a log cannot be read, or if too much is left.
std::optional<std::string> read_samples(const std::vector<std::string>& logs, const Filter& filter,
                                        metrics::compare::samples::Names& names, const OnProgress& on_progress,
                                        ReadSamples& read);

// Reads the lines of request logs from files, plain or gzip, or from standard input.

/// Called with each line, without its newline, and its number from 1 on. metrics::compare::line_padding bytes behind a
/// line are readable. A line without newline ends the file: it may be one that is being written. A line that is longer
/// than metrics::compare::longest_line comes cut, one byte longer than that.
using OnLine = std::function<void(std::string_view line, std::uint64_t number, bool has_newline)>;

/// Reads a file in one buffer of 1 MiB; "-" is standard input. Whether it is gzip is told by its first bytes. Returns a
/// sentence if it cannot be read to its end; the lines before that have been given.
std::optional<std::string> for_each_line(const std::string& path, const OnLine& on_line);

// The times of the requests of a log, by the hour, and which of them are no time of that log: a clock that was not set
// yet writes 1970, a damaged line anything. One such line would stretch a window over decades.
//
// A log may be joined from runs that lie weeks apart, so that distance alone says nothing. Lines are strays if they are
// both few and far away: at most ten, or a thousandth of all, on that side, and beyond ten times what the bulk spans.
// The bulk's span is twice that of its middle half, and at least an hour.

/// A stretch of time in microseconds since 1970, its ends included.
struct Stretch {
  std::int64_t first_us = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_us = std::numeric_limits<std::int64_t>::min();
  std::uint64_t requests = 0;

  bool holds(std::int64_t us) const { return us >= first_us && us <= last_us; }
};

/// Returns the hour since 1970.
std::int64_t hour_of(std::int64_t us);

/// The memory is that of the different hours.
class ReadTimes {
 public:
  void add(std::int64_t us);
  /// Returns the time whose requests are no strays, as whole hours.
  Stretch taken() const;
  /// Returns when the first and the last request within any of these whole hours arrived, and how many did.
  Stretch within(std::span<const Stretch> taken) const;

 private:
  std::map<std::int64_t, Stretch> hours_;  ///< By the hour since 1970.
};

}  // namespace weir::proxy::compare
