// Reads an answer in flight: finds its events, measures them, and says which bytes go on to the client.
//
// One meter an attempt, on one thread. It holds no more than an unfinished event: at most `carry_limit` bytes, and
// nothing between events. It reads no clock and owns no socket; any split of a body gives the same Answer, up to the
// moments, which are those of the reads. All that an event touches of it lies in the meter itself, but for the gaps'
// bins: see GapSketch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "metrics/measure/answer_tally.hpp"
#include "metrics/moment.hpp"
#include "metrics/record/answer.hpp"
#include "metrics/series/shard.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/answer/json_answer.hpp"
#include "metrics/wire/request/edits.hpp"
#include "metrics/wire/stream/envelope.hpp"
#include "metrics/wire/stream/outlet.hpp"
#include "metrics/wire/stream/sse.hpp"
#include "metrics/wire/stream/whole_text.hpp"

namespace weir::metrics::measure {

/// How an answer's body is to be read.
enum class BodyForm : std::uint8_t {
  sse,     ///< Event stream.
  lines,   ///< JSON documents, one a line (Ollama).
  json,    ///< One JSON document.
  opaque,  ///< Relayed and counted in bytes only.
};

/// Decides by API, status and Content-Type (media type compared without case and parameters). A coded body
/// (Content-Encoding other than identity), a status other than 2xx and Api::other with JSON are opaque. Some servers
/// send events under a wrong type or none: the answer to a known API that was asked for a stream is read as one unless
/// it says that it is JSON. What is no stream then shows no end of one.
BodyForm body_form(Api api, unsigned status, std::string_view content_type, bool content_encoded,
                   bool stream_asked = false);

class StreamMeter {
 public:
  /// A longer event is relayed unparsed and counted; the next event is read again.
  static constexpr std::size_t carry_limit = 1024 * 1024;
  /// With a strip option, an unfinished event is held back up to this size; a longer one is let through.
  static constexpr std::size_t hold_limit = 8 * 1024;
  /// Bytes that must be readable (not meaningful) behind every span given to arrived().
  static constexpr std::size_t padding = 64;

  struct Options {
    Api api = Api::other;
    BodyForm form = BodyForm::opaque;
    bool coded = false;                   ///< A coding of the content keeps the body from being read.
    bool strip_usage = false;             ///< Remove the usage event: weir asked for it, the client did not.
    bool strip_continuous_usage = false;  ///< With strip_usage: remove the usage member of every chunk, too.
    bool strip_timings = false;           ///< Remove llama.cpp's timings of every chunk but the last.
    Rare<wire::EngineFigures> engine{};   ///< What the head said (TGI): see wire/engine_head.hpp.
    std::uint32_t choices = 1;            ///< n of the request, its prompts counted in.
    std::uint32_t prompts = 1;            ///< Its prompts.
    Moment received{};                    ///< t0 of the request.
    Moment sent{};                        ///< tS of this attempt.

    /// Removes what was asked for and nothing else.
    void strip(wire::Ask asked) {
      strip_usage = asked == wire::Ask::usage || asked == wire::Ask::usage_on_every_chunk;
      strip_continuous_usage = asked == wire::Ask::usage_on_every_chunk;
      strip_timings = asked == wire::Ask::timings_on_every_chunk;
    }
  };

  /// What one read brought.
  struct Read {
    /// The bytes to send on, in order; valid until the next call. Empty where all is held or removed.
    /// Without a strip option: exactly the bytes given.
    std::span<const std::string_view> forward;
    std::uint32_t events = 0;
    std::uint32_t token_events = 0;
    std::uint32_t tokens = 0;  ///< Output tokens, by k where known, else one a token event.
    bool first_token = false;  ///< t1 is in this read.
  };

  /// `shard` takes what is known at once: TTFT, chunk gaps, ITL where k is on the wire, output tokens.
  StreamMeter(const Options& options, series::ReplicaShard& shard);
  StreamMeter(const StreamMeter&) = delete;
  StreamMeter& operator=(const StreamMeter&) = delete;

  /// Takes the body bytes of one read (framing removed) that arrived at `at`. A read whose bytes come in several
  /// spans (chunked framing) is several calls with one `at`; `reads` counts it once.
  Read arrived(std::span<const char> body, Moment at);

  /// Reading was paused for a slow client, and the next read brings what gathered meanwhile: the gaps that end in it
  /// are no observations.
  void paused();

  /// An event that is no comment, or a line, has come (form json or opaque: a byte has). Decides acceptance.
  bool has_event() const;
  /// The first event was an in-band error: the replica answered 200 and then refused.
  bool refused() const;
  /// The end marker of this format has been seen ([DONE], generated_text, message_stop, whole JSON document).
  bool complete() const;
  /// What was sent on so far ends at an event boundary, so that an event of weir's own may follow.
  bool at_event_boundary() const;

  /// The body ended; `whole` if its framing did (last chunk, Content-Length reached, or an end by close in good order).
  /// `framed` is false where the end is the close. Returns what was still held back and is to be sent on
  /// (nothing if !whole: an unfinished event is dropped).
  std::string_view ended(bool whole, bool framed, Moment at);

  /// What was seen. Final after ended(); before it (abort, timeout) as far as it came, with `end` absent.
  const record::Answer& answer() const;

 private:
  bool is_stream() const { return options_.form == BodyForm::sse || options_.form == BodyForm::lines; }
  void read_data(std::string_view data, wire::EventFacts& facts);
  void read_events(std::string_view body, Moment at);
  void read_event(const wire::SseEvent& event, Moment at);
  bool end_events(Moment at);
  std::string_view unasked_member(std::string_view data, const wire::EventFacts& facts) const;
  void take_out(const wire::SseEvent& event, const wire::EventFacts& facts);

  std::string_view passed_;  // The read itself, where nothing is taken out.
  AnswerTally::Brought brought_;
  const Options options_;
  const std::unique_ptr<wire::JsonAnswer> json_;
  const bool strip_;
  bool any_bytes_ = false;
  bool pending_cut_ = false;  // The last event, without blank line, was the usage event.
  wire::Envelope envelope_;
  wire::Outlet outlet_{hold_limit};
  wire::SseFramer framer_;
  AnswerTally tally_;
  wire::WholeText whole_text_;
  std::string pending_rest_;  // What is left of the last event, without blank line, if part of it was taken out.
};

}  // namespace weir::metrics::measure
