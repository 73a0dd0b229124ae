#include "proxy/compare/gate.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace weir::proxy::compare {
namespace {

using metrics::compare::comparison::State;
using metrics::compare::statistics::Finding;
using metrics::compare::statistics::Metric;

Request asking(bool worse, bool inconclusive, bool too_few) {
  Request request;
  request.fail_if_worse = worse;
  request.fail_if_inconclusive = inconclusive;
  request.fail_if_too_few = too_few;
  return request;
}

const std::vector<Judgement> fine{{Metric::tpot, Finding::better, true},
                                  {Metric::tpot, Finding::equivalent, true},
                                  {Metric::tpot, Finding::longer, true}};
const std::vector<Judgement> one_worse{{Metric::tpot, Finding::better, true}, {Metric::tpot, Finding::worse, true}};
const std::vector<Judgement> unsure{{Metric::tpot, Finding::better, true}, {Metric::tpot, Finding::inconclusive, true}};
const std::vector<Judgement> nothing{{Metric::tpot, Finding::inconclusive, false}};

TEST(Gate, FailsForWhatIsAskedAlone) {
  EXPECT_FALSE(fails(asking(true, true, true), State::final, fine));
  EXPECT_TRUE(fails(asking(true, false, false), State::final, one_worse));
  EXPECT_FALSE(fails(asking(false, true, true), State::final, one_worse));
  EXPECT_TRUE(fails(asking(false, true, false), State::final, unsure));
  EXPECT_FALSE(fails(asking(true, false, true), State::final, unsure));
  EXPECT_TRUE(fails(asking(false, false, true), State::too_few, fine));
  EXPECT_TRUE(fails(asking(false, false, true), State::running, fine));
  EXPECT_FALSE(fails(asking(true, true, false), State::too_few, fine));
}

TEST(Gate, ATailThatIsWorseCountsAndOneThatIsInconclusiveDoesNot) {
  for (const Metric tail : {Metric::ttft_tail, Metric::tpot_tail}) {
    const std::vector<Judgement> worse{{Metric::tpot, Finding::equivalent, true}, {tail, Finding::worse, true}};
    const std::vector<Judgement> unknown{{Metric::tpot, Finding::equivalent, true},
                                         {tail, Finding::inconclusive, true}};
    EXPECT_TRUE(fails(asking(true, false, false), State::final, worse));
    EXPECT_FALSE(fails(asking(true, true, true), State::final, unknown));
  }
}

TEST(Gate, WithoutBeingAskedNeverFails) {
  for (const auto& judgements : {fine, one_worse, unsure, nothing})
    EXPECT_FALSE(fails(Request{}, State::too_few, judgements));
}

TEST(Gate, DoesNotPassOnNoData) {
  for (const auto& request : {asking(true, false, false), asking(false, true, false), asking(false, false, true)}) {
    EXPECT_TRUE(fails(request, State::final, nothing));
    EXPECT_TRUE(fails(request, State::final, {}));
  }
}

}  // namespace
}  // namespace weir::proxy::compare
