#include "tests/bench/plan/workloads.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace weir::lab::plan {
namespace {

const std::string mooncake = WEIR_TEST_DATA "/traces/mooncake_conversation.jsonl";

Setup with(std::optional<Peer> peer) {
  Setup setup;
  setup.peer = peer;
  setup.endless_queue = true;
  return setup;
}

std::uint64_t sum(const std::vector<std::uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

std::size_t requests_over(const Results& results) {
  return static_cast<std::size_t>(std::ranges::count_if(results.requests, &Served::over));
}

class EachKind : public testing::TestWithParam<std::pair<std::string_view, Kind>> {};

TEST_P(EachKind, HasParentsBeforeChildrenAndIsTheSameForTheSameSeed) {
  const Workload workload = make_workload(GetParam().second, 1, mooncake),
                 same = make_workload(GetParam().second, 1, mooncake);
  ASSERT_EQ(workload.requests.size(), same.requests.size());
  double last = 0;
  for (std::size_t i = 0; i < workload.requests.size(); ++i) {
    const TracedRequest& request = workload.requests[i];
    if (request.parent) {
      ASSERT_LT(*request.parent, i);
    } else {
      EXPECT_GE(request.at, last) << "the others stand in the order of their arrival";
      last = request.at;
    }
    EXPECT_EQ(request.blocks.size(), (request.prompt_tokens + request.output_tokens) / engine::block_tokens);
    EXPECT_EQ(request.blocks, same.requests[i].blocks);
    ASSERT_TRUE(request.facts && request.facts->whole_json);
    EXPECT_EQ(request.facts->text.code_points, same.requests[i].facts->text.code_points);
  }
  EXPECT_EQ(workload.capacity, same.capacity);
  EXPECT_GT(workload.capacity, 0);
  EXPECT_LT(workload.repeated, workload.prompt_tokens);
  EXPECT_GT(rate_of(workload.requests), 0.5);
  EXPECT_LT(rate_of(workload.requests), 2);
}

INSTANTIATE_TEST_SUITE_P(All, EachKind, testing::ValuesIn(kind_words),
                         [](const auto& word) { return std::string(word.param.first); });

TEST(Workload, IsAnotherForAnotherSeed) {
  const Workload a = make_workload(Kind::no_reuse, 1, mooncake), b = make_workload(Kind::no_reuse, 2, mooncake);
  EXPECT_FALSE(std::ranges::equal(a.requests, b.requests, {}, &TracedRequest::blocks, &TracedRequest::blocks));
}

TEST(Workload, ATurnBeginsAsItsParentAndTheAnswerDid) {
  for (const Kind kind : {Kind::conversations, Kind::reasoning}) {
    const Workload workload = make_workload(kind, 1, mooncake);
    for (const TracedRequest& request : workload.requests) {
      if (!request.parent) continue;
      const TracedRequest& parent = workload.requests[*request.parent];
      const std::uint64_t common = engine::common_blocks(request.blocks, parent.blocks);
      if (kind == Kind::conversations) {
        EXPECT_EQ(common, parent.blocks.size());
      } else {
        EXPECT_EQ(common, parent.prompt_tokens / engine::block_tokens) << "the template leaves the thoughts out";
      }
      EXPECT_GT(request.facts->text.chars(), parent.facts->text.chars());
    }
  }
}

TEST(Workload, TenantsSayTheSameUnderDifferentSalts) {
  const Workload workload = make_workload(Kind::tenants, 1, mooncake);
  std::set<std::uint64_t> salted, unsalted;
  for (const TracedRequest& request : workload.requests) {
    salted.insert(request.prompt_blocks().front());
    unsalted.insert(request.text_blocks().front());
  }
  EXPECT_EQ(unsalted.size(), 8u);
  EXPECT_EQ(salted.size(), 16u);
}

TEST(Workload, ASoleEngineWithRoomSavesAllThatRepeats) {
  Workload workload = make_workload(Kind::conversations, 1, mooncake);
  workload.engines.resize(1);
  workload.engines.front().kv_tokens = 10'000'000;
  workload.capacity = 0.05;  // So slow that no two requests meet.
  const Results results = serve(workload, with(Peer::sticky), 1);
  EXPECT_EQ(sum(results.prefilled), workload.prompt_tokens - workload.repeated);
}

TEST(Workload, NothingIsSavedWhereNothingRepeats) {
  const Workload workload = make_workload(Kind::no_reuse, 1, mooncake);
  EXPECT_EQ(workload.repeated, 0u);
  const Results results = serve(workload, with(std::nullopt), 0.5);
  EXPECT_EQ(sum(results.prefilled), workload.prompt_tokens);
}

/// A simulation's account of a run: nobody is lost, and a turn waits for the one before it.
TEST(Simulation, ATurnComesWhenItsParentIsOverAndItsUserHasThought) {
  const Workload workload = make_workload(Kind::conversations, 2, mooncake);
  for (const std::optional<Peer> peer : {std::optional<Peer>(), std::optional(Peer::cache_aware)}) {
    const Results results = serve(workload, with(peer), 0.7);
    EXPECT_EQ(requests_over(results), workload.requests.size());
    EXPECT_EQ(results.failed + results.broken + results.refused, 0u);
    std::uint64_t cached = 0;
    for (std::size_t i = 0; i < workload.requests.size(); ++i) {
      const TracedRequest& request = workload.requests[i];
      const Served& served = results.requests[i];
      cached += served.cached_tokens;
      if (!request.parent) continue;
      const Served& parent = results.requests[*request.parent];
      const double answered =
          parent.arrived + *parent.ttft +
          parent.tpot.value_or(0) * static_cast<double>(workload.requests[*request.parent].output_tokens - 1);
      EXPECT_NEAR(served.arrived, answered + request.think, 1e-6);
    }
    EXPECT_EQ(sum(results.prefilled), workload.prompt_tokens - cached);
  }
}

TEST(Simulation, GoesOnThroughWhatBecomesOfItsReplicas) {
  for (const Kind kind : {Kind::restart, Kind::flush, Kind::join}) {
    const Workload workload = make_workload(kind, 1, mooncake);
    std::set<std::size_t> asked;
    for (const std::optional<Peer> peer : {std::optional<Peer>(), std::optional(Peer::token_load)}) {
      const Results results = serve(workload, with(peer), 0.5);
      EXPECT_EQ(requests_over(results), workload.requests.size()) << static_cast<int>(kind);
      EXPECT_EQ(results.refused, 0u) << static_cast<int>(kind);
      for (const Served& served : results.requests) asked.insert(served.asked.begin(), served.asked.end());
      EXPECT_EQ(results.prefilled.size(), kind == Kind::join ? 5u : 4u);
    }
    EXPECT_EQ(asked.size(), kind == Kind::join ? 5u : 4u) << static_cast<int>(kind);
  }
}

TEST(Simulation, GoesOnBehindANewWeir) {
  const Workload workload = make_workload(Kind::conversations, 1, mooncake);
  for (const std::optional<Peer> peer : {std::optional<Peer>(), std::optional(Peer::token_load)}) {
    plan::Setup setup = with(peer);
    setup.engines = workload.engines;
    setup.prefix_aware = true;
    Simulation simulation(setup);
    std::uint32_t before = 0, after = 0;
    simulation.line().at(60, [&] {
      before = simulation.pool().figures().in_flight();
      simulation.restart_weir();
      after = simulation.pool().figures().in_flight();
    });
    const Results results = simulation.serve(workload.requests, 0.7 * workload.capacity);
    EXPECT_EQ(requests_over(results), workload.requests.size());
    EXPECT_EQ(results.failed + results.broken + results.refused, 0u);
    EXPECT_EQ(before > 0, !peer);
    EXPECT_EQ(after, 0u);
  }
}

TEST(Simulation, NotesReplicasThatHaveNothingWhileOthersHaveMore) {
  Workload workload = make_workload(Kind::no_reuse, 1, mooncake);
  const auto idle_seconds = [&workload] {
    double seconds = 0, last = 0;
    for (const auto& [from, to, replicas] : serve(workload, with(Peer::sticky), 0.2).idle) {
      EXPECT_LT(from, to);
      EXPECT_GE(from, last);
      EXPECT_GE(replicas, 1u);
      EXPECT_LE(replicas, 3u);
      last = to;
      seconds += (to - from) * static_cast<double>(replicas);
    }
    return seconds;
  };
  const double spread = idle_seconds();
  for (TracedRequest& request : workload.requests) request.session = 1;
  EXPECT_GT(idle_seconds(), 10 * spread) << "one replica has all of them";
}

}  // namespace
}  // namespace weir::lab::plan
