// Requests that are tied to a replica: by state that lies there, by a name that their client made up, or by a session.
#include <map>
#include <set>

#include "metrics/vocabulary.hpp"
#include "pool_queue.hpp"

namespace weir::balancer {
namespace {

std::uint64_t identity(const std::string& replica) { return metrics::hash_of_name(replica); }
Ties home_at(const std::string& replica) { return {.home = identity(replica)}; }

class PoolTies : public PoolQueue {
 protected:
  Offered offer_tied(const Ties& ties, double now, const std::string& name = "", std::vector<Serial> tried = {},
                     std::uint64_t lot = 0) {
    PlacementRequest placement{shared(prompt_of(10)), tried};
    placement.ties = ties;
    placement.lot = lot;
    if (!name.empty()) placement.waiter = named(name);
    return pool->offer(placement, at(now));
  }
  ReplicaIndex goes_to(const Ties& ties, std::vector<Serial> tried = {}, std::uint64_t lot = 0) {
    return admitted(offer_tied(ties, 1, "", std::move(tried), lot)).replica();
  }
  Serial serial(ReplicaIndex index) { return pool->figures().key(index).serial; }
  void go_down(ReplicaIndex index) { pool->health().report(pool->figures().key(index), Sign::probe_refused, at(1)); }
  void begin_four() { begin({replica("a"), replica("b"), replica("c"), replica("d")}); }
};

TEST_F(PoolTies, ARequestForStateGoesToItsHomeHoweverBusyThatIs) {
  begin_four();
  std::vector<Lease> held;
  for (int i = 0; i < 20; ++i) {
    held.push_back(admitted(offer_tied(home_at("c"), 1)));
    EXPECT_EQ(held.back().replica(), 2u);
  }
  EXPECT_EQ(goes_to(home_at("c"), {serial(2)}), 2u) << "nobody else has the state, so it comes back";
}

TEST_F(PoolTies, ARequestForStateWaitsForItsHome) {
  begin({places("a", 1), places("b", 1)}, queue_of(10));
  Lease at_home = admitted(offer_tied(home_at("a"), 1));
  ASSERT_TRUE(std::holds_alternative<Waiting>(offer_tied(home_at("a"), 1, "second")));
  Lease other = admit({"other"}, 1);
  EXPECT_EQ(other.replica(), 1u) << "no other request waits for that";
  answered(std::move(other), 2);
  EXPECT_TRUE(sink.all.empty());
  answered(std::move(at_home), 3);
  auto [name, lease] = sink.take();
  EXPECT_EQ(name, "second");
  EXPECT_EQ(lease.replica(), 0u);
}

/// All are of one key and one size: they would stand in one group of the queue.
TEST_F(PoolTies, ARequestThatWaitsForItsHomeBlocksNoOther) {
  begin({places("a", 1), places("b", 1)}, queue_of(10));
  const Lease at_home = admitted(offer_tied(home_at("a"), 1));
  Lease other = admit({"other"}, 1);
  for (const auto* const name : {"first", "second", "third"})
    ASSERT_TRUE(std::holds_alternative<Waiting>(offer_tied(home_at("a"), 1, name)));
  ASSERT_TRUE(std::holds_alternative<Waiting>(offer_tied({}, 1, "anywhere")));
  answered(std::move(other), 2);
  EXPECT_EQ(sink.take().first, "anywhere");
}

TEST_F(PoolTies, ARequestForStateGoesAnywhereWhereItsHomeIsAway) {
  begin_four();
  go_down(2);
  EXPECT_NE(goes_to(home_at("c")), 2u);
  begin_four();
  for (const std::uint64_t client : {1U, 2U, 3U, 4U, 5U})
    pool->health().report(pool->figures().key(2), Sign::failed, at(1), {}, {.client = client, .topic = 1});
  ASSERT_EQ(pool->health().of(pool->figures().key(2), at(1)).state, ReplicaState::ejected);
  EXPECT_EQ(goes_to(home_at("c")), 2u) << "it may answer, and nobody else can";
  EXPECT_NE(goes_to(home_at("c"), {serial(2)}), 2u);
  begin_four();
  auto drains = replica("c");
  drains.draining = true;
  pool->set_replicas(std::vector{replica("a"), replica("b"), drains}, at(1));
  EXPECT_LT(goes_to(home_at("c")), 2u);
  begin_four();
  EXPECT_LT(goes_to(home_at("no such replica")), 4u);
}

TEST_F(PoolTies, AHomeStaysWhereReplicasComeAndGo) {
  begin_four();
  pool->set_replicas(std::vector{replica("d"), replica("e"), replica("c")}, at(1));
  EXPECT_EQ(pool->figures().load(goes_to(home_at("c")), at(1)).name, "c");
  EXPECT_TRUE(pool->figures().has(identity("c")));
  EXPECT_FALSE(pool->figures().has(identity("a")));
}

TEST_F(PoolTies, ARequestThatSeeksNeverGoesBack) {
  begin({places("a", 1), replica("b")}, queue_of(10));
  const Lease busy = admitted(offer_tied(home_at("a"), 1));
  EXPECT_EQ(goes_to({}, {serial(1)}), 1u) << "others rather go back than wait";
  EXPECT_TRUE(std::holds_alternative<Waiting>(offer_tied({.seeks = true}, 1, "seeks", {serial(1)})));
  EXPECT_EQ(goes_to({.seeks = true}, {serial(0)}), 1u);
}

TEST_F(PoolTies, ANameOfAClientHasOneReplicaWhateverItsLoad) {
  begin_four();
  std::vector<Lease> held;
  std::set<ReplicaIndex> used;
  for (std::uint64_t name = 1; name <= 40; ++name) {
    const ReplicaIndex first = goes_to({.pin = name});
    used.insert(first);
    for (int i = 0; i < 5; ++i) {
      held.push_back(admitted(offer_tied({.pin = name}, 1)));
      ASSERT_EQ(held.back().replica(), first);
    }
  }
  EXPECT_EQ(used.size(), 4u);
  const ReplicaIndex first = goes_to({.pin = 7});
  go_down(first);
  const ReplicaIndex second = goes_to({.pin = 7});
  EXPECT_NE(second, first);
  EXPECT_EQ(goes_to({.pin = 7}), second);
}

TEST_F(PoolTies, ANameOfAClientHasItsReplicaAmongThoseThatCanAnswer) {
  const auto all_go_to_b = [&] {
    for (std::uint64_t name = 1; name <= 40; ++name)
      if (goes_to({.pin = name}) != 1) return false;
    return true;
  };
  begin({replica("a"), replica("b")});
  EXPECT_FALSE(all_go_to_b());
  EngineLimits sleeps;
  sleeps.asleep = true;
  pool->health().engine_told(pool->figures().key(0), sleeps);
  EXPECT_TRUE(all_go_to_b()) << "the other one sleeps";
  auto too_short = replica("a");
  too_short.max_context = 5;
  too_short.max_context_refuses = true;
  begin({too_short, replica("b")});
  EXPECT_TRUE(all_go_to_b()) << "the other one's context is too short";
  begin({replica("a"), replica("b")});
  const std::string model = prompt_of(10).model;
  ASSERT_FALSE(model.empty());
  const auto list = [](ModelId id) { return std::make_shared<const std::vector<ModelId>>(1, id); };
  pool->health().models_told(pool->figures().key(0), list(model_id("another")));
  pool->health().models_told(pool->figures().key(1), list(model_id(model)));
  EXPECT_TRUE(all_go_to_b()) << "the other one lacks the model";
}

/// Clients make up names.
TEST_F(PoolTies, WaitingNamesAreFewGroups) {
  auto a = places("a", 1), b = places("b", 1);
  begin({a, b, places("c", 1)}, queue_of(1000));
  std::vector<Lease> held;
  for (int i = 0; i < 3; ++i) held.push_back(admitted(offer_tied({}, 1)));
  for (std::uint64_t name = 1; name <= 300; ++name)
    ASSERT_TRUE(std::holds_alternative<Waiting>(offer_tied({.pin = name}, 1, std::to_string(name))));
  std::size_t granted = 0;
  for (Lease& lease : held) {
    answered(std::move(lease), 2);
    granted += sink.all.size();
  }
  EXPECT_GE(granted, 3u) << "each of a free replica's";
}

TEST_F(PoolTies, ASessionStaysWhileLoadIsEven) {
  begin_four();
  std::map<std::uint64_t, ReplicaIndex> first;
  for (std::uint64_t session = 1; session <= 200; ++session)
    first[session] = goes_to({.session = session * 0x9e3779b9});
  std::map<ReplicaIndex, int> counts;
  for (const auto& [session, index] : first) {
    EXPECT_EQ(goes_to({.session = session * 0x9e3779b9}), index);
    ++counts[index];
  }
  for (const auto& [index, count] : counts) EXPECT_GT(count, 25) << index;
  pool->set_replicas(std::vector{replica("a"), replica("b"), replica("c"), replica("d"), replica("e")}, at(1));
  pool->health().take_changes(at(1));
  int moved = 0;
  for (const auto& [session, index] : first) {
    const ReplicaIndex now = goes_to({.session = session * 0x9e3779b9});
    if (now == index) continue;
    EXPECT_EQ(now, 4u);
    ++moved;
  }
  EXPECT_LE(moved, 200 / 5 + 20);
}

/// One session with everything: nobody gets more than a quarter above its share, and one more.
TEST_F(PoolTies, ASessionGoesOnWhereItsReplicaHasMoreThanItsShare) {
  begin_four();
  std::vector<Lease> held;
  std::map<ReplicaIndex, int> counts;
  for (int i = 0; i < 80; ++i) {
    held.push_back(admitted(offer_tied({.session = 5}, 1)));
    ++counts[held.back().replica()];
  }
  for (const auto& [index, count] : counts) EXPECT_LE(count, 1.25 * 80 / 4 + 2) << index;
  EXPECT_EQ(counts.size(), 4u);
  held.clear();
  const ReplicaIndex first = goes_to({.session = 5});
  const Lease one = admitted(offer_tied({.session = 5}, 1));
  EXPECT_EQ(one.replica(), first);
  EXPECT_EQ(goes_to({.session = 5}), first) << "two of one session are no load";
}

TEST_F(PoolTies, ASessionTakesItsNextReplicaWhereItsFirstIsFullOrOut) {
  begin({places("a", 1), places("b", 1), places("c", 1)}, queue_of(10));
  Lease first = admitted(offer_tied({.session = 5}, 1));
  Lease second = admitted(offer_tied({.session = 5}, 1, "second"));
  EXPECT_NE(second.replica(), first.replica()) << "a session waits for nobody";
  const ReplicaIndex next = second.replica(), gone = first.replica();
  answered(std::move(first), 2), answered(std::move(second), 2);
  go_down(gone);
  EXPECT_EQ(goes_to({.session = 5}), next);
}

TEST_F(PoolTies, StateIsOnItsSideOfASplitAndASessionStaysOnOne) {
  auto candidate = replica("c");
  candidate.candidate = true;
  begin({replica("a"), replica("b"), candidate});
  pool->set_split(0.5, at(0));
  constexpr std::uint64_t low = 1, high = ~std::uint64_t{0};
  for (const std::uint64_t lot : {low, high}) {
    EXPECT_EQ(goes_to(home_at("c"), {}, lot), 2u);
    EXPECT_EQ(goes_to(home_at("a"), {}, lot), 0u);
  }
  for (std::uint64_t session = 1; session < 20; ++session) {
    EXPECT_EQ(goes_to({.session = session}, {}, low), 2u);
    EXPECT_LT(goes_to({.session = session}, {}, high), 2u);
    EXPECT_EQ(goes_to({.pin = session}, {}, low), 2u);
    EXPECT_LT(goes_to({.pin = session}, {}, high), 2u);
  }
  RequestFacts facts = prompt_of(10);
  facts.conversation = high;
  PlacementRequest placement{shared(facts)};
  placement.lot = low;
  EXPECT_EQ(admitted(pool->offer(placement, at(1))).replica(), 2u) << "a lot comes before the conversation";
}

}  // namespace
}  // namespace weir::balancer
