#include "metrics/compare/statistics/student_t.hpp"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace weir::metrics::compare::statistics {

double t_above(double t, double degrees) {
  if (std::isinf(t)) return t > 0 ? 0.0 : 1.0;
  return boost::math::cdf(boost::math::complement(boost::math::students_t(degrees), t));
}

double t_two_sided(double confidence, double degrees) {
  return boost::math::quantile(boost::math::complement(boost::math::students_t(degrees), (1 - confidence) / 2));
}

}  // namespace weir::metrics::compare::statistics
