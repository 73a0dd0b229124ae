// Remembers the shape of a stream's last plain content event, so that the next one need not be parsed
// (docs/benchmarks.md has what that saves).
//
// A template event is P + text + Q: P ends with the opening quote of its only text string, and Q begins with the
// closing one. If a new event is P + S + Q and S can stand inside a JSON string, then it is the same JSON document
// except for that one string. So it says the same, except for what the string says. Bytes alone decide. No part of a
// text can be mistaken for structure, because an S with a bare quote does not match.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "metrics/prefetch.hpp"
#include "metrics/wire/stream/event_facts.hpp"

namespace weir::metrics::wire {

class EventTemplate {
 public:
  static constexpr std::size_t limit = 512;  ///< A longer event is not remembered.

  /// Clears and fills `facts` and returns true if the event has the remembered shape.
  bool match(std::string_view data, EventFacts& facts) const;
  /// Prefetches the shape into the cache.
  void prefetch() const { metrics::prefetch(around_.data(), around_.size()); }
  /// Remembers a fully parsed event, if it is plain.
  void remember(std::string_view data, const EventFacts& facts);

 private:
  std::string around_;  // P followed by Q.
  std::size_t split_ = 0;
  std::uint32_t index_ = 0;
  bool reasoning_ = false;
};

}  // namespace weir::metrics::wire
