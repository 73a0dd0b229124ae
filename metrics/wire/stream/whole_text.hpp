// Subtracts what a choice has already shown where each event sends the whole text so far (SGLang's /generate).
//
// Each stream has one. A server may also be set to send only what is new. Then it lists only the new tokens beside the
// text, which shows as soon as a choice has had an event before. If no tokens are listed, the text is the whole so far.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "metrics/wire/stream/event_facts.hpp"

namespace weir::metrics::wire {

class WholeText {
 public:
  /// Leaves in `facts.output_chars` what is new, and in `facts.content_seen` what is not. A text may end up shorter
  /// than it was, when a stop word is cut off.
  void subtract_seen(EventFacts& facts);

 private:
  struct Seen {
    std::uint64_t chars = 0, tokens = 0;
  };

  std::vector<Seen> seen_;    // Each choice has shown so much.
  std::optional<bool> anew_;  // Unknown until an event shows it.
};

}  // namespace weir::metrics::wire
