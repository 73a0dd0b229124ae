// One request, from its first byte to its outcome: what the log writes, what comparison reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "metrics/moment.hpp"
#include "metrics/record/answer.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/request/facts.hpp"

namespace weir::metrics::record {

struct RequestRecord {
  std::chrono::system_clock::time_point time;  ///< Wall clock at t0.
  std::string id;                              ///< weir's own: 128 random bits in hex.
  std::string client_id;                       ///< The client's x-request-id; "" where absent or not valid.
  std::string pool, replica, config;           ///< "" where none was chosen.
  wire::RequestFacts facts;
  std::optional<std::uint64_t> prompt_tokens_estimate;

  std::optional<unsigned> status;  ///< What the client got; absent where no head was sent.
  Outcome outcome = Outcome::bad_request;
  std::optional<Phase> phase;  ///< Only Outcome::client_abort has one.
  std::uint32_t attempt = 0;   ///< 1 for the first; 0 where none was made.

  Moment received{};            ///< t0: the request's last byte arrived from the client.
  std::optional<Moment> sent;   ///< tS: its first byte was written to the replica (of the attempt that answered).
  std::optional<Moment> head;   ///< tH: the replica's response head arrived.
  std::optional<Moment> ended;  ///< The exchange was over for the client.
  Nanoseconds wait{};           ///< The part of tS - t0 in weir's queue.
  Nanoseconds connect{};        ///< The part of tS - t0 that connecting took.
  Nanoseconds paused{};         ///< Reading was paused for a slow client.
  std::optional<Nanoseconds> overhead_max;  ///< The longest time from arrival in the kernel to the write.
  std::uint32_t in_flight_at_start = 0;     ///< How many others that replica had.
  double in_flight_mean = 0;                ///< The mean over time on that replica, while the request ran.
  std::uint64_t bytes_in = 0;               ///< Request body.
  std::uint64_t bytes_out = 0;              ///< Response body, as sent to the client.
  Answer answer;
};

/// The formulas of MEASUREMENT.md, section 2, in seconds; absent where undefined. Latencies of failed requests are
/// computed here all the same (the log shows them); ReplicaShard::settle decides what enters a series.
struct Figures {
  std::optional<double> queue;         ///< tS - t0
  std::optional<double> ttfb;          ///< tH - tS
  std::optional<double> ttfc;          ///< tC - tS (streams only, as all below but e2e)
  std::optional<double> ttft;          ///< t1 - tS
  std::optional<double> ttft_client;   ///< t1 - t0
  std::optional<double> ttfot;         ///< tO - tS
  std::optional<double> tpot;          ///< (tL - t1) / (n - n1)
  std::optional<double> ntpot;         ///< (tL - t0) / n
  std::optional<double> e2e;           ///< tL - t0 (stream), tE - t0 (else, whatever was asked for)
  std::optional<double> decode_speed;  ///< (n - n1) / (tL - t1), tokens per second
};

Figures figures_of(const RequestRecord& record);

/// The times of one choice's generation; of an answer with several, one a choice.
struct Decode {
  double tpot;   ///< (tL - t1) / (n - n1)
  double speed;  ///< (n - n1) / (tL - t1), tokens per second
};

std::optional<Decode> decode_of(const ChoiceTimes& choice);

/// The replica did its whole work, so its times are those of a served request: ok, ok_empty, and a client_abort after
/// the answer's end.
bool served(const RequestRecord& record);

}  // namespace weir::metrics::record
