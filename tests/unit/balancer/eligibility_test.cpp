#include "balancer/eligibility.hpp"

#include "requests.hpp"

namespace weir::balancer {
namespace {

// Each row changes three replicas without limits, and tells which may still take the request.
struct Row {
  const char* what;
  std::vector<ReplicaView> replicas;
  Demand demand;
  Eligibility eligibility;
  std::vector<ReplicaIndex> left;
};

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
ReplicaView told_context(ReplicaIndex index, Tokens tokens) {
  return changed(index, [&](ReplicaView& s) { s.told_context = tokens; });
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
ReplicaView starting(ReplicaIndex index, Tokens held, Tokens allowance, std::uint32_t in_flight = 1) {
  return changed(index, [&](ReplicaView& s) {
    s.starting = true;
    s.prefill_left = held;
    s.allowance = allowance;
    s.in_flight = in_flight;
  });
}

TEST(Eligibility, OneThatIsNotWellGivesWayToOneThatIsBetterOff) {
  struct HealthRow {
    const char* what;
    std::vector<ReplicaView> replicas;
    std::vector<ReplicaIndex> left;
    bool panic;
  };
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
      {"starts, and holds just what it may", {starting(0, 90, 100), plain(1)}, {0, 1}, false},
      {"starts, and would hold more", {starting(0, 91, 100), plain(1)}, {1}, false},
      {"starts with its one request", {starting(0, 0, 0, 0), plain(1)}, {0, 1}, false},
      {"all start", {starting(0, 91, 100), starting(1, 95, 100)}, {0, 1}, false},
  };
  for (const auto& row : rows) {
    auto replicas = row.replicas;
    EXPECT_EQ(narrow(replicas, {10, 10}).panic, row.panic) << row.what;
    std::vector<ReplicaIndex> left;
    for (const ReplicaView& s : replicas) left.push_back(s.index);
    EXPECT_EQ(left, row.left) << row.what;
  }
}

TEST(Eligibility, Table) {
  using enum Eligibility;
  const Row rows[] = {
      {"there is none", {}, {1, 1}, no_replica, {}},
      {"all may", {plain(0), plain(1)}, {1, 1}, some, {0, 1}},
      {"a context that just suffices", {context(0, 100), context(1, 99)}, {50, 100}, some, {0}},
      {"no context suffices", {context(0, 100), context(1, 99)}, {50, 101}, too_long, {}},
      {"an engine's own word is preferred", {told_context(0, 100), told_context(1, 101)}, {50, 101}, some, {1}},
      {"an engine's own word refuses nobody", {told_context(0, 100), told_context(1, 99)}, {50, 101}, some, {0, 1}},
      {"an engine that told nothing may", {told_context(0, 100), plain(1)}, {50, 101}, some, {1}},
      {"the word of a refusing engine counts", {told_context(0, 100), refusing(1)}, {50, 101}, some, {1}},
      {"long, and the only context is busy", {context(0, 10), full(1)}, {50, 100}, busy, {}},
      {"one is full", {full(0), plain(1)}, {1, 1}, some, {1}},
      {"all are full", {full(0), full(1)}, {1, 1}, busy, {}},
      {"another than the tried one", {tried(0), plain(1)}, {1, 1}, some, {1}},
      {"only the tried one is left", {tried(0), full(1)}, {1, 1}, some, {0}},
      {"all were tried", {tried(0), tried(1)}, {1, 1}, some, {0, 1}},
      {"a cache that just holds it", {kv(0, 900, 1), kv(1, 901, 1)}, {100, 100}, some, {0}},
      {"no cache holds it", {kv(0, 950, 1), kv(1, 901, 1)}, {100, 100}, kv_full, {0, 1}},
      {"larger than any cache, one holds nothing", {kv(0, 10, 1), kv(1, 0, 0)}, {5000, 5000}, some, {1}},
      {"full cache and untried before empty and tried", {kv(0, 990, 1), tried(1)}, {100, 100}, kv_full, {0}},
  };
  for (const Row& row : rows) {
    std::vector<ReplicaView> replicas = row.replicas;
    EXPECT_EQ(narrow(replicas, row.demand).eligibility, row.eligibility) << row.what;
    std::vector<ReplicaIndex> left;
    for (const ReplicaView& s : replicas) left.push_back(s.index);
    EXPECT_EQ(left, row.left) << row.what;
  }
}

}  // namespace
}  // namespace weir::balancer
