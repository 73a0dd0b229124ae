// Every replica, a process of its own, is killed and started again under load, one after the other and without a drain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "tests/integration/peers/load.hpp"
#include "tests/integration/peers/simulated_replica.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::integration {
namespace {

using ::testing::Each;
using ::testing::StartsWith;

TEST(KilledReplicas, LoseOnlyTheStreamsThatHadBegun) {
  std::deque<SimulatedReplica> replicas;
  WeirSettings settings{.pools = {{.name = "chat", .replicas = {}, .more = {{"queue", "256"}}}}};
  for (int i = 0; i < 4; ++i) {
    const auto& one = replicas.emplace_back(std::vector<std::string>{"--model", "m", "--speed", "5"});
    settings.pools[0].replicas.push_back({.name = "r" + std::to_string(i), .url = one.url()});
  }
  settings.health = {{"interval", "\"200ms\""}};
  WeirUnderTest weir(settings);
  const std::string body = R"({"model":"m","stream":true,"max_tokens":12,"messages":[{"role":"user","content":"Hi"}]})";
  Load load(weir.port(), 8, post("/v1/chat/completions", body), "data: [DONE]\n\n");
  load.wait_for_more(40);
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const auto name = "r" + std::to_string(i);
    const auto is_out = [&name](const MetricsPage& page) {
      return page.sum("weir_replica_state", {{"replica", name}, {"state", "down"}}) == 1;
    };
    replicas[i].kill();
    weir.metrics_when(name + " to be out", is_out);
    load.wait_for_more(40);
    replicas[i].start();
    weir.metrics_when(name + " to be back", [&](const MetricsPage& page) { return !is_out(page); });
    load.wait_for_more(40);
  }
  load.stop();
  // A client that gets the status 200 gets the first token with it.
  EXPECT_THAT(load.failures(), Each(StartsWith("status 200: ")));
  const auto all = load.answered() + load.failures().size();
  EXPECT_EQ(weir.log_lines(all).size(), all);
  const auto page = weir.metrics_when("the books to be empty", [](const MetricsPage& now) {
    return now.sum("weir_requests_in_flight") == 0 && now.sum("weir_queued_tokens") == 0;
  });
  EXPECT_EQ(page.sum("weir_requests_total", {{"outcome", "ok"}}), load.answered());
  EXPECT_EQ(page.sum("weir_requests_total", {{"outcome", "upstream_reset"}}), load.failures().size());
}

}  // namespace
}  // namespace weir::integration
