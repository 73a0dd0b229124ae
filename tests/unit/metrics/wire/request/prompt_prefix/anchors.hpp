// Returns the anchors of a prompt as positions and keys, for the tests that compare prompts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/metrics/wire/request/request_facts.hpp"

namespace weir::metrics::wire::prompt_prefix {

using Anchors = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // Position and key.

inline const UniversalKey prefix_key{{0x1234, 0x5678}};

inline Anchors anchors_of(const std::shared_ptr<const PromptPrefix>& prefix) {
  Anchors all;
  if (prefix == nullptr) return all;
  for (const auto& anchor : prefix->anchors) all.emplace_back(anchor.position, anchor.key);
  return all;
}

inline std::shared_ptr<const PromptPrefix> prefix_of(Api api, const std::vector<std::string_view>& pieces,
                                                     std::uint64_t seed = 0) {
  RequestInspector inspector(api_of("POST", path_of(api)), "POST", path_of(api), nullptr, &prefix_key);
  for (const std::string_view piece : pieces) inspector.feed(piece);
  inspector.finish();
  return inspector.take_prefix(seed);
}
inline Anchors anchors(Api api, std::string_view body, std::uint64_t seed = 0) {
  return anchors_of(prefix_of(api, {body}, seed));
}
inline std::set<std::uint64_t> keys_of(const Anchors& all) {
  std::set<std::uint64_t> keys;
  for (const auto& [position, key] : all) keys.insert(key);
  return keys;
}
inline bool share_a_key(const Anchors& a, const Anchors& b) {
  const auto keys = keys_of(a);
  return std::any_of(b.begin(), b.end(), [&](const auto& one) { return keys.contains(one.second); });
}

}  // namespace weir::metrics::wire::prompt_prefix
