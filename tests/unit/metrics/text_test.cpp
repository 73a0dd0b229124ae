#include "metrics/text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <tuple>


namespace weir::metrics {
namespace {

TEST(Format, ANumberHasItsSignUnlessAllDigitsAreZero) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::tuple<double, int, const char*> table[] = {
      {8.14, 1, "+8.1"},  {-0.31, 1, "-0.3"}, {0, 1, "0.0"},      {-0.0, 1, "0.0"},      {-0.04, 1, "0.0"},
      {0.04, 1, "0.0"},   {-0.06, 1, "-0.1"}, {-0.4, 0, "0"},     {0.4, 0, "0"},         {-10, 0, "-10"},
      {-0.004, 2, "0.00"}, {100, 2, "+100.00"}, {infinity, 1, "+inf"}, {-infinity, 1, "-inf"}};
  for (const auto& [value, digits, text] : table) EXPECT_EQ(with_sign(value, digits), text) << value;
}

TEST(Format, ASignedNumberReadsBackWithinHalfItsLastDigit) {
  std::mt19937 random(3);
  std::normal_distribution<double> any(0, 0.2);
  for (int i = 0; i < 10'000; ++i) {
    const double value = any(random);
    const int digits = i % 4;
    const auto text = with_sign(value, digits);
    const double read = std::stod(text);
    EXPECT_LE(std::abs(read - value), 0.5000001 * std::pow(10, -digits)) << text;
    EXPECT_EQ(text.front() == '-' || text.front() == '+', read != 0) << text;
    if (read != 0) EXPECT_EQ(text.front() == '-', value < 0) << text;
  }
}

TEST(Text, AMomentHasItsDigits) {
  const std::chrono::sys_time<std::chrono::microseconds> moment{std::chrono::microseconds(1'795'244'400'012'345)};
  EXPECT_EQ(timestamp(moment, 6), "2026-11-21T07:00:00.012345Z");
  EXPECT_EQ(timestamp(moment, 3), "2026-11-21T07:00:00.012Z");
  EXPECT_EQ(timestamp(moment, 0), "2026-11-21T07:00:00Z");
  EXPECT_EQ(timestamp(moment - moment.time_since_epoch() - std::chrono::microseconds(1), 6),
            "1969-12-31T23:59:59.999999Z");
}

}  // namespace
}  // namespace weir::metrics
