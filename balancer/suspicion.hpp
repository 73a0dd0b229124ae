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
  answered,  ///< The replica answered a probe, or gave its metrics page.
  still,     ///< Its counters stood still between two readings that began after the suspicion.
  works,     ///< Its counters moved between two readings that began after the suspicion.
  mute,      ///< The replica did not answer a probe.
  ill,       ///< Its probe was answered with an error: it says itself that it is not well.
};

class Suspicion {
 public:
  bool is_on() const { return since_.has_value(); }
  /// Witnesses say that the process does not answer, or is not well.
  bool is_confirmed() const { return confirmed_; }
  /// Its own counters say that it makes nothing.
  bool stands_still() const { return still_; }
  void begin(Moment now) {
    if (!since_) since_ = now;
  }
  void end() { *this = {}; }
  /// Since when, once for each suspicion: the witnesses are to be asked.
  std::optional<Moment> take_new() {
    if (std::exchange(told_, is_on())) return std::nullopt;
    return since_;
  }
  /// `asked`: when the witness began to look. One that got no answer says nothing of a replica that has answered
  /// another one since.
  void hear(Testimony what, Moment asked, Moment now) {
    if (!since_) return;
    if (what == Testimony::ill || (what == Testimony::mute && (!answered_ || *answered_ < asked))) confirmed_ = true;
    if (what == Testimony::still) still_ = true;
    if (what != Testimony::answered) return;
    answered_ = now;
    confirmed_ = false;
  }

 private:
  std::optional<Moment> since_, answered_;
  bool told_ = false, confirmed_ = false, still_ = false;
};

}  // namespace weir::balancer
