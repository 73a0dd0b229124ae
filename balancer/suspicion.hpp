// The testimony of witnesses about a replica that has been silent for so long that it may hang. Silence alone is no
// proof: engines compile, prefill long prompts and buffer tool calls. So its own door and its own counters are asked.
//
// A Pool owns one for each replica and calls it under its mutex. No clock is read.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "balancer/tokens.hpp"

namespace weir::balancer {

enum class Testimony : std::uint8_t {
  answered,  ///< The replica answered a probe well.
  told,      ///< It gave its metrics page.
  still,     ///< Its counters stood still between two readings that began after the suspicion.
  works,     ///< Its counters moved between two readings that began after the suspicion.
  mute,      ///< The replica did not answer a probe.
  ill,       ///< Its probe was answered with an error: it says itself that it is not well.
  untold,    ///< It took the question for its metrics page and did not answer.
};

class Suspicion {
 public:
  bool is_on() const { return since_.has_value(); }
  /// Witnesses say that the process does not answer, or is not well.
  bool is_confirmed() const { return ill_ || mute_; }
  /// Neither its door nor its metrics page answers.
  bool is_deaf() const { return mute_ && untold_; }
  /// Its own counters say that it makes nothing.
  bool stands_still() const { return still_; }
  void begin(Moment now) {
    if (!since_) since_ = now;
  }
  /// Whether its books explain the silence no more.
  void stand(bool unexplained, Moment now) {
    if (!unexplained)
      stands_.reset();
    else if (!stands_)
      stands_ = now;
  }
  bool stands() const { return stands_.has_value(); }
  void end() { *this = {}; }
  /// Since when, as the suspicion begins and again as it begins to stand: the witnesses are to be asked.
  std::optional<Moment> take_new() {
    const auto news = stands_ ? stands_ : since_;
    if (std::exchange(asked_, news) == news) return std::nullopt;
    return news;
  }
  /// `asked`: when the witness began to look. One that got no answer says nothing of a replica that has answered
  /// another one since.
  void hear(Testimony what, Moment asked, Moment now) {
    if (!since_) return;
    const bool lately = !answered_ || *answered_ < asked;
    if (what == Testimony::ill) ill_ = true;
    if (what == Testimony::mute && lately) mute_ = true;
    if (what == Testimony::untold && lately) untold_ = true;
    if (what == Testimony::still) still_ = true;
    if (what != Testimony::answered && what != Testimony::told) return;
    answered_ = now;
    mute_ = untold_ = false;
    if (what == Testimony::answered) ill_ = false;  // A page says nothing of how well its engine is.
  }

 private:
  std::optional<Moment> since_, stands_, answered_;
  std::optional<Moment> asked_;  ///< The witnesses were last asked about the suspicion of then.
  bool ill_ = false, mute_ = false, untold_ = false, still_ = false;
};

}  // namespace weir::balancer
