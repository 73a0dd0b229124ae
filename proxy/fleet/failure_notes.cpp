#include "proxy/fleet/failure_notes.hpp"

namespace weir::proxy::fleet {

std::string in_words(std::chrono::steady_clock::duration time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  const auto parts = [](auto large, const char* large_unit, auto small, const char* small_unit) {
    return std::to_string(large) + large_unit + (small == 0 ? "" : " " + std::to_string(small) + small_unit);
  };
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600) return parts(seconds / 60, " min", seconds % 60, " s");
  return parts(seconds / 3600, " h", seconds / 60 % 60, " min");
}

std::optional<std::string> FailureNotes::failed(std::string_view why, Moment now) {
  const std::lock_guard lock(mutex_);
  const bool quiet = !watching_.load(std::memory_order_relaxed);
  // After a quiet time the counts start anew, since nobody has failed in it.
  if (quiet || (failures_ == 0 && !down_ && now - last_line_ >= between_lines)) {
    watching_.store(true, std::memory_order_relaxed);
    down_ = true;
    failures_down_ = 1;
    first_failure_ = now;
    line_given(now);
    return "fails: " + std::string(why);
  }
  why_ = why;
  ++failures_;
  ++attempts_;
  ++failures_down_;
  if (now - last_line_ < between_lines) return std::nullopt;
  return counted(now);
}

std::optional<std::string> FailureNotes::returned(Moment now) {
  const std::lock_guard lock(mutex_);
  if (!watching_.load(std::memory_order_relaxed)) return std::nullopt;
  if (down_) {
    down_ = false;
    auto line = "answers again after " + in_words(now - first_failure_) + ", in which " +
                std::to_string(failures_down_) + (failures_down_ == 1 ? " attempt failed" : " attempts failed");
    line_given(now);
    return line;
  }
  ++attempts_;
  if (now - last_line_ < between_lines) return std::nullopt;
  if (failures_ > 0) return counted(now);
  watching_.store(false, std::memory_order_relaxed);
  return std::nullopt;
}

/// Writes the line for a minute, or for longer if nothing came.
std::string FailureNotes::counted(Moment now) {
  const bool all = failures_ == attempts_;
  auto line = (all ? "still fails: all " + std::to_string(failures_)
                   : "fails now and then: " + std::to_string(failures_) + " of " + std::to_string(attempts_)) +
              " attempts of the last " + in_words(now - last_line_) + " failed, the last one: " + why_;
  if (all && !down_) {
    down_ = true;
    failures_down_ = failures_;
    first_failure_ = last_line_;
  }
  line_given(now);
  return line;
}

void FailureNotes::line_given(Moment now) {
  last_line_ = now;
  failures_ = attempts_ = 0;
}

}  // namespace weir::proxy::fleet
