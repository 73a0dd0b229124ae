#include "proxy/net/channel_wait.hpp"

#include <gtest/gtest.h>

#include "tests/unit/proxy/net/scripted_channel.hpp"

namespace weir::proxy::net {
namespace {

class ChannelWaits : public testing::Test {
 protected:
  void wait_for(std::uint32_t events) {
    wait.wait(events, [this] { ++told; });
  }
  void report() {
    while (peer->report()) {
    }
  }
  Calls calls;
  std::shared_ptr<Peer> peer = std::make_shared<Peer>(calls);
  ScriptedChannel channel{peer};
  ChannelWait wait{channel};
  int told = 0;
};

TEST_F(ChannelWaits, EndsAtTheEventsThatAreWaitedForAndAtNoOthers) {
  wait_for(EPOLLIN);
  report();
  EXPECT_EQ(told, 0) << "it is writable, and nothing has come";
  peer->says("x");
  report();
  EXPECT_EQ(told, 1);
  wait_for(EPOLLOUT);
  EXPECT_EQ(told, 1);
  peer->says("y");
  report();
  EXPECT_EQ(told, 2);
}

TEST_F(ChannelWaits, EndsAtAHangUpWhateverIsWaitedFor) {
  peer->takes_nothing();
  wait_for(EPOLLOUT);
  peer->ends();
  report();
  EXPECT_EQ(told, 1);
}

TEST_F(ChannelWaits, IsTakenBackOnce) {
  wait_for(EPOLLIN);
  wait.cancel();
  EXPECT_EQ(told, 1);
  wait.cancel();
  peer->says("x");
  report();
  EXPECT_EQ(told, 1);
}

TEST(WaitingForAChannel, LeavesItUnwatched) {
  Calls calls;
  const auto peer = std::make_shared<Peer>(calls);
  ScriptedChannel channel(peer);
  { const ChannelWait wait(channel); }
  EXPECT_FALSE(peer->watched());
}

}  // namespace
}  // namespace weir::proxy::net
