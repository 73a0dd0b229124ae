#include "metrics/format.hpp"

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

}  // namespace
TEST(Format, CutsNothing) {
  for (const std::size_t length : {0U, 126U, 127U, 128U, 129U, 255U, 256U, 4000U}) {
    const std::string word(length, 'x');
    EXPECT_EQ(format("%s.%d", word.c_str(), 7), word + ".7");
  }
}

}  // namespace weir::metrics
