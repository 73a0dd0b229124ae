// Marks of a prompt's beginnings in the request log, so that a log tells which prompts began alike.
#pragma once

#include <cstdint>
#include <vector>

#include "metrics/sip_hash.hpp"
#include "metrics/wire/request/prompt_prefix.hpp"

namespace weir::metrics::wire {

/// A short key of all that the engine renders up to `position`. Two prompts whose marks are equal begin alike up to
/// there, but for one pair in 2^32.
struct PrefixMark {
  std::uint64_t position = 0;  ///< Bytes of text, or token ids, as in PromptPrefix.
  std::uint32_t key = 0;       ///< Half of a hash of the anchor's, which must not leave the process itself.
  auto operator<=>(const PrefixMark&) const = default;
};

inline constexpr std::size_t most_marks = 32;
/// So many of the last anchors always have marks: the next turn of a conversation, which has an anchor where this
/// prompt ends, adds a few.
inline constexpr std::size_t last_marks = 8;

/// Returns the marks of a prompt, in the order of their positions: one for each anchor if there are at most
/// `most_marks`. Of more, the last `last_marks` have one, and those of the others whose keys are smallest. Two prompts
/// that begin alike choose by the same keys, so they keep common anchors.
std::vector<PrefixMark> marks_of(const PromptPrefix& prefix, const SipKey& secret);

}  // namespace weir::metrics::wire
