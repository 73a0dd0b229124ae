#include "proxy/exchange/answer_handler.hpp"

#include <algorithm>

#include "balancer/story/status.hpp"
#include "metrics/ticks.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::Outcome;
using metrics::Retry;
using story::End;
using story::Reply;

/// Comments before the first event are held with the head up to this size. Beyond it the answer is let go.
constexpr std::size_t max_held = 16 * 1024;

std::string_view sentence_for(End end) {
  switch (end) {
    case End::truncated:
      return "the replica closed the stream before its end: the answer is incomplete";
    case End::timed_out:
      return "the replica stopped sending: the answer is incomplete";
    case End::cut:
      return "the time to drain (limits.drain) is over: the answer is incomplete";
    default:
      return "the replica was lost: the answer is incomplete";
  }
}

}  // namespace

AnswerHandler::AnswerHandler(const Options& options, balancer::Lease&& lease, metrics::series::ReplicaShard& shard)
    : replica_side_(options.replica, std::move(lease), shard),
      framer_(options.client),
      shard_(shard),
      limits_(options.replica.limits),
      leaves_(options.leaves),
      early_(options.client.early),
      started_(options.replica.started),
      keep_errors_(options.keep_errors),
      doubted_(options.doubted) {}

void AnswerHandler::arrived(std::span<char> bytes, Moment at, ClientOutput& out) {
  out.clear();
  read_at_ = at;
  auto progress = replica_side_.arrived(bytes, at);
  read_token_events_ = progress.token_events;
  take(std::move(progress), bytes, at, out);
}

void AnswerHandler::replica_ended(End how, Moment now, ClientOutput& out) {
  out.clear();
  take(replica_side_.ended(how, now), {}, now, out);
}

void AnswerHandler::take(ReplicaSide::Progress progress, std::span<char> read, Moment at, ClientOutput& out) {
  if (progress.end == End::stale || progress.end == End::option_refused) return stop(*progress.end, Reply::none);
  if (progress.head) take_head(*progress.head, progress.event_stream, at, out);

  std::size_t size = framer_.buffered();
  for (const auto span : progress.body) size += span.size();
  if (state_ == State::awaiting && framer_.state() == ClientFramer::State::holding) {
    if (replica_side_.refused_in_band() && may_be_bettered_in_band()) keep(Retry::in_band_error, at);
    if (state_ == State::awaiting && (replica_side_.begun() || size > max_held)) accept(out);
  }
  // Before the head there is no body, and no framer for one.
  const bool too_large = state_ == State::keeping && size > most_kept;
  // An answer that is told inside the stream needs no more than its beginning.
  const bool drops = too_large && is_misfit_;
  if (framer_.state() != ClientFramer::State::no_head && !drops) framer_.body(progress.body, read, out);
  if (too_large && !drops) {
    state_ = State::undecided;
    undecided_end_ = progress.end;
  } else if (progress.end) {
    conclude(*progress.end, out);
  }
}

void AnswerHandler::take_head(const http::ResponseHead& head, bool event_stream, Moment at, ClientOutput& out) {
  framer_.head(head, replica_side_.strips(), event_stream);
  if (early_ != nullptr && early_->begun()) {
    // Pages of another type are read as streams where one was asked for, but they are none for the client.
    constexpr std::string_view events = "text/event-stream";
    const auto type = head[http::FieldName::content_type].substr(0, events.size());
    is_misfit_ = !fits_early() || !http::same_token(type, events);
    if (!is_misfit_) framer_.continue_early();
  }
  if (story::may_be_bettered(head.status, doubted_)) keep(Retry::status, at);
  if (is_misfit_) state_ = State::keeping;
  const bool hold = event_stream && limits_.accept_hold.count() > 0;
  if (state_ == State::awaiting && !hold) accept(out);
}

/// A refusal that names the request's own fault is what a plain answer with that status is.
bool AnswerHandler::may_be_bettered_in_band() const {
  const unsigned told = replica_side_.answer().in_band_status;
  return told == 0 || story::may_be_bettered(told, doubted_);
}

/// Nothing is tried again after this.
void AnswerHandler::accept(ClientOutput& out) {
  state_ = State::accepted;
  accepted_ = true;
  keep_until_ = Moment::max();
  retry_reason_.reset();
  framer_.open(out);
}

void AnswerHandler::keep(Retry reason, Moment now) {
  if (!keep_errors_) return;
  state_ = State::keeping;
  keep_until_ = now + kept_within;
  retry_reason_ = reason;
}

/// Ends the replica's half: all that it brought is framed or held.
void AnswerHandler::conclude(End end, ClientOutput& out) {
  if (story::breaks_off(end) && (end != End::truncated || is_misfit_) && !accepted_) {
    if (state_ == State::keeping) {
      verdict_ = story::verdict_of_given_up_error(told_status());
      return stop(end, Reply::error);
    }
    retry_reason_ = story::retry_reason_of(end, is_hung(), replica_side_.awaited_first_token());
    return stop(end, Reply::none);
  }
  if (state_ == State::keeping) {
    framer_.open(out);
  } else if (!accepted_) {
    accept(out);
  }
  framer_.body({}, {}, out);
  if (story::breaks_off(end)) {
    // An error of the replica's own has already told the client.
    const bool tell =
        replica_side_.is_stream() && !replica_side_.answer().in_band_error && replica_side_.at_event_boundary();
    framer_.cut(tell ? sentence_for(end) : "", out);
    return stop(end, Reply::relayed);
  }
  framer_.finish(out);
  if (end == End::marked) framer_.cut_if_length_promised();
  if (state_ == State::accepted) return stop(end, Reply::relayed);
  keep_output(out);
  stop(end, Reply::error);
}

void AnswerHandler::keep_output(ClientOutput& out) {
  kept_ = std::make_unique<std::string>();
  for (const auto span : out.spans) kept_->append(span);
  out.clear();
}

void AnswerHandler::leave_error(Moment now) {
  replica_side_.left(End::given_up, now, false);
  verdict_ = story::verdict_of_given_up_error(told_status());
  stop(End::given_up, Reply::error);
}

void AnswerHandler::relay_error(ClientOutput& out) {
  out.clear();
  accept(out);
  framer_.body({}, {}, out);
  if (undecided_end_) conclude(*undecided_end_, out);
}

void AnswerHandler::client_gone(Moment now) {
  framer_.lost();
  if (state_ == State::done) return lose_client(Outcome::client_abort);
  replica_side_.left(End::client_left, now, client_has_marker_);
  stop(End::client_left, accepted_ ? Reply::relayed : Reply::none);
}

void AnswerHandler::client_cut() {
  framer_.lost();
  lose_client(Outcome::rejected);
}

/// The replica had finished, but its client has not got all its bytes.
void AnswerHandler::lose_client(Outcome outcome) {
  const auto seen = replica_side_.verdict().outcome;
  const bool good = seen == Outcome::ok || seen == Outcome::ok_empty;
  if (good && !client_has_marker_) verdict_ = story::Verdict{outcome, metrics::Phase::decode};
}

/// The replica hangs, or sleeps, since a moment at which this attempt had nothing to show.
bool AnswerHandler::is_left_since(std::atomic<Moment> fleet::LeaveSigns::* sign) const {
  return leaves_ != nullptr && state_ == State::awaiting && started_ < (leaves_->*sign).load(std::memory_order_relaxed);
}

void AnswerHandler::stop(End end, Reply reply) {
  end_ = end;
  reply_ = reply;
  state_ = State::done;
}

void AnswerHandler::written(Moment now, bool at_once) {
  if (state_ != State::done)
    client_has_marker_ = at_once && accepted_ && !replica_side_.reads_json() && replica_side_.has_end_marker();
  if (framer_.written()) written_at_ = now;
  if (at_once && read_token_events_ > 0) {
    const auto overhead = std::max(metrics::Nanoseconds(now - read_at_), metrics::Nanoseconds::zero());
    shard_.token_overhead.observe(static_cast<std::uint64_t>(overhead.count()), read_token_events_);
    overhead_max_ = std::max(overhead_max_.value_or(overhead), overhead);
  } else {
    shard_.client_blocked_events.add(read_token_events_);
  }
  read_token_events_ = 0;
}

/// Returns when the client is to see life, if nothing comes for it.
Moment AnswerHandler::comment_at() const {
  const auto after = framer_.comments_after();
  if (state_ != State::accepted || !after) return Moment::max();
  const bool may = replica_side_.is_sse() && replica_side_.at_event_boundary() && !replica_side_.has_end_marker();
  return may ? written_at_ + *after : Moment::max();
}

/// Returns when the client is to see life before there is a head of a replica.
Moment AnswerHandler::early_at() const {
  if (early_ == nullptr || state_ != State::awaiting) return Moment::max();
  return framer_.state() == ClientFramer::State::no_head || fits_early() ? early_->due() : Moment::max();
}

/// True if the replica's answer may stand behind the head that weir sends.
bool AnswerHandler::fits_early() const { return replica_side_.status() / 100 == 2 && replica_side_.is_sse(); }

Moment AnswerHandler::deadline() const {
  if (state_ == State::done || state_ == State::undecided) return Moment::max();
  if (is_left()) return Moment::min();
  const Moment end = std::min({replica_side_.deadline(), keep_until_, comment_at(), early_at()});
  if (framer_.state() != ClientFramer::State::holding) return end;
  return std::min(end, *replica_side_.head_at() + metrics::ticks(limits_.accept_hold));
}

void AnswerHandler::deadline_passed(Moment now, ClientOutput& out) {
  if (state_ == State::keeping) {
    out.clear();
    state_ = State::undecided;
    return;
  }
  if (state_ == State::accepted && replica_side_.tell_stall(now)) return out.clear();
  if (now >= early_at() && now < replica_side_.deadline() && !is_left()) {
    out.clear();
    out.spans.push_back(early_->bytes());
    if (framer_.state() == ClientFramer::State::holding) framer_.continue_early();
    return early_->written(now);
  }
  if (now >= comment_at() && now < replica_side_.deadline()) {
    out.clear();
    return framer_.comment(out);
  }
  const bool held_long_enough =
      framer_.state() == ClientFramer::State::holding && now < replica_side_.deadline() && !is_left();
  if (!held_long_enough) return replica_ended(is_left() && !is_hung() ? End::cut : End::timed_out, now, out);
  out.clear();
  accept(out);
  framer_.body({}, {}, out);
}

story::AttemptOver AnswerHandler::result() const {
  story::AttemptOver result;
  result.end = state_ == State::done ? end_ : End::unconnected;
  result.reply = reply_;
  result.retry_reason = retry_reason_;
  result.verdict = verdict_.value_or(replica_side_.verdict());
  result.status = replica_side_.status();
  result.retry_after = replica_side_.retry_after();
  result.accepted = framer_.was_opened();
  result.sent = replica_side_.sent_at();
  result.head = replica_side_.head_at();
  result.overhead_max = overhead_max_;
  result.concurrency = replica_side_.concurrency();
  result.bytes_out = framer_.bytes_out();
  result.answer = replica_side_.answer();
  result.client_keep_alive = framer_.reusable();
  result.client_reset = framer_.state() == ClientFramer::State::cut && framer_.framing() == http::ClientFraming::close;
  return result;
}

}  // namespace weir::proxy::exchange
