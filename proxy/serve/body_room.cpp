#include "proxy/serve/body_room.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "config/network.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Limit;

/// The first bytes of a body get so much room.
constexpr std::size_t least_room = 4096;
/// A step of a body ends so many others at most, because each costs a look at all.
constexpr int most_ended_at_once = 8;

/// Warns, at most once an hour, that an address holds its share: clients behind a proxy that weir does not know, or
/// behind a NAT, have one address.
void note_full_share(std::atomic<metrics::Moment>& last_line, const net::PeerAddress& address, metrics::Moment now) {
  auto last = last_line.load(std::memory_order_relaxed);
  if (now - last < std::chrono::hours(1) || !last_line.compare_exchange_strong(last, now)) return;
  spdlog::warn(
      "the requests of the address {} hold as much of limits.buffer_memory as limits.buffer_share allows one address, "
      "and more of them get 503: if it is a proxy's, name it in server.trusted_proxies, so that each of its clients "
      "counts for itself; if many clients share it (NAT), raise limits.buffer_share (said at most once an hour)",
      config::to_text(config::Network{address}));
}

}  // namespace

BodyRoom::BodyRoom(exchange::Loop& loop, ClientConnection& client, const config::Settings& settings,
                   exchange::ClientMessage& message, const exchange::ClientIdentity& identity)
    : loop_(loop),
      client_(client),
      settings_(settings),
      message_(message),
      identity_(identity),
      begun_(std::chrono::steady_clock::now()) {
  lately_.begin(begun_, body_window(settings.limits));
  loop_.uploads.attach(*this);
}

std::optional<Limit> BodyRoom::make_room(std::size_t more) {
  auto& body = message_.body;
  const auto size = body.size() + more;
  if (size <= body.capacity()) return std::nullopt;
  const auto& head = message_.head;
  const auto most = head.framing == http::Framing::length ? static_cast<std::size_t>(head.content_length)
                                                          : settings_.limits.request_body;
  const auto room = std::max(size, std::min(most, std::max(2 * body.capacity(), least_room)));
  if (const auto limit = charge(message_.head_bytes.capacity() + room)) return limit;
  body.reserve(room);
  return std::nullopt;
}

std::optional<Limit> BodyRoom::may_begin() {
  if (!loop_.shared.buffers.spent()) return std::nullopt;
  return charge(message_.head_bytes.capacity() + net::BufferBudget::step);
}

/// Takes so much of limits.buffer_memory, within the shares; slower bodies of the loop end for it. Returns the limit
/// that bit, if there is no room all the same.
std::optional<Limit> BodyRoom::charge(std::size_t bytes) {
  auto& budget_hold = message_.budget_hold;
  if (bytes >= net::BufferBudget::step && !joined_) join_shares();
  const auto& limits = settings_.limits;
  const auto share = static_cast<std::size_t>(static_cast<double>(limits.buffer_memory) * limits.buffer_share);
  // The largest request that is allowed fits into any share.
  if (const auto full = budget_hold.full_share(bytes, std::max(share, limits.request_body + 2 * limits.request_head))) {
    const bool is_of_key = identity_.key && full.get() == &identity_.key->use->held;
    if (!is_of_key) note_full_share(loop_.shared.full_share_line, identity_.address, std::chrono::steady_clock::now());
    return Limit::buffer_share;
  }
  for (int ended = 0; !budget_hold.try_set(bytes); ++ended) {
    if (ended < most_ended_at_once && loop_.uploads.make_room(this, std::chrono::steady_clock::now())) continue;
    // The slow bodies may be on other loops. Each of them looks with its next tick.
    loop_.shared.wants_room.store(true, std::memory_order_relaxed);
    return Limit::buffer_memory;
  }
  return std::nullopt;
}

/// The slowest heads of the loop end for a head that finds no room among them. Bodies do not. A head that is whole is
/// none of them: its bytes may be the beginning of a body.
std::optional<Limit> BodyRoom::pay_for_head(bool is_whole) {
  const auto bytes = client_.unread().capacity();
  if (is_whole) {
    half_head_.set(0);
    return charge(bytes);
  }
  auto& shared = loop_.shared;
  if (!half_head_.has_joined() && has_share()) half_head_.join(shared.half_head_shares.of(identity_.address));
  const auto share = static_cast<double>(exchange::half_head_memory(settings_.limits)) * settings_.limits.buffer_share;
  // Each address has room for the largest head.
  const auto most = std::max(static_cast<std::size_t>(share), 2 * settings_.limits.request_head);
  if (half_head_.full_share(bytes, most)) return Limit::buffer_share;
  for (int ended = 0; !half_head_.try_set(bytes); ++ended) {
    if (ended == most_ended_at_once ||
        !loop_.uploads.make_room(this, std::chrono::steady_clock::now(), net::Uploads::Of::heads))
      return Limit::buffer_memory;
  }
  return charge(bytes);
}

/// An address that is not known has no share, and neither has a proxy itself: many clients may stand behind it.
bool BodyRoom::has_share() const {
  const auto& address = identity_.address;
  return address != net::PeerAddress{} && !net::is_loopback(address) &&
         !config::contains(settings_.server.trusted_proxies, address);
}

void BodyRoom::join_shares() {
  joined_ = true;
  auto& hold = message_.budget_hold;
  // The head may have joined the address.
  if (!hold.has_joined() && has_share()) hold.join(loop_.shared.address_shares.of(identity_.address));
  if (const auto& key = identity_.key) hold.join({key->use, &key->use->held});
}

void BodyRoom::give_way() {
  gave_way_ = true;
  half_head_.set(0);
  message_.give_up();
  std::string().swap(client_.unread());
  client_.stop_waiting();
}

}  // namespace weir::proxy::serve
