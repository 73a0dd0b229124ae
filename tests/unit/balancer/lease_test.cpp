#include "balancer/placement.hpp"

#include <algorithm>
#include <random>

#include "requests.hpp"

namespace weir::balancer {
namespace {

const LeaseEnd failed(EndCause::replica_failed);

TEST(Lease, AnEmptyOneDoesNothing) {
  Lease lease;
  EXPECT_FALSE(lease);
  lease.first_token(at(1));
  lease.tokens(5);
  const Concurrency concurrency = lease.end(failed, at(2));
  EXPECT_EQ(concurrency.in_flight_at_start, 0u);
  EXPECT_EQ(concurrency.in_flight_mean, 0.0);
}

TEST(Lease, TheDestructorGivesEverythingBackAtTheLatestKnownTime) {
  auto pool = pool_of({replica("a")});
  {
    Lease lease = admitted(place(*pool, prompt_of(100), at(1)));
    lease.tokens(3);
    pool->figures().load(0, at(5));
  }
  EXPECT_EQ(pool->figures().in_flight(), 0u);
  const ReplicaLoad load = pool->figures().load(0, at(5.999));
  EXPECT_EQ(load.prefill_left, 0u);
  EXPECT_EQ(load.decode_left, 0u);
  EXPECT_EQ(load.resident, 0u);
  EXPECT_DOUBLE_EQ(load.busy_seconds, 4);
  expect_idle(*pool, 1, at(6));
}

TEST(Lease, MovesThroughContainers) {
  auto pool = pool_of({replica("a"), replica("b")});
  std::vector<Lease> leases;
  for (int i = 0; i < 100; ++i) leases.push_back(admitted(place(*pool, prompt_of(10), at(1))));
  EXPECT_EQ(pool->figures().in_flight(), 100u);
  std::mt19937_64 random(3);
  std::ranges::shuffle(leases, random);
  leases.erase(leases.begin(), leases.begin() + 40);
  EXPECT_EQ(pool->figures().in_flight(), 60u);
  for (Lease& lease : leases) lease.first_token(at(2));
  leases[0] = std::move(leases[1]);  // The lease that was there before ends.
  EXPECT_EQ(pool->figures().in_flight(), 59u);
  Lease& itself = leases[0];
  leases[0] = std::move(itself);
  EXPECT_TRUE(leases[0]);
  EXPECT_EQ(pool->figures().in_flight(), 59u);
  leases.clear();
  expect_idle(*pool, 2, at(3));
}

TEST(Lease, OutlivesEveryOtherOwnerOfItsPool) {
  auto pool = pool_of({replica("a")});
  Lease lease = admitted(place(*pool, prompt_of(10), at(1)));
  Lease left = admitted(place(*pool, prompt_of(10), at(1)));
  const std::weak_ptr<Pool> watch = pool;
  pool.reset();
  EXPECT_FALSE(watch.expired());
  lease.first_token(at(2));
  lease.tokens(1);
  left = Lease{};
  lease.end(LeaseEnd(EndCause::answered), at(3));
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace weir::balancer
