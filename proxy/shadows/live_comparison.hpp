// How each shadow that is on differs from its control or its primary, for /metrics: as /api/compare says it. What the
// next requests will push out of the history is added to the minutes of these comparisons, so that they are of all
// requests since their beginning. The control thread uses it; the comparing is done on the thread of slow answers.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/moment.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/live/now.hpp"
#include "proxy/shadows/history.hpp"
#include "proxy/shadows/slow_answers.hpp"

namespace weir::proxy::shadows {

class LiveComparison {
 public:
  /// A comparison is made of minutes, so figures that are so old tell the same. To copy the samples
  /// for them holds up the control thread, which accepts connections.
  static constexpr std::chrono::seconds every{15};

  /// The arguments outlive the object.
  LiveComparison(History& history, SlowAnswers& slow) : history_(history), slow_(slow) {}

  /// Begins to compare if it is time and a shadow is on that has been sent requests. A shadow that is off is not
  /// compared, but what leaves of its requests is kept. While nothing can be added to its minutes, they stay as they
  /// are, without what leaves meanwhile. To be called often.
  void tick(const fleet::Snapshot& snapshot, metrics::Moment now);

  /// Returns what the last comparison said of each shadow that is on.
  std::vector<live::ComparisonNow> latest(const fleet::Snapshot& snapshot) const;

  /// Returns what is known of the shadows that are on.
  std::vector<metrics::series::ComparisonGauges> gauges(const fleet::Snapshot& snapshot) const;

 private:
  /// The findings about a shadow that was first sent a request at `began`; a shadow that is switched on begins anew.
  struct Found {
    metrics::Moment began{};
    std::vector<metrics::series::ComparisonGauges::Effect> effects;
    std::vector<metrics::series::ComparisonGauges::Fault> faults;
    metrics::compare::pairs::Alike answers = metrics::compare::pairs::Alike::unknown;
    live::ComparisonNow row;
  };
  struct Question {
    const fleet::ShadowState* state;
    bool is_on;
    metrics::Moment began;
    metrics::compare::comparison::Options options;
    std::vector<std::optional<config::Slo>> slos;  ///< Of its pool; none is one as well.
  };
  struct Answer {
    std::map<const fleet::ShadowState*, Found> found;
    std::vector<std::shared_ptr<const metrics::compare::table::Table>> tables;
  };
  std::vector<Question> questions(const fleet::Snapshot& snapshot, metrics::compare::samples::Names& names) const;
  std::vector<metrics::compare::samples::Sample> samples_of(const fleet::Snapshot& snapshot,
                                                            metrics::compare::samples::Names& names) const;

  History& history_;
  SlowAnswers& slow_;
  metrics::Moment next_{};
  bool under_way_ = false;
  std::map<const fleet::ShadowState*, Found> found_;  ///< The pointers are only compared.
};

}  // namespace weir::proxy::shadows
