// Which of a name's addresses is connected to when, as a rule without sockets, and with real ones.
#include "proxy/net/address_race.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <filesystem>
#include <iterator>

#include "proxy/net/connect.hpp"
#include "proxy/net/connector.hpp"
#include "tests/unit/proxy/net/loopback_listener.hpp"

namespace weir::proxy::net {
namespace {

using std::chrono::milliseconds;
using Which = std::optional<std::size_t>;

constexpr auto late = metrics::Moment::max();

const Address v4(boost::asio::ip::make_address("192.0.2.1"), 80), v6(boost::asio::ip::make_address("2001:db8::1"), 80);

metrics::Moment after(int ms) { return metrics::Moment() + std::chrono::hours(1) + milliseconds(ms); }

TEST(AddressRace, EachHasAHeadStartUnlessItFails) {
  AddressRace race(4);
  EXPECT_EQ(race.next(after(0)), Which(0));
  EXPECT_EQ(race.next(after(0)), Which());
  EXPECT_EQ(race.due(), after(250));
  EXPECT_EQ(race.next(after(249)), Which());
  EXPECT_EQ(race.next(after(250)), Which(1)) << "the first one takes its time";
  EXPECT_EQ(race.next(after(260)), Which());
  race.failed(ECONNREFUSED, v4);
  EXPECT_EQ(race.next(after(260)), Which(2)) << "one has failed";
  EXPECT_EQ(race.next(after(260)), Which());
  EXPECT_EQ(race.next(after(510)), Which(3));
  EXPECT_EQ(race.due(), late);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(race.lost());
    race.failed(ECONNREFUSED, v4);
  }
  EXPECT_TRUE(race.lost());
  EXPECT_EQ(race.next(after(1000)), Which());
}

TEST(AddressRace, IsRefusedOnlyIfEachAddressRefuses) {
  const struct {
    std::vector<int> errors;
    int meaning;
  } cases[]{
      {{ECONNREFUSED}, ECONNREFUSED},
      {{ECONNREFUSED, ECONNREFUSED}, ECONNREFUSED},
      {{ECONNREFUSED, ETIMEDOUT}, ETIMEDOUT},
      {{EHOSTUNREACH, ECONNREFUSED}, EHOSTUNREACH},
      {{ENETUNREACH, ECONNREFUSED}, ECONNREFUSED},
      {{ENETUNREACH, ENETUNREACH}, ENETUNREACH},
      {{ECONNREFUSED, EMFILE}, EMFILE},
  };
  for (const auto& [errors, meaning] : cases) {
    AddressRace race(errors.size());
    for (const int error : errors) race.failed(error, v4);
    EXPECT_TRUE(race.lost());
    EXPECT_EQ(race.error(), meaning);
  }
}

TEST(AddressRace, TheShortageOfLocalPortsIsNoRefusalAndTheLackOfIPv6SaysNothing) {
  const auto meaning = [](int of_v6, int of_v4) {
    AddressRace race(2);
    race.failed(of_v6, v6);
    race.failed(of_v4, v4);
    return race.error();
  };
  EXPECT_EQ(meaning(ECONNREFUSED, EADDRNOTAVAIL), EADDRNOTAVAIL) << "all ports are in use";
  EXPECT_EQ(meaning(ENETUNREACH, EADDRNOTAVAIL), EADDRNOTAVAIL);
  EXPECT_EQ(meaning(EADDRNOTAVAIL, ECONNREFUSED), ECONNREFUSED) << "there is no IPv6";
  EXPECT_EQ(meaning(EADDRNOTAVAIL, ETIMEDOUT), ETIMEDOUT);
}

class Racing : public testing::Test, protected Watcher {
 protected:
  Racing() { poller.start(context); }
  ~Racing() override { poller.stop(); }
  /// Begins to connect to these, in this order.
  void connect(const std::vector<Address>& addresses) {
    Destination to(addresses.front());
    to.others.assign(addresses.begin() + 1, addresses.end());
    begun = std::chrono::steady_clock::now();
    channel = connector.connect(to);
    if (channel) channel->attach(*this, 7);
    poll();
  }
  void poll() {
    while (context.poll() > 0) {
    }
  }
  void ready(std::uint32_t tag, std::uint32_t events) override {
    EXPECT_EQ(tag, 7u);
    told |= events;
  }
  void prefetch(std::uint32_t, int) const override {}
  void expect_connected_to(const Address& address) {
    ASSERT_NE(channel, nullptr);
    EXPECT_TRUE(told & EPOLLOUT);
    EXPECT_EQ(channel->connect_error(), 0);
    EXPECT_EQ(channel->chosen(), address);
    const std::string_view bytes = "x";
    EXPECT_EQ(channel->write({&bytes, 1}, 0), 1);
  }

  Poller poller;
  boost::asio::io_context context{1};
  Deadlines deadlines;
  ArrivalClock clock{config::ReadClock::kernel};
  tls::Handshaking handshaking{context, nullptr};
  SocketConnector connector{{poller, clock, handshaking}, deadlines};
  std::unique_ptr<Channel> channel;
  std::uint32_t told = 0;
  metrics::Moment begun{};
};

TEST_F(Racing, TheFirstIsTheOneWhereItConnects) {
  const LoopbackListener one, two;
  connect({one.endpoint, two.endpoint});
  expect_connected_to(one.endpoint);
  deadlines.tick(begun + std::chrono::hours(1));
  pollfd asked{two.fd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&asked, 1, 0), 0) << "nothing came to the other";
}

// A loop that is late has not been told yet what has connected.
TEST_F(Racing, OneThatHasConnectedUnseenWaitsForTheLoop) {
  const LoopbackListener listens;
  const Deaf deaf;
  const auto waits = [&](const std::vector<Address>& addresses) {
    Destination to(addresses.front());
    to.others.assign(addresses.begin() + 1, addresses.end());
    channel = connector.connect(to);
    return channel->connecting_waits_for_loop();
  };
  EXPECT_TRUE(waits({listens.endpoint}));
  EXPECT_TRUE(waits({listens.endpoint, deaf.address()}));
  EXPECT_FALSE(waits({deaf.address()}));
  EXPECT_FALSE(waits({deaf.address(), listens.endpoint}));
}

TEST_F(Racing, TheNextFollowsOneThatRefuses) {
  const LoopbackListener listens;
  connect({refusing(), refusing(), listens.endpoint});
  expect_connected_to(listens.endpoint);
}

TEST_F(Racing, TheNextFollowsOneThatIsSilentAfterItsHeadStartAndTheLoserIsClosedAtOnce) {
  const Deaf deaf;
  const LoopbackListener listens;
  const auto open_files = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  const auto before = open_files();
  connect({deaf.address(), listens.endpoint});
  deadlines.tick(begun + milliseconds(200));
  poll();
  EXPECT_EQ(told, 0u);
  deadlines.tick(std::chrono::steady_clock::now() + milliseconds(250));
  poll();
  expect_connected_to(listens.endpoint);
  EXPECT_EQ(open_files(), before + 1);
}

TEST_F(Racing, IsLostWhereAllRefuse) {
  connect({refusing(), refusing()});
  if (channel == nullptr) {
    EXPECT_EQ(errno, ECONNREFUSED);
    return;
  }
  EXPECT_TRUE(told & EPOLLERR);
  EXPECT_EQ(channel->connect_error(), ECONNREFUSED);
  EXPECT_TRUE(channel->broken());
}

TEST_F(Racing, EndsWithItsChannel) {
  const Deaf deaf;
  const LoopbackListener listens;
  connect({deaf.address(), listens.endpoint});
  channel.reset();
  deadlines.tick(begun + std::chrono::hours(1));
  poll();
  EXPECT_EQ(told, 0u);
  pollfd asked{listens.fd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&asked, 1, 0), 0);
}

TEST_F(Racing, ItsWinnerTellsWhoeverAttachesLater) {
  const LoopbackListener listens;
  connect({refusing(), listens.endpoint});
  ASSERT_TRUE(told & EPOLLOUT);
  channel->detach();
  told = 0;
  const UniqueFd far(::accept4(listens.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_EQ(::send(far.get(), "x", 1, 0), 1);
  channel->attach(*this, 7);
  poll();
  EXPECT_TRUE(told & EPOLLIN);
  EXPECT_TRUE(channel->may_read());
}

}  // namespace
}  // namespace weir::proxy::net
