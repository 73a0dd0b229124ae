// Remembers what replicas of one configuration differ by, minute by minute, longer than the requests are kept: the
// noise that comparisons are judged by. The control thread uses it.
#pragma once

#include <chrono>

#include "metrics/moment.hpp"
#include "proxy/control/history.hpp"
#include "proxy/control/slow_answers.hpp"

namespace weir::proxy::control {

class CoupleWatch {
 public:
  static constexpr std::chrono::minutes every{1};
  /// Minutes that began so long ago are taken again and again until then, since their last requests end later.
  static constexpr std::chrono::minutes back{6};

  /// The arguments outlive the object.
  CoupleWatch(History& history, SlowAnswers& slow) : history_(history), slow_(slow) {}

  /// Begins to look if it is time. To be called often. It copies the requests of the last minutes.
  void tick(metrics::Moment now);

 private:
  History& history_;
  SlowAnswers& slow_;
  metrics::Moment next_{};
  bool under_way_ = false;
};

}  // namespace weir::proxy::control
