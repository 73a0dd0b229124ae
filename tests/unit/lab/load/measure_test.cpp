#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/load/connection.hpp"
#include "lab/load/measure.hpp"
#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::load {
namespace {

using testing::HasSubstr;

/// A request with a TTFT of 100 ms and a TPOT of 20 ms.
Tally measured() {
  Tally tally;
  tally.add(made_result({.ttft = 0.1, .gap = 0.02, .events = 3}));
  return tally;
}

OwnSpeed lagging(float usual, float late, int late_ones) {
  OwnSpeed own;
  own.cpu_share = 0.3;
  own.lags.assign(100, usual);
  for (int i = 0; i < late_ones; ++i) own.lags[static_cast<std::size_t>(i)] = late;
  return own;
}

TEST(OwnSpeed, IsNoMatterWhileItIsSmallAgainstWhatIsMeasured) {
  EXPECT_FALSE(too_slow(lagging(0.0001f, 0.0009f, 20), measured()));
  EXPECT_FALSE(too_slow(lagging(0.0001f, 0.050f, 5), measured())) << "few moments are late";
  EXPECT_FALSE(too_slow(lagging(0.0001f, 0.050f, 50), Tally())) << "nothing was measured";
  EXPECT_FALSE(too_slow({}, measured()));
}

TEST(OwnSpeed, IsWarnedOfWhenItIsWhatIsMeasured) {
  EXPECT_THAT(too_slow(lagging(0.0001f, 0.0012f, 20), measured()).value_or(""),
              HasSubstr("read answers 1.20 ms late or more, against a median TPOT of 20.00 ms"));
  OwnSpeed busy = lagging(0, 0, 0);
  busy.cpu_share = 0.85;
  EXPECT_THAT(too_slow(busy, measured()).value_or(""), HasSubstr("computed for 85 % of the time"));
  Tally refused;
  refused.add(made_result({.events = 0, .outcome = "connect"}));
  EXPECT_FALSE(too_slow(busy, refused)) << "no figure was measured";
}

TEST(OwnSpeed, HasALineInTheTable) {
  EXPECT_EQ(own_line(lagging(0.0002f, 0.003f, 1)),
            "This tool  loop lag 0.20 ms p50, 0.20 ms p95, 3.00 ms at most; 30 % of a CPU\n");
  EXPECT_EQ(own_line({}), "");
}

TEST(InFlight, IsTheMeanOverTheRequestsTime) {
  InFlight in_flight;
  const auto first = in_flight.begin(at(0));
  const auto second = in_flight.begin(at(100));
  EXPECT_EQ(first.others, 0u);
  EXPECT_EQ(second.others, 1u);
  EXPECT_NEAR(in_flight.end(second, at(200)), 2, 1e-9);
  EXPECT_NEAR(in_flight.end(first, at(400)), (4 + 1) / 4.0, 1e-9);
  const auto later = in_flight.begin(at(900));
  EXPECT_EQ(later.others, 0u);
  EXPECT_NEAR(in_flight.end(later, at(900)), 1, 1e-9) << "it took no time";
}

}  // namespace
}  // namespace weir::lab::load
