// Prompts that are paths in a tree, and the index of their beginnings.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "balancer/prefix/index.hpp"

namespace weir::balancer::prefix_index {

using metrics::wire::PromptPrefix;

inline constexpr Tokens tokens_a_part = 64;

/// A prompt is a path in a tree: each part's key depends on all before it. Positions are bytes, four a token.
inline PromptPrefix prompt_of(const std::vector<std::uint64_t>& parts) {
  PromptPrefix prefix;
  std::uint64_t key = 0x9e3779b97f4a7c15u, position = 0;
  for (const std::uint64_t part : parts) {
    key = (key ^ part) * 0xff51afd7ed558ccdu;
    key ^= key >> 32;
    prefix.anchors.push_back({key | 1, position += 4 * tokens_a_part});
  }
  return prefix;
}
inline Tokens tokens_of(const PromptPrefix& prefix) { return prefix.length() / 4; }

class Prefixes : public ::testing::Test {
 protected:
  void places(std::size_t replicas, Tokens capacity = 1'000'000) {
    for (ReplicaIndex i = 0; i < replicas; ++i) index.place({i, i + 1u}, capacity);
  }
  PrefixPrediction send(const PromptPrefix& prefix, ReplicaIndex replica) {
    return index.sent(prefix, replica, tokens_of(prefix));
  }
  PrefixFound found(const PromptPrefix& prefix, ReplicaIndex replica) {
    return index.look(prefix, tokens_of(prefix))[replica];
  }
  Tokens held(const PromptPrefix& prefix, ReplicaIndex replica) { return found(prefix, replica).held; }
  /// The replica answers a prompt that is sent to it.
  void serve(const PromptPrefix& prefix, ReplicaIndex replica, Tokens estimate, const PrefixReport& report) {
    const auto prediction = send(prefix, replica);
    index.computed(prefix, prediction, replica);
    index.answered(prediction, replica, estimate, report);
  }
  /// Returns the share of an answer of which its replica is believed to find the tokens again.
  double answers_believed() {
    serve(prompt_of({9'001, 2, 3}), 0, 0, {.prompt = 192, .cached = {}, .output = 64});
    const PrefixFound found = send(prompt_of({9'001, 2, 3, 4, 5}), 0).found;
    return static_cast<double>(found.answer) / found.answer_whole;
  }
  PrefixIndex index;
};

}  // namespace weir::balancer::prefix_index
