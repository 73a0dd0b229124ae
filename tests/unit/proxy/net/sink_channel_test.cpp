#include "proxy/net/sink_channel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string_view>

namespace weir::proxy::net {
namespace {

struct Told final : Watcher {
  void ready(std::uint32_t tag, std::uint32_t what) override {
    last_tag = tag;
    events = what;
  }
  void prefetch(std::uint32_t, int) const override {}
  std::uint32_t last_tag = 0, events = 0;
};

TEST(SinkChannel, TakesAllAndBringsNothing) {
  SinkChannel sink;
  const std::array<std::string_view, 3> pieces{"ab", "", "cde"};
  EXPECT_EQ(sink.write(pieces, 0), 5);
  EXPECT_EQ(sink.write(pieces, 1), 4);
  std::array<char, 8> into;
  EXPECT_EQ(sink.read(into).size, -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_FALSE(sink.hung_up());
  EXPECT_EQ(sink.unacknowledged(), 0);
}

TEST(SinkChannel, HangsUpWhenItIsTold) {
  SinkChannel sink;
  Told told;
  sink.attach(told, 7);
  sink.hang_up();
  EXPECT_EQ(told.last_tag, 7u);
  EXPECT_NE(told.events & EPOLLRDHUP, 0u);
  EXPECT_TRUE(sink.hung_up());
  std::array<char, 8> into;
  EXPECT_EQ(sink.read(into).size, 0);
  sink.detach();
  told.events = 0;
  sink.hang_up();
  EXPECT_EQ(told.events, 0u) << "nobody is told after detach";
}

}  // namespace
}  // namespace weir::proxy::net
