#include "metrics/compare/statistics/student_t.hpp"

#include <boost/math/distributions/students_t.hpp>

namespace weir::metrics::compare::statistics {

double t_two_sided(double confidence, double degrees) {
  return boost::math::quantile(boost::math::complement(boost::math::students_t(degrees), (1 - confidence) / 2));
}

}  // namespace weir::metrics::compare::statistics
