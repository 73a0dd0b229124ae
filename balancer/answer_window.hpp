// The last answers of a replica: which share of them was bad (4xx in one window, failures in another), and how many
// requests that it answered so another replica answered well. An outcome older than `age` does not count. A Pool owns
// it and calls it under its mutex.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "balancer/tokens.hpp"

namespace weir::balancer {

class AnswerWindow {
 public:
  static constexpr std::size_t size = 20, witnesses_needed = 3;
  static constexpr std::chrono::seconds age{60};

  struct Counts {
    std::size_t answers = 0, bad = 0;
  };

  void add(bool bad, Moment now) {
    Answer& oldest = last_[next_++ % size];
    if (oldest.bad) --bad_;
    if (bad) ++bad_;
    oldest = {now, bad};
  }
  /// Another replica answered well what this one had answered badly.
  void outdone(Moment now) { outdone_[next_outdone_++ % witnesses_needed] = now; }
  void clear() { *this = {}; }

  Counts counts(Moment now) const {
    Counts counts;
    for (const auto& answer : last_) {
      if (!is_young(answer.at, now)) continue;
      ++counts.answers;
      if (answer.bad) ++counts.bad;
    }
    return counts;
  }
  /// The last `size` answers all count, and more than half of them were bad.
  bool mostly_bad(Moment now) const {
    return 2 * bad_ > size && is_young(last_[next_ % size].at, now);
  }
  bool has_witnesses(Moment now) const {
    return std::ranges::all_of(outdone_, [now](Moment at) { return is_young(at, now); });
  }
  /// An answer came within that time.
  bool answered_within(std::chrono::duration<double> time, Moment now) const {
    const Moment latest = last_[(next_ + size - 1) % size].at;
    return latest != Moment::min() && now - latest < time;
  }

 private:
  struct Answer {
    Moment at = Moment::min();
    bool bad = false;
  };
  static bool is_young(Moment at, Moment now) { return at != Moment::min() && now - at < age; }
  static constexpr std::array<Moment, witnesses_needed> never() {
    std::array<Moment, witnesses_needed> moments{};
    moments.fill(Moment::min());
    return moments;
  }

  std::array<Answer, size> last_{};
  std::array<Moment, witnesses_needed> outdone_ = never();
  std::size_t next_ = 0, next_outdone_ = 0, bad_ = 0;
};

}  // namespace weir::balancer
