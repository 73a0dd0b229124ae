#include "proxy/serve/client_connection.hpp"

#include <openssl/sslerr.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "config/address.hpp"
#include "metrics/memory.hpp"
#include "metrics/moment.hpp"
#include "proxy/http/body_decoder.hpp"
#include "proxy/net/tls/context.hpp"

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
    channel_->break_off_if_vanished();
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
    return (errno == EAGAIN || errno == EINTR) && channel_->ended() == net::Channel::Ended::no ? ReadResult::nothing
                                                                                               : ReadResult::end;
  bytes = buffer.first(static_cast<std::size_t>(read.size));
  last_arrival = read.at;
  return read.size == 0 ? ReadResult::end : ReadResult::bytes;
}

/// Waits for room to write. Returns false if the client has gone, or hits a limit of its pace.
net::Awaitable<bool> ClientConnection::await_room(exchange::ClientPace& pace, const config::Settings& settings) {
  using Ended = net::Channel::Ended;
  const auto gone = settings.server.half_close == config::HalfClose::abort ? Ended::by_peer : Ended::broken;
  for (;;) {
    set_deadline(pace.next_look(settings.limits));
    if (co_await wait_for(EPOLLOUT)) co_return channel_->ended() < gone;
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

namespace {

using metrics::series::Limit;

constexpr std::string_view wants_https =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 58\r\nConnection: close\r\n\r\n"
    "This port speaks TLS: write https:// in place of http://.\n";

}  // namespace

class Handshakes::Handshake final : net::Watcher, net::Timed {
 public:
  Handshake(Handshakes& owner, std::unique_ptr<net::tls::TlsChannel> to_client, NewClient of, Moment until)
      : channel(std::move(to_client)), client(std::move(of)), owner_(owner), until_(until) {
    channel->watch(this);
    owner_.loop_.deadlines.attach(*this);
  }

  std::unique_ptr<net::tls::TlsChannel> channel;
  NewClient client;  ///< Its socket is the channel's.
  All::iterator place;

 private:
  void ready(std::uint32_t, std::uint32_t) override {
    if (channel->connect_error() == 0) return owner_.succeed(place);
    const bool speaks_http = channel->connect_error() == net::tls::failed_handshake(SSL_R_HTTP_REQUEST);
    if (speaks_http) channel->answer_plainly(wants_https);
    if (channel->connect_error() == net::tls::costs_too_much) owner_.refuse_for_cpu(client.address);
    owner_.all_.erase(place);
  }
  void prefetch(std::uint32_t, int) const override {}
  Moment deadline() const override {
    const auto& shared = owner_.loop_.shared;
    const bool closing =
        shared.closing.load(std::memory_order_relaxed) || shared.cutting.load(std::memory_order_relaxed);
    return closing ? Moment::min() : until_;
  }
  void deadline_passed(Moment now) override {
    if (now >= until_) owner_.count(Limit::handshake_time);
    owner_.all_.erase(place);
  }

  Handshakes& owner_;
  const Moment until_;
};

Handshakes::Handshakes(exchange::Loop& loop, Start start) : loop_(loop), start_(std::move(start)) {}

Handshakes::~Handshakes() = default;

void Handshakes::begin(NewClient client, std::shared_ptr<const net::tls::ServerContext> context,
                       const config::Settings& settings) {
  const auto& limits = settings.limits;
  const auto account = account_of(client.address, settings);
  if (account.owes_too_much(Clock::now())) return refuse_for_cpu(client.address);
  if (all_.size() >= limits.handshakes) {
    count(Limit::handshakes);
    if (!make_room()) return;
  }
  auto channel = net::tls::TlsChannel::to_client({loop_.poller, loop_.clock, loop_.handshaking},
                                                 std::move(client.socket), std::move(context), account);
  if (!channel) return;
  const auto until = Clock::now() + metrics::ticks(limits.handshake_time);
  auto one = std::make_unique<Handshake>(*this, std::move(channel), std::move(client), until);
  const auto place = all_.insert(all_.end(), std::move(one));
  (*place)->place = place;
}

/// Many clients may stand behind a proxy, or behind a process of this machine; clients of a Unix-domain socket have no
/// address.
net::tls::CpuAccount Handshakes::account_of(const net::PeerAddress& address, const config::Settings& settings) const {
  const bool is_of_many = address == net::PeerAddress{} || net::is_loopback(address) ||
                          config::contains(settings.server.trusted_proxies, address);
  const auto cpus = settings.limits.handshake_cpu;
  return {cpus == 0 || is_of_many ? nullptr : &loop_.shared.addresses.handshake_cpu, address, cpus};
}

void Handshakes::refuse_for_cpu(const net::PeerAddress& address) {
  count(Limit::handshake_cpu);
  auto& line = loop_.shared.told.handshake_cpu;
  const auto now = Clock::now();
  auto last = line.load(std::memory_order_relaxed);
  if (now - last < std::chrono::hours(1) || !line.compare_exchange_strong(last, now)) return;
  spdlog::warn(
      "the TLS handshakes of the address {} take more CPU than limits.handshake_cpu allows one address, and further "
      "ones are closed: if it is a proxy's, name it in server.trusted_proxies; if many clients share it (NAT, a load "
      "balancer of TCP), raise limits.handshake_cpu (said at most once an hour)",
      config::to_text(config::Network{address}));
}

bool Handshakes::make_room() {
  const auto silent =
      std::ranges::find_if(all_, [](const auto& one) { return one->channel->handshake_waits_for_peer(); });
  if (silent == all_.end()) return false;
  all_.erase(silent);
  return true;
}

void Handshakes::succeed(All::iterator place) {
  const auto one = std::move(*place);
  all_.erase(place);
  one->channel->watch(nullptr);
  start_(std::move(one->channel), std::move(one->client));
}

void Handshakes::count(Limit limit) { loop_.shard.limit_hits.add(limit); }

}  // namespace weir::proxy::serve
