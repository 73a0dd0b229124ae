#include "proxy/serve/handshakes.hpp"

#include <openssl/sslerr.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "config/network.hpp"
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

class Handshakes::Handshake final : net::Watcher, net::Timed {
 public:
  Handshake(Handshakes& owner, std::unique_ptr<net::tls::TlsChannel> to_client, NewClient of, Moment until)
      : channel(std::move(to_client)), client(std::move(of)), owner_(owner), until_(until) {
    channel->attach(*this, 0);
    owner_.loop_.deadlines.attach(*this);
  }

  std::unique_ptr<net::tls::TlsChannel> channel;
  NewClient client;  ///< Its socket is the channel's.
  All::iterator place;

 private:
  void ready(std::uint32_t, std::uint32_t) override {
    if (channel->is_open()) return owner_.succeed(place);
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
  return {cpus == 0 || is_of_many ? nullptr : &loop_.shared.handshake_cpu, address, cpus};
}

void Handshakes::refuse_for_cpu(const net::PeerAddress& address) {
  count(Limit::handshake_cpu);
  auto& line = loop_.shared.handshake_cpu_line;
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
  one->channel->detach();
  start_(std::move(one->channel), std::move(one->client));
}

void Handshakes::count(Limit limit) { loop_.shard.limit_hits.add(limit); }

}  // namespace weir::proxy::serve
