// Peers that would cost weir memory without end, where only the kernel's buffers and resets show that they cannot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <iostream>
#include <list>
#include <string>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

constexpr std::size_t mib = 1024 * 1024;

/// Sends all of it without looking, and only then reads. A reset on the way throws PeerGone.
unsigned status_after_sending_blindly(std::uint16_t port, const std::string& head, std::size_t body) {
  auto socket = Socket::connect(port);
  socket.send(head);
  const std::string some(mib, 'x');
  for (std::size_t sent = 0; sent < body; sent += some.size()) socket.send(some);
  MessageReader reader(socket);
  const auto answer = reader.head();
  return answer ? answer->status() : 0;
}

TEST(Lingering, AClientThatSendsBlindlyReadsEveryRefusal) {
  ScriptedReplica replica(always(answer("200 OK", "{}")));
  auto settings = pool_of({&replica});
  settings.limits = {{"request_body", "\"1MiB\""}};
  WeirUnderTest weir(settings);

  const std::string start = "POST /v1/chat/completions HTTP/1.1\r\n";
  const struct {
    unsigned status;
    std::string head;
  } rows[]{
      {413, start + "Host: w\r\nContent-Length: 8388608\r\n\r\n"},
      {413, start + "Host: w\r\nTransfer-Encoding: chunked\r\n\r\n800000\r\n"},
      {400, start + "Host: w\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"},
      {400, start + "Host: w\r\nContent-Length: 1\r\nContent-Length: 8388608\r\n\r\n"},
      {501, start + "Host: w\r\nTransfer-Encoding: gzip\r\n\r\n"},
      {431, start + "Host: w\r\nX: " + std::string(70'000, 'x')},
      {417, start + "Host: w\r\nExpect: more\r\nContent-Length: 8388608\r\n\r\n"},
  };
  for (const auto& [status, head] : rows)
    EXPECT_EQ(status_after_sending_blindly(weir.port(), head, 8 * mib), status) << head.substr(0, 100);
  EXPECT_EQ(weir.metrics_after(std::size(rows)).sum("weir_requests_total", {{"outcome", "bad_request"}}),
            std::size(rows));
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

// scripts/test leaves this out where a sanitizer keeps memory of its own.
TEST(StreamMemory, IsAtMost9KiBWhileAStreamWaits) {
  rlimit descriptors{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &descriptors), 0);
  descriptors.rlim_cur = descriptors.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &descriptors), 0);

  Event go_on;
  const auto script = vllm_chat(3);
  ScriptedReplica replica([&](Exchange& exchange) { play_with_pause(exchange, script, 2, go_on); });
  WeirUnderTest weir(pool_of({&replica}));
  std::list<HttpClient> clients;
  std::list<Response> answers;
  const auto begin_streams = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) clients.emplace_back(weir.port()).send(post(chat, chat_body()));
    for (auto client = std::next(clients.begin(), static_cast<std::ptrdiff_t>(answers.size())); client != clients.end();
         ++client) {
      answers.push_back(client->response_head());
      client->read_until(answers.back(), script.events[1]);
    }
  };
  begin_streams(1);
  const auto with_one = weir.process().resident_memory();
  constexpr std::size_t streams = 1000;
  begin_streams(streams);
  const auto with_all = weir.process().resident_memory();
  EXPECT_LE((with_all - with_one) / streams, 9u * 1024) << with_one << " and " << with_all << " bytes";
  std::cout << (with_all - with_one) / streams << " bytes a stream\n";
  go_on.set();
  for (auto client = clients.begin(); auto& answer : answers) (client++)->rest(answer);
  for (const auto& answer : answers) EXPECT_EQ(answer.end, BodyEnd::whole);
}

}  // namespace
}  // namespace weir::integration
