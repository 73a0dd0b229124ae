// The fault matrix: what can go wrong, at which phase of a request, and how the request has to end then.
//
// cells() is the whole table. A combination that cannot be has its reason there, in place of an expectation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::integration {

enum class Fault : std::uint8_t {
  // Faults of a replica.
  refuse,
  no_answer_to_connect,
  reset_before_head,
  reset_mid_stream,
  fin_mid_chunk,
  half_close,
  stall,
  one_byte_at_a_time,
  garbage_after_the_response,
  early_4xx,
  storm_of_1xx,
  in_band_error,
  killed,
  // Faults of a client.
  client_closes,
  client_resets,
  client_half_closes,
  client_half_closes_and_reads,  ///< The settings allow it.
  client_stalls,
  client_one_byte_at_a_time,
};
inline constexpr std::size_t faults = 19;

/// Says where the request is when the fault comes.
enum class Phase : std::uint8_t {
  receiving,   ///< weir reads it from its client.
  queued,      ///< The request waits in weir, and the fault befalls the request that has its place, or its client.
  connecting,  ///< weir connects to the replica.
  sending,     ///< The replica has read its head, and the body is on its way.
  prefill,     ///< The replica has it whole and has sent no token.
  streaming,   ///< The client has some tokens.
  keep_alive,  ///< The request is the second one on connections that have served one, or they are idle.
};
inline constexpr std::size_t phases = 7;

std::string_view name_of(Fault fault);
std::string_view name_of(Phase phase);
inline bool is_clients(Fault fault) { return fault >= Fault::client_closes; }

/// An expectation has the outcome, the phase that belongs to it if there is one, and the status that the client reads:
/// "upstream_reset 502". Without a status the client has left, or got no head.
struct Cell {
  Fault fault;
  Phase phase;
  std::string_view cannot = {};  ///< The reason why there is no such combination.
  std::string_view alone = {};   ///< The expectation where the replica is the only one.
  std::string_view beside = {};  ///< The one beside a replica that is well; "" if that makes no difference.
  std::string_view waiter = {};  ///< The one for the request that was queued meanwhile.
};

const std::vector<Cell>& cells();

/// The protocol that peers speak with weir. A bridge stands before each one that speaks TLS.
enum class Transport : std::uint8_t {
  plain,
  tls,         ///< Clients and scripted replicas speak TLS.
  tls_client,  ///< Clients alone do.
};
std::string_view name_of(Transport transport);

/// Returns how a cell is played with TLS.
Transport over_tls(const Cell& cell);

}  // namespace weir::integration
