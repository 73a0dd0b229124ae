// A prompt prefix names the beginnings of one prompt by keyed hashes, so that a balancer can tell which replica has
// computed one of them before. Nothing of the text is kept. The hashes stay in the process: see metrics/hash.hpp.
#pragma once

#include <cstdint>
#include <vector>

namespace weir::metrics::wire {

/// The anchors of a prompt. Equal beginnings of two prompts have equal anchors, and only these. Two beginnings of n
/// bytes are mistaken for one with a chance of (n + 60) in 2^64.
struct PromptPrefix {
  struct Anchor {
    std::uint64_t key = 0;  ///< Of all that the engine renders up to `position`, under the prompt's seed.
    std::uint64_t position = 0;
  };

  /// In the order of their positions, which rise. The last one is the end of the prompt; without anchors nothing is
  /// known of the prompt.
  std::vector<Anchor> anchors;
  /// Positions count token ids: they are exact. Otherwise they count bytes of text, tools and system text included.
  bool token_ids = false;

  std::uint64_t length() const { return anchors.empty() ? 0 : anchors.back().position; }
};

}  // namespace weir::metrics::wire
