// A pool that knows which beginnings of prompts its replicas have computed.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "balancer/pool.hpp"
#include "tests/unit/balancer/prompts.hpp"
#include "tests/unit/balancer/requests.hpp"

namespace weir::balancer {

class PoolPrefix : public testing::Test {
 protected:
  void begin(std::size_t replicas) {
    for (std::size_t i = 0; i < replicas; ++i) specs.push_back(replica(std::string(1, static_cast<char>('a' + i))));
    pool = Pool::make(config::Policy::least_queued_tokens, 7, &sink);
    pool->set_prefix_aware(true);
    pool->set_replicas(specs, at(0));
  }
  /// A replica starts beside one that is full while the lease is held.
  Lease begin_beside_a_full_one() {
    specs.push_back(replica("a"));
    specs[0].max_in_flight = 1;
    begin(0);
    Lease full = admitted(offer(9, 50'000, 0));
    specs.push_back(replica("b"));
    pool->set_replicas(specs, at(1));
    return full;
  }
  /// A replica that has shown that it reports what it finds, and holds 2000 tokens.
  void begin_with_reports() {
    specs.clear();
    begin(1);
    serve(1, 2000, 1, 0);
    serve(1, 2000, 2, 1984);
  }
  Offered offer(std::uint64_t conversation, Tokens tokens, double now, std::span<const Serial> tried = {},
                std::shared_ptr<void> waiter = {}) {
    PlacementRequest placement{shared(prompt_of(tokens)), {tried.begin(), tried.end()}};
    placement.prefix = prefix_of(conversation, tokens);
    placement.waiter = std::move(waiter);
    return pool->offer(placement, at(now));
  }
  /// Has the request served at once. Returns its replica.
  ReplicaIndex serve(std::uint64_t conversation, Tokens tokens, double now, std::optional<Tokens> cached = {}) {
    Lease lease = admitted(offer(conversation, tokens, now));
    const ReplicaIndex to = lease.replica();
    lease.first_token(at(now));
    LeaseEnd end(EndCause::answered);
    end.prompt_tokens = tokens;
    end.cached_tokens = cached;
    lease.end(end, at(now));
    return to;
  }
  ReplicaLoad load(ReplicaIndex replica, double now) { return pool->figures().load(replica, at(now)); }

  Grantees sink;
  std::vector<ReplicaSpec> specs;
  std::shared_ptr<Pool> pool;
};

}  // namespace weir::balancer
