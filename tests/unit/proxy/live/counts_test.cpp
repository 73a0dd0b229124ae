#include "proxy/live/counts.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace weir::proxy::live {
namespace {

/// Beside a list of all seconds.
TEST(Minute, SumsTheLastSixtySecondsWhateverIsMissed) {
  std::mt19937 random(1);
  Minute minute;
  std::vector<double> seconds;
  for (int i = 0; i < 2000; ++i) {
    double count = 0;
    for (auto n = random() % 3; n > 0; --n) {
      const double more = random() % 1000;
      minute.add(more);
      count += more;
    }
    const std::size_t lasted = random() % 20 == 0 ? 1 + random() % 100 : 1;
    minute.end_second(lasted);
    seconds.insert(seconds.end(), lasted - 1, 0.0);
    seconds.push_back(count);
    const auto last = [&](std::size_t n) {
      const auto first = seconds.end() - static_cast<std::ptrdiff_t>(std::min(n, seconds.size()));
      return std::accumulate(first, seconds.end(), 0.0);
    };
    ASSERT_DOUBLE_EQ(minute.sum(), last(60));
    ASSERT_DOUBLE_EQ(minute.last(), count);
    ASSERT_DOUBLE_EQ(minute.per_second(), last(10) / static_cast<double>(std::min<std::size_t>(10, seconds.size())));
  }
}

TEST(Growth, TheFirstLookIsNoneAndNothingGoesBackwards) {
  Growth growth;
  EXPECT_EQ(growth.of(1000), 0);
  EXPECT_EQ(growth.of(1003), 3);
  EXPECT_EQ(growth.of(7), 0);
  EXPECT_EQ(growth.of(8), 1);
}

}  // namespace
}  // namespace weir::proxy::live
