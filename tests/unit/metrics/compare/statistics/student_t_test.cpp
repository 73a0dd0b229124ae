#include "metrics/compare/statistics/student_t.hpp"

#include <gtest/gtest.h>

namespace weir::metrics::compare::statistics {
namespace {

TEST(StudentT, AgreesWithScipy) {
  // scipy.stats.t.ppf(0.975, degrees), scipy 1.17.
  EXPECT_NEAR(t_two_sided(0.95, 9), 2.262157162798205, 1e-10);
  EXPECT_NEAR(t_two_sided(0.95, 13.5), 2.1522631393099103, 1e-10);
  EXPECT_NEAR(t_two_sided(0.95, 1), 12.706204736174694, 1e-10);
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
