#include "proxy/serve/client_connection.hpp"

#include <cerrno>
#include <utility>

#include "metrics/rare.hpp"
#include "metrics/ticks.hpp"
#include "proxy/http/body_decoder.hpp"

namespace weir::proxy::serve {
namespace {

using Clock = std::chrono::steady_clock;
using metrics::Moment;

/// So much of what a client still sends is read and dropped. Time and silence bound an honest client, bytes a hostile
/// one.
constexpr std::size_t linger_bytes = 64 * 1024 * 1024;
constexpr std::chrono::seconds linger_time{30}, linger_silence{2};
/// A handler reads and inspects so much of a request before tokens get their turn; that takes some tens of
/// microseconds.
constexpr std::size_t most_read_at_once = 16 * 1024;
constexpr std::chrono::seconds looks_for_it_every{5};

/// Names the wait under way, however it ends.
class Waiting {
 public:
  Waiting(net::ChannelWait*& place, net::ChannelWait& wait) : place_(place) { place_ = &wait; }
  ~Waiting() { place_ = nullptr; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  net::ChannelWait*& place_;
};

}  // namespace

ClientConnection::ClientConnection(exchange::Loop& loop, std::unique_ptr<net::Channel> channel)
    : loop_(loop), channel_(std::move(channel)), budget_hold_(loop.shared.buffers) {
  loop_.deadlines.attach(*this);
}

void ClientConnection::keep(std::string_view following) {
  unread_.assign(following);
  budget_hold_.set(unread_.capacity());
}

bool ClientConnection::drop_body(const http::RequestHead& head) {
  http::BodyDecoder decoder(head.framing, head.content_length);
  std::string there;
  there.swap(unread_);
  const auto dropped = decoder.decode(there).consumed;
  if (dropped < there.size()) keep(std::string_view(there).substr(dropped));
  return decoder.finished();
}

void ClientConnection::set_deadline(Moment at, bool idle) {
  deadline_ = at;
  idle_ = idle;
  timed_out_ = false;
}

/// True if weir ends what this connection waits for.
bool ClientConnection::is_over() const {
  const auto& shared = loop_.shared;
  return shared.cutting.load(std::memory_order_relaxed) || (idle_ && shared.closing.load(std::memory_order_relaxed));
}

Moment ClientConnection::deadline() const {
  if (is_over()) return Moment::min();
  return deadline_ == Moment::max() ? look_at_ : deadline_;
}

void ClientConnection::deadline_passed(Moment now) {
  if (deadline_ == Moment::max() && !is_over()) {
    look_at_ = now + looks_for_it_every;
    if (channel_->vanished()) channel_->break_off();
    return;
  }
  if (halt_ != nullptr) return halt_->call();
  time_out(now);
  if (waiting_ != nullptr) waiting_->cancel();
}

void ClientConnection::stop_waiting() {
  time_out(Clock::now());
  if (waiting_ != nullptr) waiting_->cancel_soon();
}

void ClientConnection::time_out(Moment now) {
  timed_out_ = true;
  timed_out_at_ = now;
  deadline_ = Moment::max();
  idle_ = false;
}

/// Waits for the client to be readable or writable, by epoll's events. Returns false once the deadline has passed.
net::Awaitable<bool> ClientConnection::wait_for(std::uint32_t events) {
  net::ChannelWait wait(*channel_);
  const Waiting waiting(waiting_, wait);
  co_await wait.wait(events, net::use_awaitable);
  has_read_ = false;
  // Bytes may have come in the very tick of the deadline. It has passed all the same, and no second one is set.
  co_return !timed_out_;
}

std::optional<bool> ClientConnection::readable() {
  if (timed_out_) return false;
  if (channel_->may_read()) {
    if (!has_read_) return true;
    // More of a long request is there. Tokens have their turn first.
    channel_->rearm(EPOLLIN);
  }
  return std::nullopt;
}

net::Awaitable<void> ClientConnection::another_turn() {
  channel_->rearm(EPOLLIN);
  co_await wait_for(EPOLLIN);
}

ClientConnection::ReadResult ClientConnection::read(std::span<char>& bytes) {
  const auto buffer = loop_.read_buffer().first(most_read_at_once);
  const auto read = channel_->read(buffer);
  has_read_ = true;
  if (read.size < 0)
    return (errno == EAGAIN || errno == EINTR) && !channel_->hung_up() ? ReadResult::nothing : ReadResult::end;
  bytes = buffer.first(static_cast<std::size_t>(read.size));
  last_arrival_ = read.at;
  return read.size == 0 ? ReadResult::end : ReadResult::bytes;
}

/// Waits for room to write. Returns false if the client has gone, or hits a limit of its pace.
net::Awaitable<bool> ClientConnection::await_room(exchange::ClientPace& pace, const config::Settings& settings) {
  const bool fin_is_leaving = settings.server.half_close == config::HalfClose::abort;
  for (;;) {
    set_deadline(pace.next_look(settings.limits));
    if (co_await wait_for(EPOLLOUT)) co_return !(fin_is_leaving ? channel_->hung_up() : channel_->broken());
    if (loop_.shared.cutting.load(std::memory_order_relaxed)) break;
    const auto limit = pace.limit_hit(timed_out_at_, *channel_, settings.limits);
    if (!limit) continue;
    loop_.shard.limit_hits.add(*limit);
    break;
  }
  channel_->reset_on_close();
  co_return false;
}

net::Awaitable<bool> ClientConnection::write(std::string text, const config::Settings& settings) {
  const std::string_view whole = text;
  std::size_t written = 0;
  metrics::Rare<exchange::ClientPace> pace;  // Most answers have room at once.
  bool owes = false;
  while (written < text.size()) {
    const auto size = channel_->write({&whole, 1}, written);
    if (size > 0) {
      written += static_cast<std::size_t>(size);
      if (owes) pace.make().took(Clock::now(), static_cast<std::size_t>(size), *channel_);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) break;
    if (!std::exchange(owes, true)) pace.make().begin(Clock::now(), *channel_, settings.limits);
    if (!co_await await_room(pace.make(), settings)) break;
  }
  set_deadline(Moment::max());
  co_return written == text.size();
}

net::Awaitable<void> ClientConnection::linger() {
  channel_->end_writing();
  const auto end = Clock::now() + linger_time;
  for (std::size_t dropped = 0; dropped < linger_bytes;) {
    set_deadline(std::min<Moment>(end, Clock::now() + linger_silence));
    const auto at_once = readable();
    if (!(at_once ? *at_once : co_await await_readable())) break;
    std::span<char> bytes;
    if (read(bytes) == ReadResult::end) break;
    dropped += bytes.size();
  }
}

}  // namespace weir::proxy::serve
