// An event that a test waits for: one thread sets it once, others await it, never longer than `patience`.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>

namespace weir::integration {

using Clock = std::chrono::steady_clock;

/// No wait of this suite lasts longer. What has not happened by then does not happen on a slow machine either.
inline constexpr std::chrono::seconds patience{60};
/// A bound on what must happen at once, where a mistake would make it not happen within `patience`.
inline constexpr std::chrono::seconds soon{30};

/// A wait ended without its event; the test has failed.
struct TimedOut : std::runtime_error {
  explicit TimedOut(const std::string& what) : std::runtime_error("waited in vain: " + what) {}
};

/// A number that only grows, and threads that wait until it has come so far.
class Progress {
 public:
  void advance_to(std::size_t value) {
    const std::lock_guard lock(mutex_);
    if (value > value_) value_ = value;
    changed_.notify_all();
  }
  void add(std::size_t n) {
    const std::lock_guard lock(mutex_);
    value_ += n;
    changed_.notify_all();
  }
  std::size_t value() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  void wait_for(std::size_t value, const std::string& what) const {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, patience, [&] { return value_ >= value; }))
      throw TimedOut(what + " (" + std::to_string(value_) + " of " + std::to_string(value) + ")");
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::size_t value_ = 0;
};

class Event {
 public:
  void set() { happened_.advance_to(1); }
  void wait(const std::string& what) const { happened_.wait_for(1, what); }

 private:
  Progress happened_;
};

}  // namespace weir::integration
