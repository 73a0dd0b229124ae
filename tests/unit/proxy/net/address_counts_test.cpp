#include "proxy/net/address_counts.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace weir::proxy::net {
namespace {

PeerAddress ipv4(unsigned char last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}; }
PeerAddress ipv6(unsigned char network, unsigned char host) {
  return {0xfd, 0, 0, 0, 0, 0, 0, network, 0, 0, 0, 0, 0, 0, 0, host};
}

TEST(AddressCounts, GivesEachAddressSoManyPlaces) {
  AddressCounts counts;
  auto first = counts.take(ipv4(1), 2);
  auto second = counts.take(ipv4(1), 2);
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(counts.take(ipv4(1), 2));
  EXPECT_TRUE(counts.take(ipv4(2), 2)) << "another address has its own";
  EXPECT_TRUE(counts.take(ipv4(1), 3)) << "the limit is that of the call";
  EXPECT_TRUE(counts.take(ipv4(1), 0)) << "0 is no limit";
  second.reset();
  EXPECT_TRUE(counts.take(ipv4(1), 2)) << "what has ended counts no more";
}

TEST(AddressCounts, ForgetsAddressesWithoutConnections) {
  AddressCounts counts;
  {
    const auto one = counts.take(ipv4(1), 0), same = counts.take(ipv4(1), 0), other = counts.take(ipv4(2), 0);
    EXPECT_EQ(counts.size(), 2u);
  }
  EXPECT_EQ(counts.size(), 0u);
}

TEST(AddressCounts, OneClientHasAllOfAnIpv6Network) {
  AddressCounts counts;
  const auto one = counts.take(ipv6(1, 1), 1);
  EXPECT_FALSE(counts.take(ipv6(1, 2), 1));
  EXPECT_TRUE(counts.take(ipv6(2, 1), 1));
}

TEST(AddressCounts, CountsNobodyWithoutAnAddress) {
  AddressCounts counts;
  const auto one = counts.take({}, 1), other = counts.take({}, 1);
  EXPECT_TRUE(one && other);
  EXPECT_EQ(counts.size(), 0u);
}

TEST(AddressCounts, APlaceMovesWithItsConnection) {
  AddressCounts counts;
  AddressCounts::CountGuard kept;
  {
    auto taken = counts.take(ipv4(1), 1);
    kept = std::move(*taken);
  }
  EXPECT_FALSE(counts.take(ipv4(1), 1));
  const AddressCounts::CountGuard again(std::move(kept));
  EXPECT_FALSE(counts.take(ipv4(1), 1));
}

TEST(AddressCounts, IsForManyThreads) {
  AddressCounts counts;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&counts] {
      for (unsigned char n = 0; n < 200; ++n) {
        const auto one = counts.take(ipv4(n % 3), 2), other = counts.take(ipv4(n % 3), 0);
        EXPECT_TRUE(other);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counts.size(), 0u);
}

}  // namespace
}  // namespace weir::proxy::net
