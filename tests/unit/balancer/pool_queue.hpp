// A pool whose requests wait, for tests of what becomes of them.
#pragma once

#include <deque>
#include <map>
#include <tuple>

#include "balancer/pool.hpp"
#include "requests.hpp"

namespace weir::balancer {

struct Wish {
  std::string name;
  Tokens prompt = 10;
  std::uint64_t key = 0;
  std::vector<Serial> tried{};
  bool front_of_queue = false;
  std::optional<Moment> deadline{};
  std::size_t bytes = 1;
  bool stream = true;
  std::uint64_t max_tokens = 100;
};

class PoolQueue : public testing::Test {
 protected:
  void begin(std::vector<ReplicaSpec> specs, PoolLimits limits = {}) {
    pool = Pool::make(config::Policy::least_queued_tokens, 1, &sink);
    pool->set_limits(limits, at(0));
    pool->set_replicas(specs, at(0));
  }
  // A lease that goes grants the next, as long as any waits.
  void TearDown() override {
    running = Lease();
    while (!sink.all.empty()) sink.take();
  }
  static ReplicaSpec places(std::string name, std::uint32_t requests) {
    auto spec = replica(std::move(name));
    spec.max_in_flight = requests;
    return spec;
  }
  static ReplicaSpec tokens(std::string name, Tokens limit) {
    auto spec = replica(std::move(name));
    spec.max_queued_tokens = limit;
    spec.health.eject = false;  // Nobody hangs here.
    return spec;
  }
  static PoolLimits queue_of(std::size_t requests) {
    PoolLimits limits;
    limits.queue = requests;
    return limits;
  }
  Offered offer(const Wish& wish, double now) {
    RequestFacts facts = prompt_of(wish.prompt, wish.max_tokens);
    facts.stream = wish.stream;
    PlacementRequest placement{shared(facts), wish.tried, wish.key, 1, wish.bytes, wish.deadline, wish.front_of_queue,
                               named(wish.name)};
    if (wish.key != 0) placement.caller.client = wish.key;
    return pool->offer(placement, at(now));
  }
  Lease admit(const Wish& wish, double now) { return admitted(offer(wish, now)); }
  Waiting wait(const Wish& wish, double now) {
    auto offered = offer(wish, now);
    if (const auto* waiting = std::get_if<Waiting>(&offered)) return *waiting;
    ADD_FAILURE() << wish.name << " does not wait";
    return {};
  }
  Refused refuse(const Wish& wish, double now) {
    auto offered = offer(wish, now);
    if (const auto* refused = std::get_if<Refused>(&offered)) return *refused;
    ADD_FAILURE() << wish.name << " is not refused";
    return {};
  }
  void tick(double now) { pool->health().take_changes(at(now)); }
  std::size_t waiting(double now) { return pool->figures().queue(at(now)).waiting; }
  static void answered(Lease lease, double now) { lease.end(LeaseEnd(EndCause::answered), at(now)); }

  Grantees sink;
  std::shared_ptr<Pool> pool;
  Lease running;
};

}  // namespace weir::balancer
