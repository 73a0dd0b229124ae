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

/// A loopback peer is a process of this machine, perhaps a proxy for many.
bool is_loopback(const net::PeerAddress& address) {
  static constexpr net::PeerAddress ipv6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return net::is_ipv4(address) ? address[12] == 127 : address == ipv6;
}

}  // namespace

bool take_room(exchange::Loop& loop, net::SharedBudgetHold& budget_hold, std::size_t bytes, net::Upload* asker) {
  for (int ended = 0; !budget_hold.try_set(bytes); ++ended) {
    if (ended < most_ended_at_once && loop.uploads.make_room(asker, std::chrono::steady_clock::now())) continue;
    // The slow bodies may be on other loops. Each of them looks with its next tick.
    loop.shared.wants_room.store(true, std::memory_order_relaxed);
    return false;
  }
  return true;
}

void note_full_share(std::atomic<metrics::Moment>& last_line, const net::PeerAddress& address, metrics::Moment now) {
  auto last = last_line.load(std::memory_order_relaxed);
  if (now - last < std::chrono::hours(1) || !last_line.compare_exchange_strong(last, now)) return;
  spdlog::warn(
      "the requests of the address {} hold as much of limits.buffer_memory as limits.buffer_share allows one address, "
      "and more of them get 503: if it is a proxy's, name it in server.trusted_proxies, so that each of its clients "
      "counts for itself; if many clients share it (NAT), raise limits.buffer_share (said at most once an hour)",
      config::to_text(config::Network{address}));
}

BodyRoom::BodyRoom(exchange::Loop& loop, ClientConnection& client, exchange::ClientRequest& request)
    : loop_(loop), client_(client), request_(request), begun_(std::chrono::steady_clock::now()) {
  lately_.begin(begun_, body_window(request.snapshot->settings.limits));
  loop_.uploads.attach(*this);
}

std::optional<Limit> BodyRoom::make_room(std::size_t more) {
  auto& body = request_.body;
  const auto size = body.size() + more;
  if (size <= body.capacity()) return std::nullopt;
  const auto& head = request_.head;
  const auto most = head.framing == http::Framing::length ? static_cast<std::size_t>(head.content_length)
                                                          : request_.snapshot->settings.limits.request_body;
  const auto room = std::max(size, std::min(most, std::max(2 * body.capacity(), least_room)));
  if (const auto limit = charge(request_.head_bytes.capacity() + room)) return limit;
  body.reserve(room);
  return std::nullopt;
}

std::optional<Limit> BodyRoom::may_begin() {
  if (!loop_.shared.buffers.spent()) return std::nullopt;
  return charge(request_.head_bytes.capacity() + net::BufferBudget::step);
}

std::optional<Limit> BodyRoom::charge(std::size_t bytes) {
  auto& budget_hold = request_.budget_hold;
  if (bytes >= net::BufferBudget::step && !joined_) join_shares();
  const auto& limits = request_.snapshot->settings.limits;
  const auto share = static_cast<std::size_t>(static_cast<double>(limits.buffer_memory) * limits.buffer_share);
  // The largest request that is allowed fits into any share.
  if (const auto full = budget_hold.full_share(bytes, std::max(share, limits.request_body + 2 * limits.request_head))) {
    const bool is_of_key = request_.key != nullptr && full.get() == &request_.key->use->held;
    if (!is_of_key) note_full_share(loop_.shared.full_share_line, request_.address, std::chrono::steady_clock::now());
    return Limit::buffer_share;
  }
  if (!take_room(loop_, budget_hold, bytes, this)) return Limit::buffer_memory;
  return std::nullopt;
}

/// An address that is not known has no share, and neither has a proxy itself: many clients may stand behind it.
void BodyRoom::join_shares() {
  joined_ = true;
  const auto& address = request_.address;
  const bool is_proxy = config::contains(request_.snapshot->settings.server.trusted_proxies, address);
  // The head may have joined the address.
  if (!request_.budget_hold.has_joined() && address != net::PeerAddress{} && !is_loopback(address) && !is_proxy)
    request_.budget_hold.join(loop_.shared.address_shares.of(address));
  if (request_.key != nullptr) request_.budget_hold.join({request_.key->use, &request_.key->use->held});
}

void BodyRoom::give_way() {
  gave_way_ = true;
  std::string().swap(request_.body);
  std::string().swap(client_.unread());
  request_.budget_hold.set(0);
  client_.stop_waiting();
}

}  // namespace weir::proxy::serve
