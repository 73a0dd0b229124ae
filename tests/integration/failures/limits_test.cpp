// A replica is late, a client is slow, or everybody is busy, and weir keeps its limits of time and room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include <algorithm>
#include <array>
#include <future>
#include <iostream>

#include "tests/integration/peers/errors.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {


class FirstTokenIsLate : public ::testing::TestWithParam<bool> {};

TEST_P(FirstTokenIsLate, AndTheClientIsToldBeforeAnyHead) {
  std::promise<void> closed;
  ScriptedReplica replica([&](Exchange& exchange) {
    if (GetParam()) exchange.send(sse_head());
    exchange.wait_for_close();
    closed.set_value();
  });
  auto settings = pool_of({&replica});
  settings.limits = {{"first_token", "0.3"}};
  WeirUnderTest weir(settings);

  const auto began = Clock::now();
  const auto got = fetch(weir.port(), post(chat, chat_body()));
  EXPECT_GE(Clock::now() - began, std::chrono::milliseconds(290));
  EXPECT_LT(Clock::now() - began, soon);
  expect_error(got, 504, "timeout_error");
  value_of(closed, "weir to close the replica's connection");
  const auto metrics = weir.metrics_after(1);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "timeout"}}), 1);
  EXPECT_EQ(metrics.sum("weir_time_to_first_token_seconds_count"), 0);
  expect_idle(weir.metrics_when("an empty ledger",
                                [](const MetricsPage& page) { return page.sum("weir_queued_tokens") == 0; }));
}

INSTANTIATE_TEST_SUITE_P(Limits, FirstTokenIsLate, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "behind_its_head" : "as_is_the_head"; });

TEST(Limits, AWholeAnswerThatTakesTooLongIs504) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.wait_for_close(); });
  auto settings = pool_of({&replica});
  settings.limits = {{"whole_answer", "0.3"}};
  WeirUnderTest weir(settings);

  expect_error(fetch(weir.port(), post(chat, whole_chat_body())), 504, "timeout_error");
  EXPECT_EQ(weir.metrics_after(1).sum("weir_requests_total", {{"outcome", "timeout"}}), 1);
}

TEST(Limits, AHeadOrABodyThatDoesNotComeIs408) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  auto settings = pool_of({&replica});
  settings.limits = {{"head_time", "0.3"}, {"body_time", "0.3"}};
  WeirUnderTest weir(settings);

  const auto request = post(chat, whole_chat_body());
  for (const auto size : std::array{std::size_t{20}, request.size() - 10}) {
    HttpClient client(weir.port());
    const auto got = client.exchange(request.substr(0, size));
    expect_error(got, 408, "timeout_error");
    EXPECT_TRUE(client.closed_by_server());
  }
  EXPECT_EQ(replica.connections(), 0u);
}

TEST(Limits, ASlowClientHoldsTheReplicaBackAndLosesNothing) {
  constexpr std::size_t events = 4000;
  const std::string word(8000, 'w');
  const auto one = [&](std::size_t i) {
    return "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + std::to_string(i) + word +
           "\"},\"finish_reason\":null}]}\n\n";
  };
  const std::string end =
      "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
  Event stalled;
  Progress sent;
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.small_send_buffer();
    exchange.send(sse_head());
    for (std::size_t i = 0; i < events; ++i) exchange.send_until_taken(chunk(one(i)), sent, stalled);
    exchange.send(chunk(end) + std::string(last_chunk));
  });
  WeirUnderTest weir(pool_of({&replica}));
  const auto before = weir.process().resident_memory();

  HttpClient client(weir.port(), 16 * 1024);
  client.send(post(chat, chat_body_with_usage()));
  auto got = client.response_head();
  stalled.wait("the replica to be held back");
  const auto grown = weir.process().resident_memory() - std::min(before, weir.process().resident_memory());
  EXPECT_LT(grown, events * word.size() / 2) << "weir holds what the client does not take";
  EXPECT_LT(sent.value(), events * word.size());
  std::cout << "held back after " << sent.value() << " bytes, weir's memory grew by " << grown << '\n';

  client.rest(got);
  std::string whole;
  for (std::size_t i = 0; i < events; ++i) whole += one(i);
  EXPECT_EQ(got.end, BodyEnd::whole);
  EXPECT_TRUE(got.body == whole + end) << got.body.size() << " of " << whole.size() + end.size() << " bytes, or others";
  const auto metrics = weir.metrics_after(1);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "ok"}}), 1);
  expect_idle(metrics);
  EXPECT_GT(weir.log_lines(1).front().at("paused_s").to_number<double>(), 0);
}

TEST(Limits, AClientThatTakesItsBytesSlowlyIsNotCut) {
  const auto endless = chunk(vllm_chat(200).body(false));
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.send(sse_head());
    for (;;) exchange.send(endless);
  });
  auto settings = pool_of({&replica});
  settings.limits = {{"client_stall", "3"}};
  WeirUnderTest weir(settings);

  // This is far from enough to turn its socket at weir writable within three seconds.
  auto client = Socket::connect(weir.port(), 16 * 1024);
  client.send(post(chat, chat_body_with_usage()));
  std::vector<char> bytes(16 * 1024);
  const auto begin = Clock::now();
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_until(begin + i * std::chrono::milliseconds(100));
    ASSERT_GT(client.receive(bytes.data(), bytes.size()), 0u) << "after " << i << " tenths of a second";
  }
  EXPECT_EQ(weir.metrics().sum("weir_limit_hits_total", {{"limit", "client_stall"}}), 0);
  EXPECT_EQ(weir.metrics().sum("weir_requests_in_flight"), 1);
}

TEST(Limits, WhereEveryReplicaIsFullTheAnswerIs429WithAnIdeaWhenToComeBack) {
  const auto script = vllm_chat(4);
  Event go_on;
  const auto slow = [&](Exchange& exchange) {
    exchange.send(sse_head() + chunk(script.events[0]));
    go_on.wait("the test to go on");
    for (std::size_t i = 1; i < script.events.size(); ++i) exchange.send(chunk(script.events[i]));
    exchange.send(chunk(script.marker) + std::string(last_chunk));
  };
  ScriptedReplica first(slow), second(slow);
  auto settings = pool_of({&first, &second});
  for (auto& replica : settings.pools[0].replicas) replica.more = {{"max_in_flight", "1"}};
  WeirUnderTest weir(settings);

  HttpClient a(weir.port()), b(weir.port());
  a.send(post(chat, chat_body()));
  b.send(post(chat, chat_body()));
  auto from_a = a.response_head(), from_b = b.response_head();
  EXPECT_EQ(weir.metrics().sum("weir_requests_in_flight"), 2);

  const auto refused = fetch(weir.port(), post(chat, chat_body()));
  expect_error(refused, 429, "overloaded_error");
  const auto seconds = std::stoi(refused.head.field("retry-after").value_or("0"));
  EXPECT_GE(seconds, 1);
  EXPECT_LE(seconds, 60);

  go_on.set();
  a.rest(from_a);
  b.rest(from_b);
  EXPECT_EQ(from_a.body, script.body(false));
  EXPECT_EQ(from_b.body, script.body(false));
  EXPECT_EQ(first.requests().size(), 1u);
  EXPECT_EQ(second.requests().size(), 1u);
  const auto metrics = weir.metrics_after(3);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "rejected"}}), 1);
  EXPECT_EQ(metrics.sum("weir_limit_hits_total", {{"limit", "max_in_flight"}}), 1);
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u) << "there is room again";
}

}  // namespace
}  // namespace weir::integration
