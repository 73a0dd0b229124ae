#include "proxy/serve/handshakes.hpp"

#include <openssl/sslerr.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "metrics/ticks.hpp"
#include "proxy/net/tls/failure.hpp"

namespace weir::proxy::serve {
namespace {

using Clock = std::chrono::steady_clock;
using metrics::Moment;
using metrics::series::Limit;

constexpr std::string_view wants_https =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 58\r\nConnection: close\r\n\r\n"
    "This port speaks TLS: write https:// in place of http://.\n";

}  // namespace

class Handshakes::One final : net::Watcher, net::Timed {
 public:
  One(Handshakes& all, std::unique_ptr<net::tls::TlsChannel> channel, const net::PeerAddress& from,
      net::AddressCounts::CountGuard counted, Moment until)
      : client(std::move(channel)), address(from), place_of_address(std::move(counted)), all_(all), until_(until) {
    client->attach(*this, 0);
    all_.loop_.deadlines.attach(*this);
  }

  std::unique_ptr<net::tls::TlsChannel> client;
  const net::PeerAddress address;
  net::AddressCounts::CountGuard place_of_address;
  All::iterator place;

 private:
  void ready(std::uint32_t, std::uint32_t) override {
    if (client->is_open()) return all_.succeed(place);
    if (client->connect_error() == net::tls::failed_handshake(SSL_R_HTTP_REQUEST)) client->answer_plainly(wants_https);
    all_.give_up(place);
  }
  void prefetch(std::uint32_t, int) const override {}
  Moment deadline() const override {
    const auto& shared = all_.loop_.shared;
    const bool closing =
        shared.closing.load(std::memory_order_relaxed) || shared.cutting.load(std::memory_order_relaxed);
    return closing ? Moment::min() : until_;
  }
  void deadline_passed(Moment now) override {
    if (now >= until_) all_.count(Limit::handshake_time);
    all_.give_up(place);
  }

  Handshakes& all_;
  const Moment until_;
};

Handshakes::Handshakes(exchange::Loop& loop, Start start, Lost lost)
    : loop_(loop), start_(std::move(start)), lost_(std::move(lost)) {}

Handshakes::~Handshakes() {
  while (!all_.empty()) give_up(all_.begin());
}

void Handshakes::begin(NewClient client, std::shared_ptr<const net::tls::ServerContext> context,
                       const config::Limits& limits) {
  try {
    begin_one(std::move(client), std::move(context), limits);
  } catch (...) {
    lost_();
    throw;
  }
}

void Handshakes::begin_one(NewClient client, std::shared_ptr<const net::tls::ServerContext> context,
                           const config::Limits& limits) {
  if (all_.size() >= limits.handshakes) {
    count(Limit::handshakes);
    if (!make_room()) return lost_();
  }
  auto channel = net::tls::TlsChannel::to_client({loop_.poller, loop_.clock, loop_.handshaking},
                                                 std::move(client.socket), std::move(context));
  if (!channel) return lost_();
  const auto until = Clock::now() + metrics::ticks(limits.handshake_time);
  const auto place = all_.insert(
      all_.end(), std::make_unique<One>(*this, std::move(channel), client.address, std::move(client.place), until));
  (*place)->place = place;
}

bool Handshakes::make_room() {
  const auto silent =
      std::ranges::find_if(all_, [](const auto& one) { return one->client->handshake_waits_for_peer(); });
  if (silent == all_.end()) return false;
  give_up(silent);
  return true;
}

void Handshakes::succeed(All::iterator place) {
  const auto one = std::move(*place);
  all_.erase(place);
  one->client->detach();
  start_(std::move(one->client), one->address, std::move(one->place_of_address));
}

void Handshakes::give_up(All::iterator place) {
  const auto one = std::move(*place);
  all_.erase(place);
  lost_();
}

void Handshakes::count(Limit limit) { loop_.shard.limit_hits.add(limit); }

}  // namespace weir::proxy::serve
