// A request while it is read: its cost, and its limits to the byte.
#include "proxy/serve/request_reading.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proxy/http/via.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Limit;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A request for weir's health whose head has so many bytes.
std::string head_of(std::size_t size) {
  const auto shortest = health("X: \r\n").size();
  return health("X: " + std::string(size - shortest, 'x') + "\r\n");
}

TEST(RequestReading, TakesAHeadOfExactlyItsLimitInWhateverPiecesItComes) {
  for (const std::size_t piece : {std::size_t{30}, net::Peer::any})
    for (const std::size_t size : {199u, 200u, 201u}) {
      SCOPED_TRACE(testing::Message() << size << " bytes, pieces of " << piece);
      ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.request_head = 200; });
      ASSERT_EQ(head_of(size).size(), size);
      const auto client = proxy.asks(head_of(size), piece);
      EXPECT_THAT(client->got, StartsWith(size <= 200 ? "HTTP/1.1 200 " : "HTTP/1.1 431 "));
      EXPECT_EQ(proxy.limit_hits(Limit::request_head), size <= 200 ? 0u : 1u);
    }
}

TEST(RequestReading, SaysWhetherTheLineOrTheHeadIsTooLongBeforeEitherIsWhole) {
  for (const bool line : {true, false}) {
    ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.request_head = 10 * kib; });
    const auto client = proxy.asks((line ? "GET /" : "GET / HTTP/1.1\r\nX: ") + std::string(11 * kib, 'x'));
    EXPECT_THAT(client->got, StartsWith(line ? "HTTP/1.1 414 " : "HTTP/1.1 431 "));
  }
}

TEST(RequestReading, PaysForTheHeadAsWellAsForTheBody) {
  ScriptedProxy proxy;
  const auto padding = "X: " + std::string(40 * kib, 'x') + "\r\n";
  const auto client = proxy.asks(post(std::string(40 * kib, ' '), padding).substr(0, 80 * kib));
  EXPECT_EQ(client->got, "") << "some of the body is still to come";
  EXPECT_GE(proxy.shared.buffers.used(), 76 * kib);
}

TEST(RequestReading, IgnoresOneLineEndBeforeARequestLine) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, net::Peer::any}) {
    ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
    const auto client = proxy.asks(post(chat(false)) + "\r\n" + health(), piece);
    const auto first = read_answer(client->got), second = read_answer(first.rest);
    EXPECT_EQ(first.status, 200u);
    EXPECT_EQ(second.status, 200u);
    proxy.hears(*client, "\r\n", piece);
    proxy.tick_in(11);
    EXPECT_FALSE(client->closed()) << "it is an idle connection, and no head that takes too long";
    proxy.hears(*client, health(), piece);
    EXPECT_EQ(read_answer(second.rest).status, 0u);
    EXPECT_EQ(read_answer(read_answer(read_answer(client->got).rest).rest).status, 200u);
  }
}

TEST(RequestReading, IgnoresNothingElseBeforeARequestLine) {
  for (const std::string before : {"\r\n\r\n", "\n", "\r", " \r\n", "\r\n ", "\r\n\r"})
    for (const std::size_t piece : {std::size_t{1}, net::Peer::any}) {
      ScriptedProxy proxy;
      const auto client = proxy.asks(before + health(), piece);
      EXPECT_THAT(client->got, StartsWith("HTTP/1.1 400 ")) << before.size();
    }
}

TEST(RequestReading, RefusesARequestThatHasComeBack) {
  for (const bool came_back : {true, false}) {
    ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
    const auto via = "Via: 1.1 front\r\nvia: 1.0 a, 1.1 " + (came_back ? http::name_in_via() : "weir-0") +
                     " (b)\r\nVia: 1.1 c\r\n";
    const auto client = proxy.asks(post(chat(false), via));
    EXPECT_EQ(read_answer(client->got).status, came_back ? 508u : 200u);
    EXPECT_EQ(client->got.find("loop_detected") != std::string::npos, came_back);
    EXPECT_EQ(proxy.connections[0].size(), came_back ? 0u : 1u);
    if (came_back) continue;
    EXPECT_THAT(proxy.connections[0].at(0)->got, HasSubstr("Via: 1.1 " + http::name_in_via() + "\r\n"));
  }
}

TEST(RequestReading, TellsNobodyToGoOnWhoHasGoneOn) {
  const auto request = post(chat(false), "Expect: 100-continue\r\n");
  for (const std::size_t of_body : {std::size_t{0}, std::size_t{1}, chat(false).size()}) {
    ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
    const auto client = proxy.asks(request.substr(0, request.size() - chat(false).size() + of_body));
    EXPECT_EQ(client->got.starts_with("HTTP/1.1 100 "), of_body == 0);
  }
}

TEST(RequestReading, CountsTheFieldsThatNoReplicaGetsOnceHoweverOftenTheyAreSent) {
  ScriptedProxy proxy(2);
  proxy.plan[0] = {says(whole_answer("500 x", "{}"))};
  proxy.plan[1] = {says(whole_answer("200 OK", completion))};
  const auto client = proxy.asks(post(chat(false), "X_One: 1\r\nContent_Length: 7\r\nX-Three: 3\r\n"));
  EXPECT_EQ(read_answer(client->got).status, 200u);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(proxy.connections[i].size(), 1u) << "it was sent to both";
    EXPECT_THAT(proxy.connections[i].front()->got, testing::AllOf(Not(HasSubstr("_One")), HasSubstr("X-Three: 3")));
  }
  EXPECT_EQ(proxy.loop.shard.dropped_fields.value(), 2u);
}

TEST(RequestReading, TakesNoRequestIdThatIsNone) {
  for (const bool valid : {true, false}) {
    ScriptedProxy proxy;
    const std::string id(valid ? 20 : 2000, 'i');
    const auto client = proxy.asks(health("x-request-id: " + id + "\r\n"));
    const auto answer = read_answer(client->got);
    EXPECT_EQ(answer.status, 200u);
    EXPECT_EQ(answer.head.find("x-request-id: " + id + "\r\n") != std::string::npos, valid);
    EXPECT_THAT(answer.head, HasSubstr("x-request-id: "));
  }
}

TEST(RequestReading, GivesBackWhatARefusedBodyHeldBeforeItsClientHasLeft) {
  ScriptedProxy proxy;
  const auto whole = post(std::string(100 * kib, ' '));
  const auto client = proxy.asks(whole.substr(0, whole.size() - 1));
  EXPECT_GE(proxy.shared.buffers.used(), 96 * kib);
  client->takes_nothing();
  proxy.tick_in(1000);
  EXPECT_EQ(client->got, "");
  EXPECT_FALSE(client->closed()) << "it has not read that it was too slow";
  EXPECT_EQ(proxy.shared.buffers.used(), 0u);
  client->takes(net::Peer::any);
  proxy.run();
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 408 "));
}

}  // namespace
}  // namespace weir::proxy::serve
