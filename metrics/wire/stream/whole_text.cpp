#include "metrics/wire/stream/whole_text.hpp"

#include <algorithm>

namespace weir::metrics::wire {

void WholeText::subtract_seen(EventFacts& facts) {
  constexpr std::size_t most_choices = 128;
  if (!facts.whole_text || facts.choices.empty()) return;
  const std::size_t index = facts.choices.front().index;
  if (index >= most_choices) return;
  if (index >= seen_.size()) seen_.resize(index + 1);
  Seen& seen = seen_[index];
  if (facts.completion_tokens) {
    const std::uint64_t tokens = std::max(seen.tokens, *facts.completion_tokens);
    if (!anew_ && seen.tokens > 0 && facts.listed_tokens) anew_ = *facts.listed_tokens > tokens - seen.tokens;
    seen.tokens = tokens;
  }
  if (!anew_.value_or(true)) return;
  facts.content_seen = seen.chars;
  const std::uint64_t chars = std::max(seen.chars, facts.output_chars);
  facts.output_chars = chars - seen.chars;
  seen.chars = chars;
}

}  // namespace weir::metrics::wire
