#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include "proxy/net/channel.hpp"
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
  {
    const ChannelWait wait(channel);
  }
  EXPECT_FALSE(peer->watched());
}

struct Told final : Watcher {
  void ready(std::uint32_t, std::uint32_t what) override { events = what; }
  void prefetch(std::uint32_t, int) const override {}
  std::uint32_t events = 0;
};

TEST(SinkChannel, TakesAllAndBringsNothing) {
  SinkChannel sink;
  const std::array<std::string_view, 3> pieces{"ab", "", "cde"};
  EXPECT_EQ(sink.write(pieces, 0), 5);
  EXPECT_EQ(sink.write(pieces, 1), 4);
  std::array<char, 8> into;
  EXPECT_EQ(sink.read(into).size, -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(sink.ended(), Channel::Ended::no);
  EXPECT_EQ(sink.unacknowledged(), 0);
}

TEST(SinkChannel, HangsUpWhenItIsTold) {
  SinkChannel sink;
  Told told;
  sink.watch(&told);
  sink.hang_up();
  EXPECT_NE(told.events & EPOLLRDHUP, 0u);
  EXPECT_EQ(sink.ended(), Channel::Ended::broken);
  std::array<char, 8> into;
  EXPECT_EQ(sink.read(into).size, 0);
  sink.watch(nullptr);
  told.events = 0;
  sink.hang_up();
  EXPECT_EQ(told.events, 0u) << "nobody is told after watch(nullptr)";
}

}  // namespace
}  // namespace weir::proxy::net
