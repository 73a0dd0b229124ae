#include "metrics/measure/stream_meter.hpp"

#include <algorithm>
#include <optional>

#include "metrics/measure/answer_tally.hpp"
#include "metrics/memory.hpp"
#include "metrics/series/shard.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/answer/json_answer.hpp"
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/stream/event_facts.hpp"
#include "metrics/wire/stream/sse.hpp"

namespace weir::metrics::measure {

namespace {

/// Returns the media type of a Content-Type, without parameters.
std::string_view media_type(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  const std::size_t from = content_type.find_first_not_of(" \t");
  if (from == std::string_view::npos) return {};
  return content_type.substr(from, content_type.find_last_not_of(" \t") - from + 1);
}

/// Compares with a text in lower case, without regard to case.
bool is_type(std::string_view type, std::string_view lower) {
  return std::ranges::equal(type, lower, [](char a, char b) {
    return a == b || (a >= 'A' && a <= 'Z' && static_cast<char>(a + ('a' - 'A')) == b);
  });
}

bool ends_with(std::string_view type, std::string_view lower) {
  return type.size() >= lower.size() && is_type(type.substr(type.size() - lower.size()), lower);
}

}  // namespace

BodyForm body_form(Api api, unsigned status, std::string_view content_type, bool content_encoded, bool stream_asked) {
  if (content_encoded || status / 100 != 2) return BodyForm::opaque;
  const auto type = media_type(content_type);
  if (is_type(type, "text/event-stream")) return BodyForm::sse;
  if (is_type(type, "application/x-ndjson") || is_type(type, "application/jsonl")) return BodyForm::lines;
  if (api == Api::other) return BodyForm::opaque;
  // An answer that is not streamed is to be JSON, whatever its type says: so an HTML page shows as no answer.
  if (!stream_asked || is_type(type, "application/json") || ends_with(type, "+json")) return BodyForm::json;
  return wire::dialect_of(api).framing == wire::Framing::lines ? BodyForm::lines : BodyForm::sse;
}

namespace {

/// Makes the fingerprint of what an answer says.
struct Content {
  explicit Content(const SipKey& key) : maker(key) {}

  record::FingerprintMaker maker;
  wire::ContentReader events{maker};
};

}  // namespace

struct StreamMeter::State {
  State(const Options& wanted, series::ReplicaShard& shard)
      : options(wanted),
        framer(carry_limit, wanted.form == BodyForm::lines ? wire::Framing::lines : wire::Framing::events),
        tally(shard, wanted.choices, wanted.prompts, wanted.received, wanted.sent) {
    if (options.fingerprint_key != nullptr && options.choices == 1 && options.form != BodyForm::opaque)
      content = std::make_unique<Content>(*options.fingerprint_key);
    const bool reads_id_alone = options.form == BodyForm::opaque && options.reads_id;
    if (is_json() || reads_id_alone) json.emplace(content ? &content->maker : nullptr);
    strip = options.form == BodyForm::sse && (options.strip_usage || options.strip_timings);
    tally.engine(*options.engine);
    if (options.coded) tally.unparsed(series::Unparsed::coded_body);
  }

  bool is_json() const { return options.form == BodyForm::json; }
  bool framed() const { return options.form == BodyForm::sse || options.form == BodyForm::lines; }
  void read_data(std::string_view data, wire::EventFacts& facts);
  wire::EventFacts& blank_facts() const;
  void read_events(std::string_view body, Moment at);
  void read_event(const wire::SseEvent& event, Moment at);
  bool end_events(Moment at);
  std::string_view unasked_member(std::string_view data, const wire::EventFacts& facts) const;
  void take_out(const wire::SseEvent& event, const wire::EventFacts& facts);

  // The members that every event touches come first, and prefetch() loads only these.
  std::string_view passed;  // The read itself where nothing is taken out.
  AnswerTally::ReadCounts counts;
  Options options;
  std::unique_ptr<Content> content;      // Set if a fingerprint is wanted.
  std::optional<wire::JsonAnswer> json;  // Of an opaque body only the id is read.
  bool strip = false;
  bool any_bytes = false;
  bool skipped = false;      // An event too long to read has come: it may have held the finish, or the marker.
  bool pending_cut = false;  // The last event, which has no blank line yet, was the usage event.
  wire::EventTemplate event_template;
  wire::EventStripper stripper{hold_limit};
  wire::SseFramer framer;
  AnswerTally tally;
  wire::WholeText whole_text;
  std::string pending_rest;  // Holds the rest of the last event, which has no blank line yet, if part of that event
                             // was taken out.
};

StreamMeter::StreamMeter(const Options& options, series::ReplicaShard& shard)
    : state_(std::make_unique<State>(options, shard)) {}
StreamMeter::~StreamMeter() = default;

/// Each thread has one: an event's facts live only as long as the call that reads it.
wire::EventFacts& StreamMeter::State::blank_facts() const {
  thread_local wire::EventFacts facts;
  facts.clear();
  facts.wants_content = content != nullptr;
  return facts;
}

/// Reads an event that has another shape than the one before it.
void StreamMeter::State::read_data(std::string_view data, wire::EventFacts& facts) {
  wire::read_event(options.api, data, facts);
  if (facts.whole_text) whole_text.subtract_seen(facts);
  if (options.choices > 1 && !facts.choices.empty() && wire::dialect_of(options.api).marks_each_prompt)
    facts.marker = false;
  if (facts.engine) tally.engine(*facts.engine);
  if (!facts.id.empty()) tally.id(hash_of_name(facts.id));
  if (facts.bare_usage && tally.finished_before(facts)) facts.take_for_usage_event();
}

void StreamMeter::State::read_event(const wire::SseEvent& event, Moment at) {
  wire::EventFacts& facts = blank_facts();
  if (event.too_long) {
    tally.unparsed(series::Unparsed::event_too_long);
    counts.unread = skipped = true;
  } else if (!event_template.match(event.data, facts)) {
    read_data(event.data, facts);
    event_template.remember(event.data, facts);
  }
  if (content) content->events.tell(facts);
  tally.event(facts, at, counts);
  if (strip && stripper.may_cut(event)) take_out(event, facts);
}

/// Returns an object's member with its comma: the comma before it, or else the one behind it.
static std::string_view with_comma(std::string_view data, std::string_view member) {
  constexpr std::string_view blank = " \t\r\n";
  const auto begin = static_cast<std::size_t>(member.data() - data.data());
  const std::size_t end = begin + member.size();
  const std::size_t before = data.substr(0, begin).find_last_not_of(blank);
  if (before != std::string_view::npos && data[before] == ',') return data.substr(before, end - before);
  const std::size_t behind = data.find_first_not_of(blank, end);
  const bool comma = behind != std::string_view::npos && data[behind] == ',';
  return data.substr(begin, (comma ? behind + 1 : end) - begin);
}

/// Returns the member that only weir asked for, with its comma; empty if there is none.
std::string_view StreamMeter::State::unasked_member(std::string_view data, const wire::EventFacts& facts) const {
  const std::string_view member = options.strip_continuous_usage ? facts.usage_member
                                  : options.strip_timings        ? facts.timings_member
                                                                 : std::string_view();
  // The parser accepts some broken JSON. What is taken out has to be a whole value, or more would go with it.
  if (member.empty() || !wire::whole_event(member.substr(member.find('{')))) return {};
  return with_comma(data, member);
}

void StreamMeter::State::take_out(const wire::SseEvent& event, const wire::EventFacts& facts) {
  if (facts.usage_only && options.strip_usage) return stripper.cut(event, framer);
  if (!event.data_begin) return;
  const std::string_view member = unasked_member(event.data, facts);
  if (member.empty()) return;
  const auto offset = static_cast<std::uint64_t>(member.data() - event.data.data());
  stripper.cut(*event.data_begin + offset, member.size(), framer);
}

void StreamMeter::State::read_events(std::string_view body, Moment at) {
  framer.feed(body);
  if (strip) stripper.begin(body, framer);
  wire::SseEvent event;
  while (framer.next(event)) read_event(event, at);
  if (strip) stripper.finish(framer);
}

StreamMeter::Read StreamMeter::arrived(std::span<const char> body, Moment at) {
  State& s = *state_;
  s.counts = {};
  s.passed = {body.data(), body.size()};
  if (!body.empty()) {
    s.any_bytes = true;
    s.tally.read(at);
  }
  if (s.framed()) s.read_events(s.passed, at);
  if (s.json) s.json->feed(s.passed);
  if (s.json && s.tally.answer().id == 0) s.tally.id(s.json->id());

  Read read;
  read.unread = s.framed() ? s.counts.unread : !body.empty();
  if (s.strip) {
    read.forward = s.stripper.spans();
  } else if (!body.empty()) {
    read.forward = {&s.passed, 1};
  }
  read.events = s.counts.events;
  read.token_events = s.counts.token_events;
  read.tokens = s.counts.tokens;
  read.first_token = s.counts.first_token;
  return read;
}

void StreamMeter::prefetch(int step) const {
  if (step == 2) return metrics::prefetch(state_.get(), state_->tally.rarely_used());
  state_->tally.prefetch();
  state_->event_template.prefetch();
}

void StreamMeter::paused() { state_->tally.paused(); }

bool StreamMeter::begun() const { return state_->framed() ? state_->tally.progress().begun : state_->any_bytes; }

bool StreamMeter::refused() const {
  return state_->is_json() ? state_->json->error() : state_->tally.progress().refused;
}

bool StreamMeter::complete() const {
  return state_->is_json() ? state_->json->whole() : state_->tally.answer().complete == Completeness::marker;
}

std::size_t StreamMeter::kept() const { return state_->framer.kept(); }

bool StreamMeter::at_event_boundary() const {
  const State& s = *state_;
  if (!s.framed()) return false;
  return s.strip ? !s.stripper.inside_event(s.framer) : s.framer.position() == s.framer.block_begin();
}

/// Counts an event without a blank line if nothing can be missing from it. Returns false if something is missing.
bool StreamMeter::State::end_events(Moment at) {
  const auto data = framer.pending();
  if (!data) return true;
  if (!wire::whole_event(*data)) return false;
  wire::EventFacts& facts = blank_facts();
  read_data(*data, facts);
  if (content) content->events.tell(facts);
  tally.event(facts, tally.progress().last_read.value_or(at), counts);
  if (!strip || stripper.inside_event(framer)) return true;
  pending_cut = facts.usage_only && options.strip_usage;
  const std::string_view buffered = stripper.buffered(framer);
  const std::string_view member = unasked_member(*data, facts);
  const std::size_t line = buffered.find(*data);
  if (member.empty() || line == std::string_view::npos) return true;
  const std::size_t from = line + static_cast<std::size_t>(member.data() - data->data());
  pending_rest.assign(buffered.substr(0, from)).append(buffered.substr(from + member.size()));
  return true;
}

std::string_view StreamMeter::ended(bool whole, bool framed, Moment at) {
  State& s = *state_;
  const wire::StreamEnd end = wire::dialect_of(s.options.api).end;
  bool by_framing = s.options.form == BodyForm::opaque || end != wire::StreamEnd::marker || s.skipped;
  // Where only the close marks the end, JSON that is cut off shows that the close came too early.
  if (s.framed() && whole && !s.end_events(at) && !framed && end != wire::StreamEnd::any) by_framing = false;
  if (s.is_json()) {
    wire::JsonAnswerFacts facts = s.json->facts();
    if (!facts.prompt_tokens) facts.prompt_tokens = s.options.engine->prompt_tokens;
    if (!facts.completion_tokens) facts.completion_tokens = s.options.engine->output_tokens;
    if (!generates(s.options.api)) facts.keep_prompt_only();
    s.tally.engine(facts.engine);
    s.tally.json(facts);
    if (s.json->broken() || (whole && !s.json->whole())) s.tally.unparsed(series::Unparsed::broken_json);
    // Where only the close marks the end, a document that is cut off is not complete.
    by_framing = framed || s.json->whole() || s.json->broken();
  }
  s.tally.end(whole, framed, by_framing, at);
  const record::Answer& read = s.tally.answer();
  if (s.content && !read.unparsed && read.complete != Completeness::none)
    s.tally.fingerprint(s.content->maker.finish());
  if (!s.strip || !whole || s.pending_cut) return {};
  return s.pending_rest.empty() ? s.stripper.buffered(s.framer) : std::string_view(s.pending_rest);
}

const record::Answer& StreamMeter::answer() const { return state_->tally.answer(); }

}  // namespace weir::metrics::measure
