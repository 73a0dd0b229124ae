#include "proxy/exchange/loop.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <exception>
#include <random>
#include <string_view>

#include "metrics/measure/stream_meter.hpp"
#include "metrics/text.hpp"
#include "proxy/fleet/keep_running.hpp"

namespace weir::proxy::exchange {

Loop::Loop(Shared& shared_state, std::size_t index_)
    : shared(shared_state),
      index(index_),
      shard(shared_state.exposition.loop(index_)),
      clock(shared_state.fleet.snapshot()->settings.measure.clock),
      buffer_(read_size + metrics::measure::StreamMeter::padding) {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device()};
  random_.seed(seed);
  poller.start(context);  // Takes a descriptor, and may fail here alone.
  follow_snapshot();
}

Loop::~Loop() { poller.stop(); }

void Loop::run() {
  timer_.expires_after(tick_every);
  await_tick();
  for (bool over = false; !over;) {
    try {
      context.run();
      over = true;
    } catch (...) {
      note_failure(std::current_exception(), "other requests go on");
    }
  }
}

void Loop::stop() {
  boost::asio::post(context, [this] { context.stop(); });
}

void Loop::await_tick() {
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    const auto now = std::chrono::steady_clock::now();
    shard.ticked(now - timer_.expiry());
    timer_.expires_at(now + tick_every);
    await_tick();
    tick(now);
  });
}

void Loop::note_failure(const std::exception_ptr& failure, std::string_view consequence) const {
  fleet::note_failure(shared.exposition.internal_errors, metrics::series::Part::session, failure, consequence);
}

/// A round of deadlines goes on after what has become ready meanwhile.
void Loop::look_at_deadlines(metrics::Moment now, bool begin) {
  bool goes_on = true;
  try {
    goes_on = begin ? deadlines.tick(now) : deadlines.go_on(now);
  } catch (...) {
    note_failure(std::current_exception(), "other deadlines are kept");
  }
  if (!goes_on) return;
  boost::asio::post(context,
                    [this, now] { look_at_deadlines(std::max(now, std::chrono::steady_clock::now()), false); });
}

void Loop::tick(metrics::Moment now) {
  look_at_deadlines(now, true);
  idle.drop_old(now);
  make_room_for_others(now);
  const auto oldest = running.empty() ? metrics::Moment() : running.front().received;
  oldest_running.store(oldest.time_since_epoch().count(), std::memory_order_relaxed);
  follow_snapshot();
}

/// Ends the slowest body that this loop reads, if another loop found no room.
void Loop::make_room_for_others(metrics::Moment now) {
  if (uploads.empty() || !shared.wants_room.load(std::memory_order_relaxed)) return;
  if (shared.wants_room.exchange(false, std::memory_order_relaxed) && shared.buffers.tight())
    uploads.make_room(nullptr, now);
}

void Loop::follow_limits(const config::Limits& limits) {
  shared.buffers.set_limit(limits.buffer_memory);
  // Two of the largest heads have room on each loop.
  half_heads.set_limit(std::max(half_head_memory(limits) / shared.exposition.loops().size(), 2 * limits.request_head));
}

/// Members that outlast requests follow a change of the settings within a tick.
void Loop::follow_snapshot() {
  auto snapshot = shared.fleet.snapshot();
  if (snapshot == followed_) return;
  follow_limits(snapshot->settings.limits);
  for (const auto& pool : snapshot->all_pools) {
    if (!shared.exposition.follow(*pool->unassigned, index)) return;
    for (const auto& replica : pool->replicas)
      if (!shared.exposition.follow(*replica->series, index)) return;
  }
  for (const auto& pool : snapshot->leaving_pools)
    if (!shared.exposition.follow(*pool->unassigned, index)) return;
  for (const auto& one : snapshot->leaving)
    if (!shared.exposition.follow(*one.replica->series, index)) return;
  clock.set(snapshot->settings.measure.clock);
  idle.adopt(*snapshot);
  followed_ = std::move(snapshot);
}

void Loop::keep_idle(const fleet::SharedReplica& replica, net::Destination where,
                     std::unique_ptr<net::Channel> connection, metrics::Moment now) {
  if (idle.put(replica, std::move(where), std::move(connection), now)) return;
  shard.limit_hits.add(metrics::series::Limit::idle_upstream_connections);
}

std::string Loop::new_id() {
  const auto half = random_();
  return fmt::format("{:016x}{:016x}", half, random_());
}

std::chrono::milliseconds Loop::time_to_retry() {
  return std::chrono::milliseconds(static_cast<int>(random_from(1000, 2000)));
}

double Loop::random_from(double least, double most) { return std::uniform_real_distribution(least, most)(random_); }

namespace {

/// A hash begins with one of these tags, so that nobody's credential is another's address.
constexpr char of_address = 'a', of_credential = 'c', of_header = 'h', of_key = 'k';

std::uint64_t hash_of(const SipKey& key, char tag, std::string_view bytes) {
  metrics::SipHash hash(key);
  hash.add(std::string_view(&tag, 1));
  hash.add(bytes);
  return hash.value();
}

std::uint64_t hash_of(const SipKey& key, const net::PeerAddress& address) {
  const std::size_t size = net::is_ipv4(address) ? address.size() : 8;
  return hash_of(key, of_address, {reinterpret_cast<const char*>(address.data()), size});
}

}  // namespace

SipKey make_sip_key() {
  std::random_device device;
  const auto half = [&device] { return std::uint64_t{device()} << 32 | device(); };
  const auto first = half();
  return {first, half()};
}

std::uint64_t fair_key(const SipKey& key, const config::FairBy& by, const http::RequestHead& head,
                       const net::PeerAddress& address, std::string_view key_name) {
  if (by.what == config::FairBy::What::key && !key_name.empty()) return hash_of(key, of_key, key_name);
  const std::string_view said = by.what == config::FairBy::What::header ? head[by.header] : std::string_view();
  return said.empty() ? hash_of(key, address) : hash_of(key, of_header, said);
}

std::uint64_t session_of(std::span<const config::SessionBy> by, const http::RequestHead& head,
                         const metrics::Names& names, std::string_view key_name) {
  using What = config::SessionBy::What;
  using metrics::name_key, metrics::name_of_hash;
  for (const auto& one : by) {
    if (one.what == What::key && !key_name.empty()) return name_of_hash(hash_of(name_key, of_key, key_name));
    const auto said = one.what == What::header ? head[one.name] : std::string_view();
    if (!said.empty()) return name_of_hash(hash_of(name_key, of_header, said));
    if (one.what != What::body) continue;
    const auto member = std::ranges::find(config::session_members, one.name) - config::session_members.begin();
    const auto first = static_cast<std::ptrdiff_t>(metrics::NamedBy::user);
    if (const auto name = names[static_cast<std::size_t>(first + member)]; name != 0) return name;
  }
  return 0;
}

std::optional<std::uint64_t> credential_of(const SipKey& key, const http::RequestHead& head,
                                           std::string_view key_name) {
  if (!key_name.empty()) return hash_of(key, of_key, key_name);
  std::string_view said = head[http::FieldName::authorization];
  if (said.empty()) said = head[http::FieldName::x_api_key];
  return said.empty() ? std::nullopt : std::optional(hash_of(key, of_credential, said));
}

std::uint64_t sender_of(const SipKey& key, const http::RequestHead& head, const net::PeerAddress& address,
                        std::string_view key_name) {
  return credential_of(key, head, key_name).value_or(hash_of(key, address));
}

std::uint64_t prefix_seed(const SipKey& key, config::PrefixIsolation isolation, std::string_view key_name) {
  return isolation == config::PrefixIsolation::key ? hash_of(key, of_key, key_name) : 0;
}

}  // namespace weir::proxy::exchange
