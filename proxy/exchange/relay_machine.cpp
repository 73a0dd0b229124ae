#include "proxy/exchange/relay_machine.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "metrics/wire/engine/head.hpp"
#include "proxy/fleet/second_opinions.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::Outcome;
using metrics::measure::BodyForm;

constexpr std::size_t max_response_head = 64 * 1024;
/// Comments before the first event are held with the head up to here; beyond it the answer is let go.
constexpr std::size_t max_held = 16 * 1024;

std::chrono::steady_clock::duration ticks(config::Seconds s) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(s);
}

const metrics::record::Answer no_answer{};

}  // namespace

void RelayOutput::clear() {
  spans.clear();
  chunk_heads_used_ = 0;
}

void RelayOutput::add_chunk_head(std::size_t size) {
  char* const begin = chunk_heads_[chunk_heads_used_++].data();
  char* end = std::to_chars(begin, begin + 16, size, 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  spans.emplace_back(begin, static_cast<std::size_t>(end - begin));
}

std::size_t RelayOutput::size() const {
  std::size_t total = 0;
  for (const auto span : spans) total += span.size();
  return total;
}

RelayMachine::RelayMachine(const Options& options, balancer::Lease lease, metrics::series::ReplicaShard& shard)
    : options_(options), lease_(std::move(lease)), shard_(shard), client_keep_alive_(options.client_keep_alive) {}

RelayMachine::~RelayMachine() = default;

const metrics::record::Answer& RelayMachine::answer() const { return meter_ ? meter_->answer() : no_answer; }

void RelayMachine::begin(RelayOutput& out) {
  out.clear();
  read_ = {};
  if (committed_ && !client_head_.empty()) std::string().swap(client_head_);
  if (!released_.empty()) std::string().swap(released_);
  if (!torn_head_.empty()) std::string().swap(torn_head_);
}

void RelayMachine::arrived(std::span<char> bytes, Moment at, RelayOutput& out) {
  begin(out);
  read_ = bytes;
  read_at_ = at;
  read_token_events_ = 0;
  any_byte_ = true;
  if (in_body_) {
    body_arrived(bytes, at, out);
  } else {
    head_arrived(bytes, at, out);
  }
}

void RelayMachine::head_arrived(std::span<char> bytes, Moment at, RelayOutput& out) {
  // A head that came whole in one read is read where it lies; only a torn one is put together.
  std::size_t looked_at = head_bytes_.size();
  const bool torn = looked_at > 0;
  if (torn) {
    head_bytes_.append(bytes.data(), bytes.size());
    head_bytes_.append(metrics::measure::StreamMeter::padding, '\0');
    bytes = std::span(head_bytes_.data(), head_bytes_.size() - metrics::measure::StreamMeter::padding);
  }
  for (;;) {
    const std::string_view text(bytes.data(), bytes.size());
    const auto length = http::head_length(text, looked_at);
    if (!length) {
      if (bytes.size() > max_response_head) return broken(Break::bad_framing, at, out);
      if (!torn) return void(head_bytes_.assign(text));
      head_bytes_.erase(0, static_cast<std::size_t>(text.data() - head_bytes_.data()));
      head_bytes_.resize(head_bytes_.size() - metrics::measure::StreamMeter::padding);
      return;
    }
    if (*length > max_response_head) return broken(Break::bad_framing, at, out);
    const bool final_head = accept_head(text.substr(0, *length), at, out);
    if (done_) return;
    bytes = bytes.subspan(*length);
    if (final_head) break;
    looked_at = 0;  // it was an interim answer: the real one follows
  }
  in_body_ = true;
  body_arrived(bytes, at, out);
  torn_head_ = std::move(head_bytes_);  // views of the first body bytes may lie in it
}

/// Returns true once the final head is there; false after an interim one, or if the attempt is over.
bool RelayMachine::accept_head(std::string_view bytes, Moment at, RelayOutput& out) {
  const auto parsed = http::parse_response_head(bytes, options_.to_head);
  if (!parsed || parsed->status == 101) {
    broken(Break::bad_framing, at, out);
    return false;
  }
  const auto& head = *parsed;
  if (head.status < 200) return false;
  if (options_.head_arrived) options_.head_arrived(head);

  head_at_ = at;
  status_ = head.status;
  upstream_keep_alive_ = head.keep_alive;
  if (options_.injected && !options_.injection_proven && (status_ == 400 || status_ == 422)) {
    end_ = AttemptEnd::injection_refused;
    done_ = true;
    return false;
  }
  if (another_may_do_better()) keep_error(metrics::series::Retry::status, at);

  const auto coding = head["content-encoding"];
  const bool coded = !coding.empty() && !http::same_token(coding, "identity");
  form_ = metrics::measure::body_form(options_.api, status_, head["content-type"], coded, options_.stream);
  metrics::measure::StreamMeter::Options meter;
  meter.api = options_.api;
  meter.form = form_;
  meter.coded = coded && options_.api != metrics::Api::other && status_ / 100 == 2;
  const bool strips = options_.injected && form_ == BodyForm::sse;
  if (strips) meter.strip(options_.asked);
  meter.choices = options_.choices;
  meter.prompts = options_.prompts;
  const auto engine = metrics::wire::engine_head([&head](std::string_view name) { return head[name]; });
  if (engine != metrics::wire::EngineFigures{}) meter.engine = engine;
  meter.received = options_.received;
  meter.sent = sent_.value_or(at);
  meter_.emplace(meter, shard_);
  decoder_ = http::BodyDecoder(head.framing, head.content_length);

  const auto unbounded = options_.client_http_1_1 ? http::ClientFraming::chunked : http::ClientFraming::close;
  client_framing_ = head.framing == http::Framing::none                ? http::ClientFraming::none
                    : head.framing == http::Framing::length && !strips ? http::ClientFraming::length
                                                                       : unbounded;
  client_keep_alive_ = client_keep_alive_ && client_framing_ != http::ClientFraming::close;
  if (form_ == BodyForm::json && options_.stream) {
    as_stream_ = std::make_unique<metrics::measure::StreamMeter::Options>(meter);
    as_stream_->form = BodyForm::sse;
    if (client_framing_ != http::ClientFraming::length) as_stream_->strip(options_.asked);
  }
  http::ClientAnswer answer;
  answer.http_1_1 = options_.client_http_1_1;
  answer.framing = client_framing_;
  answer.length = head.content_length;
  answer.keep_alive = client_keep_alive_;
  answer.event_stream = is_stream();
  answer.request_id = options_.request_id;
  answer.weir_id = options_.weir_id;
  answer.replica = options_.replica;
  client_head_ = http::client_head(head, answer);

  const bool hold = is_stream() && options_.limits.accept_hold.count() > 0;
  if (!hold && !keeping_) commit(out);
  return true;
}

/// Some servers call their event streams JSON, which begins with none of the bytes that a line of events begins with.
void RelayMachine::decide_form(char first_byte) {
  constexpr std::string_view begins_a_line = "deir:";  // data, event, id, retry, or a comment.
  const auto as_stream = std::exchange(as_stream_, nullptr);
  if (begins_a_line.find(first_byte) == std::string_view::npos) return;
  form_ = as_stream->form;
  meter_.emplace(*as_stream, shard_);
}

void RelayMachine::body_arrived(std::span<char> bytes, Moment at, RelayOutput& out) {
  const auto decoded = decoder_.decode(bytes);
  std::span<const std::string_view> forward;
  if (!decoded.payload.empty()) {
    if (as_stream_) decide_form(decoded.payload.front());
    shard_.bytes[1].add(decoded.payload.size());
    const auto read = meter_->arrived(decoded.payload, at);
    forward = read.forward;
    read_token_events_ = read.token_events;
    // Where an API's tokens are not read, any event shows that the replica is at work.
    if (read.token_events > 0 || (options_.api == metrics::Api::other && read.events > 0)) last_token_ = at;
    if (read.first_token) lease_.first_token(at);
    if (read.tokens > 0) lease_.tokens(read.tokens);
    if (!committed_ && !keeping_ && meter_->refused()) keep_error(metrics::series::Retry::in_band_error, at);
    if (!committed_ && !keeping_ && (meter_->has_event() || held_.size() + decoded.payload.size() > max_held))
      commit(out);
  }
  if (keeping_ && held_.size() + decoded.payload.size() > most_kept) give_up_keeping(at, out);
  if (done_) return;
  if (decoder_.finished()) {
    upstream_reusable_ = upstream_keep_alive_ && decoded.consumed == bytes.size();
    return finish(forward, at, out);
  }
  if (!decoder_.failed()) return emit(forward, out);
  for (const auto span : forward) held_.append(span);  // ending the meter may overwrite what it gave
  emit({}, out);
  broken(Break::bad_framing, at, out);
}

/// Puts the client's head in front of what is written; from here on nothing is tried again.
void RelayMachine::commit(RelayOutput& out) {
  committed_ = true;
  if (options_.accepted && !keeping_) options_.accepted(status_);
  out.spans.emplace_back(client_head_);
}

/// Frames body bytes for the client, or holds them until the answer is accepted.
void RelayMachine::emit(std::span<const std::string_view> body, RelayOutput& out) {
  if (!committed_) {
    for (const auto span : body) held_.append(span);
    return;
  }
  std::size_t size = held_.size();
  for (const auto span : body) size += span.size();
  if (size == 0) return;  // a chunk of no size would end the body
  bytes_out_ += size;
  const bool chunked = client_framing_ == http::ClientFraming::chunked;
  if (chunked && held_.empty() && body.size() == 1 && frame_in_place(body.front(), out)) return;
  if (chunked) out.add_chunk_head(size);
  if (!held_.empty()) {
    released_ = std::move(held_);
    held_.clear();
    out.spans.emplace_back(released_);
  }
  for (const auto span : body)
    if (!span.empty()) out.spans.push_back(span);
  if (chunked) out.spans.emplace_back("\r\n");
}

/// Where a token came in a chunk of its own, there is room around it for weir's framing: it goes out in one piece,
/// which the kernel takes for less than four.
bool RelayMachine::frame_in_place(std::string_view body, RelayOutput& out) {
  const std::less<const char*> before;
  if (before(body.data(), read_.data()) || before(read_.data() + read_.size(), body.data() + body.size())) return false;
  const auto room = static_cast<std::size_t>(body.data() - read_.data());
  if (read_.size() - room - body.size() < 2) return false;
  std::array<char, 16> digits;
  const auto written = std::to_chars(digits.begin(), digits.end(), body.size(), 16).ptr;
  const auto length = static_cast<std::size_t>(written - digits.data());
  if (room < length + 2) return false;
  char* const begin = read_.data() + room - length - 2;
  std::copy(digits.data(), written, begin);
  std::copy_n("\r\n", 2, begin + length);
  std::copy_n("\r\n", 2, begin + length + 2 + body.size());
  out.spans.emplace_back(begin, length + 2 + body.size() + 2);
  return true;
}

/// The answer came to its end in good order.
void RelayMachine::finish(std::span<const std::string_view> forward, Moment at, RelayOutput& out) {
  // Once a request: what was held back joins the last bytes, which may lie where the meter is about to write.
  std::string tail;
  for (const auto span : forward) tail.append(span);
  const auto held_back = meter_->ended(true, !decoder_.ends_with_close(), at);
  if (!committed_) commit(out);
  if (torn())
    return break_off(std::move(tail), "the replica closed the stream before its end: the answer is incomplete",
                     Outcome::truncated, at, out);
  tail.append(held_back);
  closing_ = std::move(tail);
  const std::string_view rest = closing_;
  emit({&rest, 1}, out);
  if (client_framing_ == http::ClientFraming::chunked) out.spans.emplace_back("0\r\n\r\n");
  if (keeping_) keep_output(out);
  stop(keeping_ ? AttemptEnd::refused : AttemptEnd::answered, outcome_of_whole_answer(), at);
}

/// From here on the answer is put by, until it is whole, instead of being relayed.
void RelayMachine::keep_error(metrics::series::Retry reason, Moment now) {
  if (!options_.keep_errors) return;
  keeping_ = true;
  keep_until_ = now + kept_within;
  retry_reason_ = reason;
}

void RelayMachine::keep_output(RelayOutput& out) {
  kept_ = std::make_unique<std::string>();
  for (const auto span : out.spans) kept_->append(span);
  out.clear();
}

/// The error answer is too large or too slow to wait for.
void RelayMachine::give_up_keeping(Moment now, RelayOutput& out) {
  if (options_.leaves_error && options_.leaves_error(status_)) return stop_unkept(now);
  keeping_ = false;
  keep_until_ = Moment::max();
  retry_reason_.reset();
  commit(out);
}

void RelayMachine::stop_unkept(Moment now) {
  upstream_reusable_ = false;
  stop(AttemptEnd::refused, fleet::is_full(status_) ? Outcome::replica_refused : Outcome::upstream_error, now);
}

/// A stream that ended with its connection and with nothing that tells its end was broken off, for all that anyone can
/// see: where another framing would have told the client, weir has to.
bool RelayMachine::torn() const {
  return is_stream() && decoder_.ends_with_close() && status_ / 100 == 2 &&
         answer().complete == metrics::Completeness::none && !answer().in_band_error;
}

/// Ends the client's body before its end, after `last`: with an error event where its stream stands between two.
void RelayMachine::break_off(std::string last, std::string_view why, Outcome outcome, Moment at, RelayOutput& out) {
  const bool may_add = client_framing_ == http::ClientFraming::chunked || client_framing_ == http::ClientFraming::close;
  closing_ = std::move(last);
  // The first cause wins, and an error of the replica's own has told the client.
  const bool told = answer().in_band_error;
  if (is_stream() && may_add && !told && meter_->at_event_boundary()) closing_ += http::error_event(options_.api, why);
  const std::string_view rest = closing_;
  emit({&rest, 1}, out);
  cut_ = true;
  stop(AttemptEnd::answered, told ? Outcome::upstream_error : outcome, at);
}

bool RelayMachine::another_may_do_better() const {
  return status_ >= 500 || fleet::is_full(status_) || fleet::is_doubtful(status_);
}

Outcome RelayMachine::outcome_of_whole_answer() const {
  if (fleet::is_full(status_)) return Outcome::replica_refused;
  if (status_ >= 500) return Outcome::upstream_error;
  if (status_ >= 400) return Outcome::client_error;
  // No API of the engines redirects: a server that is none of them answers at that address.
  if (status_ >= 300 && options_.api != metrics::Api::other) return Outcome::upstream_error;
  const auto& seen = answer();
  if (seen.in_band_error) return Outcome::upstream_error;
  if (seen.complete == metrics::Completeness::none) return Outcome::truncated;
  const bool counts_tokens = form_ != BodyForm::opaque && options_.api != metrics::Api::other && !seen.unparsed;
  return counts_tokens && seen.token_events == 0 ? Outcome::ok_empty : Outcome::ok;
}

void RelayMachine::upstream_ended(Break how, Moment now, RelayOutput& out) {
  begin(out);
  if (how == Break::closed && in_body_ && decoder_.ends_with_close()) return finish({}, now, out);
  broken(how, now, out);
}

void RelayMachine::broken(Break how, Moment now, RelayOutput& out) {
  upstream_reusable_ = false;
  const auto outcome = how == Break::timed_out     ? Outcome::timeout
                       : how == Break::bad_framing ? Outcome::upstream_error
                                                   : Outcome::upstream_reset;
  if (!committed_) {
    if (keeping_ && is_stream() && meter_->complete()) {
      cut_ = client_framing_ == http::ClientFraming::length;
      return finish({}, now, out);
    }
    if (keeping_) return stop_unkept(now);
    if (how == Break::timed_out) return stop(AttemptEnd::failed, outcome, now);
    if (options_.reused && !any_byte_) {
      end_ = AttemptEnd::stale;
      done_ = true;
      return;
    }
    retry_reason_ = metrics::series::Retry::reset;
    return stop(AttemptEnd::failed, outcome, now);
  }
  // An event stream that has shown its end marker is whole, however its connection ended or whether it does. A
  // length that was promised to the client and is not reached leaves its connection of no use.
  if (is_stream() && meter_->complete()) {
    cut_ = client_framing_ == http::ClientFraming::length;
    return finish({}, now, out);
  }

  if (meter_->answer().end == std::nullopt) static_cast<void>(meter_->ended(false, !decoder_.ends_with_close(), now));
  break_off({},
            how == Break::timed_out ? "the replica stopped sending: the answer is incomplete"
                                    : "the replica was lost: the answer is incomplete",
            outcome, now, out);
}

void RelayMachine::client_gone(Moment now) {
  cut_ = true;
  if (client_has_marker_) {
    // It has what it asked for: OpenAI's SDK closes at [DONE], and the body's last chunk often comes behind that.
    if (done_) return;
    static_cast<void>(meter_->ended(true, !decoder_.ends_with_close(), now));
    return stop(AttemptEnd::client_gone, outcome_of_whole_answer(), now);
  }
  if (done_) {
    // The replica had finished; only the client did not wait for its bytes.
    if (outcome_ != Outcome::ok && outcome_ != Outcome::ok_empty) return;
    outcome_ = Outcome::client_abort;
    phase_ = metrics::Phase::decode;
    return;
  }
  // The first cause wins: SDKs leave at an in-band error, and some of them close before its end marker comes.
  if (answer().in_band_error) return stop(AttemptEnd::client_gone, Outcome::upstream_error, now);
  // The replica had finished: what is settled at an answer's end is known.
  if (is_stream() && meter_ && meter_->complete())
    static_cast<void>(meter_->ended(true, !decoder_.ends_with_close(), now));
  phase_ = answer().first_token ? metrics::Phase::decode : sent_ ? metrics::Phase::prefill : metrics::Phase::queue;
  stop(AttemptEnd::client_gone, Outcome::client_abort, now);
}

void RelayMachine::stop(AttemptEnd end, Outcome outcome, Moment now) {
  end_ = end;
  outcome_ = outcome;
  done_ = true;
  if (!lease_) return;
  balancer::End told;
  told.answered = outcome == Outcome::ok || outcome == Outcome::ok_empty;
  told.prompt_tokens = answer().prompt_tokens;
  told.cached_tokens = answer().cached_tokens;
  told.output_tokens = answer().output_tokens;
  company_ = lease_.end(told, now);
}

void RelayMachine::written(Moment now, bool at_once) {
  if (!done_) client_has_marker_ = at_once && committed_ && form_ != BodyForm::json && meter_ && meter_->complete();
  if (at_once && read_token_events_ > 0) {
    const auto overhead = std::max(metrics::Nanoseconds(now - read_at_), metrics::Nanoseconds::zero());
    shard_.token_overhead.observe(static_cast<std::uint64_t>(overhead.count()), read_token_events_);
    overhead_max_ = std::max(overhead_max_.value_or(overhead), overhead);
  } else {
    shard_.client_blocked_events.add(read_token_events_);
  }
  read_token_events_ = 0;
}

/// When the replica has taken too long. A stream that was asked for and is answered in another form shows no tokens.
Moment RelayMachine::patience_ends() const {
  const auto& limits = options_.limits;
  const Moment from = sent_.value_or(options_.started);
  if (!options_.stream || (in_body_ && !is_stream())) return from + ticks(limits.whole_answer);
  return last_token_ ? *last_token_ + ticks(limits.between_tokens) : from + ticks(limits.first_token);
}

Moment RelayMachine::deadline() const {
  if (done_) return Moment::max();
  const Moment end = std::min(patience_ends(), keep_until_);
  return in_body_ && !committed_ ? std::min(end, *head_at_ + ticks(options_.limits.accept_hold)) : end;
}

void RelayMachine::deadline_passed(Moment now, RelayOutput& out) {
  begin(out);
  if (keeping_) {
    give_up_keeping(now, out);
    return emit({}, out);
  }
  const bool held_long_enough = in_body_ && !committed_ && now < patience_ends();
  if (!held_long_enough) return broken(Break::timed_out, now, out);
  commit(out);
  emit({}, out);
}

}  // namespace weir::proxy::exchange
