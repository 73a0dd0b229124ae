#include "proxy/exchange/replica_side.hpp"

#include <algorithm>
#include <charconv>

#include "balancer/story/attempt.hpp"
#include "metrics/moment.hpp"
#include "metrics/wire/engine/report.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::ticks;
using metrics::measure::BodyForm;
using metrics::measure::StreamMeter;
using story::End;

constexpr std::size_t max_response_head = 64 * 1024;
/// An answer has at most so many interim answers (1xx) before it, and they have the bytes of one head together.
constexpr std::uint32_t max_interim_heads = 100;

using metrics::series::Malformed;

bool may_be_of_engine(const http::HeaderField& field) {
  constexpr auto begin = metrics::wire::engine_headers_begin;
  return field.known == http::FieldName::other && http::same_token(field.name.substr(0, begin.size()), begin);
}

Malformed malformed_by(http::HeadError error) {
  using http::HeadError;
  switch (error) {
    case HeadError::bad_length:
    case HeadError::length_and_encoding:
      return Malformed::length;
    case HeadError::bad_transfer_encoding:
    case HeadError::unknown_transfer_coding:
      return Malformed::coding;
    case HeadError::too_many_fields:
      return Malformed::too_long;
    case HeadError::body_not_allowed:
      return Malformed::no_body;
    default:
      return Malformed::head;
  }
}

const metrics::record::Answer no_answer{};

}  // namespace

const metrics::record::Answer& ReplicaSide::answer() const { return meter_ ? meter_->answer() : no_answer; }

/// Frees what only the views of the previous call needed.
void ReplicaSide::begin() {
  if (!passed_head_.empty()) std::string().swap(passed_head_);
}

ReplicaSide::Progress ReplicaSide::arrived(std::span<char> bytes, Moment at) {
  begin();
  Progress progress;
  // Bytes that were there before the request answer something else: the connection was not fit for it.
  if (options_.reused && !any_byte_ && (!report_.sent || at < *report_.sent)) {
    broken(End::bad_framing, at, progress);
    return progress;
  }
  any_byte_ = true;
  if (state_ == State::body) {
    body_arrived(bytes, at, progress);
  } else {
    head_arrived(bytes, at, progress);
  }
  return progress;
}

void ReplicaSide::head_arrived(std::span<char> bytes, Moment at, Progress& progress) {
  // A head that came whole in one read is read where it lies. Only a head that came in several reads is put together.
  std::size_t looked_at = head_bytes_.size();
  const bool in_pieces = looked_at > 0;
  if (in_pieces) {
    head_bytes_.append(bytes.data(), bytes.size());
    head_bytes_.append(StreamMeter::padding, '\0');
    bytes = std::span(head_bytes_.data(), head_bytes_.size() - StreamMeter::padding);
  }
  for (;;) {
    const std::string_view text(bytes.data(), bytes.size());
    const auto length = http::head_length(text, looked_at);
    if (length.value_or(text.size()) > max_response_head) return malformed(Malformed::too_long, at, progress);
    if (!length) {
      if (!in_pieces) return void(head_bytes_.assign(text));
      head_bytes_.erase(0, static_cast<std::size_t>(text.data() - head_bytes_.data()));
      head_bytes_.resize(head_bytes_.size() - StreamMeter::padding);
      return;
    }
    const bool final_head = read_head(text.substr(0, *length), at, progress);
    if (state_ == State::done) return;
    bytes = bytes.subspan(*length);
    if (final_head) break;
    looked_at = 0;  // After an interim answer the real one follows.
  }
  state_ = State::body;
  body_arrived(bytes, at, progress);
  passed_head_ = std::move(head_bytes_);  // Views of the head and of the first body bytes may lie in it.
}

/// A Retry-After in seconds: at most a minute, or a replica could put itself out for longer, and at least one, or a
/// request might come back to it at once, again and again. Nothing for a date.
static std::optional<std::chrono::seconds> seconds_in(std::string_view text) {
  unsigned seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || error == std::errc::invalid_argument || end != text.data() + text.size()) return std::nullopt;
  constexpr std::chrono::seconds shortest{1}, longest{60};
  return error == std::errc() ? std::clamp(std::chrono::seconds(seconds), shortest, longest) : longest;
}

/// Returns true once the final head is there; false after an interim one, or if the attempt is over.
bool ReplicaSide::read_head(std::string_view bytes, Moment at, Progress& progress) {
  auto parsed = http::parse_response_head(bytes, options_.to_head);
  if (!parsed) {
    malformed(malformed_by(parsed.error()), at, progress);
    return false;
  }
  if (parsed->status < 200) {
    if (parsed->status == 101 || is_one_interim_too_many(bytes.size())) malformed(Malformed::interim, at, progress);
    return false;
  }
  progress.head = std::move(*parsed);
  report_.head = at;
  report_.status = progress.head->status;
  keep_alive_ = progress.head->keep_alive;
  if (story::another_may_have_room(report_.status)) report_.retry_after = seconds_in((*progress.head)["retry-after"]);
  if (injected() && !options_.injection_proven && (report_.status == 400 || report_.status == 422)) {
    progress.end = End::option_refused;
    state_ = State::done;
    return false;
  }
  begin_body(*progress.head, at);
  progress.event_stream = is_stream();
  progress.strips = injected() && form_ == BodyForm::sse;
  return true;
}

/// Interim answers without end would keep the request waiting, and cost nothing to send.
bool ReplicaSide::is_one_interim_too_many(std::size_t bytes) {
  interim_bytes_ += static_cast<std::uint32_t>(bytes);
  return ++interim_heads_ > max_interim_heads || interim_bytes_ > max_response_head;
}

/// Counts an answer that breaks HTTP/1.1, and gives it up.
void ReplicaSide::malformed(Malformed why, Moment at, Progress& progress) {
  shard_.malformed.add(why);
  broken(End::bad_framing, at, progress);
}

void ReplicaSide::begin_body(const http::ResponseHead& head, Moment at) {
  const auto coding = head[http::FieldName::content_encoding];
  const bool coded = !coding.empty() && !http::same_token(coding, "identity");
  if (!options_.unread)
    form_ = metrics::measure::body_form(options_.api, report_.status, head[http::FieldName::content_type], coded,
                                        options_.stream);
  StreamMeter::Options meter;
  constexpr std::string_view page = "text/html";
  is_page_ = options_.api != metrics::Api::other && report_.status / 100 == 2 &&
             http::same_token(head[http::FieldName::content_type].substr(0, page.size()), page);
  meter.api = options_.api;
  meter.form = form_;
  meter.coded = coded && options_.api != metrics::Api::other && report_.status / 100 == 2;
  if (injected() && form_ == BodyForm::sse) meter.strip(options_.asked);
  meter.reads_id = options_.handed_out.homes != nullptr && !options_.unread && report_.status / 100 == 2 && !coded;
  meter.choices = options_.choices;
  meter.prompts = options_.prompts;
  meter.fingerprint_key = options_.fingerprint_key;
  if (!options_.unread && std::ranges::any_of(head.fields, may_be_of_engine)) {
    const auto engine = metrics::wire::engine_head([&head](std::string_view name) { return head[name]; });
    if (engine != metrics::wire::EngineFigures{}) meter.engine = engine;
  }
  meter.received = options_.received;
  meter.sent = report_.sent.value_or(at);
  meter_.emplace(meter, shard_);
  decoder_ = http::BodyDecoder(head.framing, head.content_length);
  if (form_ != BodyForm::json || !options_.stream) return;
  as_stream_ = std::make_unique<StreamMeter::Options>(meter);
  as_stream_->form = BodyForm::sse;
  // If the client gets the length of an answer that looks like JSON, nothing may be taken out of it.
  if (head.framing != http::Framing::length) as_stream_->strip(options_.asked);
}

/// Some servers call their event streams JSON. JSON begins with none of the bytes with which a line of events begins.
void ReplicaSide::decide_form(char first_byte) {
  constexpr std::string_view begins_a_line = "deir:";  // The first letters of data, event, id, retry, and a comment.
  const auto as_stream = std::exchange(as_stream_, nullptr);
  if (begins_a_line.find(first_byte) == std::string_view::npos) return;
  form_ = as_stream->form;
  meter_.emplace(*as_stream, shard_);
}

void ReplicaSide::body_arrived(std::span<char> bytes, Moment at, Progress& progress) {
  const auto decoded = decoder_.decode(bytes);
  if (!decoded.payload.empty()) {
    if (as_stream_) decide_form(decoded.payload.front());
    shard_.bytes[1].add(decoded.payload.size());
    const auto read = meter_->arrived(decoded.payload, at);
    if (const auto& [homes, home] = options_.handed_out; homes != nullptr && !id_noted_ && answer().id != 0) {
      homes->note(answer().id, home, at);
      id_noted_ = true;
    }
    progress.body = read.forward;
    progress.token_events = read.token_events;
    // If an API's tokens are not read, any event shows that the replica works.
    if (read.token_events > 0 || (!metrics::generates(options_.api) && read.events > 0)) last_token_ = at;
    if (read.first_token) report_.lease.first_token(at);
    if (read.tokens > 0) report_.lease.tokens(read.tokens);
    // An engine's front may answer with an error while nothing works behind it.
    if (report_.status / 100 == 2 && (options_.stream ? read.unread : options_.api != metrics::Api::other)) {
      report_.lease.lives();
      if (options_.stream) last_token_ = at;
    }
  }
  if (decoder_.finished()) {
    const bool surplus = decoded.consumed < bytes.size();
    if (surplus) shard_.malformed.add(Malformed::surplus);
    report_.replica_reusable = keep_alive_ && !surplus;
    return finish(End::whole, progress.body, at, progress);
  }
  if (decoder_.failed()) malformed(Malformed::chunks, at, progress);
}

/// Ends the answer in good order, as far as anyone can see.
void ReplicaSide::finish(End end, std::span<const std::string_view> last, Moment at, Progress& progress) {
  // Once a request. The bytes that the meter held back join the last ones, which may lie where the meter is about to
  // write. Of an answer that is no stream the meter holds nothing back.
  const bool as_they_lie = !is_stream() && last.size() == 1;
  last_.clear();
  if (!as_they_lie)
    for (const auto span : last) last_.append(span);
  const auto held_back = meter_->ended(true, !decoder_.ends_with_close(), at);
  if (is_truncated()) {
    // Before an answer has begun the close is no end that an answer could have, and the request may go elsewhere.
    end = is_stream() && !meter_->begun() ? End::closed : End::truncated;
  } else {
    last_.append(held_back);
  }
  last_view_ = as_they_lie ? last.front() : last_;
  progress.body = {&last_view_, 1};
  progress.end = end;
  stop(end, at);
}

/// True for a stream that ended with its connection and without a sign of its end. Such a stream looks broken off. Any
/// other framing would have told the client, so weir has to.
bool ReplicaSide::is_truncated() const {
  return is_stream() && decoder_.ends_with_close() && report_.status / 100 == 2 &&
         answer().complete == metrics::Completeness::none && !answer().in_band_error;
}

ReplicaSide::Progress ReplicaSide::ended(End how, Moment now) {
  begin();
  Progress progress;
  if (how == End::closed && state_ == State::body && decoder_.ends_with_close()) {
    finish(End::whole, {}, now, progress);
  } else {
    broken(how, now, progress);
  }
  return progress;
}

void ReplicaSide::broken(End how, Moment now, Progress& progress) {
  report_.replica_reusable = false;
  if (options_.reused && !any_byte_ && how != End::timed_out && how != End::cut) {
    progress.end = End::stale;
    state_ = State::done;
    return;
  }
  // An event stream that has shown its end marker is whole, whether and however its connection ended.
  if (state_ == State::body && is_stream() && has_end_marker()) {
    return finish(End::marked, progress.body, now, progress);
  }
  if (!progress.body.empty()) {
    last_.clear();
    for (const auto span : progress.body) last_.append(span);  // The meter may overwrite what it gave when it ends.
    last_view_ = last_;
    progress.body = {&last_view_, 1};
  }
  if (meter_ && !meter_->answer().end) static_cast<void>(meter_->ended(false, !decoder_.ends_with_close(), now));
  progress.end = how;
  stop(how, now);
}

void ReplicaSide::left(End why, Moment now, bool client_has_all) {
  report_.replica_reusable = false;
  if (state_ == State::done) return;
  // The replica had finished, so what is settled at an answer's end is known.
  const bool error = answer().in_band_error && !client_has_all;
  if (client_has_all || (is_stream() && has_end_marker() && !error))
    static_cast<void>(meter_->ended(true, !decoder_.ends_with_close(), now));
  stop(why, now, client_has_all);
}

void ReplicaSide::stop(End end, Moment now, bool client_has_all) {
  state_ = State::done;
  story::AttemptFacts evidence;
  evidence.end = end;
  evidence.status = report_.status;
  evidence.api = options_.api;
  evidence.body_is_read = form_ != BodyForm::opaque;
  evidence.is_json =
      form_ == BodyForm::json && options_.api != metrics::Api::other && !options_.to_head && report_.status != 204;
  evidence.is_page = is_page_;
  evidence.sent = report_.sent.has_value();
  evidence.client_has_all = client_has_all;
  report_.verdict = verdict_of(evidence, answer());
  balancer::LeaseEnd told(story::cause_of(report_.verdict));
  told.prompt_tokens = answer().prompt_tokens;
  told.cached_tokens = answer().cached_tokens;
  told.output_tokens = answer().output_tokens;
  report_.concurrency = report_.lease.end(told, now);
}

Moment ReplicaSide::deadline() const { return std::min(limit(), stall()); }

bool ReplicaSide::tell_stall(Moment now) {
  if (now < stall() || now >= limit()) return false;
  told_stall_ = true;
  report_.lease.stalled();
  return true;
}

/// Returns when the stream has stood still for long, the first time.
Moment ReplicaSide::stall() const {
  const bool shows = last_token_ && options_.stream && is_stream() && metrics::generates(options_.api);
  return shows && !was_paused_ && !told_stall_ && state_ != State::done ? *last_token_ + stalls_after : Moment::max();
}

/// If a client asked for a stream and the answer has another form, no tokens show.
Moment ReplicaSide::limit() const {
  if (state_ == State::done) return Moment::max();
  const auto& limits = options_.limits;
  const Moment from = report_.sent.value_or(options_.started);
  if (!options_.stream || (state_ == State::body && !is_stream())) return from + ticks(limits.whole_answer);
  return last_token_ ? *last_token_ + ticks(limits.between_tokens) : from + ticks(limits.first_token);
}

}  // namespace weir::proxy::exchange
