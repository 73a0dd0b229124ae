// Makes prompts whose beginnings are shared, for the tests of balancer/.
#pragma once

#include <cstdint>
#include <memory>

#include "balancer/tokens.hpp"
#include "metrics/wire/request/prompt_prefix.hpp"

namespace weir::balancer {

/// Returns the prefix of a prompt of so many tokens, given as ids: its text is that of `conversation`, up to there. Two
/// prompts of one conversation begin alike, and those of two have nothing in common.
inline std::shared_ptr<const metrics::wire::PromptPrefix> prefix_of(std::uint64_t conversation, Tokens tokens) {
  constexpr Tokens step = 64;
  const auto key_at = [&](Tokens position) {
    std::uint64_t key = (conversation + 1) * 0x9e3779b97f4a7c15u + position * 0xff51afd7ed558ccdu;
    key ^= key >> 31;
    return key * 0xbf58476d1ce4e5b9u | 1;
  };
  auto prefix = std::make_shared<metrics::wire::PromptPrefix>();
  prefix->token_ids = true;
  for (Tokens position = step; position < tokens; position += step) prefix->anchors.push_back({key_at(position), position});
  prefix->anchors.push_back({key_at(tokens), tokens});
  return prefix;
}

}  // namespace weir::balancer
