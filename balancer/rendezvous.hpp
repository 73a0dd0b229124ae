// Rendezvous hashing (Thaler and Ravishankar 1998) with weights (Schindelhauer and Schomaker 2005): each name ranks the
// replicas in an order of its own. A replica that comes or goes moves only the names that have it first. Header only;
// includes no other file of weir.
#pragma once

#include <cmath>
#include <cstdint>

namespace weir::balancer {

/// Returns the rank of a replica for a name, above 0; the highest is first. Of many names a replica is first for a
/// share that is proportional to its weight. Both numbers are hashes.
inline double rendezvous(std::uint64_t name, std::uint64_t replica, double weight) {
  std::uint64_t mixed = name ^ (replica + 0x9e3779b97f4a7c15 + (name << 6U) + (name >> 2U));
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9;  // SplitMix64's finish.
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111eb;
  mixed ^= mixed >> 31U;
  const double fraction = (static_cast<double>(mixed >> 11U) + 0.5) * 0x1p-53;  // Neither 0 nor 1.
  return -weight / std::log(fraction);
}

}  // namespace weir::balancer
