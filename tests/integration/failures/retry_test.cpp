// Another replica takes the place of one that fails before the client has seen a byte, and the client does not notice.
// If no replica is left, the client gets an answer that says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <atomic>
#include <future>
#include <iostream>
#include <memory>
#include <thread>

#include "tests/integration/peers/errors.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::HasSubstr;

TEST(Retry, AReplicaThatDoesNotKnowUsageGetsTheOriginalOnceAndNoInjectionAfterwards) {
  auto script = vllm_chat(4);
  ScriptedReplica replica([&](Exchange& exchange) {
    if (asks_for_usage(exchange.request()))
      return exchange.send(answer("400 Bad Request", "{\"error\":{\"message\":\"unknown field stream_options\"}}"));
    play(exchange, script);
  });
  WeirUnderTest weir(pool_of({&replica}));

  for (int i = 0; i < 3; ++i) {
    const auto got = fetch(weir.port(), post(chat, chat_body()));
    EXPECT_EQ(got.status, 200u);
    EXPECT_EQ(got.body, script.body(false));
    weir.metrics_when("injection to be off", [](const MetricsPage& page) {
      return page.sum("weir_injection_disabled", {{"replica", "r0"}}) == 1;
    });
  }
  const auto requests = replica.requests();
  ASSERT_EQ(requests.size(), 4u) << "refused, the original, and two that come without";
  EXPECT_TRUE(asks_for_usage(requests[0]));
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(requests[i].body, chat_body());
  const auto metrics = weir.metrics_after(3);
  EXPECT_EQ(metrics.sum("weir_retries_total", {{"reason", "injection_refused"}}), 1);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "ok"}}), 3);
  weir.wait_until_said("replica 'r0' refuses stream_options");
}

TEST(Retry, WantOfADescriptorIsToldFromARefusedConnection) {
  const auto answers = [](Exchange& exchange) { exchange.send(answer("200 OK", vllm_whole_chat(2))); };
  ScriptedReplica first(answers), second(answers);
  auto settings = pool_of({&first, &second});
  settings.limits = {{"idle_upstream_connections", "0"}};
  WeirUnderTest weir(settings);
  HttpClient client(weir.port());
  EXPECT_EQ(client.exchange(post(chat, whole_chat_body())).status, 200u);

  rlimit before{};
  ASSERT_EQ(::prlimit(weir.process().id(), RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(::prlimit(weir.process().id(), RLIMIT_NOFILE, &none, nullptr), 0);
  const auto got = client.exchange(post(chat, whole_chat_body()));
  ASSERT_EQ(::prlimit(weir.process().id(), RLIMIT_NOFILE, &before, nullptr), 0);

  expect_error(got, 503, "overloaded_error", "no_descriptor");
  EXPECT_EQ(got.head.field("retry-after"), "1");
  EXPECT_THAT(error_message(got), HasSubstr("raise its limit of open files"));
  EXPECT_EQ(client.exchange(post(chat, whole_chat_body())).status, 200u) << "and when there are some again";
  const auto metrics = weir.metrics_after(3);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "rejected"}}), 1);
  EXPECT_EQ(metrics.sum("weir_limit_hits_total", {{"limit", "descriptors"}}), 2) << "at each of the two";
  EXPECT_EQ(metrics.sum("weir_queued_tokens"), 0) << "no failure of the replicas'";
  EXPECT_EQ(metrics.sum("weir_retries_total"), 0);
}

TEST(Retry, AGetOnAnInferenceRouteIsForwardedOnceAndChargedNoTokens) {
  for (const std::string method : {"GET", "OPTIONS"}) {
    Event asked, go_on;
    const auto unavailable = [&](Exchange& exchange) {
      asked.set();
      go_on.wait("the test to look");
      exchange.send(answer("503 Service Unavailable", "{}"));
    };
    ScriptedReplica r0(unavailable), r1(unavailable);
    WeirUnderTest weir(pool_of({&r0, &r1}));
    HttpClient client(weir.port());
    client.send(method + " " + chat + " HTTP/1.1\r\nHost: w\r\n\r\n");
    asked.wait("the replica to be asked");
    EXPECT_EQ(weir.metrics().sum("weir_requests_in_flight"), 1);
    EXPECT_EQ(weir.metrics().sum("weir_queued_tokens"), 0) << method;
    go_on.set();
    EXPECT_EQ(client.response(method).status, 503u);
    EXPECT_EQ(r0.requests().size() + r1.requests().size(), 1u) << method;
    EXPECT_EQ(weir.metrics_after(1).sum("weir_retries_total"), 0);
    const auto line = weir.log_lines(1).front();
    EXPECT_EQ(member(line, "api"), "other");
    EXPECT_EQ(member(line, "prompt_tokens_estimate"), "0");
  }
}

TEST(Retry, AReplicaThatFailsFastDoesNotDrawTheTraffic) {
  constexpr std::size_t count = 200, clients = 16;
  const auto script = vllm_chat(3);
  // An engine computes for that long, and only the request itself waits for it.
  const auto good = [&](Exchange& exchange) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    play(exchange, script);
  };
  const auto fails = [](Exchange& exchange) {
    exchange.send(answer("404 Not Found", "{\"error\":{\"message\":\"The model does not exist.\"}}"));
  };
  // A failure is remembered for a second. If the machine takes that long for the running requests, the failed requests
  // of a moment come back together, so a slow machine may need several rounds.
  std::size_t served = 0;
  double share = 1;
  for (int round = 0; round < 5 && (served < count || share >= 0.15); ++round) {
    ScriptedReplica a(good), b(good), c(good), odd(fails);
    auto settings = pool_of({&a, &b, &c, &odd});
    settings.limits = {{"retry_budget", "1.0"}};
    WeirUnderTest weir(settings);

    std::atomic<std::size_t> begun{0}, whole{0};
    std::vector<std::future<void>> running;
    for (std::size_t i = 0; i < clients; ++i)
      running.push_back(std::async(std::launch::async, [&] {
        while (begun++ < count)
          if (fetch(weir.port(), post(chat, chat_body())).body == script.body(false)) ++whole;
      }));
    for (auto& one : running) one.get();

    served = whole;
    const auto attempts = a.requests().size() + b.requests().size() + c.requests().size() + odd.requests().size();
    share = static_cast<double>(odd.requests().size()) / static_cast<double>(attempts);
    std::cout << "share of the replica that fails fast: " << share << '\n';
    EXPECT_EQ(weir.metrics_after(count).sum("weir_requests_total", {{"outcome", "ok"}}), served);
  }
  EXPECT_EQ(served, count);
  EXPECT_LT(share, 0.15) << "an equal share would be 0.25";
}

}  // namespace
}  // namespace weir::integration
