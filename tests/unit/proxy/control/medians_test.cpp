// The medians of what ended lately, by replica.
#include "proxy/control/medians.hpp"

#include <gtest/gtest.h>

#include "metrics/compare/sides/side.hpp"
#include "tests/unit/proxy/control/mirrored_history.hpp"

namespace weir::proxy::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class MediansOf : public MirroredHistory {
 protected:
  void answer(const std::string& replica, milliseconds ttft, metrics::Moment now,
              metrics::Outcome outcome = metrics::Outcome::ok) {
    auto record = primary_of(0);
    record.shadows = 0;
    record.replica = replica;
    record.answer.first_token = start + ttft;
    record.outcome = outcome;
    finished.put(std::move(record));
    recent.take(finished, now);
  }

  History recent{log};
};

TEST_F(MediansOf, ReplicasAreTakenApart) {
  for (const int ms : {100, 300, 200}) answer("gpu0", milliseconds(ms), start);
  for (const int ms : {500, 700}) answer("gpu1", milliseconds(ms), start);
  const Medians medians(recent, start);
  EXPECT_NEAR(*medians.of("chat", "gpu0").ttft, 0.2, 1e-6);
  EXPECT_NEAR(*medians.of("chat", "gpu1").ttft, 0.6, 1e-6);
  EXPECT_NEAR(*medians.of("chat", "gpu0").tpot, 0.8 / 19, 1e-6);
  EXPECT_EQ(medians.of("chat", "gpu2").ttft, std::nullopt);
  EXPECT_EQ(medians.of("other", "gpu0").ttft, std::nullopt);
}

TEST_F(MediansOf, WhatEndedEarlierDoesNotCount) {
  answer("gpu0", milliseconds(900), start);
  answer("gpu0", milliseconds(100), start + Medians::window);
  EXPECT_NEAR(*Medians(recent, start + Medians::window).of("chat", "gpu0").ttft, 0.5, 1e-6);
  EXPECT_NEAR(*Medians(recent, start + Medians::window + seconds(1)).of("chat", "gpu0").ttft, 0.1, 1e-6);
  EXPECT_EQ(Medians(recent, start + 3 * Medians::window).of("chat", "gpu0").ttft, std::nullopt);
}

TEST_F(MediansOf, AFailureHasATimeToItsFirstTokenAndNoTpot) {
  answer("gpu0", milliseconds(300), start, metrics::Outcome::upstream_reset);
  const Medians medians(recent, start);
  EXPECT_NEAR(*medians.of("chat", "gpu0").ttft, 0.3, 1e-6);
  EXPECT_EQ(medians.of("chat", "gpu0").tpot, std::nullopt);
}

TEST_F(MediansOf, AShadowsReplicaAreThoseOfReports) {
  std::vector<const metrics::compare::samples::Sample*> shadows;
  for (const auto& sample : history.samples())
    if (sample.role == metrics::Role::shadow) shadows.push_back(&sample);
  const auto reported = metrics::compare::sides::describe("fp8", metrics::Role::shadow, shadows, history.names(), {});
  const auto shown = Medians(history, start).of("chat:shadow", "cand0");
  EXPECT_EQ(shown.ttft, reported.ttft.p50);
  EXPECT_EQ(shown.tpot, reported.tpot.p50);
  EXPECT_NEAR(*shown.ttft, 0.122, 1e-6);
}

}  // namespace
}  // namespace weir::proxy::control
