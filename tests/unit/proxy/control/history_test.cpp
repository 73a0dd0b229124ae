// The samples that a running weir keeps have times that never go back.
#include "tests/unit/proxy/control/mirrored_history.hpp"

namespace weir::proxy::control {
namespace {

class HistoryOverAStepBack : public MirroredHistory {
 protected:
  HistoryOverAStepBack() : MirroredHistory(0) {}

  /// Adds request `i`, while the wall clock was `back` behind.
  void add_at(int i, std::chrono::seconds back) {
    change = [back](auto& primary, auto& shadow) {
      for (auto* one : {&primary, &shadow}) one->time -= back;
    };
    add(i);
  }
};

TEST_F(HistoryOverAStepBack, AShadowThatIsSwitchedOnBeforeItGetsWarmAllTheSame) {
  add_at(0, {});
  history.begin_anew("candidate", start);
  constexpr std::chrono::hours back(1);
  for (int i = 1; i < 1200; ++i) add_at(i, back);
  std::int64_t last = 0;
  for (const auto& sample : history.samples()) {
    EXPECT_GE(sample.dispatched_us, last) << "what follows lies behind what was";
    last = sample.dispatched_us;
  }
  metrics::compare::sides::Selection side{metrics::compare::sides::By::shadow, history.samples()[1].shadow,
                                          metrics::Role::shadow};
  const auto warm = history.mirrored().warm(side, {}, 600, {});
  EXPECT_LT(warm.from_us, last) << "it was warm after ten minutes";
}

}  // namespace
}  // namespace weir::proxy::control
