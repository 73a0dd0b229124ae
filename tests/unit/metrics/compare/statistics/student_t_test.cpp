#include "metrics/compare/statistics/student_t.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace weir::metrics::compare::statistics {
namespace {

// scipy.stats.t.sf(t, degrees) and .ppf(0.975, degrees), scipy 1.17.
TEST(StudentT, AgreesWithScipy) {
  struct Case {
    double t, degrees, above;
  };
  for (const auto& c : {Case{-2, 9, 0.9617235881146495},
                        {0, 9, 0.5},
                        {0.5, 9, 0.31453564991301314},
                        {1, 9, 0.1717181980689568},
                        {2.262157, 9, 0.025000006652215814},
                        {3.5, 9, 0.0033617578815294796},
                        {10, 9, 1.789118715962368e-06},
                        {40, 9, 9.491499224669911e-12},
                        {1, 1, 0.25},
                        {40, 1, 0.007956089912025812},
                        {3.5, 13.5, 0.0018575244274304334},
                        {10, 13.5, 6.456884808406882e-08},
                        {3.5, 18, 0.0012783636833857428}}) {
    EXPECT_NEAR(t_above(c.t, c.degrees), c.above, 1e-10 * c.above) << c.t << " with " << c.degrees;
  }
  EXPECT_NEAR(t_two_sided(0.95, 9), 2.262157162798205, 1e-10);
  EXPECT_NEAR(t_two_sided(0.95, 13.5), 2.1522631393099103, 1e-10);
  EXPECT_NEAR(t_two_sided(0.95, 1), 12.706204736174694, 1e-10);
}

TEST(StudentT, TheTailsAreAlikeAndInfinityIsCertain) {
  for (const double t : {0.1, 1.0, 5.0}) EXPECT_NEAR(t_above(t, 9) + t_above(-t, 9), 1, 1e-14);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(t_above(infinity, 9), 0);
  EXPECT_EQ(t_above(-infinity, 9), 1);
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
