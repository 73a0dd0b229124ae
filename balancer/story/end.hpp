// The ways in which an attempt at a request ends, in one list for all layers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "metrics/vocabulary.hpp"

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

/// What follows from an end by itself.
struct EndFacts {
  metrics::Outcome outcome;  ///< Of an answer that is not whole, and that reported no error of the replica's.
  /// Why another replica may do better before an answer reached the client. Time that ran out: see AnswerHandler.
  std::optional<metrics::Retry> retry;
  std::string_view sentence;  ///< Tells the client of a stream why it is cut; "" where nothing is.
};

/// In the order of End.
inline constexpr auto facts_of_ends = [] {
  using metrics::Outcome, metrics::Retry;
  constexpr std::string_view lost = "the replica was lost: the answer is incomplete";
  return std::array<EndFacts, 13>{{
      {Outcome::ok, {}, ""},
      {Outcome::ok, {}, ""},
      {Outcome::truncated, {}, "the replica closed the stream before its end: the answer is incomplete"},
      {Outcome::upstream_reset, Retry::reset, lost},
      {Outcome::upstream_reset, Retry::reset, lost},
      {Outcome::upstream_error, Retry::reset, lost},
      {Outcome::timeout, {}, "the replica stopped sending: the answer is incomplete"},
      {Outcome::rejected, Retry::drain, "the time to drain (limits.drain) is over: the answer is incomplete"},
      {Outcome::client_abort, {}, lost},
      {Outcome::client_abort, {}, lost},
      {Outcome::upstream_reset, Retry::stale_connection, lost},
      {Outcome::upstream_reset, Retry::injection_refused, lost},
      {Outcome::upstream_reset, Retry::connect, lost},
  }};
}();
constexpr const EndFacts& facts_of(End end) { return facts_of_ends[static_cast<std::size_t>(end)]; }

/// True for an end within an answer, or before one, that a client of the answer has to see as a cut.
constexpr bool breaks_off(End end) { return !facts_of(end).sentence.empty(); }

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
