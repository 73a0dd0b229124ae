// A request, from the last byte of its body to its outcome. The log writes it, and the comparison reads it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/settings.hpp"
#include "metrics/memory.hpp"
#include "metrics/moment.hpp"
#include "metrics/record/answer.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/request/facts.hpp"
#include "metrics/wire/request/prefix_chain.hpp"

namespace weir::metrics::record {

/// The additional facts of a mirrored request: the copy of a primary's request that a shadow replica got, or that was
/// dropped.
struct Mirrored {
  std::string pair;         ///< The id of the primary's record.
  std::string shadow;       ///< The name of the [[shadow]].
  std::string drop_reason;  ///< Why the copy was not sent; "" if it was.
  bool joined = false;      ///< The primary's record was there to be compared with.
  // Absent where one of the two answers could not be compared.
  std::optional<bool> same_text{};                     ///< Both answers have the same text.
  std::optional<std::uint64_t> common_prefix_bytes{};  ///< At least so many bytes of the two texts are equal.
  std::optional<bool> same_tools{};                    ///< Both answers call the same tools with the same arguments.
  /// The answer calls tools, and the arguments of each call are JSON. Absent where neither of the two calls any.
  std::optional<bool> valid_tools{}, primary_valid_tools{};
  bool operator==(const Mirrored&) const = default;
};

/// An attempt of several at a request.
struct Tried {
  std::string replica;
  Moment began{}, ended{};
  unsigned status = 0;         ///< Of the replica's head; 0 if none was read.
  std::optional<Retry> why{};  ///< Why another attempt followed; absent for the last one.
  bool operator==(const Tried&) const = default;
};

struct RequestRecord {
  std::chrono::system_clock::time_point time;  ///< The wall clock showed this at t0.
  std::string id;                              ///< Weir's own id: 128 random bits in hex.
  std::string client_id;                       ///< The client's x-request-id; "" if it is absent or not valid.
  std::string key;                             ///< The name of the client's key; "" if clients need none.
  std::string pool, replica, config;           ///< "" if none was chosen.
  Rare<Mirrored> mirrored;                     ///< Set for Role::shadow alone.
  Role role = Role::primary;
  std::uint32_t shadows = 0;  ///< The number of shadows that got a copy.
  wire::RequestFacts facts;
  std::optional<std::uint64_t> prompt_tokens_estimate;
  std::optional<double> predicted_ttft, predicted_e2e;  ///< Seconds from the choice of the replica.
  /// So many tokens of the prompt the replica was believed to hold, and the one that held most could.
  std::optional<std::uint32_t> prefix_predicted, prefix_best;
  Rare<std::vector<wire::PrefixMark>> prefixes;  ///< Of the prompt; empty unless log.prefixes is set.

  std::optional<unsigned> status;          ///< The client got this status; it is absent if no head was sent.
  std::optional<unsigned> replica_status;  ///< The status of the last head that a replica sent; absent if none did.
  Outcome outcome = Outcome::bad_request;
  std::optional<Phase> phase;      ///< Set where the client left, or limits.drain cut the request.
  std::uint32_t attempt = 0;       ///< 1 for the first attempt, and 0 if none was made.
  Rare<std::vector<Tried>> tried;  ///< Where there was more than one attempt: the first ones and the last two, eight at
                                   ///< most.
  bool suspect = false;            ///< Two replicas were lost while they worked on it.

  Moment received{};            ///< t0: the request's last byte arrived from the client.
  std::optional<Moment> sent;   ///< tS: the request's first byte was written to the replica (in the attempt that
                                ///< answered).
  std::optional<Moment> head;   ///< tH: the replica's response head arrived.
  std::optional<Moment> ended;  ///< The exchange was over for the client.
  Nanoseconds wait{};           ///< The request spent this part of tS - t0 in weir's queue.
  Nanoseconds connect{};        ///< Connecting took this part of tS - t0, in all attempts.
  Nanoseconds paused{};         ///< Reading was paused for a slow client for so long.
  std::optional<Nanoseconds> overhead_max;  ///< No bytes took longer than this from their arrival in the kernel to
                                            ///< their write.
  std::optional<std::uint32_t> in_flight_at_start;  ///< The other requests on that replica.
  std::optional<double> in_flight_mean;  ///< The mean number of requests on that replica, over the time that this
                                         ///< one ran.
  std::uint64_t bytes_in = 0;            ///< The request's body had so many bytes.
  std::uint64_t bytes_out = 0;           ///< The client was sent so many bytes of the response's body.
  Answer answer;
};

/// The formulas of docs/reference/metrics.md, in seconds; a figure is absent where it is undefined. Latencies of failed
/// requests are computed too, because the log shows them; ReplicaShard::settle decides which of them enter a series.
struct Figures {
  std::optional<double> queue;         ///< tS - t0: the wait, and earlier attempts
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

/// How fast one choice was generated. An answer with several choices has one for each.
struct Decode {
  double tpot;   ///< (tL - t1) / (n - n1)
  double speed;  ///< (n - n1) / (tL - t1), tokens per second
};

std::optional<Decode> decode_of(const ChoiceTimes& choice);

/// True if the replica did its whole work, so that its times are those of a served request: ok, ok_empty, and a
/// client_abort after the answer's end.
bool served(const RequestRecord& record);

// Hands the records of finished requests from the loop that wrote them to the control thread.

/// A queue with one writer and one reader. A record costs a move under a mutex that nobody holds for longer.
class FinishedRecords {
 public:
  /// The most records that wait, some 60 MB and what they point to: the reader comes several times a second.
  static constexpr std::size_t most = 65'536;
  /// Memory for so many records is kept at most.
  static constexpr std::size_t most_kept = most / 8;

  /// Returns false if too many wait; the record is dropped then.
  bool put(RequestRecord&& record) {
    const std::lock_guard lock(mutex_);
    if (records_.size() >= most) return false;
    records_.push_back(std::move(record));
    return true;
  }
  /// Returns all records since the last call, in order. The next ones get the memory of `used`, unless that is much.
  std::vector<RequestRecord> take(std::vector<RequestRecord> used = {}) {
    used.clear();
    if (used.capacity() > most_kept) std::vector<RequestRecord>().swap(used);
    const std::lock_guard lock(mutex_);
    used.swap(records_);
    return used;
  }

 private:
  std::mutex mutex_;
  std::vector<RequestRecord> records_;
};

// Judges whether a request met a service level objective of its pool (docs/reference/metrics.md).

enum class SloResult : std::uint8_t { good, bad };
inline constexpr std::array<std::string_view, 2> slo_result_names{"good", "bad"};

/// Returns good if the request was served and met every threshold that applies (a figure equal to a threshold meets
/// it). Returns bad if it missed a threshold, if the replica or weir failed it, or if its client left after a threshold
/// had passed. Returns nothing if no threshold applies, if the request itself was wrong (bad_request, client_error), or
/// if its client left earlier.
///
/// A threshold applies where its figure exists: TTFT and TPOT need a stream, and TPOT needs more than one token in a
/// known number. If there are several choices, each has to meet tpot. If a client left while tokens came, tpot is
/// computed from the tokens counted until then; an event counts as one token where the wire does not tell.
std::optional<SloResult> judge(const config::Slo& slo, const RequestRecord& record);

}  // namespace weir::metrics::record
