// Suspicions: a change within the window, and hardware that is shared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Figure;
using testing::HasSubstr;

/// An hour of pairs, one every three seconds, with some noise. `change` alters both samples of a pair by its second.
template <class Change>
TwinSamples an_hour(Change change) {
  TwinSamples samples;
  for (std::uint64_t i = 0; i < 1200; ++i) {
    auto& a = samples.primary(static_cast<std::int64_t>(3 * i) * second);
    a.in_flight_mean = 3;
    a.ttft *= static_cast<float>(1 + 0.1 * uniform(i, 1));
    a.tpot *= static_cast<float>(1 + 0.1 * uniform(i, 2));
    auto& b = samples.shadow(a);
    b.ttft = a.ttft * static_cast<float>(1 + 0.02 * uniform(i, 3));
    b.tpot = a.tpot * static_cast<float>(1 + 0.02 * uniform(i, 4));
    b.in_flight_mean = 3;
    change(a, b, 3 * i);
  }
  return samples;
}
Comparison compared(TwinSamples samples) { return compare(samples, options_of(samples)); }

TEST(Suspicion, OfNothingWhereNothingIsOdd) {
  const auto found = compared(an_hour([](auto&, auto&, std::uint64_t) {}));
  for (const auto* const code : {"changed", "drift", "shared_hardware"}) EXPECT_FALSE(has_note(found, code)) << code;
  EXPECT_TRUE(found.changes.empty());
}

TEST(Suspicion, AChangeIsSaidWithItsMomentAndItsSize) {
  const auto found = compared(an_hour([](auto&, samples::Sample& b, std::uint64_t at_s) {
    if (at_s >= 900) b.tpot *= 1.1F;
  }));
  ASSERT_EQ(found.changes.size(), 1U);
  EXPECT_EQ(found.changes[0].figure, Figure::tpot);
  EXPECT_EQ(found.changes[0].since_us, 900 * second);
  EXPECT_NEAR(found.changes[0].by, 0.1, 0.003);
  EXPECT_NEAR(found.changes[0].after, 0.11, 0.003) << "b was a percent above a before";
  EXPECT_THAT(sentence_of(found, "changed"),
              HasSubstr("since 00:15:00 TPOT of fp8 beside fp16 is 10.0 % above what it was before"));
  auto other_load = an_hour([](auto&, samples::Sample& b, std::uint64_t at_s) { b.tpot *= at_s >= 900 ? 1.1F : 1; });
  auto options = options_of(other_load);
  options.same_load = false;
  EXPECT_TRUE(compare(other_load, options).changes.empty()) << "the load may have changed, and not the candidate";
  const auto both_slower = compared(an_hour([](samples::Sample& a, samples::Sample& b, std::uint64_t at_s) {
    if (at_s >= 900) a.tpot *= 1.1F, b.tpot *= 1.1F;
  }));
  EXPECT_TRUE(both_slower.changes.empty()) << "both changed alike";
}

TEST(Suspicion, APrimaryThatSlowsDownWithItsShadowSharesSomethingWithIt) {
  for (const auto& [slower, in_flight, suspected] :
       {std::tuple(1.2F, 3.0F, true), std::tuple(1.2F, 6.0F, false), std::tuple(1.05F, 3.0F, false)}) {
    auto samples = an_hour([](auto&, auto&, std::uint64_t) {});
    for (auto& sample : samples.each()) sample.tpot *= slower;
    for (int i = 0; i < 300; ++i) {
      auto& before = samples.primary((-3000 + 10 * i) * second);
      before.in_flight_mean = in_flight;
      before.tpot *= 1.05F;
    }
    const auto found = compared(std::move(samples));
    EXPECT_EQ(has_note(found, "shared_hardware"), suspected) << slower << ' ' << in_flight;
    if (suspected) {
      EXPECT_THAT(sentence_of(found, "shared_hardware"), HasSubstr("since its shadow began, at 00:00:00"));
    }
  }
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
