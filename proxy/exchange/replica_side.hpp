// The replica's half of an attempt, as a machine without I/O: it is told what happened and returns what that brought.
//
// ReplicaSide reads the replica's head through the gate, takes the framing off the body, meters it, takes out what weir
// asked for, and ends the lease with the replica's work. What it finds goes into the attempt's AttemptReport: moments,
// status, verdict. It knows no client: a relay frames its output for one, and a mirror drops it. It has one
// thread, no clock and no socket. Between calls it keeps at most an unfinished head or event.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "balancer/affinity.hpp"
#include "balancer/story/attempt.hpp"
#include "config/settings.hpp"
#include "metrics/hash.hpp"
#include "metrics/measure/stream_meter.hpp"
#include "metrics/series/shard.hpp"
#include "metrics/wire/request/edits.hpp"
#include "proxy/http/body_decoder.hpp"

namespace weir::proxy::exchange {

namespace story = balancer::story;
using metrics::Moment;

class ReplicaSide {
 public:
  struct Options {
    metrics::Api api = metrics::Api::other;
    bool stream = false;   ///< The client asked for a stream, so a stream's time limits apply.
    bool to_head = false;  ///< The request is a HEAD, so its answer has no body.
    /// weir added this to the request, and takes it out of the answer again.
    metrics::wire::Ask asked = metrics::wire::Ask::nothing;
    bool injection_proven = false;           ///< The replica has taken the edit before, so a refusal has another cause.
    bool reused = false;                     ///< The connection has served before.
    bool unread = false;                     ///< No event of the answer is read: it is relayed as it is.
    std::uint32_t choices = 1, prompts = 1;  ///< The request's n and number of prompts.
    Moment received{};                       ///< t0
    Moment started{};                        ///< When this attempt started.
    balancer::HandedOut handed_out{};        ///< Notes the id of the answer, before any of it is passed on.
    const metrics::SipKey* fingerprint_key = nullptr;  ///< Null unless the answer is compared.
    const config::Limits& limits;
  };

  enum class State : std::uint8_t {
    head,  ///< Awaits the head or its rest.
    body,
    done,
  };

  /// Tells what one call brought. Its views are valid until the next call.
  struct Progress {
    std::optional<http::ResponseHead> head{};  ///< The final head, given once.
    bool event_stream = false;                 ///< The head announces a stream.
    bool strips = false;                       ///< Bytes may be taken out of this answer.
    std::span<const std::string_view> body{};  ///< The payload to pass on, in order.
    std::uint32_t token_events = 0;
    /// The replica's work has ended; `body` holds the last of it.
    std::optional<story::End> end{};
  };

  /// `report` outlives it and holds the request's lease.
  ReplicaSide(const Options& options, story::AttemptReport& report, metrics::series::ReplicaShard& shard)
      : options_(options), report_(report), shard_(shard) {}

  /// Takes the bytes of one read and overwrites them in place where framing is taken off. StreamMeter::padding bytes
  /// behind them must be readable.
  Progress arrived(std::span<char> bytes, Moment at);
  /// Says that the replica's connection broke off (story::End), or that its time ran out.
  Progress ended(story::End how, Moment now);
  /// Says that nobody wants the rest: `why` is client_left or given_up. `client_has_all`: see story::AttemptFacts.
  void left(story::End why, Moment now, bool client_has_all);

  /// Says that the next read brings what gathered while reading was paused for a slow client. `unread`: it still is.
  void paused(bool unread) {
    was_paused_ = true;
    if (meter_) meter_->paused();
    report_.lease.leave_unread(unread);
  }
  /// Says that a read will soon be passed on: see Watcher::prefetch.
  void prefetch(int ahead) const {
    if (meter_) meter_->prefetch(ahead);
  }

  State state() const { return state_; }
  /// Returns how many bytes of the answer are kept: an unfinished head or event, and what the last views lie in.
  std::size_t kept() const {
    return head_bytes_.capacity() + passed_head_.capacity() + last_.capacity() + (meter_ ? meter_->kept() : 0);
  }
  /// Returns when the replica has taken too long, or tell_stall() is due.
  Moment deadline() const;
  /// Tells the lease that the stream stands still. Returns false if that is not due: then the replica has taken too
  /// long.
  bool tell_stall(Moment now);

  /// Returns the form of the answer; opaque before its head.
  metrics::measure::BodyForm form() const { return form_; }
  bool is_stream() const {
    return form_ == metrics::measure::BodyForm::sse || form_ == metrics::measure::BodyForm::lines;
  }
  /// Returns what the meter has of the answer; it is final once the replica's work has ended.
  const metrics::record::Answer& answer() const;
  /// Returns the meter of the answer; null before its head.
  const metrics::measure::StreamMeter* meter() const { return meter_ ? &*meter_ : nullptr; }
  /// True if it is a stream's first token that has not come.
  bool awaited_first_token() const { return options_.stream && !last_token_ && (!report_.head || is_stream()); }

 private:
  /// A token of an engine that works takes less. A stream that was paused for a slow client is not judged: its tokens
  /// may lie unread.
  static constexpr std::chrono::seconds stalls_after{10};

  bool injected() const { return options_.asked != metrics::wire::Ask::nothing; }
  void begin();
  void head_arrived(std::span<char> bytes, Moment at, Progress& progress);
  bool read_head(std::string_view bytes, Moment at, Progress& progress);
  bool is_one_interim_too_many(std::size_t bytes);
  void malformed(metrics::series::Malformed why, Moment at, Progress& progress);
  void begin_body(const http::ResponseHead& head, Moment at);
  void decide_form(char first_byte);
  void body_arrived(std::span<char> bytes, Moment at, Progress& progress);
  void finish(story::End end, std::span<const std::string_view> last, Moment at, Progress& progress);
  void broken(story::End how, Moment now, Progress& progress);
  void stop(story::End end, Moment now, bool client_has_all = false);
  bool has_end_marker() const { return meter_ && meter_->complete(); }
  bool is_truncated() const;
  Moment limit() const;
  Moment stall() const;

  Options options_;
  story::AttemptReport& report_;
  metrics::series::ReplicaShard& shard_;
  std::optional<metrics::measure::StreamMeter> meter_;
  /// Meter options, should the first byte prove a stream under a wrong Content-Type.
  std::unique_ptr<metrics::measure::StreamMeter::Options> as_stream_;
  http::BodyDecoder decoder_;
  std::string head_bytes_;        ///< A head that came in several reads.
  std::string passed_head_;       ///< The head of the answer, while views of it are in use.
  std::string last_;              ///< The last bytes of the body, put together.
  std::string_view last_view_{};  ///< A view of `last_`.

  std::optional<Moment> last_token_;
  std::uint32_t interim_heads_ = 0, interim_bytes_ = 0;
  metrics::measure::BodyForm form_ = metrics::measure::BodyForm::opaque;
  State state_ = State::head;
  bool was_paused_ = false, told_stall_ = false;
  bool id_noted_ = false, is_page_ = false;
  bool any_byte_ = false, keep_alive_ = false;
};

}  // namespace weir::proxy::exchange
