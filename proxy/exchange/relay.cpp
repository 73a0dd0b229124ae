#include "proxy/exchange/relay.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "metrics/memory.hpp"
#include "metrics/moment.hpp"
#include "proxy/exchange/failure_answers.hpp"

namespace weir::proxy::exchange {
namespace {

using Clock = std::chrono::steady_clock;
using metrics::ticks;

}  // namespace

Relay::Relay(Loop& loop, ClientWatch& client, const fleet::SharedReplica& replica,
             std::unique_ptr<net::Channel> channel, bool connected, std::vector<std::string_view> request,
             AnswerHandler& handler, const config::Limits& limits, Owner& owner)
    : loop_(loop),
      client_(client),
      state_(replica),
      replica_(std::move(channel)),
      request_(std::move(request)),
      handler_(handler),
      limits_(limits),
      owner_(owner),
      budget_hold_(loop.shared.buffers),
      connected_(connected) {}

Relay::~Relay() {
  client_.listen(nullptr);
  if (replica_) replica_->watch(nullptr);
}

void Relay::start() {
  if (!connected_) started_ = Clock::now();
  loop_.deadlines.attach(*this);
  if (client_.gone()) return client_left();
  client_.listen(this);
  replica_->watch(this);
  // Requests that came in one batch are sent in a row.
  if (connected_ && !loop_.poller.defer(*this)) send_request();
}

void Relay::batch_ended() {
  guarded([this] {
    if (done_) return;
    if (std::exchange(answer_waits_, false)) return write_whole_answer();
    if (replica_) send_request();
  });
}

void Relay::ready(std::uint32_t, std::uint32_t events) {
  guarded([this, events] { replica_ready(events); });
}

void Relay::replica_ready(std::uint32_t events) {
  if (!connected_) {
    if (const int error = replica_->connect_error(); error != 0) return unconnected(error);
    if ((events & EPOLLOUT) == 0) return;
    connected();
  } else if ((events & EPOLLOUT) != 0 && span_ < request_.size()) {
    send_request();
  }
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) read_replica();
}

void Relay::prefetch(std::uint32_t, int ahead) const {
  if (ahead == farthest_ahead) {
    metrics::prefetch(*this);
    metrics::prefetch(handler_);
    return;
  }
  if (ahead == farthest_ahead - 1) {
    metrics::prefetch(replica_.get(), metrics::cache_line);
    metrics::prefetch(&client_.channel(), metrics::cache_line);
  }
  handler_.prefetch(ahead);
}

void Relay::connected() {
  connected_ = true;
  handler_.report().connect = Clock::now() - started_;
  send_request();
}

void Relay::send_request() {
  for (std::size_t taken = 0; span_ < request_.size();) {
    if (taken >= net::Channel::bytes_in_a_row) return replica_->rearm(EPOLLOUT);
    const auto rest = std::span(request_).subspan(span_);
    // The clock is read before the call, because a fast replica's answer may carry an earlier kernel stamp than the
    // call's return.
    const auto before = handler_.report().sent ? Moment() : Clock::now();
    const auto sent = replica_->write(rest, span_offset_);
    // A failed send does not end the attempt: the replica may have answered before it stopped reading. The read shows
    // which.
    if (sent < 0) return;
    if (!handler_.report().sent) handler_.report().sent = before;
    taken += static_cast<std::size_t>(sent);
    // Empty pieces are passed too, or a request without a body would be sent for ever.
    auto left = static_cast<std::size_t>(sent);
    for (; span_ < request_.size() && left >= request_[span_].size() - span_offset_; ++span_) {
      left -= request_[span_].size() - span_offset_;
      span_offset_ = 0;
    }
    span_offset_ += left;
  }
}

bool Relay::reads_on() const {
  return !done_ && !paused_ && !replica_is_done() && handler_.state() != AnswerHandler::State::undecided;
}

void Relay::read_replica() {
  if (!reads_on()) return;
  const auto buffer = loop_.read_buffer();
  for (std::size_t taken = 0; taken < net::Channel::bytes_in_a_row;) {
    const auto read = replica_->read(buffer);
    if (read.size > 0) {
      taken += static_cast<std::size_t>(read.size);
      handler_.arrived(buffer.first(static_cast<std::size_t>(read.size)), read.at, loop_.output);
    } else if (read.size < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    } else if (const int refusal = read.size < 0 ? replica_->refusal() : 0; refusal != 0) {
      handler_.report().sent.reset();  // A replica that refused weir's certificate has not read what was written to it.
      return unconnected(refusal);
    } else {
      handler_.replica_ended(read.size == 0 ? story::End::closed : story::End::reset, read.at, loop_.output);
    }
    deliver();
    if (!reads_on()) return;
    // After a pause, a read that fills the buffer means that more of what gathered is to come.
    backlog_ = backlog_ && static_cast<std::size_t>(read.size) == buffer.size();
    if (backlog_) handler_.paused(false);
    // A short read has emptied the socket. After a hang-up the end itself is still to be read.
    if (static_cast<std::size_t>(read.size) < buffer.size() && replica_->ended() == net::Channel::Ended::no) return;
  }
  replica_->rearm(EPOLLIN);
}

/// Writes the machine's output to the client, and keeps what the client does not take.
void Relay::deliver() {
  if (handler_.accepted() && !std::exchange(told_accepted_, true)) {
    owner_.answer_accepted(handler_.told_status());
    if (replica_is_done() && defer_whole_answer()) return replica_done();
    replica_->prioritize();
  }
  auto spans = std::span<const std::string_view>(loop_.output.spans);
  std::size_t offset = 0;
  const bool caught_up = pending_.empty();
  if (caught_up) {
    while (!spans.empty()) {
      auto sent = client_.channel().write(spans, offset);
      if (sent < 0) {
        if (errno != EAGAIN && errno != EINTR) return client_left();
        break;
      }
      while (!spans.empty() && static_cast<std::size_t>(sent) >= spans.front().size() - offset) {
        sent -= static_cast<ssize_t>(spans.front().size() - offset);
        spans = spans.subspan(1);
        offset = 0;
      }
      offset += static_cast<std::size_t>(sent);
    }
  }
  const bool at_once = caught_up && spans.empty();
  for (; !spans.empty(); spans = spans.subspan(1), offset = 0) pending_.append(spans.front().substr(offset));
  budget_hold_.set(pending_.capacity() + handler_.buffered());
  const auto now = Clock::now();
  if (caught_up && !pending_.empty()) pace_.make().begin(now, client_.channel(), limits_);
  handler_.written(now, at_once);
  if (replica_is_done()) {
    replica_done();
  } else if (pending_.size() - pending_offset_ >= read_ahead() && !paused_) {
    paused_ = true;
    paused_since_ = now;
    handler_.paused(true);
  }
  if (done_) return;
  if (handler_.state() == AnswerHandler::State::undecided) return settle_error();
  if (handler_.accepted() && span_ == request_.size() && !std::exchange(told_sent_, true)) owner_.request_sent();
}

/// Keeps an answer that came whole with its head until the batch ends: answers that came in one batch are written in a
/// row, so that a client's process is woken once for all of them. Returns false if the answer is to be written now.
bool Relay::defer_whole_answer() {
  std::size_t size = 0;
  for (const auto span : loop_.output.spans) size += span.size();
  if (size == 0 || size > most_deferred || net::Deferred::is_linked() || !loop_.poller.defer(*this)) return false;
  pending_.reserve(size);
  for (const auto span : loop_.output.spans) pending_ += span;
  return answer_waits_ = true;
}

void Relay::write_whole_answer() {
  const std::string_view answer = pending_;
  const auto sent = client_.channel().write({&answer, 1}, 0);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return client_left();
  const auto now = Clock::now();
  pending_.erase(0, static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
  handler_.written(now, pending_.empty());
  if (pending_.empty()) return finish(now);
  budget_hold_.set(pending_.capacity());
  pace_.make().begin(now, client_.channel(), limits_);
  if (span_ == request_.size() && !std::exchange(told_sent_, true)) owner_.request_sent();
}

void Relay::settle_error() {
  handler_.settle_error(owner_.spend_retry_on_error(handler_.told_status()), Clock::now(), loop_.output);
  handler_.accepted() ? deliver() : replica_done();
}

/// A slow client gets less ahead where memory is short: one read.
std::size_t Relay::read_ahead() const {
  return loop_.shared.buffers.tight() ? std::min(limits_.read_ahead, Loop::read_size) : limits_.read_ahead;
}

void Relay::flush_pending() {
  while (pending_offset_ < pending_.size()) {
    const std::string_view rest = pending_;
    const auto sent = client_.channel().write({&rest, 1}, pending_offset_);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) client_left();
      break;
    }
    pending_offset_ += static_cast<std::size_t>(sent);
    pace_.make().took(Clock::now(), static_cast<std::size_t>(sent), client_.channel());
  }
  if (pending_offset_ == pending_.size()) {
    std::string().swap(pending_);
    pending_offset_ = 0;
    budget_hold_.set(handler_.buffered());
  } else if (pending_offset_ > pending_.size() / 2) {
    pending_.erase(0, pending_offset_);
    pending_offset_ = 0;
  }
}

void Relay::client_writable() {
  guarded([this] { client_takes(); });
}

void Relay::client_takes() {
  if (pending_.empty() || answer_waits_) return;
  flush_pending();
  if (done_) return;
  if (replica_is_done()) {
    if (pending_.empty()) finish();
  } else if (paused_ && pending_.size() - pending_offset_ <= read_ahead() / 2) {
    paused_ = false;
    handler_.paused(false);
    backlog_ = true;
    handler_.report().paused += Clock::now() - paused_since_;
    replica_->rearm(EPOLLIN);
  }
}

void Relay::client_gone() {
  guarded([this] { client_left(); });
}

void Relay::client_left() {
  handler_.client_gone(Clock::now());
  finish();
}

/// Ends the replica's side. The client may still have bytes to take.
void Relay::replica_done() {
  replica_->watch(nullptr);
  if (!handler_.report().replica_reusable || span_ < request_.size()) drop_connection();
  if (pending_.empty()) finish();
}

/// Closes a connection on which the request was not sent whole. A reset takes back what the kernel still holds, and
/// tells a replica that has stopped reading; a FIN would wait behind those bytes.
void Relay::drop_connection() {
  if (replica_ && span_ < request_.size()) replica_->reset_on_close();
  replica_.reset();
}

void Relay::finish() { finish(Clock::now()); }

void Relay::finish(Moment now) {
  if (done_) return;
  done_ = true;
  client_.listen(nullptr);
  if (replica_) replica_->watch(nullptr);
  net::Timed::unlink();
  if (!replica_is_done() || !handler_.report().replica_reusable) drop_connection();
  handler_.report().ended = now;
  // The end is posted, because the owner may end this relay while it is still at work.
  if (completion_) completion_.tell();
}

void Relay::unconnected(int error) {
  handler_.report().connect_error = error;
  handler_.report().connect_failure = connect_failure_of(error);
  finish();
}

story::AttemptOver Relay::take_over() {
  if (failure_) std::rethrow_exception(failure_);
  auto over = handler_.take_over();
  if (over.kept) {
    struct Paid {
      std::string bytes;
      net::BudgetHold hold;
    };
    const auto paid = std::make_shared<Paid>(Paid{std::move(*over.kept), net::BudgetHold(loop_.shared.buffers)});
    paid->hold.set(paid->bytes.capacity());
    over.kept = {paid, &paid->bytes};
  }
  return over;
}

bool Relay::cutting() const {
  return loop_.shared.cutting.load(std::memory_order_relaxed) || state_.cut.load(std::memory_order_relaxed);
}

Moment Relay::deadline() const {
  if (cutting()) return Moment::min();
  if (!pending_.empty()) return pace_->next_look(limits_);
  if (!connected_) return started_ + ticks(limits_.connect);
  return handler_.deadline();
}

/// Ends the attempt, because the time to drain is over. A client that has not taken its bytes by now gets no more.
void Relay::cut(Moment now) {
  // The client has only a part of the head that weir sent, so no other replica's answer can follow.
  const bool in_early_head = !pending_.empty() && !handler_.accepted();
  if (in_early_head) return client_left();
  if (!replica_is_done()) {
    handler_.replica_ended(story::End::cut, now, loop_.output);
    deliver();
  }
  if (done_) return;
  handler_.client_gone(now, metrics::Outcome::rejected);
  finish();
}

void Relay::deadline_passed(Moment now) {
  guarded([this, now] { end_by_deadline(now); });
}

void Relay::end_by_deadline(Moment now) {
  if (cutting()) return cut(now);
  if (!pending_.empty()) {
    const auto limit = pace_.make().limit_hit(now, client_.channel(), limits_);
    if (!limit) return;
    loop_.shard.limit_hits.add(*limit);
    handler_.report().client_reset = true;  // It took nothing.
    return client_left();
  }
  if (!connected_) {
    // A late loop is no fault of the replica's. What the loop has still to do shows by the next tick.
    if (now < started_ + 2 * ticks(limits_.connect) && replica_->connecting_waits_for_loop()) return;
    return unconnected(ETIMEDOUT);
  }
  handler_.deadline_passed(now, loop_.output);
  deliver();
}

}  // namespace weir::proxy::exchange
