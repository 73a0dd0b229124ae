#include "metrics/compare/statistics/measured.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace weir::metrics::compare::statistics {
namespace {

TEST(StudentT, AgreesWithScipy) {
  // scipy.stats.t.ppf(0.975, degrees), scipy 1.17.
  EXPECT_NEAR(t_two_sided(0.95, 9), 2.262157162798205, 1e-10);
  EXPECT_NEAR(t_two_sided(0.95, 13.5), 2.1522631393099103, 1e-10);
  EXPECT_NEAR(t_two_sided(0.95, 1), 12.706204736174694, 1e-10);
}

TEST(Measured, AMeanHasItsTInterval) {
  const std::vector<double> values{1, 2, 3, 4, 10};
  const auto found = measured(values);
  EXPECT_DOUBLE_EQ(found->value, 4);
  // scipy.stats.t.interval(0.95, 4, loc=4, scale=scipy.stats.sem([1, 2, 3, 4, 10])).
  EXPECT_NEAR(found->interval->low, -0.389945, 1e-6);
  EXPECT_NEAR(found->interval->high, 8.389945, 1e-6);
}

TEST(Measured, OneValueHasNoInterval) {
  const std::vector<double> one{3};
  EXPECT_DOUBLE_EQ(measured(one)->value, 3);
  EXPECT_FALSE(measured(one)->interval);
  EXPECT_FALSE(measured({}));
}

TEST(Line, IsTheLeastSquaresLineWithIntervals) {
  const std::vector<double> x{0, 1, 2, 3, 4}, y{1, 3.1, 4.9, 7.2, 8.8};
  const auto found = line_through(x, y);
  // scipy.stats.linregress and t.ppf(0.975, 3).
  EXPECT_NEAR(found->slope.value, 1.97, 1e-9);
  EXPECT_NEAR(found->intercept.value, 1.06, 1e-9);
  EXPECT_NEAR(found->slope.interval->low, 1.794725, 1e-6);
  EXPECT_NEAR(found->slope.interval->high, 2.145275, 1e-6);
  EXPECT_NEAR(found->intercept.interval->low, 0.630665, 1e-6);
  EXPECT_NEAR(found->intercept.interval->high, 1.489335, 1e-6);
}

TEST(Line, NeedsPointsThatDiffer) {
  const std::vector<double> same{5, 5, 5, 5}, some{1, 2, 3, 4};
  EXPECT_FALSE(line_through(same, some));
  EXPECT_FALSE(line_through(std::span(some).first(2), std::span(some).first(2)));
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
