// Peers that would cost weir memory or time without end, on the wire: each is bounded and counted, and a client that is
// refused can read why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/integration/peers/errors.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

constexpr std::size_t mib = 1024 * 1024;

std::string announced(std::size_t bytes) {
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(bytes) + "\r\n\r\n";
}

/// Sends all of it without looking, and only then reads. A reset on the way throws PeerGone.
unsigned status_after_sending_blindly(std::uint16_t port, const std::string& head, std::size_t body) {
  auto socket = Socket::connect(port);
  socket.send(head);
  const std::string some(mib, 'x');
  for (std::size_t sent = 0; sent < body; sent += some.size()) socket.send(some);
  MessageReader reader(socket);
  const auto answer = reader.head();
  return answer ? static_cast<unsigned>(std::stoul(answer->start_line.substr(9, 3))) : 0;
}

TEST(Lingering, AClientThatSendsBlindlyReadsEveryRefusal) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  auto settings = pool_of({&replica});
  settings.limits = {{"request_body", "\"1MiB\""}};
  WeirUnderTest weir(settings);

  const std::string start = "POST /v1/chat/completions HTTP/1.1\r\n";
  const struct {
    unsigned status;
    std::string head;
  } rows[]{
      {413, announced(8 * mib)},
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

TEST(Lingering, AClientBeyondTheLimitOfConnectionsReadsThatToo) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  auto settings = pool_of({&replica});
  settings.limits = {{"connections", "1"}};
  WeirUnderTest weir(settings);

  HttpClient first(weir.port());
  EXPECT_EQ(first.exchange(post(chat, whole_chat_body())).status, 200u);
  EXPECT_EQ(status_after_sending_blindly(weir.port(), announced(8 * mib), 8 * mib), 503u);
  EXPECT_EQ(weir.metrics().sum("weir_limit_hits_total", {{"limit", "connections"}}), 1);
}

TEST(BodyRate, ABodyThatTricklesIsRefusedWhenItsGraceIsOverAndOthersAreServed) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", vllm_whole_chat(5))); });
  auto settings = pool_of({&replica});
  settings.limits = {{"body_time", "10"}};
  WeirUnderTest weir(settings);
  auto slow = Socket::connect(weir.port());
  const auto begun = Clock::now();
  slow.send(announced(mib));
  // Each byte is well within limits.body_time. weir ends it by itself, after ten seconds.
  std::size_t served = 0;
  while (!slow.has_bytes(std::chrono::milliseconds(200))) {
    ASSERT_LT(Clock::now() - begun, patience);
    slow.send("x");
    served += fetch(weir.port(), post(chat, whole_chat_body())).status == 200 ? 1 : 0;
  }
  EXPECT_GE(Clock::now() - begun, std::chrono::seconds(9));
  MessageReader reader(slow);
  const auto refusal = reader.head();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->start_line, "HTTP/1.1 408 Request Timeout");
  EXPECT_GE(served, 5u);
  const auto page = weir.metrics_after(served + 1);
  EXPECT_EQ(page.sum("weir_limit_hits_total", {{"limit", "body_rate"}}), 1);
  EXPECT_EQ(page.sum("weir_limit_hits_total", {{"limit", "body_time"}}), 0);
  EXPECT_EQ(page.sum("weir_requests_total", {{"outcome", "ok"}}), served);
}

TEST(BufferMemory, BodiesThatAreAnnouncedAndNeverSentReserveNothing) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  WeirUnderTest weir(pool_of({&replica}));
  const auto before = weir.process().resident_memory();
  std::vector<Socket> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(Socket::connect(weir.port()));
    clients.back().send(announced(16 * mib) + "{");
  }
  weir.metrics_when("a connection", [](const MetricsPage&) { return true; });
  EXPECT_EQ(fetch(weir.port(), post(chat, whole_chat_body())).status, 200u) << "weir has read what came before";
  EXPECT_LT(weir.process().resident_memory(), before + 20 * mib);
  EXPECT_EQ(weir.metrics().sum("weir_buffer_memory_bytes"), 0);
}

TEST(BufferMemory, IsBoundedForAllClientsTogetherAndIsZeroAtRest) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  auto settings = pool_of({&replica});
  settings.limits = {{"request_body", "\"4MiB\""}, {"buffer_memory", "\"8MiB\""}};
  WeirUnderTest weir(settings);
  EXPECT_EQ(weir.metrics().sum("weir_buffer_memory_limit_bytes"), 8 * mib);

  // Each of these has sent all but the last byte of its body: two fill the budget.
  HttpClient first(weir.port()), second(weir.port());
  const auto text = [](std::size_t size) {
    const std::string begin = R"({"model":"m","prompt":")", end = "\"}";
    return begin + std::string(size - begin.size() - end.size(), 'x') + end;
  };
  const auto body = text(4 * mib);
  for (auto* client : {&first, &second}) {
    client->send(announced(body.size()));
    client->send(std::string_view(body).substr(0, body.size() - 1));
  }
  weir.metrics_when("both bodies",
                    [](const MetricsPage& page) { return page.sum("weir_buffer_memory_bytes") >= 8 * mib - 8192.0; });

  EXPECT_EQ(fetch(weir.port(), post(chat, text(64 * 1024))).status, 200u) << "the slowest makes room";
  EXPECT_EQ(weir.metrics().sum("weir_limit_hits_total", {{"limit", "buffer_memory"}}), 1);

  std::vector<unsigned> statuses;
  for (auto* client : {&first, &second}) {
    client->send(std::string_view(body).substr(body.size() - 1));
    const auto got = client->response();
    statuses.push_back(got.status);
    if (got.status == 200) continue;
    expect_error(got, 503, "overloaded_error", "no_memory");
    EXPECT_TRUE(got.head.has("retry-after"));
    EXPECT_EQ(got.head.field("connection"), "close");
  }
  EXPECT_THAT(statuses, testing::UnorderedElementsAre(200u, 503u));
  EXPECT_EQ(fetch(weir.port(), post(chat, text(64 * 1024))).status, 200u);
  expect_idle(weir.metrics_after(4));
  weir.metrics_when("nothing held", [](const MetricsPage& page) { return page.sum("weir_buffer_memory_bytes") == 0; });
}

}  // namespace
}  // namespace weir::integration
