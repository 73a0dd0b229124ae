// Plays bodies to a StreamMeter in pieces and writes, as JSON, all that came of it.
#pragma once

#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/measure/stream_meter.hpp"
#include "metrics/series/shard.hpp"

namespace weir::metrics::measure {

inline constexpr auto chat = Api::openai_chat, completions = Api::openai_completions, responses = Api::openai_responses,
                      anthropic = Api::anthropic_messages, tgi = Api::tgi_generate, sglang = Api::sglang_generate,
                      llamacpp = Api::llamacpp_completion;

inline constexpr Moment start{std::chrono::seconds(1000)};
inline Moment ms(int n) { return start + std::chrono::milliseconds(n); }

inline std::string sample(const std::string& name) {
  std::ifstream file(WEIR_TEST_DATA "/streams/" + name, std::ios::binary);
  if (!file) throw std::runtime_error("no sample " + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A read lies as in the relay, in a buffer of its own, with something unrelated in the padding behind it.
class Buffer {
 public:
  explicit Buffer(std::string_view bytes) : bytes_(new char[bytes.size() + StreamMeter::padding]), size_(bytes.size()) {
    std::memcpy(bytes_.get(), bytes.data(), bytes.size());
    std::memset(bytes_.get() + size_, '"', StreamMeter::padding);
  }
  std::span<const char> span() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_;
};

/// A meter with a shard, fed from buffers that are gone after each call.
class Replay {
 public:
  explicit Replay(const StreamMeter::Options& options) : form(options.form), meter(options, shard) {}

  StreamMeter::Read feed(std::string_view bytes, Moment at) {
    const Buffer buffer(bytes);
    StreamMeter::Read read = meter.arrived(buffer.span(), at);
    unread |= read.unread;
    for (const std::string_view span : read.forward) forwarded += span;
    read.forward = {};
    return read;
  }
  void end(bool whole = true, bool framed = true, Moment at = ms(1'000'000)) {
    forwarded += meter.ended(whole, framed, at);
  }
  const record::Answer& answer() const { return meter.answer(); }

  BodyForm form;
  series::ReplicaShard shard;
  StreamMeter meter;
  std::string forwarded;
  bool unread = false;  // Some read brought what could not be read.
};

inline StreamMeter::Options options_for(Api api, BodyForm form = BodyForm::sse) {
  StreamMeter::Options options;
  options.api = api;
  options.form = form;
  options.received = ms(-100);
  options.sent = ms(-60);
  return options;
}

/// Feeds a body byte by byte, so that each event arrives in a read of its own, at ms(its index).
inline void feed_by_event(Replay& replay, std::string_view body, int first_ms = 0) {
  for (const char& byte : body) {
    replay.feed({&byte, 1}, ms(first_ms + static_cast<int>(replay.answer().events)));
  }
}

/// Returns a stream that has been read to its end.
inline std::unique_ptr<Replay> replayed(const std::string& body,
                                        StreamMeter::Options options = options_for(Api::openai_chat), bool whole = true,
                                        bool framed = true) {
  auto replay = std::make_unique<Replay>(options);
  feed_by_event(*replay, body);
  replay->end(whole, framed);
  return replay;
}

inline std::uint64_t count(const series::Histogram& h) {
  std::uint64_t n = 0;
  for (std::size_t i = 0; i <= h.bounds().size(); ++i) n += h.bucket(i);
  return n;
}

/// An object whose members are set only where they say something.
class Members {
 public:
  void number(std::string_view name, std::uint64_t n) {
    if (n > 0) object_[name] = n;
  }
  void number(std::string_view name, const std::optional<std::uint64_t>& n) {
    if (n) object_[name] = *n;
  }
  void moment(std::string_view name, const std::optional<Moment>& at) {
    if (at) object_[name] = milliseconds(*at);
  }
  void seconds(std::string_view name, const std::optional<double>& s) {
    if (s) object_[name] = std::llround(*s * 1e9);
  }
  void flag(std::string_view name, bool on) {
    if (on) object_[name] = true;
  }
  void word(std::string_view name, std::string_view word) {
    if (!word.empty()) object_[name] = word;
  }
  void gaps(std::string_view name, const series::Histogram& of) {
    if (count(of) > 0) object_[name] = {count(of), of.sum()};
  }
  template <class Value>
  void any(std::string_view name, Value&& value) {
    if (!value.empty()) object_[name] = std::forward<Value>(value);
  }
  boost::json::object take() { return std::move(object_); }

  static std::int64_t milliseconds(Moment at) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(at - start).count();
  }

 private:
  boost::json::object object_;
};

inline boost::json::object figures(const wire::EngineFigures& said) {
  Members to;
  to.seconds("queue", said.queue);
  to.seconds("prefill", said.prefill);
  to.seconds("ttft", said.ttft);
  to.seconds("decode", said.decode);
  to.seconds("total", said.total);
  to.seconds("time_per_token", said.time_per_token);
  to.number("draft_tokens", said.draft_tokens);
  to.number("draft_accepted_tokens", said.draft_accepted_tokens);
  to.number("prompt_tokens", said.prompt_tokens);
  to.number("output_tokens", said.output_tokens);
  return to.take();
}

inline boost::json::array choices_of(const record::Answer& of) {
  boost::json::array all;
  for (const record::ChoiceTimes& one : of.choices) {
    all.push_back(
        {Members::milliseconds(one.first_token), Members::milliseconds(one.last), one.first_tokens, one.tokens});
  }
  return all;
}

/// Returns all that an answer says. A member that has its usual value is left out. Moments are milliseconds from
/// `start`.
inline Members members_of(const record::Answer& a) {
  Members to;
  to.number("events", a.events);
  to.moment("first_choice", a.first_choice);
  to.moment("first_token", a.first_token);
  to.moment("first_output", a.first_output);
  to.moment("last_choice", a.last_choice);
  to.number("token_events", a.token_events);
  to.number("chars", a.output_chars);
  to.number("prompt_tokens", a.prompt_tokens);
  to.number("cached_tokens", a.cached_tokens);
  to.number("output_tokens", a.output_tokens);
  to.number("reasoning_tokens", a.reasoning_tokens);
  to.word("source", a.token_source == TokenSource::none ? "" : name_of(a.token_source));
  to.number("first_output_tokens", a.first_output_tokens);
  if (a.counted_tokens != a.output_tokens.value_or(a.token_events)) {
    to.number("counted_tokens", std::optional(a.counted_tokens));
  }
  to.word("per_event", a.tokens_per_event == TokensPerEvent::unknown ? "" : name_of(a.tokens_per_event));
  to.any("choices", choices_of(a));
  to.word("finish_reason", a.finish_reason);
  to.word("complete", a.complete == Completeness::none ? "" : name_of(a.complete));
  to.flag("error", a.in_band_error);
  to.flag("timed", a.timed);
  to.any("engine", figures(*a.engine));
  if (a.coalesced_reads > 0) to.any("coalesced", boost::json::array{a.coalesced_reads, a.coalesced_token_events});
  if (a.token_reads != a.token_events) to.number("token_reads", a.token_reads);
  return to;
}
inline std::string words(const record::Answer& a) {
  return boost::json::serialize(members_of(a).take()) + " reads " + std::to_string(a.reads);
}

inline boost::json::object unparsed(const series::ReplicaShard& shard) {
  Members to;
  for (std::size_t i = 0; i < shard.unparsed.size(); ++i) {
    to.number(series::unparsed_names[i], shard.unparsed[i].value());
  }
  return to.take();
}

/// The first token is observed once, from both origins.
inline bool first_token_observed(const Replay& replay) {
  const auto& at = replay.answer().first_token;
  const series::ReplicaShard& shard = replay.shard;
  const auto since = [&](Moment origin) { return at ? static_cast<std::uint64_t>((*at - origin).count()) : 0; };
  return count(shard.time_to_first_token) == (at ? 1U : 0U) &&
         count(shard.client_time_to_first_token) == (at ? 1U : 0U) &&
         shard.time_to_first_token.sum() == since(ms(-60)) && shard.client_time_to_first_token.sum() == since(ms(-100));
}

/// Returns all that a replay leaves behind but the bytes it forwarded. Sums of gaps are nanoseconds.
inline boost::json::object seen(const Replay& replay) {
  const record::Answer& a = replay.answer();
  Members to = members_of(a);
  to.gaps("chunk_gaps", replay.shard.inter_chunk_latency);
  to.gaps("token_gaps", replay.shard.inter_token_latency);
  to.flag("refused", replay.meter.refused());
  to.number("refused_as", a.in_band_status);
  to.any("unparsed", unparsed(replay.shard));
  to.flag("unread", replay.unread && replay.form != BodyForm::json && replay.form != BodyForm::opaque);
  // Members that follow from those above.
  to.flag("not begun", !replay.meter.begun() && a.events > 0);
  const bool marker = replay.form == BodyForm::json ? !a.unparsed : a.complete == Completeness::marker;
  to.flag("end unsaid", replay.meter.complete() != marker);
  to.flag("first token not observed", !first_token_observed(replay));
  to.flag("gaps differ", a.gaps.count() != count(replay.shard.inter_chunk_latency));
  to.flag("output differs", replay.shard.output_tokens.value() != a.counted_tokens);
  to.flag("unparsed differs", a.unparsed != !unparsed(replay.shard).empty());
  return to.take();
}

inline std::string words(const Replay& replay) {
  return boost::json::serialize(seen(replay)) + " reads " + std::to_string(replay.answer().reads) + "\n" +
         replay.forwarded;
}

/// Returns one chunk of an OpenAI chat stream: `rest` follows the choices.
inline std::string chunk(const std::string& choices, const std::string& rest = "") {
  return R"(data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[)" + choices + "]" +
         rest + "}\n\n";
}
inline std::string delta(const std::string& members, const std::string& finish = "null", int index = 0,
                         const std::string& rest = "") {
  return R"({"index":)" + std::to_string(index) + R"(,"delta":{)" + members + R"(},"finish_reason":)" + finish + rest +
         "}";
}
inline std::string says(const std::string& text, int index = 0) {
  return chunk(delta(R"("content":")" + text + "\"", "null", index));
}
inline std::string usage(int prompt, int completion) {
  return R"(,"usage":{"prompt_tokens":)" + std::to_string(prompt) + R"(,"completion_tokens":)" +
         std::to_string(completion) + "}";
}
inline std::string tgi_event(const std::string& json) { return "data:" + json + "\n\n"; }
inline const std::string done = "data: [DONE]\n\n";
inline const std::string stop = chunk(delta("", "\"stop\""));

}  // namespace weir::metrics::measure
