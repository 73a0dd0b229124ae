// The replica's half of an attempt, as a machine without I/O: it is told what happened and returns what that brought.
//
// It reads the replica's head through the gate, takes the framing off the body, meters it, takes out what weir asked
// for, and ends the lease with the replica's work. It knows no client: a relay frames what it brings for one, a mirror
// drops it. One thread, no clock, no socket; between calls it keeps at most an unfinished head or event.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "balancer/pool.hpp"
#include "config/settings.hpp"
#include "metrics/measure/stream_meter.hpp"
#include "metrics/series/shard.hpp"
#include "metrics/wire/request/edits.hpp"
#include "proxy/exchange/verdict.hpp"
#include "proxy/http/body_decoder.hpp"

namespace weir::proxy::exchange {

using metrics::Moment;

/// How the replica's connection broke off, or its patience ended.
enum class Break : std::uint8_t { reset, closed, bad_framing, timed_out };

class AttemptMachine {
 public:
  struct Options {
    metrics::Api api = metrics::Api::other;
    bool stream = false;   ///< The client asked for a stream: its time limits apply.
    bool to_head = false;  ///< The request is a HEAD: its answer has no body.
    /// What weir added to the request, and takes out of the answer again.
    metrics::wire::Ask asked = metrics::wire::Ask::nothing;
    bool injected = false;                   ///< weir edited the request of this attempt.
    bool injection_proven = false;           ///< The replica has taken the edit before: a refusal has another cause.
    bool reused = false;                     ///< The connection has served before.
    std::uint32_t choices = 1, prompts = 1;  ///< n and prompts of the request.
    Moment received{};                       ///< t0
    Moment started{};                        ///< Of this attempt.
    const config::Limits& limits;
  };

  enum class State : std::uint8_t {
    head,  ///< The head, or its rest, is awaited.
    body,
    done,
  };

  /// What one call brought. Views are good until the next call.
  struct Brought {
    std::optional<http::ResponseHead> head{};  ///< The final head, once.
    bool event_stream = false;                 ///< With it: it announces a stream.
    std::span<const std::string_view> body{};  ///< Payload to be passed on, in order.
    std::uint32_t token_events = 0;
    /// The replica's work is over; what is in `body` is the last of it.
    std::optional<ReplicaEnd> end{};
  };

  AttemptMachine(const Options& options, balancer::Lease lease, metrics::series::ReplicaShard& shard);

  /// The request's first byte was written (tS).
  void sent(Moment now) { sent_ = now; }
  /// Bytes of one read; overwritten in place where framing is taken off. StreamMeter::padding bytes behind them are
  /// readable.
  Brought arrived(std::span<char> bytes, Moment at);
  /// The replica's connection ended by itself, or its time is over.
  Brought ended(Break how, Moment now);
  /// Nobody wants the rest. `client_has_all`: see Evidence.
  void left(Moment now, bool client_has_all);

  /// Reading was paused for a slow client: the next read brings what gathered meanwhile.
  void paused() {
    if (meter_) meter_->paused();
  }

  State state() const { return state_; }
  /// When the replica has taken too long.
  Moment deadline() const;

  // Of the answer so far:
  unsigned status() const { return status_; }  ///< 0 where no head was read.
  bool is_stream() const;
  bool strips() const { return strips_; }  ///< Bytes may be taken out of this answer.
  /// An event that is no comment has come, or, of an answer that is no stream, a byte.
  bool has_event() const { return meter_ && meter_->has_event(); }
  /// The first event was an error: the replica answered 200 and then refused.
  bool refused_in_band() const { return meter_ && meter_->refused(); }
  bool has_end_marker() const { return meter_ && meter_->complete(); }
  bool reads_json() const { return form_ == metrics::measure::BodyForm::json; }
  /// What was passed on so far ends between two events.
  bool at_event_boundary() const { return meter_ && meter_->at_event_boundary(); }
  const metrics::record::Answer& answer() const;

  std::optional<Moment> sent_at() const { return sent_; }
  std::optional<Moment> head_at() const { return head_at_; }

  // After State::done:
  const Verdict& verdict() const { return verdict_; }
  /// Head, body and framing came whole, and nothing after them.
  bool reusable() const { return reusable_; }
  const balancer::Concurrency& concurrency() const { return concurrency_; }
  /// The lease, where the replica's work did not begin: not sent, a stale connection, a refused injection.
  balancer::Lease take_lease() { return std::move(lease_); }

 private:
  void begin();
  void head_arrived(std::span<char> bytes, Moment at, Brought& brought);
  bool read_head(std::string_view bytes, Moment at, Brought& brought);
  void begin_body(const http::ResponseHead& head, Moment at);
  void decide_form(char first_byte);
  void body_arrived(std::span<char> bytes, Moment at, Brought& brought);
  void finish(ReplicaEnd end, std::span<const std::string_view> last, Moment at, Brought& brought);
  void broken(Break how, Moment now, Brought& brought);
  void stop(ReplicaEnd end, Moment now, bool client_has_all = false);
  bool is_torn() const;

  Options options_;
  balancer::Lease lease_;
  metrics::series::ReplicaShard& shard_;
  std::optional<metrics::measure::StreamMeter> meter_;
  /// How to read the body if its first byte shows that it is a stream under a wrong Content-Type.
  std::unique_ptr<metrics::measure::StreamMeter::Options> as_stream_;
  http::BodyDecoder decoder_;
  std::string head_bytes_;        ///< A head that came in several reads.
  std::string passed_head_;       ///< The same, while views of it are out.
  std::string last_;              ///< The last bytes of the body, put together.
  std::string_view last_view_{};  ///< Of `last_`.

  std::optional<Moment> sent_, head_at_, last_token_;
  balancer::Concurrency concurrency_;
  Verdict verdict_;
  unsigned status_ = 0;
  metrics::measure::BodyForm form_ = metrics::measure::BodyForm::opaque;
  State state_ = State::head;
  bool any_byte_ = false, strips_ = false, keep_alive_ = false, reusable_ = false;
};

}  // namespace weir::proxy::exchange
