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

/// The limit that was hit.
enum class Limit : std::uint8_t {
  connections,
  request_head,
  request_body,
  head_time,
  body_time,
  body_rate,
  buffer_memory,
  client_stall,
  max_in_flight,
  max_queued_tokens,
  queue,        ///< The queue's requests or its bytes.
  queue_time,   ///< A request waited for queue_time, or would have.
  descriptors,  ///< No descriptor was left for a connection to a replica.
  sockets,      ///< No local address, port or memory of the kernel was left.
  key,          ///< A client's key had as many requests as it may (max_in_flight of its [[key]]).
  handshakes,   ///< The most TLS handshakes were under way.
  handshake_time,
  connections_per_address,
  idle_upstream_connections,  ///< A connection to a replica was closed that could have waited for another request.
  answer_rate,
  buffer_share,
  handshake_cpu,  ///< The TLS handshakes of an address had taken as much CPU as they may.
};
inline constexpr std::array<std::string_view, 22> limit_names{"connections",
                                                              "request_head",
                                                              "request_body",
                                                              "head_time",
                                                              "body_time",
                                                              "body_rate",
                                                              "buffer_memory",
                                                              "client_stall",
                                                              "max_in_flight",
                                                              "max_queued_tokens",
                                                              "queue",
                                                              "queue_time",
                                                              "descriptors",
                                                              "sockets",
                                                              "key",
                                                              "handshakes",
                                                              "handshake_time",
                                                              "connections_per_address",
                                                              "idle_upstream_connections",
                                                              "answer_rate",
                                                              "buffer_share",
                                                              "handshake_cpu"};

/// Why a client was kept out.
enum class Denied : std::uint8_t { no_key, wrong_key, model };
inline constexpr std::array<std::string_view, 3> denied_names{"no_key", "wrong_key", "model"};

/// Why a request to the admin listener was refused.
enum class OperatorRefusal : std::uint8_t { no_token, wrong_token, too_many, strange_host, not_allowed };
inline constexpr std::array<std::string_view, 5> operator_refusal_names{"no_token", "wrong_token", "too_many",
                                                                        "strange_host", "not_allowed"};

/// The other end of a TLS handshake, and its result, in the order of net::tls::Side and Result.
inline constexpr std::array<std::string_view, 2> tls_side_names{"client", "replica"};
inline constexpr std::array<std::string_view, 3> tls_result_names{"full", "resumed", "failed"};

/// The figures of a loop that belong to no replica.
struct LoopShard {
  Counters<Limit, limit_names.size()> limit_hits;
  Counters<Denied, denied_names.size()> denied;
  Counter dropped_fields;  ///< Fields of requests that go to no replica, because their names have a `_`.
  /// TLS handshakes that have ended: [side][result].
  std::array<std::array<Counter, tls_result_names.size()>, tls_side_names.size()> tls_handshakes;
  std::atomic<std::int64_t> lag_nanoseconds{0};  ///< Latest lateness of the loop's tick.
  Histogram loop_delay{loop_delay_bounds};       ///< Every tick counts.

  void ticked(Nanoseconds late) {
    lag_nanoseconds.store(late.count(), std::memory_order_relaxed);
    loop_delay.observe(static_cast<std::uint64_t>(std::max(late, Nanoseconds::zero()).count()));
  }
};

}  // namespace weir::metrics::series
