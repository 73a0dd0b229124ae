// Makes settings of one pool of replicas and takes leases there, for the tests that swap settings.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "proxy/fleet/fleet.hpp"

namespace weir::proxy::fleet {

inline config::Replica replica(std::string name, std::uint16_t port) {
  config::Replica one;
  one.name = std::move(name);
  one.config = one.name;
  one.url = {.host = "127.0.0.1", .port = port, .prefix = "", .authority = "127.0.0.1:" + std::to_string(port)};
  return one;
}

inline config::Settings settings_of(std::vector<config::Replica> replicas) {
  config::Pool pool;
  pool.name = "chat";
  pool.replicas = std::move(replicas);
  config::Settings settings;
  settings.pools = {pool};
  return settings;
}

inline balancer::Lease lease_on(const Snapshot& snapshot) {
  metrics::wire::RequestFacts facts;
  const balancer::PlacementRequest placement{std::make_shared<const metrics::wire::RequestFacts>(facts)};
  auto offered = snapshot.pools.front()->balancer->offer(placement, std::chrono::steady_clock::now());
  return std::move(std::get<balancer::Admitted>(offered).lease);
}

inline const Replica& of(const balancer::Lease& lease) { return *static_cast<Replica*>(lease.subject().get()); }

class FleetTest : public ::testing::Test {
 protected:
  metrics::series::Exposition exposition{1, {"0", "test"}};
};

}  // namespace weir::proxy::fleet
