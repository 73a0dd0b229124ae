// Whole exchanges run, and each call of read and write fails once, one call at a time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "tests/draws.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

struct Setting {
  bool stream = true;
  std::size_t replicas = 1;
  std::string version = "1.1";
  bool until_close = false;  ///< The replica's answer has no other end than the connection's.
  bool busy_first = false;   ///< The first replica answers 503.
  std::size_t piece = net::Peer::any;
  std::size_t room = 0;  ///< The client takes so much at a time; 0 means everything.
};

/// Returns a test's name, such as "Whole_2Replicas_BusyFirst".
std::string name_of(const Setting& setting) {
  std::string name = setting.stream ? "Stream" : "Whole";
  name += "_" + std::to_string(setting.replicas) + (setting.replicas == 1 ? "Replica" : "Replicas");
  if (setting.version != "1.1") name += "_Http10";
  if (setting.until_close) name += "_UntilClose";
  if (setting.busy_first) name += "_BusyFirst";
  if (setting.piece != net::Peer::any) name += "_Pieces" + std::to_string(setting.piece);
  if (setting.room != 0) name += "_Room" + std::to_string(setting.room);
  return name;
}

std::ostream& operator<<(std::ostream& out, const Setting& setting) { return out << name_of(setting); }

std::string answer_of(const Setting& setting) {
  if (!setting.stream) return whole_answer("200 OK", completion);
  if (!setting.until_close) return streamed_answer();
  return "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + token("a") + token("b") + "data: [DONE]\n\n";
}

void set_plans(ScriptedProxy& proxy, const Setting& setting) {
  for (auto& plan : proxy.plan) {
    plan = {[setting](net::Peer& replica) {
      replica.says(answer_of(setting), setting.piece);
      if (setting.until_close) replica.ends();
    }};
  }
  if (setting.busy_first) proxy.plan[0] = {says(whole_answer("503 Busy", "{}"), setting.piece)};
}

/// Checks that a client is left with a whole answer, a break that it can see, or no byte and the end.
void expect_an_end(const net::Peer& client, const Setting& setting) {
  const auto seen = read_answer(client.got);
  if (seen.whole) return;
  EXPECT_TRUE(client.closed()) << "the client waits for ever; it has: " << client.got;
  if (seen.until_close && !client.closed_by_reset()) {
    EXPECT_THAT(seen.body, testing::HasSubstr(setting.stream ? "[DONE]" : completion)) << "it looks whole";
  }
}

int play(const Setting& setting, int failing, int error) {
  ScriptedProxy proxy(setting.replicas);
  proxy.calls.failing = failing;
  proxy.calls.error = error;
  set_plans(proxy, setting);
  const auto request = post(chat(setting.stream), "", setting.version);
  const auto client = proxy.client(request, setting.piece);
  if (setting.room != 0) client->takes_a_round(setting.room);
  proxy.run();
  expect_an_end(*client, setting);
  proxy.expect_at_rest();
  const auto lines = proxy.log_lines();
  const bool head_was_read = !client->got.empty() || !proxy.connections[0].empty();
  EXPECT_LE(lines.size(), 1u);
  EXPECT_GE(lines.size(), head_was_read ? 1u : 0u);
  EXPECT_EQ(proxy.exposition.requests().all, lines.size());
  if (error == EAGAIN || error == EINTR) {
    const auto seen = read_answer(client->got);
    EXPECT_EQ(seen.status, 200u) << "nothing was wrong";
    EXPECT_TRUE(seen.whole || client->closed());
  }
  proxy.ends(*client);
  proxy.tick_in(3);
  EXPECT_TRUE(client->closed());
  EXPECT_EQ(proxy.shared.connections.load(), 0u);
  return proxy.calls.made;
}

class EveryCallFails : public testing::TestWithParam<Setting> {};

TEST_P(EveryCallFails, AndTheClientSeesAnEndAndTheRecordIsMadeOnce) {
  const int calls = play(GetParam(), -1, 0);
  ASSERT_GE(calls, 4);
  for (const int error : {ECONNRESET, EPIPE, ETIMEDOUT, EAGAIN, EINTR, net::Calls::throws}) {
    // A retry makes more calls than there were without the failure.
    for (int failing = 0, made = calls; failing < made; ++failing) {
      SCOPED_TRACE(testing::Message() << "call " << failing << " of " << made << ", error " << error);
      made = play(GetParam(), failing, error);
      ASSERT_LT(made, 10'000);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, EveryCallFails,
                         testing::Values(Setting{}, Setting{.stream = false}, Setting{.replicas = 3},
                                         Setting{.stream = false, .replicas = 2}, Setting{.version = "1.0"},
                                         Setting{.until_close = true}, Setting{.version = "1.0", .until_close = true},
                                         Setting{.replicas = 2, .busy_first = true},
                                         Setting{.stream = false, .replicas = 2, .busy_first = true},
                                         Setting{.piece = 37, .room = 41},
                                         Setting{.replicas = 2, .version = "1.0", .piece = 90, .room = 23}),
                         [](const auto& test) { return name_of(test.param); });

/// Everything happens at once and in any order: pieces, slow clients, breaks, deadlines, several requests.
TEST(AnyOrder, LeavesNobodyWaitingAndNothingInTheBooks) {
  for (unsigned seed = 0; seed < tests::draws(50, 400); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return static_cast<std::size_t>(random() % n); };
    const bool queue = below(2) == 0;
    ScriptedProxy proxy(1 + below(3), [&](config::Settings& settings) {
      if (!queue) return;
      auto& pool = settings.pools.front();
      pool.queue.requests = 1 + below(4);
      for (auto& replica : pool.replicas)
        if (below(2) == 0) replica.max_in_flight = 1;
    });
    auto& pool = *proxy.snapshot->pools.front()->balancer;
    static constexpr std::array errors{ECONNRESET, EPIPE, EAGAIN, ETIMEDOUT, net::Calls::throws};
    for (auto& plan : proxy.plan) {
      plan = {[&](net::Peer& replica) {
        const Setting setting{.stream = below(2) == 0, .until_close = below(4) == 0};
        auto bytes = answer_of(setting);
        if (below(4) == 0) bytes.resize(below(static_cast<unsigned>(bytes.size())));
        std::size_t piece = 1 + below(300);
        if (below(5) == 0) {
          bytes = whole_answer("503 Busy", std::string(below(100'000), 'x'));
          piece = 20'000;
        }
        replica.says(bytes, piece);
        if (below(3) == 0) replica.ends();
        if (below(4) == 0) replica.breaks();
      }};
    }
    for (auto& act : proxy.on_connect) {
      act = [&](net::Peer& replica) {
        if (below(6) == 0) return replica.refuses(ECONNREFUSED);
        if (below(8) != 0) replica.connects();
      };
    }
    std::vector<std::shared_ptr<net::Peer>> clients;
    auto now = Clock::now();
    for (int step = 0; step < 60; ++step) {
      switch (below(8)) {
        case 0:
          clients.push_back(proxy.client(post(chat(below(2) == 0), "", below(3) == 0 ? "1.0" : "1.1"), 1 + below(200)));
          if (below(2) == 0) clients.back()->takes_a_round(1 + below(2000));
          break;
        case 1:
          if (!clients.empty()) clients[below(static_cast<unsigned>(clients.size()))]->says(post(chat(true)), 50);
          break;
        case 2:
          if (!clients.empty() && below(3) == 0) clients[below(static_cast<unsigned>(clients.size()))]->ends();
          break;
        case 3:
          if (!clients.empty() && below(3) == 0) clients[below(static_cast<unsigned>(clients.size()))]->breaks();
          break;
        case 4:
          proxy.calls.failing = proxy.calls.made + static_cast<int>(below(10));
          proxy.calls.error = errors[below(errors.size())];
          break;
        case 5:
          now += std::chrono::milliseconds(below(2000));
          for (bool more = proxy.loop.deadlines.tick(now); more;) more = proxy.loop.deadlines.go_on(now);
          static_cast<void>(pool.health().take_changes(now));
          if (below(4) == 0) {
            const auto& replica =
                proxy.replica(below(static_cast<unsigned>(proxy.snapshot->pools.front()->replicas.size())));
            pool.health().report(replica.key, balancer::Sign::probe_passed, now);
            if (below(2) == 0) replica.state->leaves.hung_at = now;
          }
          break;
        case 6:
          InABatch(proxy, [&] { proxy.report_all(); });
          break;
        default:
          proxy.turn();
      }
    }
    proxy.run();
    for (int later = 1; later < 40; ++later) proxy.tick_in(100.0 * later);
    for (const auto& client : clients) EXPECT_TRUE(client->closed());
    proxy.expect_at_rest();
    EXPECT_EQ(proxy.shared.connections.load(), 0u);
    EXPECT_EQ(proxy.exposition.requests().all, proxy.log_lines().size());
    if (HasFailure()) return;
  }
}

TEST(AnyOrder, EndsWhenCutAtAnyMoment) {
  for (int turns = 0; turns < 40; ++turns) {
    SCOPED_TRACE(testing::Message() << "cut after " << turns << " turns");
    ScriptedProxy proxy({says(streamed_answer(), 20)});
    const auto client = proxy.client(post(chat(true)), 50);
    for (int i = 0; i < turns; ++i) proxy.turn();
    proxy.shared.cutting = true;
    proxy.tick(Clock::now());
    proxy.tick_in(1);
    EXPECT_TRUE(client->closed());
    const bool whole = read_answer(client->got).status == 200 && read_answer(client->got).whole;
    for (const auto& replica : proxy.connections[0])
      EXPECT_TRUE(whole || replica->closed()) << "only a whole answer leaves a connection that may serve again";
    proxy.expect_at_rest();
    EXPECT_EQ(proxy.exposition.requests().all, proxy.log_lines().size());
  }
}

}  // namespace
}  // namespace weir::proxy::serve
