// The series of weir itself that one loop writes: limits that bit, and how late its ticks are.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "metrics/moment.hpp"
#include "metrics/series/buckets.hpp"
#include "metrics/series/histogram.hpp"

namespace weir::metrics::series {

/// What bit a limit.
enum class Limit : std::uint8_t {
  connections,
  request_head,
  request_body,
  head_time,
  body_time,
  client_stall,
  max_in_flight,
  max_queued_tokens,
  queue,        ///< Its requests or its bytes.
  queue_time,   ///< A request waited so long, or would have.
  descriptors,  ///< None was left for a connection to a replica.
  sockets,      ///< No local address, port or memory of the kernel was left.
  connections_per_address,
  idle_upstream_connections  ///< A connection to a replica was closed that could have waited for another request.
};
inline constexpr std::array<std::string_view, 14> limit_names{
    "connections",       "request_head", "request_body", "head_time",   "body_time", "client_stall",            "max_in_flight",
    "max_queued_tokens", "queue",        "queue_time",   "descriptors", "sockets",   "connections_per_address", "idle_upstream_connections"};

/// What one loop writes that belongs to no replica.
struct LoopShard {
  std::array<Counter, limit_names.size()> limit_hits;
  std::atomic<std::int64_t> lag_nanoseconds{0};  ///< Latest lateness of the loop's tick.
  Histogram loop_delay{loop_delay_bounds};       ///< Every tick counts.

  void ticked(Nanoseconds late) {
    lag_nanoseconds.store(late.count(), std::memory_order_relaxed);
    loop_delay.observe(static_cast<std::uint64_t>(std::max(late, Nanoseconds::zero()).count()));
  }
};

}  // namespace weir::metrics::series
