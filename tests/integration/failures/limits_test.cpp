// A client is slow, and weir keeps its limits of time and room: what only the kernel's buffers show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

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

}  // namespace
}  // namespace weir::integration
