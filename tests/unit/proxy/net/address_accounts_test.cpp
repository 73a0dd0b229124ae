#include "proxy/net/address_accounts.hpp"

#include <gtest/gtest.h>

namespace weir::proxy::net {
namespace {

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

}  // namespace
}  // namespace weir::proxy::net
