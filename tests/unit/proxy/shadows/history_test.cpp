// The samples that a running weir keeps have times that never go back.
#include "tests/unit/proxy/shadows/mirrored_history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "proxy/shadows/history.hpp"

namespace weir::proxy::shadows {
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

// A shadow's record waits for its primary's or finds it, is told what the two have in common, and is never lost.

namespace {

using metrics::Moment;
using metrics::record::Fingerprint;
using metrics::record::RequestRecord;
using std::chrono::minutes;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Fingerprint says(std::uint64_t hash) {
  Fingerprint made;
  made.text_known = made.calls_known = true;
  made.text = {hash, 10, {}};
  return made;
}

RequestRecord primary(const std::string& id, std::uint32_t shadows = 1, std::uint64_t hash = 1) {
  RequestRecord record;
  record.id = id;
  record.shadows = shadows;
  record.answer.fingerprint = says(hash);
  return record;
}

RequestRecord shadow(const std::string& pair, std::uint64_t hash = 1) {
  RequestRecord record;
  record.role = metrics::Role::shadow;
  record.id = "s" + pair;
  record.mirrored.make().pair = pair;
  record.answer.fingerprint = says(hash);
  return record;
}

const Moment start{};

TEST(Pairs, JoinWhicheverComesFirst) {
  Pairs pairs;
  EXPECT_THAT(pairs.primary(primary("a"), start), IsEmpty());
  const auto joined = pairs.shadow(shadow("a"), start);
  ASSERT_THAT(joined, SizeIs(1));
  EXPECT_TRUE(joined[0].mirrored->joined);
  EXPECT_EQ(joined[0].mirrored->same_text, true);

  EXPECT_THAT(pairs.shadow(shadow("b", 2), start), IsEmpty());
  const auto other = pairs.primary(primary("b"), start);
  ASSERT_THAT(other, SizeIs(1));
  EXPECT_TRUE(other[0].mirrored->joined);
  EXPECT_EQ(other[0].mirrored->same_text, false);
  EXPECT_EQ(pairs.size(), 0u) << "nothing stays of what has met";
}

TEST(Pairs, APrimaryMayHaveSeveralShadows) {
  Pairs pairs;
  EXPECT_THAT(pairs.shadow(shadow("a"), start), IsEmpty());
  EXPECT_THAT(pairs.primary(primary("a", 3), start), SizeIs(1));
  EXPECT_THAT(pairs.shadow(shadow("a"), start), SizeIs(1));
  EXPECT_EQ(pairs.size(), 1u);
  EXPECT_THAT(pairs.shadow(shadow("a"), start), SizeIs(1));
  EXPECT_EQ(pairs.size(), 0u);
}

TEST(Pairs, ADroppedShadowIsJoinedAndComparedWithNothing) {
  Pairs pairs;
  EXPECT_THAT(pairs.primary(primary("a"), start), IsEmpty());
  auto dropped = shadow("a");
  dropped.mirrored.make().drop_reason = "behind";
  const auto joined = pairs.shadow(dropped, start);
  ASSERT_THAT(joined, SizeIs(1));
  EXPECT_TRUE(joined[0].mirrored->joined);
  EXPECT_FALSE(joined[0].mirrored->same_text);
}

TEST(Pairs, AShadowWithoutAPrimaryIsToldSoAfterTenMinutes) {
  Pairs pairs;
  pairs.shadow(shadow("a"), start);
  EXPECT_THAT(pairs.take_missing(start + minutes(10) - std::chrono::seconds(1)), IsEmpty());
  const auto missing = pairs.take_missing(start + minutes(10));
  ASSERT_THAT(missing, SizeIs(1));
  EXPECT_FALSE(missing[0].mirrored->joined);
  EXPECT_THAT(pairs.take_missing(start + minutes(20)), IsEmpty()) << "once";
  EXPECT_EQ(pairs.size(), 0u);
}

TEST(Pairs, APrimaryWithoutItsShadowIsForgotten) {
  Pairs pairs;
  pairs.primary(primary("a"), start);
  EXPECT_THAT(pairs.take_missing(start + minutes(10)), IsEmpty());
  EXPECT_EQ(pairs.size(), 0u);
}

TEST(Pairs, TheOldestMakesRoom) {
  Pairs pairs;
  for (std::size_t i = 0; i <= Pairs::most; ++i) pairs.shadow(shadow(std::to_string(i)), start);
  EXPECT_EQ(pairs.size(), Pairs::most);
  const auto missing = pairs.take_missing(start);
  ASSERT_THAT(missing, SizeIs(1));
  EXPECT_EQ(missing[0].mirrored->pair, "0");
}

}  // namespace
}  // namespace weir::proxy::shadows
