// Makes requests, moments and pools in few words, for the tests of balancer/.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "balancer/pool.hpp"

namespace weir::balancer {

using metrics::wire::RequestFacts;
using metrics::wire::Script;

/// Returns a moment of an invented clock, some hours after its beginning.
inline Moment at(double seconds) {
  return Moment{} + std::chrono::hours(5) + std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

/// Returns a streamed completion whose prompt has exactly so many tokens.
inline RequestFacts prompt_of(Tokens tokens, std::uint64_t max_tokens = 100) {
  RequestFacts facts;
  facts.api = metrics::Api::openai_completions;
  facts.model = "m";
  facts.stream = true;
  facts.max_tokens = max_tokens;
  facts.prompt_token_ids = tokens;
  facts.whole_json = true;
  return facts;
}

inline RequestFacts not_streamed(RequestFacts facts) {
  facts.stream = false;
  return facts;
}

/// Returns a streamed chat of so many ASCII letters in one message.
inline RequestFacts chat_of(std::uint64_t letters, std::string model = "m") {
  RequestFacts facts;
  facts.api = metrics::Api::openai_chat;
  facts.model = std::move(model);
  facts.stream = true;
  facts.text.code_points[static_cast<std::size_t>(Script::letters)] = letters;
  facts.text.messages = 1;
  facts.whole_json = true;
  return facts;
}

/// Returns a request of whose body nothing was understood.
inline RequestFacts unknown_request() {
  RequestFacts facts;
  facts.stream = true;
  return facts;
}

inline ReplicaSpec replica(std::string name, double weight = 1) {
  ReplicaSpec spec;
  spec.name = std::move(name);
  spec.weight = weight;
  return spec;
}

inline std::shared_ptr<Pool> pool_of(std::vector<ReplicaSpec> specs,
                                     config::Policy policy = config::Policy::least_queued_tokens,
                                     std::uint64_t seed = 1) {
  auto pool = Pool::make(policy, seed);
  pool->set_replicas(specs, at(0));
  return pool;
}

/// Offers a request that cannot wait.
inline Offered place(Pool& pool, const RequestFacts& facts, Moment now, std::span<const Serial> tried = {}) {
  return pool.offer({std::make_shared<const RequestFacts>(facts), {tried.begin(), tried.end()}}, now);
}

/// Returns the lease if the request was admitted; else an empty one, and fails the test.
inline Lease admitted(Offered offered) {
  if (auto* admitted = std::get_if<Admitted>(&offered)) return std::move(admitted->lease);
  ADD_FAILURE() << "refused";
  return {};
}

/// A pool of replicas a, b and so on, with their keys.
class PoolWithKeys : public testing::Test {
 protected:
  void begin(std::size_t replicas, bool eject = true) {
    std::vector<ReplicaSpec> specs;
    for (std::size_t i = 0; i < replicas; ++i) {
      specs.push_back(replica(std::string(1, static_cast<char>('a' + i))));
      specs.back().health.eject = eject;
    }
    pool = pool_of(specs, config::Policy::round_robin);
    keys.clear();
    for (ReplicaIndex i = 0; i < replicas; ++i) keys.push_back(pool->figures().key(i));
  }
  ReplicaState state(std::size_t index, double now) { return pool->health().of(keys[index], at(now)).state; }
  Lease send(ReplicaIndex to, const RequestFacts& facts, double now) {
    std::vector<Serial> others;
    for (ReplicaIndex i = 0; i < keys.size(); ++i)
      if (i != to) others.push_back(keys[i].serial);
    Lease lease = admitted(place(*pool, facts, at(now), others));
    EXPECT_EQ(lease.replica(), to);
    return lease;
  }

  std::shared_ptr<Pool> pool;
  std::vector<ReplicaKey> keys;
};

/// Keeps what a pool grants.
class Grantees final : public GrantSink {
 public:
  void grant(std::vector<Granted> granted) noexcept override {
    for (Granted& one : granted) all.push_back(std::move(one));
  }
  /// Takes the oldest lease granted and the name of who waited for it; "" if there is none.
  std::pair<std::string, Lease> take() {
    if (all.empty()) return {};
    Granted first = std::move(all.front());
    all.erase(all.begin());
    const std::string name = *std::static_pointer_cast<std::string>(first.waiter);
    auto* const lease = std::get_if<Lease>(&first.what);
    return {lease != nullptr ? name : name + " refused", lease != nullptr ? std::move(*lease) : Lease()};
  }

  std::vector<Granted> all;
};

inline std::shared_ptr<const RequestFacts> shared(const RequestFacts& facts) {
  return std::make_shared<const RequestFacts>(facts);
}

inline std::shared_ptr<void> named(std::string name) { return std::make_shared<std::string>(std::move(name)); }

inline void expect_idle(Pool& pool, std::size_t replicas, Moment now) {
  EXPECT_EQ(pool.figures().in_flight(), 0u);
  for (ReplicaIndex i = 0; i < replicas; ++i) {
    const ReplicaLoad load = pool.figures().load(i, now);
    EXPECT_EQ(load.prefill_left, 0u) << load.name;
    EXPECT_EQ(load.decode_left, 0u) << load.name;
    EXPECT_EQ(load.resident, 0u) << load.name;
    EXPECT_EQ(load.in_flight, 0u) << load.name;
    EXPECT_EQ(load.oldest_unanswered_seconds, 0.0) << load.name;
  }
}

/// An answer whose usage tells these counts.
inline LeaseEnd answer(std::optional<Tokens> prompt = {}, std::optional<Tokens> output = {},
                       std::optional<Tokens> cached = {}) {
  LeaseEnd end(EndCause::answered);
  end.prompt_tokens = prompt;
  end.output_tokens = output;
  end.cached_tokens = cached;
  return end;
}

}  // namespace weir::balancer
