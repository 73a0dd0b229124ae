#include "proxy/exchange/relay.hpp"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>

#include "metrics/prefetch.hpp"
#include "metrics/ticks.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using Clock = std::chrono::steady_clock;
using metrics::ticks;

constexpr std::uint32_t replica_events = EPOLLIN | EPOLLOUT | EPOLLRDHUP;
constexpr std::uint32_t client_events = EPOLLIN | EPOLLOUT | EPOLLRDHUP;
/// What one handler reads or sends at most before others get their turn.
constexpr std::size_t bytes_in_a_row = Loop::read_size;
/// How often a client that does not take its bytes is looked at, as a share of limits.client_stall.
constexpr int looks_a_stall = 4;

/// One gathering write of up to 64 pieces and `bytes_in_a_row`, from `offset` in the first on. As sendmsg.
ssize_t send_some(int fd, std::span<const std::string_view> spans, std::size_t offset) {
  if (spans.size() == 1) {
    const auto piece = spans.front().substr(offset, bytes_in_a_row);
    return ::send(fd, piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  std::size_t left = bytes_in_a_row;
  std::array<iovec, 64> pieces;
  std::size_t count = 0;
  for (const auto span : spans) {
    if (count == pieces.size() || left == 0) break;
    const auto piece = (count == 0 ? span.substr(offset) : span).substr(0, left);
    left -= piece.size();
    pieces[count++] = {const_cast<char*>(piece.data()), piece.size()};
  }
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = count;
  return ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Bytes that the client's system has not acknowledged yet.
int unacknowledged(int fd) {
  int bytes = 0;
  return ::ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

}  // namespace

Relay::Relay(Loop& loop, ClientSide client, net::UniqueFd connection, bool connected, Request request,
             RelayMachine& machine)
    : loop_(loop),
      client_(client),
      connection_(std::move(connection)),
      request_(std::move(request)),
      machine_(machine),
      connected_(connected) {}

Relay::~Relay() = default;

void Relay::start() {
  started_ = Clock::now();
  loop_.deadlines.attach(*this);
  client_watch_ = net::Poller::Watch(loop_.poller, client_.fd, client_events, *this, client_side);
  loop_.clock.enable(connection_.get());
  replica_watch_ = net::Poller::Watch(loop_.poller, connection_.get(), replica_events, *this, replica_side);
  if (connected_) send_request();
}

void Relay::ready(std::uint32_t tag, std::uint32_t events) {
  if (tag == client_side) return watch_client(events);
  if (!connected_) {
    if (connect_error_ = net::connect_error(connection_.get()); connect_error_ != 0) return over();
    if ((events & EPOLLOUT) == 0) return;
    connected();
  } else if ((events & EPOLLOUT) != 0 && span_ < request_.spans.size()) {
    send_request();
  }
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) hung_up_ = true;
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) read_replica();
}

void Relay::approach(std::uint32_t tag, int ahead) const {
  if (tag == client_side) return;
  if (ahead == farthest_ahead) {
    metrics::prefetch(*this);
    metrics::prefetch(machine_);
  } else {
    machine_.approach(ahead);
  }
}

void Relay::connected() {
  connected_ = true;
  connect_time_ = Clock::now() - started_;
  send_request();
}

void Relay::send_request() {
  for (std::size_t taken = 0; span_ < request_.spans.size();) {
    if (taken >= bytes_in_a_row) return replica_watch_.rearm(replica_events);
    const auto rest = std::span(request_.spans).subspan(span_);
    // Before the call: a fast replica's answer may carry an earlier kernel stamp than the call's return.
    const auto before = machine_.sent_at() ? Moment() : Clock::now();
    const auto sent = send_some(connection_.get(), rest, span_offset_);
    // A failed send is not the end: the replica may have answered before it stopped reading. The read tells.
    if (sent < 0) return;
    if (!machine_.sent_at()) machine_.sent(before);
    taken += static_cast<std::size_t>(sent);
    // Empty pieces are passed too: a request without a body would be sent for ever.
    auto left = static_cast<std::size_t>(sent);
    for (; span_ < request_.spans.size() && left >= request_.spans[span_].size() - span_offset_; ++span_) {
      left -= request_.spans[span_].size() - span_offset_;
      span_offset_ = 0;
    }
    span_offset_ += left;
  }
}

void Relay::read_replica() {
  if (!completion_ || machine_.done() || paused_) return;
  const auto buffer = loop_.read_buffer();
  for (std::size_t taken = 0; taken < bytes_in_a_row;) {
    const auto read = loop_.clock.read(connection_.get(), buffer);
    if (read.size > 0) {
      taken += static_cast<std::size_t>(read.size);
      machine_.arrived(buffer.first(static_cast<std::size_t>(read.size)), read.at, loop_.output);
    } else if (read.size < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    } else {
      machine_.upstream_ended(read.size == 0 ? Break::closed : Break::reset, read.at, loop_.output);
    }
    deliver();
    if (!completion_ || machine_.done() || paused_) return;
    // Of what gathered in a pause, more is to come.
    backlog_ = backlog_ && static_cast<std::size_t>(read.size) == buffer.size();
    if (backlog_) machine_.paused();
    // A short read has emptied the socket; after a hang-up the end itself is still to be read.
    if (static_cast<std::size_t>(read.size) < buffer.size() && !hung_up_) return;
  }
  replica_watch_.rearm(replica_events);
}

/// Writes the machine's output to the client, or keeps what the client does not take.
void Relay::deliver() {
  auto spans = std::span<const std::string_view>(loop_.output.spans);
  std::size_t offset = 0;
  const bool caught_up = pending_.empty();
  if (caught_up) {
    while (!spans.empty()) {
      auto sent = send_some(client_.fd, spans, offset);
      if (sent < 0) {
        if (errno != EAGAIN && errno != EINTR) return client_gone();
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
  const auto now = Clock::now();
  // Until now the client had nothing to take: only from here on is it slow, however long the replica was silent.
  if (caught_up && !pending_.empty()) progressed(now);
  machine_.written(now, at_once);
  if (machine_.done()) return replica_done();
  if (machine_.committed() && span_ == request_.spans.size() && !request_.head->empty()) {
    std::string().swap(*request_.head);
    std::string().swap(*request_.body);
  }
  if (pending_.size() - pending_offset_ >= loop_.shared.settings.limits.read_ahead && !paused_) {
    paused_ = true;
    paused_since_ = now;
    machine_.paused();
  }
}

void Relay::progressed(Moment now) {
  progress_ = looked_ = now;
  unacknowledged_ = unacknowledged(client_.fd);
}

/// True if the client has taken nothing for limits.client_stall. Its socket turns writable only when much of what the
/// kernel holds has gone: what is left there tells sooner who stands still.
bool Relay::stalled(Moment now) {
  const int left = unacknowledged(client_.fd);
  if (left < unacknowledged_) progress_ = now;
  unacknowledged_ = left;
  looked_ = now;
  return now - progress_ >= ticks(loop_.shared.settings.limits.client_stall);
}

void Relay::flush_pending() {
  while (pending_offset_ < pending_.size()) {
    const std::string_view rest = pending_;
    const auto sent = send_some(client_.fd, {&rest, 1}, pending_offset_);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) client_gone();
      break;
    }
    pending_offset_ += static_cast<std::size_t>(sent);
    progressed(Clock::now());
  }
  if (pending_offset_ == pending_.size()) {
    std::string().swap(pending_);
    pending_offset_ = 0;
  } else if (pending_offset_ > pending_.size() / 2) {
    pending_.erase(0, pending_offset_);
    pending_offset_ = 0;
  }
}

void Relay::watch_client(std::uint32_t events) {
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) return client_gone();
  if ((events & EPOLLIN) != 0) {
    std::array<char, most_unread> bytes;
    while (client_.unread.size() < most_unread) {
      const auto size = ::recv(client_.fd, bytes.data(), most_unread - client_.unread.size(), MSG_DONTWAIT);
      if (size <= 0) break;  // a FIN or a reset shows as a hang-up
      client_.unread.append(bytes.data(), static_cast<std::size_t>(size));
    }
  }
  if ((events & EPOLLOUT) == 0 || pending_.empty()) return;
  flush_pending();
  if (!completion_) return;
  if (machine_.done()) {
    if (pending_.empty()) over();
  } else if (paused_ && pending_.size() - pending_offset_ <= loop_.shared.settings.limits.read_ahead / 2) {
    paused_ = false;
    backlog_ = true;
    paused_time_ += Clock::now() - paused_since_;
    read_replica();
  }
}

void Relay::client_gone() {
  machine_.client_gone(Clock::now());
  over();
}

/// The replica's work is over; the client may still have bytes to take.
void Relay::replica_done() {
  replica_watch_.reset();
  if (!machine_.upstream_reusable() || span_ < request_.spans.size()) drop_connection();
  if (pending_.empty()) over();
}

/// Of a request that was not sent whole, what the kernel still holds is of no use: a reset takes it back and tells a
/// replica that has stopped reading, where a FIN would wait behind it.
void Relay::drop_connection() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  if (connection_ && span_ < request_.spans.size())
    ::setsockopt(connection_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  connection_.reset();
}

void Relay::over() {
  if (!completion_) return;
  replica_watch_.reset();
  client_watch_.reset();
  unlink();
  if (!machine_.done() || !machine_.upstream_reusable()) drop_connection();
  ended_at_ = Clock::now();
  std::exchange(completion_, nullptr)->complete();
}

net::UniqueFd Relay::take_connection() { return std::move(connection_); }

Moment Relay::deadline() const {
  if (loop_.shared.cutting.load(std::memory_order_relaxed)) return Moment::min();
  const auto& limits = loop_.shared.settings.limits;
  if (!pending_.empty()) return looked_ + ticks(limits.client_stall) / looks_a_stall;
  if (!connected_) return started_ + ticks(limits.connect);
  return machine_.deadline();
}

void Relay::deadline_passed(Moment now) {
  if (!pending_.empty()) {
    const bool cutting = loop_.shared.cutting.load(std::memory_order_relaxed);
    if (!cutting && !stalled(now)) return;
    if (!cutting) loop_.shard.limit_hits[static_cast<std::size_t>(metrics::series::Limit::client_stall)].add();
    return client_gone();
  }
  if (!connected_) {
    connect_error_ = ETIMEDOUT;
    return over();
  }
  machine_.deadline_passed(now, loop_.output);
  deliver();
}

}  // namespace weir::proxy::exchange
