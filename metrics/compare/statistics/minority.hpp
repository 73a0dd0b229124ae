// Whether a minority of the requests is slower on one side, where the median is not. Of two equal sides either one is
// as likely to be the slower of a pair, so ln(b/a) is symmetric around its median, however both drift, and however long
// its tails are. A minority that is slower on one side alone makes it lopsided.
#pragma once

#include "metrics/compare/statistics/effects.hpp"
#include "metrics/compare/statistics/share_ratio.hpp"
#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::statistics {

/// Returns the factor beyond which a pair is of the minority. TTFT varies more from pair to pair than TPOT does.
constexpr double minority_factor(Metric metric) { return metric == Metric::tpot_minority ? 1.2 : 1.5; }

/// Returns in `blocks` what the minority adds to the mean of ln(b/a): the mean, over all pairs of the block, of how far
/// ln(b/a), less its median, is beyond the logarithm of the factor, up or down; no ratio counts as more than 10. `log`
/// is their mean and `estimate` has its error, which is no less than a pair more with a ratio of 10 on either side
/// would move the mean by. `a` and `b` are the shares of pairs in the window in which the side is the slower one by
/// more than the factor. The values are paired and positive, the factor is above 1.
Ratio minority(const SideValues& values, const Window& window, double factor);

}  // namespace weir::metrics::compare::statistics
