#include "balancer/eligibility.hpp"

#include "requests.hpp"

namespace weir::balancer {
namespace {

/// Replicas that may still take a request.
struct Row {
  const char* what;
  std::vector<ReplicaView> replicas;
  Demand demand;
  Eligibility eligibility;
  std::vector<ReplicaIndex> left;
};
/// The same for a request whose prompt is short.
struct HealthRow {
  const char* what;
  std::vector<ReplicaView> replicas;
  std::vector<ReplicaIndex> left;
  bool panic;
};

Narrowed expect_left(const char* what, std::vector<ReplicaView> replicas, const Demand& demand,
                     const std::vector<ReplicaIndex>& expected) {
  const Narrowed narrowed = narrow(replicas, demand);
  std::vector<ReplicaIndex> left;
  for (const ReplicaView& one : replicas) left.push_back(one.index);
  EXPECT_EQ(left, expected) << what;
  return narrowed;
}

template <class Change>
ReplicaView changed(ReplicaIndex index, Change change) {
  ReplicaView s;
  s.index = index;
  change(s);
  return s;
}
ReplicaView plain(ReplicaIndex index) {
  return changed(index, [](ReplicaView&) {});
}
ReplicaView full(ReplicaIndex index) {
  return changed(index, [](ReplicaView& s) { s.in_flight = 8, s.max_in_flight = 8; });
}
ReplicaView tried(ReplicaIndex index) {
  return changed(index, [](ReplicaView& s) { s.tried = true; });
}
ReplicaView context(ReplicaIndex index, Tokens tokens) {
  return changed(index, [&](ReplicaView& s) { s.max_context = tokens; });
}
ReplicaView longest(ReplicaIndex index, Tokens tokens) {
  return changed(index, [&](ReplicaView& s) { s.longest_prompt = tokens; });
}
ReplicaView kv(ReplicaIndex index, Tokens resident, std::uint32_t in_flight) {
  return changed(index, [&](ReplicaView& s) { s.kv_tokens = 1000, s.resident = resident, s.in_flight = in_flight; });
}

ReplicaView refusing(ReplicaIndex index) {
  return changed(index, [](ReplicaView& s) { s.refuses = s.out = true; });
}
ReplicaView out(ReplicaIndex index) {
  return changed(index, [](ReplicaView& s) { s.out = true; });
}
ReplicaView out_of_room(ReplicaIndex index) {
  return changed(index, [](ReplicaView& s) { s.full = true; });
}
ReplicaView suspect(ReplicaIndex index) {
  return changed(index, [](ReplicaView& s) { s.suspected = true; });
}
ReplicaView asleep(ReplicaIndex index) {
  return changed(index, [](ReplicaView& s) { s.asleep = true; });
}
ReplicaView lacking(ReplicaIndex index) {
  return changed(index, [](ReplicaView& s) { s.lacks_model = true; });
}
ReplicaView in_start(ReplicaIndex index, Tokens held, Tokens allowance, std::uint32_t in_flight = 1) {
  return changed(index, [&](ReplicaView& s) {
    s.prefill_left = held;
    s.allowance = allowance;
    s.in_flight = in_flight;
  });
}

TEST(Eligibility, OneThatIsNotWellGivesWayToOneThatIsBetterOff) {
  const HealthRow rows[] = {
      {"refuses", {refusing(0), plain(1)}, {1}, false},
      {"all refuse", {refusing(0), refusing(1)}, {0, 1}, true},
      {"is out", {out(0), plain(1)}, {1}, false},
      {"all are out", {out(0), out(1)}, {0, 1}, true},
      {"out before refusing", {refusing(0), out(1)}, {1}, true},
      {"tried before refusing", {refusing(0), tried(1)}, {1}, false},
      {"out before tried", {out(0), tried(1)}, {0}, true},
      {"full", {out_of_room(0), plain(1)}, {1}, false},
      {"all are full", {out_of_room(0), out_of_room(1)}, {0, 1}, false},
      {"full before out", {out_of_room(0), out(1)}, {0}, false},
      {"starts, and holds just what it may", {in_start(0, 90, 100), plain(1)}, {0, 1}, false},
      {"starts, and would hold more", {in_start(0, 91, 100), plain(1)}, {1}, false},
      {"starts with its one request", {in_start(0, 0, 0, 0), plain(1)}, {0, 1}, false},
      {"suspected", {suspect(0), plain(1)}, {1}, false},
      {"all are suspected", {suspect(0), suspect(1)}, {0, 1}, false},
      {"suspected before out", {suspect(0), out(1)}, {0}, false},
      {"suspected before full", {suspect(0), out_of_room(1)}, {0}, false},
      {"suspected before tried", {suspect(0), tried(1)}, {0}, false},
      {"suspected before a KV cache that is full", {suspect(0), kv(1, 1000, 1)}, {0}, false},
      {"all start", {in_start(0, 91, 100), in_start(1, 95, 100)}, {0, 1}, false},
      {"sleeps", {asleep(0), plain(1)}, {1}, false},
      {"all sleep", {asleep(0), asleep(1)}, {0, 1}, false},
      {"tried before asleep", {asleep(0), tried(1)}, {1}, false},
      {"full before asleep", {asleep(0), out_of_room(1)}, {1}, false},
      {"asleep before out", {asleep(0), out(1)}, {0}, false},
      {"asleep before refusing", {asleep(0), refusing(1)}, {0}, false},
      {"asleep before draining", {asleep(0), changed(1, [](ReplicaView& s) { s.draining = true; })}, {0}, false},
  };
  for (const auto& row : rows)
    EXPECT_EQ(expect_left(row.what, row.replicas, {10, 10}, row.left).panic, row.panic) << row.what;
}

TEST(Eligibility, ARequestThatCanWaitDoesSoWhereNoneMayTakeItNow) {
  const auto with = [](ReplicaView view, auto change) {
    change(view);
    return view;
  };
  const auto drains = [](ReplicaView& r) { r.draining = true; };
  const auto had_it = [](ReplicaView& r) { r.tried = true; };
  const auto is_full = [](ReplicaView& r) { r.full = true; };
  const auto is_out = [](ReplicaView& r) { r.out = true; };
  const auto reserved = [](ReplicaView& r) { r.reserved = true; };
  const auto queued = [](Tokens tokens) {
    return [tokens](ReplicaView& r) { r.prefill_left = tokens, r.in_flight = 3, r.max_queued_tokens = 100; };
  };
  const HealthRow rows[] = {
      {"all refuse", {refusing(0), refusing(1)}, {}, false},
      {"one refuses, one drains", {refusing(0), with(plain(1), drains)}, {}, false},
      {"all are full", {out_of_room(0), out_of_room(1)}, {}, false},
      {"all have as many requests as they may", {full(0), full(1)}, {}, false},
      {"the limit of queued tokens is just met", {with(plain(0), queued(90)), with(plain(1), queued(91))}, {0}, false},
      {"longer than the limit, with nothing queued",
       {with(plain(0), queued(0)), with(plain(1), queued(1))},
       {0},
       false},
      {"all start and hold what they may", {in_start(0, 91, 100), in_start(1, 95, 100)}, {}, false},
      {"one starts without anything", {in_start(0, 0, 0, 0), full(1)}, {0}, false},
      {"all are out", {out(0), out(1)}, {0, 1}, true},
      {"all are out, one has room", {with(out(0), is_full), out(1)}, {1}, true},
      {"one is out, the other is full", {out(0), out_of_room(1)}, {}, false},
      {"tried, and the other has room", {tried(0), plain(1)}, {1}, false},
      {"tried, and the other is full", {tried(0), out_of_room(1)}, {0}, false},
      {"tried, and the other is at a limit", {tried(0), full(1)}, {0}, false},
      {"tried, and the other starts and holds what it may", {tried(0), in_start(1, 91, 100)}, {0}, false},
      {"tried and full, and the other is at a limit", {with(out_of_room(0), had_it), full(1)}, {}, false},
      {"tried, the second is full, the third is out", {tried(0), out_of_room(1), out(2)}, {0}, false},
      {"tried and full, the second is full, the third is out",
       {with(out_of_room(0), had_it), out_of_room(1), out(2)},
       {},
       false},
      {"tried and full, and the other is out", {with(out_of_room(0), had_it), out(1)}, {1}, true},
      {"tried, and the other refuses", {tried(0), refusing(1)}, {0}, false},
      {"tried, and the other is out", {tried(0), out(1)}, {1}, true},
      {"tried, and the other is out and full", {tried(0), with(out(1), is_full)}, {0}, false},
      {"both tried, one is full", {with(out_of_room(0), had_it), tried(1)}, {1}, false},
      {"the only one tried and out", {with(tried(0), is_out)}, {0}, true},
      {"reserved", {with(plain(0), reserved), plain(1)}, {1}, false},
      {"suspected, and the other has room", {suspect(0), plain(1)}, {1}, false},
      {"suspected, and the other is at a limit", {suspect(0), full(1)}, {0}, false},
      {"suspected, and the other is full", {suspect(0), out_of_room(1)}, {0}, false},
      {"all reserved", {with(plain(0), reserved)}, {}, false},
      {"sleeps, and the other is full", {asleep(0), out_of_room(1)}, {}, false},
      {"sleeps, and the other is at a limit", {asleep(0), full(1)}, {}, false},
      {"sleeps, and the other has had it", {asleep(0), tried(1)}, {1}, false},
      {"all sleep, one is at a limit", {asleep(0), with(full(1), [](ReplicaView& r) { r.asleep = true; })}, {0}, false},
      {"sleeps, and the other is out", {asleep(0), out(1)}, {0}, false},
  };
  for (const auto& row : rows) {
    Demand demand{10, 10, 10, true};
    if (std::string_view(row.what).starts_with("longer")) demand.prompt = 500;
    const Narrowed narrowed = expect_left(row.what, row.replicas, demand, row.left);
    EXPECT_EQ(narrowed.panic, row.panic) << row.what;
    EXPECT_EQ(narrowed.eligibility, row.left.empty() ? Eligibility::busy : Eligibility::some) << row.what;
  }
}

TEST(Eligibility, AHomeIsWaitedForUnlessItIsAway) {
  const auto at_home = [](ReplicaView view) {
    view.is_home = true;
    return view;
  };
  const auto drains = changed(0, [](ReplicaView& r) { r.draining = true; });
  const HealthRow rows[] = {
      {"has room", {at_home(plain(0)), plain(1)}, {0}, false},
      {"had it", {at_home(tried(0)), plain(1)}, {0}, false},
      {"is at a limit", {at_home(full(0)), plain(1)}, {}, false},
      {"says that it has no room", {at_home(out_of_room(0)), plain(1)}, {}, false},
      {"is suspected", {at_home(suspect(0)), plain(1)}, {0}, false},
      {"is out", {at_home(out(0)), plain(1)}, {0}, true},
      {"is out and had it",
       {at_home(changed(0, [](ReplicaView& r) { r.out = r.tried = true; })), plain(1)},
       {1},
       false},
      {"refuses connections", {at_home(refusing(0)), plain(1)}, {1}, false},
      {"drains", {at_home(drains), plain(1)}, {1}, false},
      {"is out, and so is the other", {at_home(out(0)), out(1)}, {0}, true},
  };
  for (const auto& row : rows)
    EXPECT_EQ(expect_left(row.what, row.replicas, {10, 10, 10, true}, row.left).panic, row.panic) << row.what;
}

TEST(Eligibility, ASessionPrefersTheFirstInRankThatHasNoMoreThanItsShare) {
  const auto ranked = [](ReplicaView view, double rank, std::uint32_t in_flight, double weight = 1) {
    view.rank = rank;
    view.in_flight = in_flight;
    view.weight = weight;
    return view;
  };
  const HealthRow rows[] = {
      {"idle", {ranked(plain(0), 1, 0), ranked(plain(1), 3, 0), ranked(plain(2), 2, 0)}, {1}, false},
      {"just its share and a quarter and one", {ranked(plain(0), 1, 0), ranked(plain(1), 2, 2)}, {1}, false},
      {"one more", {ranked(plain(0), 1, 0), ranked(plain(1), 2, 3)}, {0}, false},
      {"the second has too many, too",
       {ranked(plain(0), 1, 0), ranked(plain(1), 3, 9), ranked(plain(2), 2, 9)},
       {0},
       false},
      {"more weight is more of a share", {ranked(plain(0), 1, 0), ranked(plain(1), 2, 3, 3)}, {1}, false},
      {"its first is out", {ranked(plain(0), 1, 0), ranked(out(1), 2, 0)}, {0}, false},
      {"its first had the request", {ranked(plain(0), 1, 0), ranked(tried(1), 2, 0)}, {0}, false},
      {"its first is suspected", {ranked(plain(0), 1, 0), ranked(suspect(1), 2, 0)}, {0}, false},
      {"a home comes first",
       {ranked(changed(0, [](ReplicaView& r) { r.is_home = true; }), 1, 9), ranked(plain(1), 2, 0)},
       {0},
       false},
  };
  for (const auto& row : rows) expect_left(row.what, row.replicas, {10, 10, 10, true}, row.left);
}

TEST(Eligibility, ADrainingReplicaTakesNothingFromAnybody) {
  const auto drains = changed(0, [](ReplicaView& r) { r.draining = true; });
  for (const bool can_wait : {false, true}) {
    std::vector<ReplicaView> one{drains}, two{drains, refusing(1)};
    EXPECT_EQ(narrow(one, {10, 10, 10, can_wait}).eligibility, Eligibility::busy);
    EXPECT_EQ(narrow(two, {10, 10, 10, can_wait}).eligibility, can_wait ? Eligibility::busy : Eligibility::some);
  }
}

TEST(Eligibility, Table) {
  using enum Eligibility;
  const Row rows[] = {
      {"there is none", {}, {1, 1}, no_replica, {}},
      {"all may", {plain(0), plain(1)}, {1, 1}, some, {0, 1}},
      {"a context that just suffices", {context(0, 100), context(1, 99)}, {50, 100}, some, {0}},
      {"no context suffices", {context(0, 100), context(1, 99)}, {50, 101}, some, {0, 1}},
      {"an engine whose context nobody knows may", {context(0, 100), plain(1)}, {50, 101}, some, {1}},
      {"the context of a refusing engine counts", {context(0, 100), refusing(1)}, {150, 151, 101}, some, {1}},
      {"whoever holds the prompt, for the long one refuses", {context(0, 100), refusing(1)}, {50, 151, 100}, some, {0}},
      {"whoever holds the prompt, for the long one is out", {context(0, 100), out(1)}, {50, 151, 100}, some, {0}},
      {"whoever holds the prompt, for the long one drains",
       {context(0, 100), context(1, 99), changed(2, [](ReplicaView& s) { s.draining = true; })},
       {100, 151, 100},
       some,
       {0}},
      {"whoever holds the prompt, for the long one refuses connections",
       {context(0, 100), context(1, 99), changed(2, [](ReplicaView& s) { s.refuses = true; })},
       {50, 151, 100},
       some,
       {0}},
      {"a prompt that is too long for those that are in waits for the one that drains",
       {context(0, 100), changed(1, [](ReplicaView& s) { s.draining = true; })},
       {101, 151, 101},
       busy,
       {}},
      {"whoever holds the prompt, for the long one sleeps",
       {context(0, 100), changed(1, [](ReplicaView& s) { s.asleep = true; })},
       {50, 151, 100},
       some,
       {0}},
      {"a prompt that is too long for those that are awake goes to the one that sleeps",
       {context(0, 100), changed(1, [](ReplicaView& s) { s.asleep = true; })},
       {101, 151, 101},
       some,
       {1}},
      {"a prompt that just goes there", {longest(0, 100), longest(1, 99)}, {100, 5000, 100}, some, {0}},
      {"a prompt that one refuses", {longest(0, 100), plain(1)}, {101, 101, 101}, some, {1}},
      {"a prompt that all refuse", {longest(0, 100), longest(1, 99)}, {101, 101, 101}, too_long, {}},
      {"many prompts, each of them short", {longest(0, 100)}, {1000, 100, 100}, some, {0}},
      {"long, and the only context is busy", {context(0, 10), full(1)}, {50, 100}, busy, {}},
      {"whoever has the model", {lacking(0), plain(1), lacking(2)}, {1, 1}, some, {1}},
      {"the model, and its only replica is busy", {lacking(0), full(1)}, {1, 1}, busy, {}},
      {"the same for a request that waits", {lacking(0), full(1)}, {1, 1, 0, true}, busy, {}},
      {"whoever is in, for who has the model is out", {lacking(0), out(1)}, {1, 1}, some, {0}},
      {"whoever is in, for who has the model refuses connections", {lacking(0), refusing(1)}, {1, 1}, some, {0}},
      {"whoever is in, for who has the model drains",
       {lacking(0), changed(1, [](ReplicaView& s) { s.draining = true; })},
       {1, 1},
       some,
       {0}},
      {"the one that failed it, for no other has the model", {lacking(0), tried(1)}, {1, 1}, some, {1}},
      {"the model before the context", {lacking(0), context(1, 99)}, {50, 100}, some, {1}},
      {"one is full", {full(0), plain(1)}, {1, 1}, some, {1}},
      {"all are full", {full(0), full(1)}, {1, 1}, busy, {}},
      {"more queued than may be",
       {changed(0, [](ReplicaView& s) { s.prefill_left = 10, s.max_queued_tokens = 10; })},
       {1, 1},
       busy,
       {}},
      {"another than the tried one", {tried(0), plain(1)}, {1, 1}, some, {1}},
      {"only the tried one is left", {tried(0), full(1)}, {1, 1}, some, {0}},
      {"all were tried", {tried(0), tried(1)}, {1, 1}, some, {0, 1}},
      {"a cache that just holds it", {kv(0, 900, 1), kv(1, 901, 1)}, {100, 100}, some, {0}},
      {"no cache holds it", {kv(0, 950, 1), kv(1, 901, 1)}, {100, 100}, kv_full, {0, 1}},
      {"larger than any cache, one holds nothing", {kv(0, 10, 1), kv(1, 0, 0)}, {5000, 5000}, some, {1}},
      {"full cache and untried before empty and tried", {kv(0, 990, 1), tried(1)}, {100, 100}, kv_full, {0}},
  };
  for (const Row& row : rows)
    EXPECT_EQ(expect_left(row.what, row.replicas, row.demand, row.left).eligibility, row.eligibility) << row.what;
}

}  // namespace
}  // namespace weir::balancer
