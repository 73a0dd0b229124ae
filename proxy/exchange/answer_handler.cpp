#include "proxy/exchange/answer_handler.hpp"

#include <algorithm>

#include "balancer/story/attempt.hpp"
#include "metrics/moment.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::Outcome;
using metrics::Retry;
using metrics::measure::BodyForm;
using story::End;
using story::Reply;

/// Comments before the first event are held with the head up to this size. Beyond it the answer is let go.
constexpr std::size_t max_held = 16 * 1024;

}  // namespace

AnswerHandler::AnswerHandler(const Options& options, balancer::Lease&& lease, metrics::series::ReplicaShard& shard)
    : replica_side_(options.replica, report_, shard),
      framer_(options.client),
      shard_(shard),
      limits_(options.replica.limits),
      leaves_(options.leaves),
      early_(options.client.early),
      started_(options.replica.started),
      keep_errors_(options.keep_errors),
      doubted_(options.doubted) {
  report_.end = End::unconnected;
  report_.lease = std::move(lease);
}

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
  if (progress.head) take_head(progress, at, out);

  std::size_t size = framer_.buffered();
  for (const auto span : progress.body) size += span.size();
  if (state_ == State::awaiting && framer_.progress().state == ClientFramer::State::holding) {
    const auto& meter = *replica_side_.meter();
    if (meter.refused()) {
      // A refusal that names the request's own fault is what a plain answer with that status is.
      const unsigned told = meter.answer().in_band_status;
      if (told == 0 || story::may_be_bettered(told, doubted_)) keep(Retry::in_band_error, at);
    }
    if (state_ == State::awaiting && (meter.begun() || size > max_held)) accept(out);
  }
  // Before the head there is no body, and no framer for one.
  const bool too_large = state_ == State::keeping && size > most_kept;
  // An answer that is told inside the stream needs no more than its beginning.
  const bool drops = too_large && is_misfit_;
  if (framer_.progress().state != ClientFramer::State::no_head && !drops) framer_.body(progress.body, read, out);
  if (too_large && !drops) {
    state_ = State::undecided;
    undecided_end_ = progress.end;
  } else if (progress.end) {
    conclude(*progress.end, out);
  }
}

void AnswerHandler::take_head(const ReplicaSide::Progress& progress, Moment at, ClientOutput& out) {
  const auto& head = *progress.head;
  framer_.head(head, progress.strips, progress.event_stream);
  if (early_ != nullptr && early_->begun()) {
    // Pages of another type are read as streams where one was asked for, but they are none for the client.
    constexpr std::string_view events = "text/event-stream";
    const auto type = head[http::FieldName::content_type].substr(0, events.size());
    is_misfit_ = !fits_early() || !http::same_token(type, events);
    if (!is_misfit_) framer_.continue_early();
  }
  if (story::may_be_bettered(head.status, doubted_)) keep(Retry::status, at);
  if (is_misfit_) state_ = State::keeping;
  const bool hold = progress.event_stream && limits_.accept_hold.count() > 0;
  if (state_ == State::awaiting && !hold) accept(out);
}

/// Nothing is tried again after this.
void AnswerHandler::accept(ClientOutput& out) {
  state_ = State::accepted;
  accepted_ = true;
  keep_until_ = Moment::max();
  report_.retry_reason.reset();
  framer_.open(out);
}

void AnswerHandler::keep(Retry reason, Moment now) {
  if (!keep_errors_) return;
  state_ = State::keeping;
  keep_until_ = now + kept_within;
  report_.retry_reason = reason;
}

/// Ends the replica's half: all that it brought is framed or held.
void AnswerHandler::conclude(End end, ClientOutput& out) {
  if (story::breaks_off(end) && (end != End::truncated || is_misfit_) && !accepted_) {
    if (state_ == State::keeping) return give_up_error(end);
    // Where time ran out, a retry would take as long, unless the replica gave no sign.
    report_.retry_reason = end != End::timed_out                 ? story::facts_of(end).retry
                           : is_hung()                           ? std::optional(Retry::hung)
                           : replica_side_.awaited_first_token() ? std::optional(Retry::first_token)
                                                                 : std::nullopt;
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
    const bool tell = replica_side_.is_stream() && !replica_side_.answer().in_band_error &&
                      replica_side_.meter()->at_event_boundary();
    framer_.cut(tell ? story::facts_of(end).sentence : "", out);
    return stop(end, Reply::relayed);
  }
  framer_.finish(out);
  if (end == End::marked) framer_.cut_if_length_promised();
  if (state_ == State::accepted) return stop(end, Reply::relayed);
  keep_output(out);
  stop(end, Reply::error);
}

void AnswerHandler::keep_output(ClientOutput& out) {
  report_.kept = std::make_shared<std::string>();
  for (const auto span : out.spans) report_.kept->append(span);
  out.clear();
}

void AnswerHandler::give_up_error(End end) {
  report_.verdict = story::verdict_of_given_up_error(told_status());
  stop(end, Reply::error);
}

void AnswerHandler::settle_error(bool leave, Moment now, ClientOutput& out) {
  out.clear();
  if (leave || is_misfit_) {
    replica_side_.left(End::given_up, now, false);
    return give_up_error(End::given_up);
  }
  accept(out);
  framer_.body({}, {}, out);
  if (undecided_end_) conclude(*undecided_end_, out);
}

void AnswerHandler::client_gone(Moment now, Outcome why) {
  framer_.lost();
  if (state_ != State::done) {
    replica_side_.left(End::client_left, now, client_has_marker_);
    return stop(End::client_left, accepted_ ? Reply::relayed : Reply::none);
  }
  // The replica had finished, but its client has not got all its bytes.
  const auto seen = report_.verdict.outcome;
  const bool good = seen == Outcome::ok || seen == Outcome::ok_empty;
  if (good && !client_has_marker_) report_.verdict = {why, metrics::Phase::decode};
}

/// The replica hangs, or sleeps, since a moment at which this attempt had nothing to show.
bool AnswerHandler::is_left_since(std::atomic<Moment> fleet::LeaveSigns::* sign) const {
  return leaves_ != nullptr && state_ == State::awaiting && started_ < (leaves_->*sign).load(std::memory_order_relaxed);
}

void AnswerHandler::stop(End end, Reply reply) {
  report_.end = end;
  report_.reply = reply;
  state_ = State::done;
}

void AnswerHandler::written(Moment now, bool at_once) {
  if (state_ != State::done)
    client_has_marker_ =
        at_once && accepted_ && replica_side_.form() != BodyForm::json && replica_side_.meter()->complete();
  if (framer_.written()) written_at_ = now;
  if (at_once && read_token_events_ > 0) {
    const auto overhead = std::max(metrics::Nanoseconds(now - read_at_), metrics::Nanoseconds::zero());
    shard_.token_overhead.observe(static_cast<std::uint64_t>(overhead.count()), read_token_events_);
    report_.overhead_max = std::max(report_.overhead_max.value_or(overhead), overhead);
  } else {
    shard_.client_blocked_events.add(read_token_events_);
  }
  read_token_events_ = 0;
}

/// Returns when the client is to see life, if nothing comes for it.
Moment AnswerHandler::comment_at() const {
  const auto after = framer_.comments_after();
  if (state_ != State::accepted || !after) return Moment::max();
  if (replica_side_.form() != BodyForm::sse) return Moment::max();
  const auto& meter = *replica_side_.meter();
  return meter.at_event_boundary() && !meter.complete() ? written_at_ + *after : Moment::max();
}

/// Returns when the client is to see life before there is a head of a replica.
Moment AnswerHandler::early_at() const {
  if (early_ == nullptr || state_ != State::awaiting) return Moment::max();
  return framer_.progress().state == ClientFramer::State::no_head || fits_early() ? early_->due() : Moment::max();
}

/// True if the replica's answer may stand behind the head that weir sends.
bool AnswerHandler::fits_early() const { return report_.status / 100 == 2 && replica_side_.form() == BodyForm::sse; }

Moment AnswerHandler::deadline() const {
  if (state_ == State::done || state_ == State::undecided) return Moment::max();
  if (is_left()) return Moment::min();
  const Moment end = std::min({replica_side_.deadline(), keep_until_, comment_at(), early_at()});
  if (framer_.progress().state != ClientFramer::State::holding) return end;
  return std::min(end, *report_.head + metrics::ticks(limits_.accept_hold));
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
    if (framer_.progress().state == ClientFramer::State::holding) framer_.continue_early();
    return early_->written(now);
  }
  if (now >= comment_at() && now < replica_side_.deadline()) {
    out.clear();
    return framer_.comment(out);
  }
  const bool held_long_enough =
      framer_.progress().state == ClientFramer::State::holding && now < replica_side_.deadline() && !is_left();
  if (!held_long_enough) return replica_ended(is_left() && !is_hung() ? End::cut : End::timed_out, now, out);
  out.clear();
  accept(out);
  framer_.body({}, {}, out);
}

story::AttemptOver AnswerHandler::take_over() {
  report_.accepted = framer_.progress().opened;
  report_.bytes_out = framer_.progress().bytes_out;
  report_.client_keep_alive = framer_.reusable();
  const bool cut = framer_.progress().state == ClientFramer::State::cut;
  report_.client_reset |= cut && framer_.progress().framing == http::ClientFraming::close;
  return {std::move(report_), replica_side_.answer()};
}

}  // namespace weir::proxy::exchange
