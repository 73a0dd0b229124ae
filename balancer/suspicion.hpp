// The testimony of witnesses about a replica that has been silent for so long that it may hang. Silence alone is no
// proof: engines compile, prefill long prompts and buffer tool calls. So its listener and its counters are asked.
// A test request of weir's own would be no witness: an engine that works on one request at a time keeps it waiting.
//
// A Pool owns one for each replica and calls it under its mutex. No clock is read.
#pragma once

#include <cstdint>
#include <optional>

#include "balancer/tokens.hpp"

namespace weir::balancer {

enum class Testimony : std::uint8_t {
  answered,  ///< The replica answered a probe well.
  told,      ///< The replica gave its metrics page.
  still,     ///< The counters stood still between two readings that began after the suspicion.
  works,     ///< The counters moved between two readings that began after the suspicion.
  mute,      ///< The replica did not answer a probe.
  ill,       ///< The probe was answered with an error: it says itself that it is not well.
  untold,    ///< The replica took the question for its metrics page and did not answer.
};

class Suspicion {
 public:
  bool is_on() const { return since_.has_value(); }
  /// A witness that was asked since the suspicion stands says that the process does not answer, or is not well.
  bool is_confirmed() const { return stands_ && (ill_ >= stands_ || mute_ >= stands_); }
  /// The door did not answer, whenever it was asked.
  bool is_mute() const { return mute_.has_value(); }
  /// Neither its door nor its metrics page answers.
  bool is_deaf() const { return mute_ && untold_; }
  /// The replica's own counters say that it makes nothing.
  bool stands_still() const { return still_; }
  void begin(Moment now) {
    if (!since_) since_ = now;
  }
  /// The books explain the silence no more, and `grave`: by far.
  void stand(bool unexplained, bool grave, Moment now) {
    grave_ = grave;
    if (!unexplained)
      stands_.reset();
    else if (!stands_)
      stands_ = now;
  }
  /// Others are to be preferred.
  bool is_grave() const { return grave_; }
  void end() { *this = {}; }
  /// Since when, as the suspicion begins and again as it begins to stand: the witnesses are to be asked.
  std::optional<Moment> take_new() {
    const auto news = stands_ ? stands_ : since_;
    if (news <= asked_) return std::nullopt;  // A suspicion of no moment is earlier than any.
    return asked_ = news;
  }
  /// `asked`: when the witness began to look. One that got no answer says nothing of a replica that has answered
  /// another one since.
  void hear(Testimony what, Moment asked, Moment now) {
    if (!since_) return;
    const bool lately = !answered_ || *answered_ < asked;
    if (what == Testimony::ill) ill_ = asked;
    if (what == Testimony::mute && lately) mute_ = asked;
    if (what == Testimony::untold && lately) untold_ = true;
    if (what == Testimony::still) still_ = true;
    if (what != Testimony::answered && what != Testimony::told) return;
    answered_ = now;
    mute_.reset();
    untold_ = false;
    if (what == Testimony::answered) ill_.reset();  // A page says nothing of how well its engine is.
  }

 private:
  std::optional<Moment> since_, stands_, answered_;
  std::optional<Moment> asked_;  ///< The witnesses were last asked about the suspicion of then.
  std::optional<Moment> ill_, mute_;  ///< The witness that said so was asked then.
  bool untold_ = false, still_ = false, grave_ = false;
};

}  // namespace weir::balancer
