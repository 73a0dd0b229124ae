// Tells a listener what the events of one stream say, from the parts that the dialects have found in them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "metrics/wire/stream/content_listener.hpp"
#include "metrics/wire/stream/event_facts.hpp"

namespace weir::metrics::wire {

class ContentReader {
 public:
  explicit ContentReader(ContentListener& listener) : listener_(listener) {}

  /// `facts` are those of an event whose data are still there, with 64 bytes behind them readable. It uses the thread's
  /// parser.
  void tell(const EventFacts& facts);

 private:
  struct Call;

  void tell_text(std::string_view inside, std::uint64_t seen);
  void tell_calls(std::string_view json, bool deltas);
  void tell_call(const Call& call, bool delta);

  ContentListener& listener_;
  // The open call's members, which tell an OpenAI delta that continues it from one that begins the next.
  std::optional<std::uint64_t> index_;
  std::string id_;
  bool named_ = false;
};

}  // namespace weir::metrics::wire
