// The ways in which an attempt at a request ends, in one list for all layers.
#pragma once

#include <cstdint>

namespace weir::balancer::story {

/// How the replica's side of an attempt ended.
enum class End : std::uint8_t {
  // An answer came.
  whole,      ///< The answer came to the end of its framing.
  marked,     ///< The connection ended or stood still behind the stream's end marker, so nothing is missing.
  truncated,  ///< A stream ended with its connection and without a sign of its end.
  // The replica broke off, within an answer or before one.
  reset,        ///< The connection was reset.
  closed,       ///< The connection was closed.
  bad_framing,  ///< The bytes are no HTTP answer.
  timed_out,    ///< The replica took too long.
  // The replica's work was no longer wanted.
  cut,          ///< The time to drain (limits.drain) is over.
  client_left,  ///< The client has gone.
  given_up,     ///< The answer is an error that was left, because another replica is asked.
  // The replica's work did not begin, and the lease comes back unused.
  stale,           ///< A connection that had served before died before a byte was read.
  option_refused,  ///< The replica refused the usage option that weir had added; the original request is sent next.
  unconnected,     ///< No connection came about, and nothing was sent.
};

/// True for an end within an answer, or before one, that a client of the answer has to see as a cut.
constexpr bool breaks_off(End end) { return end != End::whole && end != End::marked; }

/// Whether an answer reached the client.
enum class Reply : std::uint8_t {
  none,     ///< There is nothing to send to the client.
  relayed,  ///< The client has got the answer, or as much of it as there was.
  error,    ///< The answer is an error that another replica may better. Nothing of it was sent.
};

/// Why no connection came about.
enum class ConnectFailure : std::uint8_t {
  refused,         ///< No process listens there.
  timed_out,       ///< limits.connect is over.
  backlog_full,    ///< The system says at once that too many connections wait there (Unix-domain sockets).
  no_address,      ///< The replica's host name has not been resolved.
  local_shortage,  ///< weir itself lacks descriptors, ports or memory.
  other,
};

}  // namespace weir::balancer::story
