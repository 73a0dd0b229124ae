// The words that every file of balancer/ uses: tokens, keys of replicas, gauges.
#pragma once

#include <cstdint>

#include "metrics/moment.hpp"

namespace weir::balancer {

using metrics::Moment;
using Tokens = std::uint64_t;

/// A replica's place in its pool. It is stable while the replica is there; a place is used again when its replica is
/// gone.
using ReplicaIndex = std::uint32_t;

/// A pool never gives two replicas the same one.
using Serial = std::uint64_t;

/// A replica of a pool, and no other that gets its place later.
struct ReplicaKey {
  ReplicaIndex index = 0;
  Serial serial = 0;
  bool operator==(const ReplicaKey&) const = default;
};

/// The gauges of a replica's ledger, as of its latest time: at rest all but seconds_since_end are 0.
struct Gauges {
  Tokens prefill_left = 0, decode_left = 0;
  Tokens context = 0;   ///< The prompts and the output so far of all that runs here, which its steps read.
  Tokens resident = 0;  ///< What of it takes room of the KV cache. What it is believed to have had lies there once.
  std::uint32_t in_flight = 0;
  std::uint32_t pending = 0, streaming = 0;  ///< Streams that wait for their first token, and that have had it.
  std::uint32_t recent_failures = 0;         ///< Requests that ended without an answer within the last second.
  /// The time for which the oldest prompt has been worked on. A prompt whose first token comes after that of a younger
  /// one keeps no other waiting, and does not count.
  double worked_seconds = 0;
  double seconds_since_end = 0;  ///< Since a stream last ended.
};

}  // namespace weir::balancer
