// Whose body ends where memory is spent, and what one address holds of it.
#include "proxy/net/uploads.hpp"

#include <gtest/gtest.h>

#include "proxy/net/buffer_share.hpp"

namespace weir::proxy::net {
namespace {

struct Body final : Upload {
  Body(Uploads& all, std::uint64_t bytes_lately, std::size_t bytes_held, bool young = false)
      : lately(bytes_lately), holds(bytes_held), fresh(young) {
    all.attach(*this);
  }
  std::uint64_t recent(metrics::Moment) override { return lately; }
  std::size_t reserved() const override { return holds; }
  bool is_head() const override { return head; }
  bool is_new(metrics::Moment) const override { return fresh; }
  void give_way() override {
    ended = true;
    holds = 0;
  }
  std::uint64_t lately;
  std::size_t holds;
  bool fresh, ended = false, head = false;
};

TEST(Uploads, EndTheSlowestThatHoldsAnything) {
  Uploads all;
  Body fast(all, 1000, 10), slow(all, 10, 10), stands(all, 0, 0);
  EXPECT_TRUE(all.make_room(&fast, {}));
  EXPECT_TRUE(slow.ended);
  EXPECT_FALSE(fast.ended || stands.ended);
  EXPECT_FALSE(all.make_room(&fast, {})) << "nobody else holds anything";
  EXPECT_TRUE(all.make_room(nullptr, {}));
  EXPECT_TRUE(fast.ended);
}

TEST(Uploads, EndNoBodyWhereAHeadIsToMakeRoom) {
  Uploads all;
  Body body(all, 0, 20), head(all, 1000, 10);
  EXPECT_FALSE(all.make_room(nullptr, {}, Uploads::Of::heads));
  head.head = true;
  EXPECT_TRUE(all.make_room(nullptr, {}, Uploads::Of::heads));
  EXPECT_TRUE(head.ended && !body.ended);
}

TEST(Uploads, EndOfTwoEqualsTheOneThatHoldsMore) {
  Uploads all;
  Body little(all, 0, 10), much(all, 0, 20), some(all, 0, 15);
  EXPECT_TRUE(all.make_room(nullptr, {}));
  EXPECT_TRUE(much.ended && !little.ended && !some.ended);
}

TEST(Uploads, EndNobodyForOneThatIsSlowerItself) {
  for (const bool young : {false, true}) {
    Uploads all;
    Body slow(all, 1, 10, young), fast(all, 2, 10);
    EXPECT_EQ(all.make_room(&slow, {}), young) << "whoever has just come has had no time to be fast";
    EXPECT_EQ(fast.ended, young);
    EXPECT_FALSE(slow.ended);
  }
}

TEST(Uploads, SpareWhoHasJustComeWhileAnOlderOneHoldsAnything) {
  Uploads all;
  Body first(all, 0, 10, true), old(all, 1000, 10), second(all, 0, 20, true);
  EXPECT_TRUE(all.make_room(nullptr, {}));
  EXPECT_TRUE(old.ended);
  EXPECT_TRUE(all.make_room(nullptr, {}));
  EXPECT_TRUE(second.ended && !first.ended);
}

TEST(Uploads, ForgetThoseThatHaveGone) {
  Uploads all;
  {
    const Body gone(all, 0, 10);
    EXPECT_FALSE(all.empty());
  }
  EXPECT_TRUE(all.empty());
  EXPECT_FALSE(all.make_room(nullptr, {}));
}

TEST(SharedBudgetHold, CountsForTheBudgetAndForEachShare) {
  constexpr std::size_t step = BufferBudget::step;
  BufferBudget budget(8 * step);
  AddressShares addresses;
  const PeerAddress one{1};
  {
    SharedBudgetHold first(budget), second(budget);
    first.set(2 * step);
    first.join(addresses.of(one));
    second.join(addresses.of(one));
    second.set(3 * step);
    EXPECT_EQ(*addresses.of(one), 5 * step);
    EXPECT_EQ(second.full_share(4 * step, 6 * step), nullptr);
    EXPECT_EQ(second.full_share(5 * step, 6 * step), addresses.of(one));
    EXPECT_EQ(second.full_share(3 * step, step), nullptr) << "what is held may stay";
    EXPECT_FALSE(second.try_set(7 * step)) << "the budget has no more";
    EXPECT_EQ(*addresses.of(one), 5 * step);
    first.less(step);
    EXPECT_EQ(*addresses.of(one), 4 * step);
    auto moved = std::move(second);
    first = std::move(moved);
    EXPECT_EQ(*addresses.of(one), 3 * step);
    EXPECT_EQ(budget.used(), 3 * step);
    EXPECT_EQ(addresses.size(), 1u);
  }
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(addresses.size(), 0u);
}

}  // namespace
}  // namespace weir::proxy::net
