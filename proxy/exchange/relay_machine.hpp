// One attempt at one request, as a machine without I/O: it is told what happened, and says what to write, when to stop
// and how it ended. The driver (proxy/exchange/relay.hpp) does the rest.
//
// It reads the replica's head through the gate, holds a stream's head until its first event, takes the upstream's
// framing off, meters, strips, frames for the client, and ends the lease with the replica's work. One thread, no clock,
// no socket; between calls it keeps at most an unfinished head or event, and what is held until acceptance.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "balancer/pool.hpp"
#include "config/settings.hpp"
#include "metrics/measure/stream_meter.hpp"
#include "metrics/series/shard.hpp"
#include "metrics/wire/request/edits.hpp"
#include "proxy/http/body_decoder.hpp"
#include "proxy/http/rewrite.hpp"

namespace weir::proxy::exchange {

using metrics::Moment;

/// What to write to the client, in order. Owned by the loop and used again: no allocation a token.
class RelayOutput {
 public:
  std::vector<std::string_view> spans;

  void clear();
  /// The size line of a chunk; at most two in one output (what came, and an error event of weir's own).
  void add_chunk_head(std::size_t size);
  std::size_t size() const;

 private:
  std::array<std::array<char, 20>, 2> chunk_heads_{};
  std::size_t chunk_heads_used_ = 0;
};

/// How an attempt ended.
enum class AttemptEnd : std::uint8_t {
  answered,           ///< The client has got an answer, or what there was of one.
  failed,             ///< Nothing was sent, and there is nothing to send.
  refused,            ///< Nothing was sent: the replica's answer is an error that another one may better.
  stale,              ///< A reused connection died before a byte was read: once more, free of charge.
  injection_refused,  ///< The replica refused the usage option weir added: the original is due.
  client_gone,
};

/// How the replica's side broke off.
enum class Break : std::uint8_t { reset, closed, bad_framing, timed_out };

class RelayMachine {
 public:
  struct Options {
    metrics::Api api = metrics::Api::other;
    bool stream = false;  ///< The client asked for a stream: its time limits apply.
    bool to_head = false;
    bool client_http_1_1 = true;
    bool client_keep_alive = true;
    bool injected = false;  ///< weir edited the request of this attempt, so that it asks for
    metrics::wire::Ask asked = metrics::wire::Ask::nothing;  ///< this, which is taken out of the answer again.
    bool injection_proven = false;  ///< The replica has taken the option before: a refusal has another cause.
    /// An error that another replica may better is kept, not relayed: see AttemptEnd::refused.
    bool keep_errors = false;
    /// Asked with its status where such an error is too large or too slow to keep: true, and the attempt ends with
    /// nothing kept; false, and the error is relayed as it comes.
    std::function<bool(unsigned)> leaves_error{};
    /// Told, with the answer's status, when no retry can follow any more.
    std::function<void(unsigned)> accepted{};
    /// Told each final head of the replica, where somebody wants to know.
    std::function<void(const http::ResponseHead&)> head_arrived{};
    bool reused = false;                     ///< The upstream connection has served before.
    std::uint32_t choices = 1, prompts = 1;  ///< n and prompts of the request.
    std::string_view request_id{};
    std::string_view weir_id{};
    std::string_view replica{};  ///< For x-weir-replica; "" = not to be named.
    Moment received{};           ///< t0
    Moment started{};            ///< Of this attempt.
    const config::Limits& limits;
  };

  static constexpr std::size_t most_kept = 64 * 1024;
  static constexpr std::chrono::seconds kept_within{1};

  RelayMachine(const Options& options, balancer::Lease lease, metrics::series::ReplicaShard& shard);
  ~RelayMachine();

  /// The request's first byte was written (tS).
  void sent(Moment now) { sent_ = now; }
  /// Bytes of one read; overwritten in place where framing is taken off. StreamMeter::padding bytes behind them are
  /// readable. Fills `out`; views in it are good until the next call.
  void arrived(std::span<char> bytes, Moment at, RelayOutput& out);
  /// The upstream connection ended by itself.
  void upstream_ended(Break how, Moment now, RelayOutput& out);
  void client_gone(Moment now);
  /// Written to the client: `at_once` if the whole of the last output was accepted in the call.
  void written(Moment now, bool at_once);
  void paused() {
    if (meter_) meter_->paused();
  }

  /// A read is soon to be passed on: see Watcher::approach.
  void approach(int ahead) const {
    if (meter_) meter_->approach(ahead);
  }

  /// When deadline_passed should be called, if nothing else happens first.
  Moment deadline() const;
  void deadline_passed(Moment now, RelayOutput& out);

  bool done() const { return done_; }
  /// The answer's head is on its way to the client: no retry from here on.
  bool committed() const { return committed_; }

  // After done():
  AttemptEnd end() const { return end_; }
  /// With failed and refused: why another replica may do better. Absent: it would only take as long.
  std::optional<metrics::series::Retry> retry_reason() const { return retry_reason_; }
  metrics::Outcome outcome() const { return outcome_; }
  std::optional<metrics::Phase> phase() const { return phase_; }
  bool timed_out() const { return outcome_ == metrics::Outcome::timeout; }
  /// The replica's head, body and framing came whole and nothing after them.
  bool upstream_reusable() const { return upstream_reusable_; }
  /// The body was cut: the client's connection must not end it in good order.
  bool cut() const { return cut_; }
  bool client_reusable() const { return committed_ && !cut_ && client_keep_alive_; }
  /// Where the body ends with the close (HTTP/1.0), a cut needs a reset to show.
  http::ClientFraming client_framing() const { return client_framing_; }
  std::optional<unsigned> status() const { return committed_ ? std::optional(status_) : std::nullopt; }
  /// Of the replica's head, whether or not the client got it; 0 where none was read.
  unsigned status_read() const { return status_; }
  std::optional<Moment> sent_at() const { return sent_; }
  std::optional<Moment> head_at() const { return head_at_; }
  std::optional<metrics::Nanoseconds> overhead_max() const { return overhead_max_; }
  const balancer::Company& company() const { return company_; }
  std::uint64_t bytes_out() const { return bytes_out_; }
  const metrics::record::Answer& answer() const;
  /// With refused: the answer as it would have been relayed, head and body. "" if it was larger than `most_kept` or did
  /// not come to its end within `kept_within`.
  std::string take_kept() { return kept_ ? std::move(*std::exchange(kept_, nullptr)) : std::string(); }
  /// The lease, where the attempt ended before the replica's work began (stale, injection_refused).
  balancer::Lease take_lease() { return std::move(lease_); }

 private:
  void begin(RelayOutput& out);
  void head_arrived(std::span<char> bytes, Moment at, RelayOutput& out);
  bool accept_head(std::string_view bytes, Moment at, RelayOutput& out);
  void decide_form(char first_byte);
  void body_arrived(std::span<char> bytes, Moment at, RelayOutput& out);
  void finish(std::span<const std::string_view> forward, Moment at, RelayOutput& out);
  void broken(Break how, Moment now, RelayOutput& out);
  void break_off(std::string last, std::string_view why, metrics::Outcome outcome, Moment at, RelayOutput& out);
  void emit(std::span<const std::string_view> body, RelayOutput& out);
  bool frame_in_place(std::string_view body, RelayOutput& out);
  void commit(RelayOutput& out);
  void stop(AttemptEnd end, metrics::Outcome outcome, Moment now);
  void keep_error(metrics::series::Retry reason, Moment now);
  void keep_output(RelayOutput& out);
  void give_up_keeping(Moment now, RelayOutput& out);
  void stop_unkept(Moment now);
  bool another_may_do_better() const;
  bool torn() const;
  bool is_stream() const {
    return form_ == metrics::measure::BodyForm::sse || form_ == metrics::measure::BodyForm::lines;
  }
  metrics::Outcome outcome_of_whole_answer() const;
  Moment patience_ends() const;

  Options options_;
  balancer::Lease lease_;
  metrics::series::ReplicaShard& shard_;
  std::optional<metrics::measure::StreamMeter> meter_;
  std::unique_ptr<metrics::measure::StreamMeter::Options>
      as_stream_;  ///< Of JSON where a stream is due, until a byte of it came.
  http::BodyDecoder decoder_;
  std::string head_bytes_;   ///< Of a head in several reads.
  std::string client_head_;  ///< Until committed.
  std::string held_;         ///< Body that waits for acceptance.
  std::string released_;     ///< What was held, while it is being written.
  std::string closing_;      ///< The last bytes: what was held back to the end, or an error event of weir's own.
  std::unique_ptr<std::string> kept_;  ///< An error answer for a time when there is no better one.
  std::string torn_head_;              ///< A head in several reads, while the body bytes behind it are being written.

  std::span<char> read_;  ///< The read under way.
  std::optional<Moment> sent_, head_at_, last_token_;
  Moment keep_until_ = Moment::max();
  Moment read_at_{};  ///< Arrival of the read whose output is being written.
  std::uint32_t read_token_events_ = 0;
  bool client_has_marker_ = false;  // The answer's end marker has been written, and all that came by then.
  std::optional<metrics::Nanoseconds> overhead_max_;
  std::uint64_t bytes_out_ = 0;
  balancer::Company company_;

  unsigned status_ = 0;
  http::ClientFraming client_framing_ = http::ClientFraming::none;
  metrics::measure::BodyForm form_ = metrics::measure::BodyForm::opaque;
  AttemptEnd end_ = AttemptEnd::failed;
  std::optional<metrics::series::Retry> retry_reason_;
  metrics::Outcome outcome_ = metrics::Outcome::upstream_error;
  std::optional<metrics::Phase> phase_;
  bool in_body_ = false, committed_ = false, keeping_ = false, done_ = false, cut_ = false, any_byte_ = false;
  bool client_keep_alive_ = true, upstream_keep_alive_ = false, upstream_reusable_ = false;
};

}  // namespace weir::proxy::exchange
