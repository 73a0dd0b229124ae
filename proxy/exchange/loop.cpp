#include "proxy/exchange/loop.hpp"

#include <boost/asio/post.hpp>

#include "metrics/measure/stream_meter.hpp"

namespace weir::proxy::exchange {

Loop::Loop(Shared& shared_state, std::size_t index_)
    : shared(shared_state),
      index(index_),
      shard(shared_state.exposition.loop(index_)),
      clock(shared_state.fleet.world()->settings.measure.clock),
      buffer_(read_size + metrics::measure::StreamMeter::padding) {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device()};
  random_.seed(seed);
  poller.start(context);  // It takes a descriptor, and may fail here alone.
  follow_world();
}

Loop::~Loop() { poller.stop(); }

void Loop::run() {
  timer_.expires_after(tick_every);
  await_tick();
  context.run();
}

void Loop::stop() {
  boost::asio::post(context, [this] { context.stop(); });
}

void Loop::await_tick() {
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    const auto now = std::chrono::steady_clock::now();
    shard.ticked(now - timer_.expiry());
    tick(now);
    timer_.expires_at(now + tick_every);
    await_tick();
  });
}

void Loop::tick(metrics::Moment now) {
  deadlines.tick(now);
  idle.drop_old(now);
  oldest_running.store(running.empty() ? 0 : running.front().time_since_epoch().count(), std::memory_order_relaxed);
  follow_world();
}

/// What outlasts requests here follows a change of the settings within a tick.
void Loop::follow_world() {
  auto world = shared.fleet.world();
  if (world == followed_) return;
  shared.buffers.set_limit(world->settings.limits.buffer_memory);
  for (const auto& pool : world->all_pools) {
    if (!shared.exposition.follow(*pool->unassigned, index)) return;
    for (const auto& replica : pool->replicas)
      if (!shared.exposition.follow(*replica->series, index)) return;
  }
  for (const auto& pool : world->leaving_pools)
    if (!shared.exposition.follow(*pool->unassigned, index)) return;
  for (const auto& one : world->leaving)
    if (!shared.exposition.follow(*one.replica->series, index)) return;
  clock.set(world->settings.measure.clock);
  idle.adopt(*world);
  followed_ = std::move(world);
}

void Loop::keep_idle(const fleet::ReplicaState& replica, const net::Destination& where,
                     std::unique_ptr<net::Channel> connection) {
  if (idle.put(replica, where, std::move(connection), std::chrono::steady_clock::now())) return;
  shard.limit_hits[static_cast<std::size_t>(metrics::series::Limit::idle_upstream_connections)].add();
}

std::string Loop::new_id() {
  static constexpr char digits[] = "0123456789abcdef";
  std::string id(32, '0');
  for (std::size_t half = 0; half < 2; ++half) {
    auto bits = random_();
    for (std::size_t i = 0; i < 16; ++i, bits >>= 4) id[half * 16 + i] = digits[bits & 15];
  }
  return id;
}

double Loop::random_from(double least, double most) { return std::uniform_real_distribution(least, most)(random_); }

}  // namespace weir::proxy::exchange
