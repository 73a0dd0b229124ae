#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>
#include <thread>
#include <vector>

#include "proxy/net/address.hpp"
#include "tests/unit/proxy/net/loopback_listener.hpp"

namespace weir::proxy::net {
namespace {

TEST(PeerAddress, OfIpv4IsWrittenAsIpv6DoesIt) {
  const LoopbackListener listener;
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), listener.endpoint.data(), static_cast<socklen_t>(listener.endpoint.size())), 0);
  const PeerAddress loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  EXPECT_EQ(peer_address(client.get()), loopback);
  EXPECT_TRUE(is_ipv4(loopback));
}

TEST(PeerAddress, OfIpv6IsItself) {
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  const PeerAddress wanted{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};
  std::memcpy(&ipv6.sin6_addr, wanted.data(), wanted.size());
  sockaddr_storage peer{};
  std::memcpy(&peer, &ipv6, sizeof ipv6);
  EXPECT_EQ(peer_address(peer), wanted);
  EXPECT_FALSE(is_ipv4(wanted));
}

TEST(PeerAddress, OfNoConnectionIsZero) {
  EXPECT_EQ(peer_address(-1), PeerAddress{});
  EXPECT_FALSE(is_ipv4({}));
}

int duplicate() { return ::fcntl(0, F_DUPFD_CLOEXEC, 0); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesWhatItOwnsAtItsEnd) {
  const int fd = duplicate();
  {
    const UniqueFd owner(fd);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFd, ClosesWhatItOwnedWhenItTakesAnother) {
  const int first = duplicate(), second = duplicate();
  UniqueFd owner(first), other(second);
  owner = std::move(other);
  EXPECT_FALSE(is_open(first));
  EXPECT_TRUE(is_open(second));
  EXPECT_EQ(owner.get(), second);
  EXPECT_FALSE(other);  // NOLINT(bugprone-use-after-move): it owns nothing now.
  owner.reset();
  EXPECT_FALSE(is_open(second));
}

TEST(UniqueFd, ReleasesWithoutClosing) {
  const int fd = duplicate();
  UniqueFd owner(fd);
  EXPECT_EQ(owner.release(), fd);
  EXPECT_FALSE(owner);
  EXPECT_TRUE(is_open(fd));
  owner.reset(fd);
}

using metrics::Moment;
using std::chrono::seconds;

PeerAddress client_no(unsigned number) {
  PeerAddress address{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  for (std::size_t i = 0; i < 4; ++i) address[15 - i] = static_cast<unsigned char>(number >> (8 * i));
  return address;
}

TEST(AddressAccounts, PayADebtOffWithTime) {
  AddressAccounts accounts;
  const Moment start{seconds(100)};
  EXPECT_EQ(accounts.owed(client_no(1), 0.25, start), 0);
  accounts.charge(client_no(1), 1, 0.25, start);
  accounts.charge(client_no(1), 1, 0.25, start + seconds(2));
  EXPECT_DOUBLE_EQ(accounts.owed(client_no(1), 0.25, start + seconds(2)), 1.5);
  EXPECT_DOUBLE_EQ(accounts.owed(client_no(1), 0.25, start + seconds(4)), 1.0);
  EXPECT_EQ(accounts.owed(client_no(1), 0.25, start + seconds(9)), 0);
  EXPECT_EQ(accounts.owed(client_no(2), 0.25, start + seconds(2)), 0);
}

TEST(AddressAccounts, AreOneForAnIpv6Network) {
  AddressAccounts accounts;
  PeerAddress one{0x20, 1, 0xd, 0xb8}, other = one;
  other[15] = 9;
  accounts.charge(one, 1, 0, Moment());
  EXPECT_EQ(accounts.owed(other, 0, Moment()), 1);
}

TEST(AddressAccounts, ForgetAddressesThatOweNothing) {
  AddressAccounts accounts;
  Moment now{};
  for (unsigned i = 0; i < 100'000; ++i) accounts.charge(client_no(i), 0.001, 1, now += std::chrono::milliseconds(1));
  EXPECT_LT(accounts.size(), 200u);
}

TEST(AddressAccounts, AreOneForAllAddressesBeyondTheirBound) {
  AddressAccounts accounts;
  for (unsigned i = 0; i < AddressAccounts::most + 10; ++i) accounts.charge(client_no(i + 1), 1, 1, Moment());
  EXPECT_LE(accounts.size(), AddressAccounts::most + 1);
  EXPECT_EQ(accounts.owed(client_no(1), 1, Moment()), 1);
  EXPECT_GE(accounts.owed(client_no(AddressAccounts::most + 5), 1, Moment()), 10);
}

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
