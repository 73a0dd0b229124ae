// Turns the lengths of texts that are sent anew with each event into what each event added. One a stream.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "metrics/wire/dialect.hpp"

namespace weir::metrics::wire {

class WholeText {
 public:
  /// Leaves in `facts.output_chars` what is new. A text may end up shorter than it was, by a stop word cut off.
  void subtract_seen(EventFacts& facts) {
    constexpr std::size_t most_choices = 128;
    if (!facts.whole_text || facts.choices.empty()) return;
    const std::size_t index = facts.choices.front().index;
    if (index >= most_choices) return;
    if (index >= seen_.size()) seen_.resize(index + 1);
    const std::uint64_t all = std::max(seen_[index], facts.output_chars);
    facts.output_chars = all - seen_[index];
    seen_[index] = all;
  }

 private:
  std::vector<std::uint64_t> seen_;  // Of each choice.
};

}  // namespace weir::metrics::wire
