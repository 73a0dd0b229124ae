// How each replica compares with those of its kind. Pure.
#pragma once

#include <vector>

#include "proxy/live/now.hpp"

namespace weir::proxy::live {

/// Sets each replica's figures by those of its peers: replicas of its pool that are up and of the same `gpu`, `weight`
/// and `config`. To be compared, each needs so many observations in the last seconds.
inline constexpr double least_gaps = 20, least_ttfts = 15;
/// The gaps of a replica are known while at most this share of its streams is coalesced.
inline constexpr double most_coalesced = 0.3;
void compare_with_peers(std::vector<ReplicaNow>& replicas);

}  // namespace weir::proxy::live
