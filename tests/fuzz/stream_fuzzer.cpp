// Feeds a body to StreamMeter whole, byte by byte and as the input cuts it. The Answer, the counters, the sums over the
// reads and the bytes sent on must be the same, and must be what they should.
//
// An input has the API, a byte for form, end and options, two bytes for the cuts, one that may stretch the body over a
// limit, and the body.
#include <array>

#include "tests/fuzz/input.hpp"
#include "tests/fuzz/stripped.hpp"
#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace {

using namespace weir::metrics;
using measure::BodyForm;
using measure::StreamMeter;
using record::Answer;
using series::ReplicaShard;
using weir::fuzz::must;

constexpr SipKey fingerprint_key{1, 2};

struct Case {
  StreamMeter::Options options;
  bool whole = true, framed = true;  // They say how the body ends.
  std::string body;
};

/// Small inputs rarely reach the limits on held and carried bytes, so one byte of the body is repeated.
void stretch(std::string& body, unsigned how, unsigned where) {
  constexpr unsigned holds = 208, carries = 252;
  if (how < holds || body.empty()) return;
  const std::size_t limit = how < carries ? StreamMeter::hold_limit : StreamMeter::carry_limit;
  const std::size_t at = where * body.size() / 256;
  body.insert(at, limit - std::min(limit, body.size()) + how % 4 * (body.size() / 2), body[at]);
}

struct Sums {
  std::uint64_t events = 0, token_events = 0, tokens = 0, first_tokens = 0;
  bool operator==(const Sums&) const = default;
};

enum class Clock { stands, runs };

class Run {
 public:
  Run(const Case& of, const std::vector<std::string_view>& pieces, Clock clock) : replay_(of.options) {
    Moment at = measure::ms(0);
    for (const std::string_view piece : pieces) {
      replay_.meter.prefetch(2);
      replay_.meter.prefetch(1);
      const auto read = replay_.feed(piece, at);
      sums_.events += read.events;
      sums_.token_events += read.token_events;
      sums_.tokens += read.tokens;
      sums_.first_tokens += read.first_token;
      if (clock == Clock::runs) at += std::chrono::milliseconds(1);
    }
    replay_.end(of.whole, of.framed, measure::ms(1'000'000'000));
  }

  const Answer& answer() const { return replay_.answer(); }
  const std::string& forwarded() const { return replay_.forwarded; }

  /// Compares everything that does not depend on when bytes came.
  void must_equal(const Run& other) const {
    const Answer &a = answer(), &b = other.answer();
    must(sums_ == other.sums_, "sums over the reads do not depend on the cuts");
    must(replay_.forwarded == other.replay_.forwarded, "bytes sent on do not depend on the cuts");
    must(a.events == b.events, "events");
    must(a.token_events == b.token_events, "token_events");
    must(a.prompt_tokens == b.prompt_tokens, "prompt_tokens");
    must(a.cached_tokens == b.cached_tokens, "cached_tokens");
    must(a.output_tokens == b.output_tokens, "output_tokens");
    must(a.first_output_tokens == b.first_output_tokens, "first_output_tokens");
    must(a.counted_tokens == b.counted_tokens, "counted_tokens");
    must(a.token_source == b.token_source, "token_source");
    must(a.tokens_per_event == b.tokens_per_event, "tokens_per_event");
    must(a.engine == b.engine, "engine");
    must(a.finish_reason == b.finish_reason, "finish_reason");
    must(a.complete == b.complete, "complete");
    must(a.in_band_error == b.in_band_error, "in_band_error");
    must(a.unparsed == b.unparsed, "unparsed");
    must(a.output_chars == b.output_chars, "output_chars");
    must(a.fingerprint == b.fingerprint, "fingerprint");
    must(a.choices.size() == b.choices.size(), "choices");
    for (std::size_t i = 0; i < a.choices.size(); ++i) {
      must(a.choices[i].tokens == b.choices[i].tokens, "tokens of a choice");
      must(a.choices[i].first_tokens == b.choices[i].first_tokens, "first_tokens of a choice");
    }
    must(a.first_choice.has_value() == b.first_choice.has_value(), "tC is there");
    must(a.first_token.has_value() == b.first_token.has_value(), "t1 is there");
    must(a.first_output.has_value() == b.first_output.has_value(), "tO is there");
    must(a.last_choice.has_value() == b.last_choice.has_value(), "tL is there");
    must(replay_.meter.begun() == other.replay_.meter.begun(), "begun");
    must(replay_.meter.refused() == other.replay_.meter.refused(), "refused");
    must(replay_.meter.complete() == other.replay_.meter.complete(), "complete()");
    must(replay_.meter.at_event_boundary() == other.replay_.meter.at_event_boundary(), "at_event_boundary");
    const ReplicaShard &s = replay_.shard, &t = other.replay_.shard;
    must(s.output_tokens.value() == t.output_tokens.value(), "output tokens of the shard");
    for (std::size_t i = 0; i < s.unparsed.size(); ++i)
      must(s.unparsed[i].value() == t.unparsed[i].value(), "unparsed of the shard");
  }

  /// Two runs whose reads all have one moment must agree in moments, gaps and histograms too.
  void must_equal_in_time(const Run& other) const {
    const Answer &a = answer(), &b = other.answer();
    must(a.first_choice == b.first_choice && a.first_token == b.first_token && a.first_output == b.first_output &&
             a.last_choice == b.last_choice && a.end == b.end,
         "moments");
    must(a.reads == b.reads, "reads");
    must(a.token_events_in_different_reads == b.token_events_in_different_reads, "token_events_in_different_reads");
    must(a.token_reads == b.token_reads && a.coalesced_reads == b.coalesced_reads &&
             a.coalesced_token_events == b.coalesced_token_events,
         "coalescing");
    must(measure::words(replay_) == measure::words(other.replay_), "gaps and histograms");
  }

 private:
  measure::Replay replay_;
  Sums sums_;
};

void must_be_bounded(const Answer& answer, std::size_t bytes) {
  must(answer.events <= bytes, "an event needs a byte");
  must(answer.token_events <= bytes, "a token event needs a byte");
  must(answer.output_chars <= bytes, "a character needs a byte");
  const record::Fingerprint& content = *answer.fingerprint;
  must(content.text.bytes + content.reasoning.bytes <= 3 * bytes, "no byte becomes more than U+FFFD has");
  must(content.text.checkpoints.size() <= 256 && content.reasoning.checkpoints.size() <= 256, "checkpoints end");
  must(content.calls.size() <= record::Fingerprint::most_calls, "calls are few");
  must(answer.finish_reason.size() <= 32, "finish_reason is short");
  // llama.cpp tells the prompt as the sum of two counters.
  must(answer.prompt_tokens.value_or(0) <= 2 * most_tokens, "prompt_tokens are believable");
  must(answer.cached_tokens.value_or(0) <= most_tokens, "cached_tokens are believable");
  // Every choice may report the most. What is not on the wire counts one an event, and lists of ids have an id a byte.
  constexpr std::uint64_t most_choices = 128;
  must(answer.output_tokens.value_or(0) <= most_choices * most_tokens, "output_tokens are believable");
  must(answer.counted_tokens <= most_choices * most_tokens + 2 * bytes, "counted_tokens are believable");
  std::uint64_t gaps = 0;
  for (const auto& bin : answer.gaps.bins()) gaps += bin.count;
  must(gaps <= answer.token_events, "a gap ends with a token event");
}

void must_have_sent_the_right_bytes(const Case& of, const Run& run) {
  const bool strips = of.options.form == BodyForm::sse && (of.options.strip_usage || of.options.strip_timings);
  if (!strips) return must(run.forwarded() == of.body, "without stripping every byte is sent on as it came");
  const std::string without_usage = weir::fuzz::stripped(of.options.api, of.body, of.whole, of.options.strip_usage);
  if (!of.options.strip_continuous_usage && !of.options.strip_timings) {
    return must(run.forwarded() == without_usage, "only events that bring nothing but usage are taken out");
  }
  must(weir::fuzz::is_subsequence(run.forwarded(), without_usage), "stripping only takes out");
  if (!of.whole) return;
  // A reader of what is left sees the same answer, except for its usage.
  Case left{.options = of.options, .whole = of.whole, .framed = of.framed, .body = run.forwarded()};
  left.options.strip(wire::Ask::nothing);
  const Run again(left, {left.body}, Clock::stands);
  must(again.answer().output_chars == run.answer().output_chars, "stripping leaves the text");
  must(again.answer().fingerprint == run.answer().fingerprint, "stripping leaves the content");
  must(again.answer().finish_reason == run.answer().finish_reason, "stripping leaves the finish");
  must(again.answer().unparsed == run.answer().unparsed, "stripping leaves whole JSON");
  must(again.answer().in_band_error == run.answer().in_band_error, "stripping leaves an error");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  weir::fuzz::Input input(bytes, size);
  Case of;
  of.options = measure::options_for(static_cast<Api>(input.take() % api_names.size()));
  const unsigned options = input.take();
  constexpr std::array forms{BodyForm::sse, BodyForm::lines, BodyForm::json, BodyForm::opaque};
  of.options.form = forms[options & 3];
  constexpr std::array asked{wire::Ask::nothing, wire::Ask::usage, wire::Ask::timings_on_every_chunk,
                             wire::Ask::usage_on_every_chunk};
  of.options.strip(asked[options >> 2 & 3]);
  of.options.fingerprint_key = &fingerprint_key;
  of.options.choices = 1 + (options >> 4 & 3);
  of.options.prompts = of.options.choices == 4 ? 2 : 1;
  of.whole = (options & 64) == 0;
  of.framed = (options & 128) == 0;
  const unsigned seed = input.take(), largest = input.take(), stretched = input.take();
  of.body = input.rest();
  stretch(of.body, stretched, seed);

  const Run whole(of, {of.body}, Clock::stands);
  // A long body does not come byte by byte: that would take a second.
  const std::size_t step = 1 + of.body.size() / 4096;
  const auto bytewise = weir::fuzz::pieces(of.body, [=] { return step; });
  const auto cut = weir::fuzz::pieces(
      of.body, [cuts = weir::fuzz::Cuts(seed, largest), step]() mutable { return std::max(cuts.next(), step); });
  for (const auto& pieces : {bytewise, cut}) {
    const Run run(of, pieces, Clock::stands);
    run.must_equal(whole);
    run.must_equal_in_time(whole);
  }
  Run(of, cut, Clock::runs).must_equal(whole);

  must_be_bounded(whole.answer(), of.body.size());
  must_have_sent_the_right_bytes(of, whole);
  return 0;
}
