// Turns the lengths of texts that are sent anew with each event (SGLang's /generate) into what each event added.
//
// One a stream. A server may also be set to send only what is new: then it lists only the new tokens beside the text,
// which shows as soon as a choice has an event behind it. Where none are listed, the text is sent anew.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "metrics/wire/stream/event_facts.hpp"

namespace weir::metrics::wire {

class WholeText {
 public:
  /// Leaves in `facts.output_chars` what is new. A text may end up shorter than it was, by a stop word cut off.
  void subtract_seen(EventFacts& facts);

 private:
  struct Seen {
    std::uint64_t chars = 0, tokens = 0;
  };

  std::vector<Seen> seen_;    // What each choice has shown.
  std::optional<bool> anew_;  // Unknown until an event shows it.
};

}  // namespace weir::metrics::wire
