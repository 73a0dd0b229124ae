#include "proxy/net/arrival.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace weir::proxy::net {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr metrics::Moment now{2h};
constexpr nanoseconds wall = 1'790'000'000s;

TEST(MonotonicTime, IsAsLongAgoAsTheStampOnTheWallClock) {
  for (const nanoseconds age : {0ns, 1ns, 999ns, 1'500'000ns, nanoseconds(1s), nanoseconds(10s)})
    EXPECT_EQ(monotonic_of(wall - age, wall, now), now - age) << age.count();
}

TEST(MonotonicTime, IsNowWhereTheStampCannotBeBelieved) {
  const struct {
    const char* what;
    nanoseconds stamp;
  } rows[]{{"from the future: the wall clock was set back", wall + 1ns},
           {"from a far future", wall + 1000h},
           {"older than any read can wait: the wall clock was set forward", wall - 10s - 1ns},
           {"of the epoch", 0ns}};
  for (const auto& row : rows) EXPECT_EQ(monotonic_of(row.stamp, wall, now), now) << row.what;
}

TEST(StampedTime, IsAsTheStampSaysWhileTheClocksGoOnTogether) {
  StampedTime time;
  for (const auto passed : {0ns, nanoseconds(1ms), nanoseconds(5s), nanoseconds(1h)})
    EXPECT_EQ(time.of(wall + passed - 3ms, {wall + passed, now + passed}), now + passed - 3ms);
  for (int second = 0; second < 1000; ++second) {  // The wall clock is slewed as fast as it may be.
    const nanoseconds passed = 1h + second * 1s, gained = second * 500us;
    EXPECT_EQ(time.of(wall + passed + gained - 3ms, {wall + passed + gained, now + passed}), now + passed - 3ms);
  }
}

TEST(StampedTime, NeverPutsAnAnswerBeforeItsRequestWhereTheWallClockIsSet) {
  for (const nanoseconds step : {nanoseconds(20ms), nanoseconds(2s), nanoseconds(9s), -nanoseconds(2s)}) {
    StampedTime time;
    EXPECT_EQ(time.of(wall, {wall, now}), now);
    const auto sent = now + 1s, read = now + 2s + 1ms;  // The clock is set just before this read.
    EXPECT_GE(time.of(wall + 2s, {wall + 2s + 1ms + step, read}), sent) << step.count();
    EXPECT_GE(time.of(wall + 2s, {wall + 2s + 2ms + step, read + 1ms}), sent) << "another that came before";
    EXPECT_EQ(time.of(wall + 5s + step, {wall + 5s + step, now + 5s}), now + 5s) << "what comes later is right";
    EXPECT_EQ(time.of(wall + 6s + step - 3ms, {wall + 6s + step, now + 6s}), now + 6s - 3ms);
  }
}

/// Both clocks show the time since one moment. Each reading takes the next of these times, 20 ns if there are no more.
struct ScriptedClocks {
  std::vector<nanoseconds> times;
  nanoseconds passed{0};
  std::size_t read = 0;
  nanoseconds tick() { return passed += read < times.size() ? times[read++] : (++read, 20ns); }
  BothClocks both() {
    return read_both(
        now, [this] { return wall + tick(); }, [this] { return now + tick(); });
  }
};

TEST(BothClocks, AreReadOnceIfNothingCameBetween) {
  ScriptedClocks clocks;
  const auto both = clocks.both();
  EXPECT_EQ(clocks.read, 2u);
  EXPECT_EQ(both.now - now, 40ns);
  EXPECT_EQ(both.wall - wall, 20ns);
}

TEST(BothClocks, AreReadAgainIfTheThreadLostItsProcessorBetween) {
  for (const auto& times :
       {std::vector<nanoseconds>{3ms}, {20ns, 3ms}, {20ns, 3ms, 20ns, 5ms}, {6us, 20ns, 20ns, 6us}}) {
    ScriptedClocks clocks{.times = times};
    const auto both = clocks.both();
    EXPECT_LE((both.now - now) - (both.wall - wall), 5us) << times.size();
    EXPECT_GE((both.now - now) - (both.wall - wall), 0ns);
  }
}

TEST(BothClocks, NeverMakeAStampEarlierThanItIs) {
  ScriptedClocks clocks{.times = std::vector<nanoseconds>(100, 3ms)};
  const auto both = clocks.both();
  EXPECT_EQ(clocks.read, 10u) << "a thread that never gets on goes on with what it has";
  EXPECT_GE(monotonic_of(wall, both.wall, both.now), now);
}

}  // namespace
}  // namespace weir::proxy::net
