// Reads an answer in flight: finds its events, measures them, and says which bytes go on to the client.
//
// Each attempt has one meter, on one thread. The meter keeps at most `carry_limit` bytes of an unfinished event, and
// nothing between events. It reads no clock and owns no socket. Any split of a body gives the same Answer, except for
// the moments, which are those of the reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "metrics/hash.hpp"
#include "metrics/moment.hpp"
#include "metrics/record/answer.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/request/edits.hpp"

namespace weir::metrics::series {
class ReplicaShard;
}

namespace weir::metrics::measure {

/// Says how to read an answer's body.
enum class BodyForm : std::uint8_t {
  sse,     ///< The body is an event stream.
  lines,   ///< The body is JSON documents, one a line (Ollama).
  json,    ///< The body is one JSON document.
  opaque,  ///< The body is relayed and only its bytes are counted.
};

/// Decides by API, status and Content-Type (the media type is compared without case and parameters). A body is opaque
/// if it is coded (Content-Encoding other than identity), if its status is not 2xx, or if it is JSON of Api::other.
/// Some servers send events under a wrong type or none. So a known API's answer to a streaming request is read as a
/// stream unless it says that it is JSON. If it is no stream after all, it never shows a stream's end.
BodyForm body_form(Api api, unsigned status, std::string_view content_type, bool content_encoded,
                   bool stream_asked = false);

class StreamMeter {
 public:
  /// A longer event is relayed and counted without parsing it; the event after it is read again.
  static constexpr std::size_t carry_limit = 1024 * 1024;
  /// With a strip option, an unfinished event is held back up to this size. A longer event is let through.
  static constexpr std::size_t hold_limit = 8 * 1024;
  /// So many bytes must be readable (not meaningful) behind every span given to arrived().
  static constexpr std::size_t padding = 64;

  struct Options {
    Api api = Api::other;
    BodyForm form = BodyForm::opaque;
    bool coded = false;                       ///< A content coding keeps the body from being read.
    bool reads_id = false;                    ///< The answer's id is read in an opaque body, too.
    bool strip_usage = false;                 ///< Removes the usage event: weir asked for it, the client did not.
    bool strip_continuous_usage = false;      ///< With strip_usage, removes the usage member of every chunk, too.
    bool strip_timings = false;               ///< Removes llama.cpp's timings from every chunk but the last.
    Rare<wire::EngineFigures> engine{};       ///< The response head said this (TGI): see wire/engine/report.hpp.
    const SipKey* fingerprint_key = nullptr;  ///< If it is set, the answer gets a fingerprint. It outlives the meter.
    std::uint32_t choices = 1;                ///< The number of choices: the request's n times its prompts.
    std::uint32_t prompts = 1;                ///< The number of the request's prompts.
    Moment received{};                        ///< T0 of the request.
    Moment sent{};                            ///< TS of this attempt.

    /// Removes what weir asked for and nothing else.
    void strip(wire::Ask asked) {
      strip_usage = asked == wire::Ask::usage || asked == wire::Ask::usage_on_every_chunk;
      strip_continuous_usage = asked == wire::Ask::usage_on_every_chunk;
      strip_timings = asked == wire::Ask::timings_on_every_chunk;
    }
  };

  /// Tells what one read brought.
  struct Read {
    /// The bytes to send on are these, in order; valid until the next call. It is empty where all bytes are held or
    /// removed. Without a strip option it is exactly the bytes given.
    std::span<const std::string_view> forward;
    std::uint32_t events = 0;
    std::uint32_t token_events = 0;
    std::uint32_t tokens = 0;  ///< The read brought so many output tokens: k where known, else one a token event.
    bool first_token = false;  ///< The read holds t1.
    /// The read brought something that may hold tokens, and none can be read in it: an event of an unknown shape, or
    /// part of a body that is no stream. A comment or a ping is no such thing.
    bool unread = false;
  };

  /// `shard` takes what is known at once: TTFT, chunk gaps, ITL where k is on the wire, and output tokens.
  StreamMeter(const Options& options, series::ReplicaShard& shard);
  ~StreamMeter();
  StreamMeter(const StreamMeter&) = delete;
  StreamMeter& operator=(const StreamMeter&) = delete;

  /// Takes the body bytes of one read, without framing, that arrived at `at`. If a read's bytes come in several spans
  /// (chunked framing), each span is a call with the same `at`; `reads` counts them once.
  Read arrived(std::span<const char> body, Moment at);

  /// Says that a read will be given soon. Prefetches what that read will touch, in two steps, 2 and then 1.
  void prefetch(int step) const;

  /// Says that reading was paused for a slow client. The next read brings what gathered meanwhile, so gaps that end in
  /// it are not observed.
  void paused();

  /// True once an event, or a line, says more than that a choice opens (for json and opaque bodies: once a byte has
  /// come). Decides acceptance.
  bool begun() const;
  /// True if an in-band error came before that: the replica answered 200 and then refused.
  bool refused() const;
  /// True once this format's end marker was seen ([DONE], generated_text, message_stop, a whole JSON document).
  bool complete() const;
  /// True if the bytes sent on so far end at an event boundary, so that an event of weir's own may follow.
  bool at_event_boundary() const;

  /// Returns how many bytes of memory the meter keeps for an event that is not whole, and for what it holds back.
  std::size_t kept() const;

  /// Says that the body ended. `whole` is true if its framing ended too (last chunk, Content-Length reached, or an end
  /// by close in good order). `framed` is false where the close is the end. Returns the bytes that were held back and
  /// are to be sent on (nothing if !whole: an unfinished event is dropped).
  std::string_view ended(bool whole, bool framed, Moment at);

  /// Returns the measurements, which are final after ended(). Before that (abort, timeout) they tell how far the answer
  /// came, and `end` is absent.
  const record::Answer& answer() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::metrics::measure
