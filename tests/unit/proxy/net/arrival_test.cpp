#include "proxy/net/arrival.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weir::proxy::net
