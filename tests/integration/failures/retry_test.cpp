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

/// How a replica fails its first request.
struct Failure {
  const char* name;
  const char* reason;  ///< It is the label in weir_retries_total.
  void (*fail)(Exchange&);
};

std::ostream& operator<<(std::ostream& out, const Failure& one) { return out << one.name; }

const std::vector<Failure> failures{
    {"a_reset_before_the_head", "reset", [](Exchange& exchange) { exchange.reset(); }},
    {"a_close_before_the_head", "reset", [](Exchange& exchange) { exchange.close(); }},
    {"a_reset_within_the_head", "reset",
     [](Exchange& exchange) {
       exchange.send("HTTP/1.1 200 OK\r\ncontent-ty");
       exchange.reset();
     }},
    {"a_reset_between_head_and_first_event", "reset",
     [](Exchange& exchange) {
       exchange.send(sse_head());
       exchange.reset();
     }},
    {"a_close_between_head_and_first_event", "reset",
     [](Exchange& exchange) {
       exchange.send(sse_head());
       exchange.close();
     }},
    {"a_reset_after_a_comment", "reset",
     [](Exchange& exchange) {
       exchange.send(sse_head() + chunk(":\n\n"));
       exchange.reset();
     }},
    {"a_503", "status",
     [](Exchange& exchange) { exchange.send(answer("503 Service Unavailable", "{\"error\":\"loading\"}")); }},
    {"a_429", "status",
     [](Exchange& exchange) { exchange.send(answer("429 Too Many Requests", "{\"error\":\"busy\"}")); }},
    {"an_error_event_first", "in_band_error",
     [](Exchange& exchange) {
       exchange.send(sse_head() + chunk(std::string(vllm_error) + "data: [DONE]\n\n") + std::string(last_chunk));
     }},
};

class FailureInPrefill : public ::testing::TestWithParam<Failure> {};

TEST_P(FailureInPrefill, IsTakenOverByAnotherReplica) {
  const auto script = vllm_chat(5);
  std::atomic<unsigned> requests{0};
  const auto fail_once = [&](Exchange& exchange) {
    if (++requests == 1) return GetParam().fail(exchange);
    play(exchange, script);
  };
  ScriptedReplica first(fail_once), second(fail_once);
  WeirUnderTest weir(pool_of({&first, &second}));

  const auto got = fetch(weir.port(), post(chat, chat_body()));

  EXPECT_EQ(got.status, 200u);
  EXPECT_EQ(got.body, script.body(false));
  EXPECT_EQ(got.end, BodyEnd::whole);
  EXPECT_EQ(first.requests().size(), 1u);
  EXPECT_EQ(second.requests().size(), 1u);
  EXPECT_EQ(first.requests().at(0).body, second.requests().at(0).body);
  const auto answered_by = got.head.field("x-weir-replica").value_or("nobody");
  const auto metrics = weir.metrics_after(1);
  EXPECT_EQ(metrics.sum("weir_requests_total"), 1) << "one request, however many attempts";
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "ok"}, {"replica", answered_by}}), 1);
  EXPECT_EQ(metrics.sum("weir_retries_total"), 1);
  EXPECT_EQ(metrics.sum("weir_retries_total", {{"reason", GetParam().reason}}), 1);
  EXPECT_EQ(member(weir.log_lines(1).front(), "attempt"), "2");
  expect_idle(weir.metrics_when("an empty ledger",
                                [](const MetricsPage& page) { return page.sum("weir_queued_tokens") == 0; }));
}

INSTANTIATE_TEST_SUITE_P(Retry, FailureInPrefill, ::testing::ValuesIn(failures),
                         [](const auto& test) { return test.param.name; });

/// These are the same failures with no other replica to ask.
class FailureOfTheOnlyReplica : public ::testing::TestWithParam<Failure> {};

TEST_P(FailureOfTheOnlyReplica, IsAnsweredAndCountedOnce) {
  ScriptedReplica replica([](Exchange& exchange) { GetParam().fail(exchange); });
  WeirUnderTest weir(pool_of({&replica}));

  const auto got = fetch(weir.port(), post(chat, chat_body()));

  const std::string reason = GetParam().reason;
  if (reason == "reset") {
    expect_error(got, 502, "upstream_error");
  } else if (reason == "status") {
    EXPECT_THAT(got.body, ::testing::AnyOf("{\"error\":\"loading\"}", "{\"error\":\"busy\"}"))
        << "the replica's own words";
    EXPECT_EQ(got.status, got.body == "{\"error\":\"busy\"}" ? 429u : 503u);
  } else {
    EXPECT_EQ(got.status, 200u);
    EXPECT_EQ(got.body, std::string(vllm_error) + "data: [DONE]\n\n") << "relayed as it is";
  }
  EXPECT_EQ(got.end, BodyEnd::whole);
  const auto metrics = weir.metrics_after(1);
  const auto outcome = reason == "reset" ? "upstream_reset" : reason == "status" ? "replica_refused" : "upstream_error";
  EXPECT_EQ(metrics.sum("weir_requests_total"), 1);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", outcome}}), 1) << weir.log_text();
  EXPECT_EQ(metrics.sum("weir_time_to_first_token_seconds_count"), 0);
}

INSTANTIATE_TEST_SUITE_P(Retry, FailureOfTheOnlyReplica, ::testing::ValuesIn(failures),
                         [](const auto& test) { return test.param.name; });

TEST(Retry, ATgiThatAnswers200AndThenRefusesIsReplacedByAnotherOne) {
  const auto script = tgi_stream(5);
  std::atomic<unsigned> requests{0};
  const auto overloaded_once = [&](Exchange& exchange) {
    if (++requests == 1) return exchange.send(sse_head() + chunk(tgi_overloaded) + std::string(last_chunk));
    play(exchange, script);
  };
  ScriptedReplica first(overloaded_once), second(overloaded_once);
  WeirUnderTest weir(pool_of({&first, &second}));

  EXPECT_EQ(fetch(weir.port(), post("/generate_stream", tgi_body())).body, script.body(false));
  const auto metrics = weir.metrics_after(1);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "ok"}}), 1);
  EXPECT_EQ(metrics.sum("weir_retries_total", {{"reason", "in_band_error"}}), 1);
}

TEST(Retry, WhereEveryTgiRefusesTheClientGetsTheRefusalAsItIs) {
  const auto overloaded = [](Exchange& exchange) {
    exchange.send(sse_head() + chunk(tgi_overloaded) + std::string(last_chunk));
  };
  ScriptedReplica first(overloaded), second(overloaded);
  WeirUnderTest weir(pool_of({&first, &second}));

  const auto got = fetch(weir.port(), post("/generate_stream", tgi_body()));
  EXPECT_EQ(got.status, 200u);
  EXPECT_EQ(got.body, tgi_overloaded);
  EXPECT_EQ(got.end, BodyEnd::whole);
  EXPECT_EQ(first.requests().size() + second.requests().size(), 2u);
  EXPECT_EQ(weir.metrics_after(1).sum("weir_requests_total", {{"outcome", "upstream_error"}}), 1);
}

TEST(Retry, AReplicaThatRefusesConnectionsIsPassedOver) {
  const auto script = vllm_chat(3);
  ScriptedReplica good([&](Exchange& exchange) { play(exchange, script); });
  auto leaves = std::make_unique<ScriptedReplica>([&](Exchange& exchange) { play(exchange, script); });
  auto settings = pool_of({&good, leaves.get()});
  settings.pools[0].more = {{"policy", "\"round_robin\""}};
  settings.health = {{"interval", "\"1h\""}};
  WeirUnderTest weir(settings);
  leaves->wait_for_probes(1);
  leaves.reset();

  for (int i = 0; i < 6; ++i) {
    const auto got = fetch(weir.port(), post(chat, chat_body()));
    EXPECT_EQ(got.status, 200u);
    EXPECT_EQ(got.body, script.body(false));
    EXPECT_EQ(got.head.field("x-weir-replica"), "r0");
  }
  const auto metrics = weir.metrics_after(6);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "ok"}, {"replica", "r0"}}), 6);
  EXPECT_GE(metrics.sum("weir_retries_total", {{"reason", "connect"}}), 1);
  EXPECT_EQ(metrics.sum("weir_retries_total"), metrics.sum("weir_retries_total", {{"reason", "connect"}}));
}

TEST(Retry, WhereEveryReplicaRefusesConnectionsTheAnswerIs502) {
  WeirSettings settings{.pools = {{.name = "chat", .replicas = {}}}};
  for (const auto* name : {"a", "b"})
    settings.pools[0].replicas.push_back({.name = name, .url = "http://127.0.0.1:" + std::to_string(free_port())});
  WeirUnderTest weir(settings);

  HttpClient client(weir.port());
  expect_error(client.exchange(post(chat, chat_body())), 502, "upstream_error");
  expect_error(client.exchange(post(chat, whole_chat_body())), 502, "upstream_error");
  EXPECT_EQ(weir.metrics_after(2).sum("weir_requests_total", {{"outcome", "upstream_error"}}), 2);
  for (const auto& line : weir.log_lines(2))
    EXPECT_EQ(member(line, "in_flight_mean"), "1") << "it was alone there, and it was there";
}

TEST(Retry, AKeptConnectionThatDiesUnderTheNextRequestCostsTheClientNothing) {
  const auto script = vllm_chat(3);
  ScriptedReplica replica([&](Exchange& exchange) {
    if (exchange.request().connection == 1 && exchange.request().on_connection == 2) return exchange.reset();
    play(exchange, script);
  });
  auto settings = pool_of({&replica});
  settings.server = {{"threads", "1"}};
  settings.limits = {{"retry_budget", "0"}};
  WeirUnderTest weir(settings);

  for (int i = 0; i < 3; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).body, script.body(false));
  EXPECT_EQ(replica.connections(), 2u);
  const auto metrics = weir.metrics_after(3);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "ok"}}), 3);
  EXPECT_EQ(metrics.sum("weir_retries_total", {{"reason", "stale_connection"}}), 1) << "free: the budget was none";
}

TEST(Retry, AConnectionThatAReplicaClosesAfterItsAnswerIsNotUsedAgain) {
  ScriptedReplica replica([](Exchange& exchange) {
    exchange.send(answer("200 OK", "{}"));
    exchange.close();
  });
  WeirUnderTest weir(pool_of({&replica}));

  for (int i = 0; i < 10; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, whole_chat_body())).status, 200u);
  EXPECT_EQ(weir.metrics_after(10).sum("weir_retries_total"),
            weir.metrics().sum("weir_retries_total", {{"reason", "stale_connection"}}));
}

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

TEST(Retry, ARequestThatIsWrongAnywayLeavesInjectionOn) {
  ScriptedReplica replica([](Exchange& exchange) {
    exchange.send(answer("400 Bad Request", "{\"error\":{\"message\":\"messages must not be empty\"}}"));
  });
  WeirUnderTest weir(pool_of({&replica}));

  const auto got = fetch(weir.port(), post(chat, chat_body()));
  EXPECT_EQ(got.status, 400u);
  EXPECT_EQ(got.body, "{\"error\":{\"message\":\"messages must not be empty\"}}");
  EXPECT_EQ(replica.requests().size(), 2u);
  const auto metrics = weir.metrics_after(1);
  EXPECT_EQ(metrics.sum("weir_injection_disabled"), 0);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "client_error"}}), 1);
}

TEST(Retry, ABurstOverOneLiveAndOneDeadReplicaIsAnsweredWhole) {
  const auto script = vllm_chat(3);
  for (const std::size_t burst : {8u, 16u, 32u, 64u}) {
    ScriptedReplica live([&](Exchange& exchange) { play(exchange, script); });
    auto leaves = std::make_unique<ScriptedReplica>([&](Exchange& exchange) { play(exchange, script); });
    auto settings = pool_of({&live, leaves.get()});
    settings.health = {{"interval", "\"1h\""}};
    WeirUnderTest weir(settings);
    leaves->wait_for_probes(1);
    leaves.reset();

    std::vector<std::unique_ptr<HttpClient>> clients;
    for (std::size_t i = 0; i < burst; ++i) clients.push_back(std::make_unique<HttpClient>(weir.port()));
    for (auto& client : clients) client->send(post(chat, chat_body()));
    for (auto& client : clients) EXPECT_EQ(client->response().body, script.body(false));
    const auto metrics = weir.metrics_after(burst);
    EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "ok"}, {"replica", "r0"}}), burst);
    EXPECT_GE(metrics.sum("weir_retries_total", {{"reason", "connect"}, {"replica", "r1"}}), 1);
  }
}

TEST(Retry, ARefusedConnectionDrawsNothingFromTheBudgetHoweverManyReplicasAreDead) {
  const auto script = vllm_chat(3);
  ScriptedReplica live([&](Exchange& exchange) { play(exchange, script); });
  auto settings = pool_of({&live});
  settings.pools[0].more = {{"policy", "\"round_robin\""}};
  settings.limits = {{"retry_budget", "0"}};
  for (int i = 0; i < 5; ++i)
    settings.pools[0].replicas.push_back(
        {.name = "dead" + std::to_string(i), .url = "http://127.0.0.1:" + std::to_string(free_port())});
  WeirUnderTest weir(settings);

  for (int i = 0; i < 12; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).body, script.body(false));
  EXPECT_EQ(weir.metrics_after(12).sum("weir_requests_total", {{"outcome", "ok"}}), 12);
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

TEST(Retry, APostThatIsNoInferenceIsForwardedOnce) {
  const auto fails = [](Exchange& exchange) { exchange.send(answer("500 x", "{}")); };
  ScriptedReplica r0(fails), r1(fails);
  auto settings = pool_of({&r0, &r1});
  settings.server = {{"paths", R"(["default", "/v1/load_lora_adapter"])"}};
  WeirUnderTest weir(settings);
  EXPECT_EQ(fetch(weir.port(), post("/v1/load_lora_adapter", "{}")).status, 500u);
  EXPECT_EQ(r0.requests().size() + r1.requests().size(), 1u);
}

TEST(Retry, A400IsNotBlamedOnTheUsageOptionOnceTheReplicaHasTakenItWell) {
  const auto script = vllm_chat(3);
  std::atomic<bool> good{true};
  ScriptedReplica replica([&](Exchange& exchange) {
    if (good) return play(exchange, script);
    exchange.send(answer("400 Bad Request", "{\"error\":{\"message\":\"temperature must be positive\"}}"));
  });
  WeirUnderTest weir(pool_of({&replica}));
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  good = false;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 400u);
  EXPECT_EQ(replica.requests().size(), 4u) << "each once";
  EXPECT_EQ(weir.metrics_after(4).sum("weir_retries_total"), 0);
}

TEST(Retry, AnAnswerToARequestThatWeirDidNotEditProvesNothingOfItsOption) {
  const auto script = vllm_chat(3);
  ScriptedReplica replica([&](Exchange& exchange) {
    if (asks_for_usage(exchange.request())) return exchange.send(answer("400 Bad Request", "{}"));
    play(exchange, script);
  });
  WeirUnderTest weir(pool_of({&replica}));
  EXPECT_EQ(fetch(weir.port(), post(chat, whole_chat_body())).status, 200u);
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u) << "the original was sent";
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
