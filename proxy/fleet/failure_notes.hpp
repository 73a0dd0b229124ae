// Decides which failures of a replica the log tells: the first at once, with its reason; then at most one line a
// minute, with how many there were; and its return. It is told of every attempt and answers with the sentence to log,
// if one is due.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace weir::proxy::fleet {

/// Any thread may use it. A success costs one relaxed load while nothing has failed lately; all else takes a lock.
class FailureNotes {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds between_lines{60};

  /// Notes that an attempt failed because of `why`, as in "connection refused".
  std::optional<std::string> failed(std::string_view why, Moment now);
  /// Notes that an attempt went well.
  std::optional<std::string> went_well(Moment now) {
    if (!watching_.load(std::memory_order_relaxed)) return std::nullopt;
    return returned(now);
  }

 private:
  std::optional<std::string> returned(Moment now);
  std::string counted(Moment now);
  void line_given(Moment now);

  std::atomic<bool> watching_{false};  ///< A line was given less than a minute ago, or something has failed since.
  std::mutex mutex_;
  bool down_ = false;                          ///< The last line said that it fails, and nothing went well since.
  Moment first_failure_{}, last_line_{};       ///< The first failure since the replica was up; the last line.
  std::uint64_t failures_ = 0, attempts_ = 0;  ///< Counts since the last line.
  std::uint64_t failures_down_ = 0;            ///< Counts since the replica is down.
  std::string why_;                            ///< The reason of the last failure.
};

/// Returns "3 s", "2 min 5 s", "1 h 2 min".
std::string in_words(std::chrono::steady_clock::duration time);

}  // namespace weir::proxy::fleet
