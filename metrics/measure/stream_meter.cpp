#include "metrics/measure/stream_meter.hpp"

#include <algorithm>
#include <optional>

#include "metrics/series/shard.hpp"
#include "metrics/wire/dialects/dialect.hpp"

namespace weir::metrics::measure {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

/// Returns the media type of a Content-Type, in lower case, without parameters.
std::string media_type(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  const std::size_t from = content_type.find_first_not_of(" \t");
  if (from == std::string_view::npos) return {};
  std::string type(content_type.substr(from, content_type.find_last_not_of(" \t") - from + 1));
  std::transform(type.begin(), type.end(), type.begin(), lower);
  return type;
}

}  // namespace

BodyForm body_form(Api api, unsigned status, std::string_view content_type, bool content_encoded, bool stream_asked) {
  if (content_encoded || status / 100 != 2) return BodyForm::opaque;
  const std::string type = media_type(content_type);
  if (type == "text/event-stream") return BodyForm::sse;
  if (type == "application/x-ndjson" || type == "application/jsonl") return BodyForm::lines;
  if (api == Api::other) return BodyForm::opaque;
  if (type == "application/json" || type.ends_with("+json")) return BodyForm::json;
  if (!stream_asked) return BodyForm::opaque;
  return wire::dialect_of(api).framing == wire::Framing::lines ? BodyForm::lines : BodyForm::sse;
}

StreamMeter::StreamMeter(const Options& options, series::ReplicaShard& shard)
    : options_(options),
      json_(options.form == BodyForm::json ? std::make_unique<wire::JsonAnswer>() : nullptr),
      strip_(options.form == BodyForm::sse && (options.strip_usage || options.strip_timings)),
      framer_(carry_limit, options.form == BodyForm::lines ? wire::Framing::lines : wire::Framing::events),
      tally_(shard, options.choices, options.prompts, options.received, options.sent) {
  tally_.engine(*options.engine);
  if (options.coded) tally_.unparsed(series::Unparsed::coded_body);
}

namespace {

/// Each thread has one: an event's facts live only as long as the call that reads it.
wire::EventFacts& blank_facts() {
  thread_local wire::EventFacts facts;
  facts.clear();
  return facts;
}

}  // namespace

/// Reads an event that has another shape than the one before it.
void StreamMeter::read_data(std::string_view data, wire::EventFacts& facts) {
  wire::read_event(options_.api, data, facts);
  if (facts.whole_text) whole_text_.subtract_seen(facts);
  if (options_.choices > 1 && !facts.choices.empty() && wire::dialect_of(options_.api).marks_each_prompt)
    facts.marker = false;
  if (facts.engine) tally_.engine(*facts.engine);
  if (facts.bare_usage && tally_.finished_before(facts)) facts.take_for_usage_event();
}

void StreamMeter::read_event(const wire::SseEvent& event, Moment at) {
  wire::EventFacts& facts = blank_facts();
  if (event.too_long) {
    tally_.unparsed(series::Unparsed::event_too_long);
  } else if (!envelope_.match(event.data, facts)) {
    read_data(event.data, facts);
    envelope_.remember(event.data, facts);
  }
  tally_.event(facts, at, counts_);
  if (strip_ && outlet_.may_cut(event)) take_out(event, facts);
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
std::string_view StreamMeter::unasked_member(std::string_view data, const wire::EventFacts& facts) const {
  const std::string_view member = options_.strip_continuous_usage ? facts.usage_member
                                  : options_.strip_timings        ? facts.timings_member
                                                                  : std::string_view();
  // The parser accepts some broken JSON. What is taken out has to be a whole value, or more would go with it.
  if (member.empty() || !wire::whole_event(member.substr(member.find('{')))) return {};
  return with_comma(data, member);
}

void StreamMeter::take_out(const wire::SseEvent& event, const wire::EventFacts& facts) {
  if (facts.usage_only && options_.strip_usage) return outlet_.cut(event, framer_);
  if (!event.data_begin) return;
  const std::string_view member = unasked_member(event.data, facts);
  if (member.empty()) return;
  outlet_.cut(*event.data_begin + static_cast<std::uint64_t>(member.data() - event.data.data()), member.size(),
              framer_);
}

void StreamMeter::read_events(std::string_view body, Moment at) {
  framer_.feed(body);
  if (strip_) outlet_.begin(body, framer_);
  wire::SseEvent event;
  while (framer_.next(event)) read_event(event, at);
  if (strip_) outlet_.finish(framer_);
}

StreamMeter::Read StreamMeter::arrived(std::span<const char> body, Moment at) {
  counts_ = {};
  passed_ = {body.data(), body.size()};
  if (!body.empty()) {
    any_bytes_ = true;
    tally_.read(at);
  }
  if (is_stream()) read_events(passed_, at);
  if (json_) json_->feed(passed_);

  Read read;
  if (strip_) {
    read.forward = outlet_.spans();
  } else if (!body.empty()) {
    read.forward = {&passed_, 1};
  }
  read.events = counts_.events;
  read.token_events = counts_.token_events;
  read.tokens = counts_.tokens;
  read.first_token = counts_.first_token;
  return read;
}

void StreamMeter::paused() { tally_.paused(); }

bool StreamMeter::has_event() const { return is_stream() ? tally_.answer().events > 0 : any_bytes_; }

bool StreamMeter::refused() const { return json_ ? json_->error() : tally_.refused(); }

bool StreamMeter::complete() const { return json_ ? json_->whole() : tally_.marker(); }

bool StreamMeter::at_event_boundary() const {
  if (!is_stream()) return false;
  return strip_ ? !outlet_.inside_event(framer_) : framer_.position() == framer_.block_begin();
}

/// Counts an event without a blank line if nothing can be missing from it. Returns false if something is missing.
bool StreamMeter::end_events(Moment at) {
  const auto data = framer_.pending();
  if (!data) return true;
  if (!wire::whole_event(*data)) return false;
  wire::EventFacts& facts = blank_facts();
  read_data(*data, facts);
  tally_.event(facts, tally_.last_read().value_or(at), counts_);
  if (!strip_ || outlet_.inside_event(framer_)) return true;
  pending_cut_ = facts.usage_only && options_.strip_usage;
  const std::string_view held = outlet_.held(framer_);
  const std::string_view member = unasked_member(*data, facts);
  const std::size_t line = held.find(*data);
  if (member.empty() || line == std::string_view::npos) return true;
  const std::size_t from = line + static_cast<std::size_t>(member.data() - data->data());
  pending_rest_.assign(held.substr(0, from)).append(held.substr(from + member.size()));
  return true;
}

std::string_view StreamMeter::ended(bool whole, bool framed, Moment at) {
  const wire::StreamEnd end = wire::dialect_of(options_.api).end;
  bool by_framing = options_.form == BodyForm::opaque || end != wire::StreamEnd::marker;
  // Where only the close marks the end, JSON that is cut off shows that the close came too early.
  if (is_stream() && whole && !end_events(at) && !framed && end == wire::StreamEnd::whole_json) by_framing = false;
  if (json_) {
    wire::JsonAnswerFacts facts = json_->facts();
    if (!facts.prompt_tokens) facts.prompt_tokens = options_.engine->prompt_tokens;
    if (!facts.completion_tokens) facts.completion_tokens = options_.engine->output_tokens;
    tally_.engine(facts.engine);
    tally_.json(facts);
    if (json_->broken() || (whole && !json_->whole())) tally_.unparsed(series::Unparsed::broken_json);
    // Where only the close marks the end, a document that is cut off is not complete.
    by_framing = framed || json_->whole() || json_->broken();
  }
  tally_.end(whole, framed, by_framing, at);
  if (!strip_ || !whole || pending_cut_) return {};
  return pending_rest_.empty() ? outlet_.held(framer_) : std::string_view(pending_rest_);
}

const record::Answer& StreamMeter::answer() const { return tally_.answer(); }

}  // namespace weir::metrics::measure
