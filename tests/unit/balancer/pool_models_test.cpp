// Replicas of one pool that list different models.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "requests.hpp"

namespace weir::balancer {
namespace {

ModelList list_of(const std::vector<std::string>& names) {
  if (names.empty()) return nullptr;
  auto ids = std::make_shared<std::vector<ModelId>>();
  for (const auto& name : names) ids->push_back(model_id(name));
  std::ranges::sort(*ids);
  return ids;
}

class PoolModels : public PoolWithKeys {
 protected:
  void tell(ReplicaIndex index, const std::vector<std::string>& names) {
    pool->health().models_told(keys[index], list_of(names));
  }
  Offered offer(const std::string& model, double now, std::span<const Serial> tried = {}) {
    return place(*pool, chat_of(100, model), at(now), tried);
  }
  /// Returns the replicas that get some of twenty requests, which all end well.
  std::set<ReplicaIndex> chosen(const std::string& model, double now) {
    std::set<ReplicaIndex> found;
    for (int i = 0; i < 20; ++i) {
      Lease lease = admitted(offer(model, now));
      found.insert(lease.replica());
      lease.end(LeaseEnd(EndCause::client_left), at(now));
    }
    return found;
  }
  void answer_well(ReplicaIndex index, const std::string& model, double now) {
    send(index, chat_of(100, model), now).end(answer(10, 10), at(now));
  }
  using Set = std::set<ReplicaIndex>;
};

TEST_F(PoolModels, ARequestGoesWhereItsModelIsListed) {
  begin(3);
  EXPECT_EQ(chosen("adapter", 1), (Set{0, 1, 2})) << "no list is known";
  tell(0, {"base"});
  tell(1, {"base", "adapter"});
  EXPECT_EQ(chosen("adapter", 2), (Set{1, 2})) << "the third tells no list";
  tell(2, {"base", "other"});
  EXPECT_EQ(chosen("adapter", 3), (Set{1}));
  EXPECT_EQ(chosen("other", 3), (Set{2}));
  EXPECT_EQ(chosen("base", 3), (Set{0, 1, 2}));
  EXPECT_EQ(chosen("alias", 3), (Set{0, 1, 2})) << "no list has it";
  EXPECT_EQ(chosen("", 3), (Set{0, 1, 2}));
  tell(1, {"base"});
  EXPECT_EQ(chosen("adapter", 4), (Set{0, 1, 2}));
}

TEST_F(PoolModels, ABusyReplicaThatHasTheModelIsWaitedFor) {
  Grantees grantees;
  pool = Pool::make(config::Policy::round_robin, 1, &grantees);
  std::vector<ReplicaSpec> specs{replica("a"), replica("b")};
  specs[0].max_in_flight = 1;
  pool->set_replicas(specs, at(0));
  keys = {pool->figures().key(0), pool->figures().key(1)};
  tell(0, {"base", "adapter"});
  tell(1, {"base"});
  Lease first = admitted(offer("adapter", 1));
  const auto facts = shared(chat_of(100, "adapter"));
  const PlacementRequest placement{.facts = facts, .waiter = named("second")};
  EXPECT_TRUE(std::holds_alternative<Waiting>(pool->offer(placement, at(1))));
  EXPECT_EQ(admitted(pool->offer({.facts = shared(chat_of(100, "base")), .waiter = named("third")}, at(1))).replica(),
            1u);
  first.end(answer(10, 10), at(2));
  auto [who, lease] = grantees.take();
  EXPECT_EQ(who, "second");
  EXPECT_EQ(lease.replica(), 0u);
}

TEST_F(PoolModels, WhileThoseThatHaveTheModelAreOutTheOthersAreTried) {
  begin(3);
  tell(0, {"base", "adapter"});
  tell(1, {"base"});
  tell(2, {"base"});
  for (int i = 0; i < 3; ++i) pool->health().report(keys[0], Sign::probe_failed, at(1));
  EXPECT_EQ(chosen("adapter", 1), (Set{1, 2}));
  answer_well(1, "adapter", 1);
  pool->health().report(keys[0], Sign::probe_passed, at(2));
  EXPECT_EQ(chosen("adapter", 2), (Set{0, 1})) << "one of them has shown that it has the model";
  tell(1, {"base", "other"});
  EXPECT_EQ(chosen("adapter", 3), (Set{0}));
}

TEST_F(PoolModels, AnAnswerToAModelThatNobodyListsDrawsNothing) {
  begin(2);
  tell(0, {"llama-a"});
  tell(1, {"llama-b"});
  answer_well(0, "gpt-4", 1);
  EXPECT_EQ(chosen("gpt-4", 1), (Set{0, 1}));
}

TEST_F(PoolModels, AModelThatWasUnloadedSinceTheListWasReadIsSoughtElsewhere) {
  begin(2);
  tell(0, {"base", "adapter"});
  tell(1, {"base"});
  PlacementRequest placement{.facts = shared(chat_of(100, "adapter"))};
  placement.caller = {.client = 7, .topic = topic_of("adapter", "chat")};
  Caller refused = placement.caller;
  refused.status = 400;
  pool->health().report(keys[0], Sign::client_error, at(1), {}, refused);
  placement.tried = {keys[0].serial};
  EXPECT_EQ(admitted(pool->offer(placement, at(1))).replica(), 0u) << "the request is wrong";
  refused.status = 404;
  pool->health().report(keys[0], Sign::client_error, at(2), {}, refused);
  EXPECT_EQ(admitted(pool->offer(placement, at(2))).replica(), 1u);
  pool->health().report(keys[0], Sign::outdone, at(2), {}, refused);
  EXPECT_EQ(admitted(pool->offer(placement, at(3))).replica(), 1u);
  EXPECT_EQ(admitted(pool->offer(placement, at(13))).replica(), 0u) << "the list still says so";
}

TEST_F(PoolModels, ARequestThatWasNotFoundGoesToAReplicaThatAnswersSuch) {
  begin(4);
  PlacementRequest placement{.facts = shared(chat_of(100, "adapter"))};
  placement.caller = {.client = 7, .topic = topic_of("adapter", "chat")};
  Caller refused = placement.caller;
  refused.status = 404;
  const auto next = [&](double now) {
    Set found;
    for (int i = 0; i < 20; ++i) found.insert(admitted(pool->offer(placement, at(now))).replica());
    return found;
  };
  pool->health().report(keys[2], Sign::answered, at(1), {}, placement.caller);
  EXPECT_EQ(next(1), (Set{0, 1, 2, 3}));
  placement.tried = {keys[0].serial};
  EXPECT_EQ(next(1), (Set{1, 2, 3})) << "it may have failed";
  pool->health().report(keys[0], Sign::client_error, at(1), {}, refused);
  EXPECT_EQ(next(1), (Set{2}));
  EXPECT_EQ(next(62), (Set{1, 2, 3})) << "a minute later";
  pool->health().report(keys[2], Sign::answered, at(62), {}, placement.caller);
  refused.status = 401;
  pool->health().report(keys[0], Sign::client_error, at(62), {}, refused);
  EXPECT_EQ(next(62), (Set{2})) << "another kind of refusal";
}

TEST_F(PoolModels, ARefusedRequestRatherGoesWhereSuchWereNotRefused) {
  begin(4);
  PlacementRequest placement{.facts = shared(chat_of(100, "adapter"))};
  placement.caller = {.client = 7, .topic = topic_of("adapter", "chat")};
  Caller refused = placement.caller;
  refused.status = 404;
  for (const std::size_t replica : {0U, 1U}) pool->health().report(keys[replica], Sign::client_error, at(1), {}, refused);
  placement.tried = {keys[0].serial};
  Set found;
  for (int i = 0; i < 20; ++i) found.insert(admitted(pool->offer(placement, at(1))).replica());
  EXPECT_EQ(found, (Set{2, 3}));
}

TEST_F(PoolModels, ASideOfASplitThatLacksTheModelGivesItsRequestsAway) {
  std::vector<ReplicaSpec> specs{replica("a"), replica("b")};
  specs[1].candidate = true;
  pool = pool_of(specs, config::Policy::round_robin);
  keys = {pool->figures().key(0), pool->figures().key(1)};
  pool->set_split(1.0, at(0));
  EXPECT_EQ(chosen("adapter", 1), (Set{1}));
  tell(0, {"base", "adapter"});
  tell(1, {"base"});
  EXPECT_EQ(chosen("adapter", 1), (Set{0}));
  EXPECT_EQ(chosen("base", 1), (Set{1}));
}

TEST_F(PoolModels, AReplicaThatLeavesTakesItsListWithIt) {
  begin(2);
  tell(0, {"base", "adapter"});
  tell(1, {"base"});
  EXPECT_EQ(chosen("adapter", 1), (Set{0}));
  const std::vector<ReplicaSpec> rest{replica("b")};
  pool->set_replicas(rest, at(2));
  EXPECT_EQ(chosen("adapter", 2), (Set{1}));
  begin(2);
  EXPECT_EQ(chosen("adapter", 3), (Set{0, 1})) << "a new pool";
}

/// Replicas load and unload models, are read at random, and go out and come back. Beside the pool stands a model of the
/// rule in ten lines.
TEST_F(PoolModels, NoRequestGoesToAReplicaThatLacksItsModelWhileOneThatHasItIsIn) {
  const std::vector<std::string> names{"base", "one", "two", "three"};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    constexpr std::size_t replicas = 4;
    begin(replicas);
    std::vector<std::set<std::string>> read(replicas);
    std::vector<std::set<std::string>> shown(replicas);  // By answers, since the list changed.
    std::vector<bool> out(replicas);
    std::size_t by_list = 0, outs = 0;
    for (int i = 0; i < 3000; ++i) {
      const double now = 1 + i * 0.01;
      const auto index = static_cast<ReplicaIndex>(below(replicas));
      switch (below(8)) {
        case 0: {
          std::set<std::string> list;
          if (below(4) > 0)
            for (const auto& name : names)
              if (name == "base" || below(3) == 0) list.insert(name);
          if (list != read[index]) shown[index].clear();
          read[index] = list;
          tell(index, {list.begin(), list.end()});
          break;
        }
        case 1:
          out[index] = !out[index];
          for (int n = 0; n < 3; ++n)
            pool->health().report(keys[index], out[index] ? Sign::probe_failed : Sign::probe_passed, at(now));
          break;
        default: {
          const auto& model = below(8) == 0 ? std::string("alias") : names[below(names.size())];
          const auto lists = [&](ReplicaIndex r) { return read[r].contains(model); };
          const auto lacks = [&](ReplicaIndex r) { return !read[r].empty() && !lists(r) && !shown[r].contains(model); };
          std::set<ReplicaIndex> in, wanted;
          for (ReplicaIndex r = 0; r < replicas; ++r)
            if (!out[r]) in.insert(r);
          const bool on_a_list = lists(0) || lists(1) || lists(2) || lists(3);
          for (const ReplicaIndex r : in)
            if (!on_a_list || !lacks(r)) wanted.insert(r);
          Lease lease = admitted(offer(model, now));
          const ReplicaIndex got = lease.replica();
          if (!wanted.empty()) EXPECT_TRUE(wanted.contains(got)) << "seed " << seed << ", step " << i;
          by_list += wanted.size() < in.size() ? 1 : 0;
          outs += wanted.empty() ? 1 : 0;
          if (below(3) == 0) {
            if (!read[got].empty()) shown[got].insert(model);
            lease.end(answer(10, 10), at(now));
          }
        }
      }
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(by_list, 300u) << seed;
    EXPECT_GT(outs, 10u) << seed;
  }
}

}  // namespace
}  // namespace weir::balancer
