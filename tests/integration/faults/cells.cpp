#include "tests/integration/faults/cell.hpp"

namespace weir::integration {
namespace {

using enum Fault;
using enum Phase;

constexpr std::string_view no_replica_yet = "no replica has to do with a request that weir still reads";
constexpr std::string_view nothing_yet = "a connection that is not there carries no bytes";
constexpr std::string_view is_connected = "the connection is there";
constexpr std::string_view head_is_out = "the head is out";
constexpr std::string_view has_no_token = "no token has come";
constexpr std::string_view has_it_whole = "the replica has the request whole";
constexpr std::string_view no_response_yet = "there is no response after which anything could come";
constexpr std::string_view client_is_done = "the client has sent all, and there is nothing for it to read";

}  // namespace

const std::vector<Cell>& cells() {
  static const std::vector<Cell> table{
      {refuse, receiving, no_replica_yet},
      {.fault = refuse, .phase = queued, .alone = "rejected 503", .beside = "ok 200"},
      {.fault = refuse, .phase = connecting, .alone = "upstream_error 502", .beside = "ok 200"},
      {refuse, sending, is_connected},
      {refuse, prefill, is_connected},
      {refuse, streaming, is_connected},
      {.fault = refuse, .phase = keep_alive, .alone = "upstream_error 502", .beside = "ok 200"},

      {no_answer_to_connect, receiving, no_replica_yet},
      {.fault = no_answer_to_connect, .phase = queued, .alone = "rejected 429", .waiter = "rejected 429"},
      {.fault = no_answer_to_connect, .phase = connecting, .alone = "timeout 504", .beside = "ok 200"},
      {no_answer_to_connect, sending, is_connected},
      {no_answer_to_connect, prefill, is_connected},
      {no_answer_to_connect, streaming, is_connected},
      {.fault = no_answer_to_connect, .phase = keep_alive, .alone = "timeout 504", .beside = "ok 200"},

      {reset_before_head, receiving, no_replica_yet},
      {.fault = reset_before_head, .phase = queued, .alone = "ok 200", .waiter = "ok 200"},
      {.fault = reset_before_head, .phase = connecting, .alone = "upstream_reset 502", .beside = "ok 200"},
      {.fault = reset_before_head, .phase = sending, .alone = "upstream_reset 502", .beside = "ok 200"},
      {.fault = reset_before_head, .phase = prefill, .alone = "upstream_reset 502", .beside = "ok 200"},
      {reset_before_head, streaming, head_is_out},
      {.fault = reset_before_head, .phase = keep_alive, .alone = "ok 200", .beside = "ok 200"},

      {reset_mid_stream, receiving, no_replica_yet},
      {.fault = reset_mid_stream, .phase = queued, .alone = "upstream_reset 200", .waiter = "ok 200"},
      {reset_mid_stream, connecting, nothing_yet},
      {reset_mid_stream, sending, has_no_token},
      {.fault = reset_mid_stream, .phase = prefill, .alone = "upstream_reset 502", .beside = "ok 200"},
      {.fault = reset_mid_stream, .phase = streaming, .alone = "upstream_reset 200", .beside = "upstream_reset 200"},
      {.fault = reset_mid_stream, .phase = keep_alive, .alone = "upstream_reset 200", .beside = "upstream_reset 200"},

      {fin_mid_chunk, receiving, no_replica_yet},
      {.fault = fin_mid_chunk, .phase = queued, .alone = "upstream_reset 200", .waiter = "ok 200"},
      {fin_mid_chunk, connecting, nothing_yet},
      {fin_mid_chunk, sending, has_no_token},
      {.fault = fin_mid_chunk, .phase = prefill, .alone = "upstream_reset 502", .beside = "ok 200"},
      {.fault = fin_mid_chunk, .phase = streaming, .alone = "upstream_reset 200", .beside = "upstream_reset 200"},
      {.fault = fin_mid_chunk, .phase = keep_alive, .alone = "upstream_reset 200", .beside = "upstream_reset 200"},

      {half_close, receiving, no_replica_yet},
      {.fault = half_close, .phase = queued, .alone = "ok 200", .waiter = "ok 200"},
      {half_close, connecting, nothing_yet},
      {.fault = half_close, .phase = sending, .alone = "upstream_reset 502", .beside = "ok 200"},
      {.fault = half_close, .phase = prefill, .alone = "upstream_reset 502", .beside = "ok 200"},
      {.fault = half_close, .phase = streaming, .alone = "upstream_reset 200", .beside = "upstream_reset 200"},
      {.fault = half_close, .phase = keep_alive, .alone = "ok 200", .beside = "ok 200"},

      {stall, receiving, no_replica_yet},
      {.fault = stall, .phase = queued, .alone = "timeout 504", .waiter = "ok 200"},
      {stall, connecting, "that is no answer to connect"},
      {.fault = stall, .phase = sending, .alone = "timeout 504", .beside = "ok 200"},
      {.fault = stall, .phase = prefill, .alone = "timeout 504", .beside = "ok 200"},
      {.fault = stall, .phase = streaming, .alone = "timeout 200", .beside = "timeout 200"},
      {.fault = stall, .phase = keep_alive, .alone = "timeout 504", .beside = "ok 200"},

      {one_byte_at_a_time, receiving, no_replica_yet},
      {.fault = one_byte_at_a_time, .phase = queued, .alone = "ok 200", .waiter = "ok 200"},
      {one_byte_at_a_time, connecting, nothing_yet},
      {one_byte_at_a_time, sending, "TCP does not show how little a replica reads at a time"},
      {.fault = one_byte_at_a_time, .phase = prefill, .alone = "ok 200", .beside = "ok 200"},
      {.fault = one_byte_at_a_time, .phase = streaming, .alone = "ok 200", .beside = "ok 200"},
      {.fault = one_byte_at_a_time, .phase = keep_alive, .alone = "ok 200", .beside = "ok 200"},

      {garbage_after_the_response, receiving, no_replica_yet},
      {.fault = garbage_after_the_response, .phase = queued, .alone = "ok 200", .waiter = "ok 200"},
      {garbage_after_the_response, connecting, nothing_yet},
      {garbage_after_the_response, sending, no_response_yet},
      {garbage_after_the_response, prefill, no_response_yet},
      {.fault = garbage_after_the_response, .phase = streaming, .alone = "ok 200", .beside = "ok 200"},
      {.fault = garbage_after_the_response, .phase = keep_alive, .alone = "ok 200", .beside = "ok 200"},

      {early_4xx, receiving, no_replica_yet},
      {early_4xx, queued, has_it_whole},
      {early_4xx, connecting, nothing_yet},
      {.fault = early_4xx, .phase = sending, .alone = "client_error 413", .beside = "client_error 413"},
      {early_4xx, prefill, has_it_whole},
      {early_4xx, streaming, head_is_out},
      {.fault = early_4xx, .phase = keep_alive, .alone = "client_error 413", .beside = "client_error 413"},

      {storm_of_1xx, receiving, no_replica_yet},
      {.fault = storm_of_1xx, .phase = queued, .alone = "upstream_error 502", .waiter = "ok 200"},
      {storm_of_1xx, connecting, nothing_yet},
      {.fault = storm_of_1xx, .phase = sending, .alone = "upstream_error 502", .beside = "ok 200"},
      {.fault = storm_of_1xx, .phase = prefill, .alone = "upstream_error 502", .beside = "ok 200"},
      {storm_of_1xx, streaming, head_is_out},
      {.fault = storm_of_1xx, .phase = keep_alive, .alone = "upstream_error 502", .beside = "ok 200"},

      {in_band_error, receiving, no_replica_yet},
      {.fault = in_band_error, .phase = queued, .alone = "upstream_error 200", .waiter = "ok 200"},
      {in_band_error, connecting, nothing_yet},
      {.fault = in_band_error, .phase = sending, .alone = "upstream_error 200", .beside = "ok 200"},
      {.fault = in_band_error, .phase = prefill, .alone = "upstream_error 200", .beside = "ok 200"},
      {.fault = in_band_error, .phase = streaming, .alone = "upstream_error 200", .beside = "upstream_error 200"},
      {.fault = in_band_error, .phase = keep_alive, .alone = "upstream_error 200", .beside = "ok 200"},

      {killed, receiving, no_replica_yet},
      {.fault = killed, .phase = queued, .alone = "rejected 503", .beside = "ok 200", .waiter = "rejected 503"},
      {killed, connecting, "the kernel connects for a process that lives, and refuses for one that does not"},
      {.fault = killed, .phase = sending, .alone = "upstream_reset 502", .beside = "ok 200"},
      {.fault = killed, .phase = prefill, .alone = "upstream_reset 502", .beside = "ok 200"},
      {.fault = killed, .phase = streaming, .alone = "upstream_reset 200", .beside = "upstream_reset 200"},
      {.fault = killed, .phase = keep_alive, .alone = "upstream_error 502", .beside = "ok 200"},

      {.fault = client_closes, .phase = receiving, .alone = "client_abort queue"},
      {.fault = client_closes, .phase = queued, .alone = "client_abort queue"},
      {.fault = client_closes, .phase = connecting, .alone = "client_abort queue"},
      {.fault = client_closes, .phase = sending, .alone = "client_abort prefill"},
      {.fault = client_closes, .phase = prefill, .alone = "client_abort prefill"},
      {.fault = client_closes, .phase = streaming, .alone = "client_abort decode"},
      {.fault = client_closes, .phase = keep_alive, .alone = "ok 200"},

      {.fault = client_resets, .phase = receiving, .alone = "client_abort queue"},
      {.fault = client_resets, .phase = queued, .alone = "client_abort queue"},
      {.fault = client_resets, .phase = connecting, .alone = "client_abort queue"},
      {.fault = client_resets, .phase = sending, .alone = "client_abort prefill"},
      {.fault = client_resets, .phase = prefill, .alone = "client_abort prefill"},
      {.fault = client_resets, .phase = streaming, .alone = "client_abort decode"},
      {.fault = client_resets, .phase = keep_alive, .alone = "ok 200"},

      {.fault = client_half_closes, .phase = receiving, .alone = "client_abort queue"},
      {.fault = client_half_closes, .phase = queued, .alone = "client_abort queue"},
      {.fault = client_half_closes, .phase = connecting, .alone = "client_abort queue"},
      {.fault = client_half_closes, .phase = sending, .alone = "client_abort prefill"},
      {.fault = client_half_closes, .phase = prefill, .alone = "client_abort prefill"},
      {.fault = client_half_closes, .phase = streaming, .alone = "client_abort decode"},
      {.fault = client_half_closes, .phase = keep_alive, .alone = "ok 200"},

      {.fault = client_half_closes_and_reads, .phase = receiving, .alone = "client_abort queue"},
      {.fault = client_half_closes_and_reads, .phase = queued, .alone = "ok 200", .waiter = "ok 200"},
      {.fault = client_half_closes_and_reads, .phase = connecting, .alone = "timeout 504"},
      {.fault = client_half_closes_and_reads, .phase = sending, .alone = "ok 200"},
      {.fault = client_half_closes_and_reads, .phase = prefill, .alone = "ok 200"},
      {.fault = client_half_closes_and_reads, .phase = streaming, .alone = "ok 200"},
      {.fault = client_half_closes_and_reads, .phase = keep_alive, .alone = "ok 200"},

      {.fault = client_stalls, .phase = receiving, .alone = "bad_request 408"},
      {client_stalls, queued, client_is_done},
      {client_stalls, connecting, client_is_done},
      {client_stalls, sending, client_is_done},
      {client_stalls, prefill, client_is_done},
      {.fault = client_stalls, .phase = streaming, .alone = "client_abort decode"},
      {client_stalls, keep_alive, "its connection is idle, and a unit test has the 75 s that it may be that"},

      {.fault = client_one_byte_at_a_time, .phase = receiving, .alone = "ok 200"},
      {client_one_byte_at_a_time, queued, client_is_done},
      {client_one_byte_at_a_time, connecting, client_is_done},
      {client_one_byte_at_a_time, sending, client_is_done},
      {client_one_byte_at_a_time, prefill, client_is_done},
      {.fault = client_one_byte_at_a_time, .phase = streaming, .alone = "ok 200"},
      {.fault = client_one_byte_at_a_time, .phase = keep_alive, .alone = "ok 200"},
  };
  return table;
}

Transport over_tls(const Cell& cell) {
  // TLS begins when the connection is there. tests/integration/tls has handshakes that fail.
  if (cell.fault == refuse || cell.fault == no_answer_to_connect || cell.phase == connecting)
    return Transport::tls_client;
  // A bridge outlives the process behind it, and shows weir the resets and ends of the other faults.
  if (cell.fault == killed) return Transport::tls_client;
  // Bytes that the bridge holds may reach weir behind the next request, and then they are that one's answer.
  if (cell.fault == garbage_after_the_response && cell.phase == keep_alive) return Transport::tls_client;
  return Transport::tls;
}

std::string_view name_of(Transport transport) {
  static constexpr std::array<std::string_view, 3> names{"plain", "tls", "tls_client"};
  return names[static_cast<std::size_t>(transport)];
}

std::string_view name_of(Fault fault) {
  static constexpr std::array<std::string_view, faults> names{"refuse",
                                                              "no_answer_to_connect",
                                                              "reset_before_head",
                                                              "reset_mid_stream",
                                                              "fin_mid_chunk",
                                                              "half_close",
                                                              "stall",
                                                              "one_byte_at_a_time",
                                                              "garbage_after_the_response",
                                                              "early_4xx",
                                                              "storm_of_1xx",
                                                              "in_band_error",
                                                              "killed",
                                                              "client_closes",
                                                              "client_resets",
                                                              "client_half_closes",
                                                              "client_half_closes_and_reads",
                                                              "client_stalls",
                                                              "client_one_byte_at_a_time"};
  return names[static_cast<std::size_t>(fault)];
}

std::string_view name_of(Phase phase) {
  static constexpr std::array<std::string_view, phases> names{"receiving", "queued",    "connecting", "sending",
                                                              "prefill",   "streaming", "keep_alive"};
  return names[static_cast<std::size_t>(phase)];
}

}  // namespace weir::integration
