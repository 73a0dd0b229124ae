// Counters, histograms and the series that one loop writes: of a replica, and of weir.
//
// The series of one replica that one loop writes. A scrape adds up the shards of all loops (exposition.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "metrics/record/request_record.hpp"
#include "metrics/vocabulary.hpp"

namespace weir::metrics::series {

/// A number that only grows. One thread adds and any thread reads. A reader of a count also sees what its writer had
/// stored before (on x86 at no cost).
class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_release); }
  std::uint64_t value() const { return value_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// A counter for each value of an enum; `size` says how many it has. An index without a type serves those who count
/// all.
template <class Enum, std::size_t size>
struct Counters : std::array<Counter, size> {
  void add(Enum which, std::uint64_t n = 1) { (*this)[static_cast<std::size_t>(which)].add(n); }
  std::uint64_t value(Enum which) const { return (*this)[static_cast<std::size_t>(which)].value(); }
};

/// Exact counts for the exported `le` bounds, in integers of the histogram's unit (nanoseconds, tokens, thousandths).
/// An observation equal to a bound belongs to that bound's bucket, as Prometheus defines `le`. `bounds` must be
/// ascending and outlive the histogram. One thread observes and any thread reads.
class Histogram {
 public:
  explicit Histogram(std::span<const std::uint64_t> bounds)
      : bounds_(bounds), buckets_(std::make_unique<std::atomic<std::uint64_t>[]>(bounds.size() + 1)) {}

  void observe(std::uint64_t value, std::uint64_t count = 1) { observe_about(value, count, value * count); }
  /// Adds `count` observations of about `value`, and `sum` to the sum.
  void observe_about(std::uint64_t value, std::uint64_t count, std::uint64_t sum) {
    const auto at = static_cast<std::size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin());
    bump(buckets_[at], count);
    bump(sum_, sum);
  }

  /// Goes on with other bounds. A bucket's count moves to the new bucket that has its upper bound, so that what is
  /// counted from now on is exact, and no count falls. Only the writer may call it, and no reader meanwhile.
  void rebound(std::span<const std::uint64_t> bounds) {
    auto buckets = std::make_unique<std::atomic<std::uint64_t>[]>(bounds.size() + 1);
    for (std::size_t i = 0; i <= bounds_.size(); ++i) bump(buckets[place(bounds, i)], bucket(i));
    bounds_ = bounds;
    buckets_ = std::move(buckets);
  }

  /// Returns the bucket among `bounds` that has the upper bound of bucket `at`.
  std::size_t place(std::span<const std::uint64_t> bounds, std::size_t at) const {
    if (at == bounds_.size()) return bounds.size();
    return static_cast<std::size_t>(std::lower_bound(bounds.begin(), bounds.end(), bounds_[at]) - bounds.begin());
  }

  std::span<const std::uint64_t> bounds() const { return bounds_; }
  /// Returns the observations in bucket `at` alone (not cumulative). `at == bounds().size()` is the bucket above every
  /// bound.
  std::uint64_t bucket(std::size_t at) const { return buckets_[at].load(std::memory_order_relaxed); }
  std::uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  static void bump(std::atomic<std::uint64_t>& a, std::uint64_t n) {
    a.store(a.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  std::span<const std::uint64_t> bounds_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> buckets_;
  std::atomic<std::uint64_t> sum_{0};
};

// The exported bucket bounds (docs/reference/metrics.md) are integers: nanoseconds, tokens or thousandths, in ascending
// order.
//
// The bounds are constant-initialised, so that a histogram of static storage may use them.

extern const std::span<const std::uint64_t> latency_bounds;    ///< TTFT and queue, in ns.
extern const std::span<const std::uint64_t> per_token_bounds;  ///< ITL, ICL and TPOT, in ns.
extern const std::span<const std::uint64_t> duration_bounds;   ///< Whole requests, in ns.
extern const std::span<const std::uint64_t> overhead_bounds;   ///< The latency that weir adds to a token, in ns.
extern const std::span<const std::uint64_t> size_bounds;       ///< Tokens.
extern const std::span<const std::uint64_t> ratio_bounds;      ///< Thousandths.
/// Thousandths of a token per second. In whole tokens the sum, and so the mean of slow streams, would be wrong.
extern const std::span<const std::uint64_t> speed_bounds;

extern const std::span<const std::uint64_t> loop_delay_bounds;  ///< The lateness of a loop's tick, in ns.

/// The bounds of the histograms that objectives use: the bounds above and the objectives' thresholds, so that
/// attainment can be read from a bucket. All replicas of all pools share one set, or `sum by (le)` would add unlike
/// buckets.
struct Bounds {
  explicit Bounds(std::span<const config::Slo> slos = {});
  std::vector<std::uint64_t> latency, per_token, duration;
};

/// The objectives of requests, and the bounds that follow from them. The object never changes; a reload makes another.
struct Objectives {
  explicit Objectives(std::vector<config::Slo> all = {}) : slos(std::move(all)), bounds(slos) {}
  std::vector<config::Slo> slos;
  Bounds bounds;
};

/// Says why part of an answer could not be read.
enum class Unparsed : std::uint8_t { event_too_long, broken_json, coded_body, broken_request };
inline constexpr std::array<std::string_view, 4> unparsed_names{"event_too_long", "broken_json", "coded_body",
                                                                "broken_request"};

using metrics::Retry;
using metrics::retry_names;

/// Says in what a replica's answer broke HTTP/1.1, so that weir refused it or broke it off.
enum class Malformed : std::uint8_t {
  head,      ///< A line of its head, its version, or its Connection field.
  too_long,  ///< Its head: the bytes, or the fields.
  length,    ///< Content-Length is no number, stands twice, or stands beside Transfer-Encoding.
  coding,    ///< Its Transfer-Encoding is not exactly one `chunked`.
  no_body,   ///< A 1xx or a 204 announced a body.
  interim,   ///< Interim answers without end, or 101.
  chunks,    ///< The chunked framing of its body.
  surplus    ///< Bytes came behind the answer. It was whole and went on; only its connection was closed.
};
inline constexpr std::array<std::string_view, 8> malformed_names{"head",    "too_long", "length", "coding",
                                                                 "no_body", "interim",  "chunks", "surplus"};

/// The fate of a request that was to be mirrored.
enum class Mirrored : std::uint8_t {
  sent,
  max_in_flight,
  max_queued_tokens,
  busy,           ///< The shadow's replicas took nothing for another reason: they had said that they are full.
  down,           ///< The shadow had no replica that was up.
  primary_waits,  ///< Requests waited in the primary's pool.
  loop_late,      ///< A stream loop was late.
  behind,         ///< The shadows' thread did not get to it.
  client_left,    ///< The client had left before it was sent.
  cannot_set,     ///< A member of the shadow's `set` stands twice in the request, or is written with escapes.
  draining,
  buffer_memory  ///< limits.buffer_memory was spent.
};
inline constexpr std::array<std::string_view, 12> mirrored_names{
    "sent",      "max_in_flight", "max_queued_tokens", "busy",       "down",     "primary_waits",
    "loop_late", "behind",        "client_left",       "cannot_set", "draining", "buffer_memory"};

/// Each shard has one writer, the loop to which it belongs; any thread reads. Values are nanoseconds, tokens or
/// thousandths, rounded to the nearest (the ratio is rounded up). The bucket counts are exact for the rounded values.
class ReplicaShard {
  std::shared_ptr<const Objectives> objectives_;  // Comes first, because the histograms take their bounds from it.

 public:
  /// `pool` is that of the replica: only its objectives are counted.
  explicit ReplicaShard(std::shared_ptr<const Objectives> objectives = std::make_shared<const Objectives>(),
                        const std::string& pool = "");

  /// Counts by these objectives from now on. An objective that keeps its name keeps its counts. On the writer's thread,
  /// while no other thread reads.
  void follow(const std::shared_ptr<const Objectives>& objectives, const std::string& pool);

  // Known while an answer flows.
  Histogram time_to_first_token{objectives_->bounds.latency};
  Histogram client_time_to_first_token{objectives_->bounds.latency};
  Histogram inter_token_latency{objectives_->bounds.per_token};
  Histogram inter_chunk_latency{objectives_->bounds.per_token};
  Histogram token_overhead{overhead_bounds};
  Counter client_blocked_events;  ///< Counts the token events that token_overhead leaves out, because their write was
                                  ///< not accepted at once.
  Counter output_tokens;
  Counters<Retry, retry_names.size()> retries;
  Counters<Unparsed, unparsed_names.size()> unparsed;
  Counters<Malformed, malformed_names.size()> malformed;
  Counters<Mirrored, mirrored_names.size()> mirrored;  ///< In a shadow, the first replica counts for all.
  std::array<Counter, 2> bytes;  ///< Counts body bytes: [0] of requests to the replica, [1] of answers from it.

  // Known at the end, when settle() writes them.
  Histogram time_per_output_token{objectives_->bounds.per_token};
  Histogram queue_duration{objectives_->bounds.latency};
  Histogram request_output_tokens_per_second{speed_bounds};
  Histogram request_prompt_tokens{size_bounds};
  Histogram request_output_tokens{size_bounds};
  Histogram prompt_estimate_ratio{ratio_bounds};       ///< Counts thousandths.
  Histogram ttft_measured_by_predicted{ratio_bounds};  ///< Counts thousandths.
  Counter prompt_tokens, cached_prompt_tokens, prompt_tokens_cache_known;
  Counter reasoning_tokens, output_tokens_overcounted, aborted_output_tokens, itl_unknown_requests;
  Counter token_reads, coalesced_token_reads, itl_suspect_requests;
  struct SloCounts {
    config::Slo slo;
    Counters<record::SloResult, record::slo_result_names.size()> results{};
  };
  std::vector<std::unique_ptr<SloCounts>> slo_requests;  ///< In the order of the pool's objectives.
  /// Returns the counts of the objective of that name; zeros if there is none.
  std::span<const Counter> slo_results(std::string_view name) const;
  Counters<TokenSource, token_source_names.size()> requests_by_token_source;

  /// `client_abort` takes three slots, one for each phase: see outcome_slot.
  static constexpr std::size_t outcome_slots = outcome_names.size() + 2;
  static std::size_t outcome_slot(Outcome outcome, Phase phase);
  std::array<std::array<std::array<Counter, 2>, api_names.size()>, outcome_slots> requests;  ///< The indices are
                                                                                             ///< [slot][api][stream].
  Histogram& request_duration(Api api, bool stream) {
    return durations_[static_cast<std::size_t>(api) * 2 + (stream ? 1 : 0)];
  }
  const Histogram& request_duration(Api api, bool stream) const {
    return const_cast<ReplicaShard*>(this)->request_duration(api, stream);
  }

  /// Counts a finished request and all that is known only now: outcome, durations, TPOT, settled ITL, and what usage
  /// says of the tokens. It is to be called once a request, whatever happened, on the shard of the replica whose answer
  /// or failure the client was told. The request itself is counted last, so that a reader who reads its count first
  /// also sees the rest of it.
  void settle(const record::RequestRecord& record);

 private:
  void settle_tokens(const record::RequestRecord& record);
  void settle_served(const record::RequestRecord& record);
  void settle_gaps(const record::RequestRecord& record, bool whole);
  void settle_reads(const record::RequestRecord& record);
  void settle_slos(const record::RequestRecord& record);

  void count_slos(const std::string& pool);
  void take_bounds();

  std::deque<Histogram> durations_;  ///< The index is api * 2 + stream.
};

// The series of weir itself that one loop writes: limits that bit, and how late its ticks are.

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

// Counts the exceptions that left a coroutine which nobody awaits, by the part of weir to which it belongs. Each is a
// bug. Any thread may count.

enum class Part : std::uint8_t {
  session,
  shadow,
  prober,
  resolver,
  engine_reader,
  model_directory,
  operators,
  control
};
inline constexpr std::array<std::string_view, 8> part_names{"session",       "shadow",          "prober",    "resolver",
                                                            "engine_reader", "model_directory", "operators", "control"};

class InternalErrors {
 public:
  void count(Part part) { of(part).fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t counted(Part part) const { return counts_[static_cast<std::size_t>(part)].load(); }

 private:
  std::atomic<std::uint64_t>& of(Part part) { return counts_[static_cast<std::size_t>(part)]; }

  std::array<std::atomic<std::uint64_t>, part_names.size()> counts_{};
};

}  // namespace weir::metrics::series
