// A client may cost so much: memory for its request, time for its body, and the wait for what it still sends when it
// is refused. Clients and replicas are scripted, and time is an argument.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "config/address.hpp"
#include "proxy/serve/body.hpp"
#include "proxy/serve/request_reading.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Limit;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t mib = 1024 * kib;

/// A request's head that announces a body of so many bytes.
std::string announced(std::size_t bytes) {
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: weir\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n";
}

/// A client's address in 10.0.0.0/8.
net::PeerAddress ten(unsigned char last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}; }

TEST(BodyRate, LetsNobodyEarnTimeByWhatItSentBefore) {
  for (const std::size_t at_once : {std::size_t{0}, 20 * kib, mib}) {
    ScriptedProxy proxy;
    const auto client = proxy.asks(announced(16 * mib));
    proxy.hears(*client, std::string(at_once, ' '));
    const auto begun = Clock::now();
    const auto window = body_window(proxy.snapshot->settings.limits);
    proxy.tick(begun + window / 2);
    EXPECT_EQ(client->got, "");
    proxy.hears(*client, " ");
    proxy.tick(begun + window * 9 / 8 + seconds(2));
    EXPECT_THAT(client->got, StartsWith("HTTP/1.1 408 ")) << at_once;
    EXPECT_THAT(client->got, HasSubstr("limits.body_rate"));
    EXPECT_EQ(proxy.limit_hits(Limit::body_rate), 1u);
    EXPECT_EQ(proxy.limit_hits(Limit::body_time), 0u);
    EXPECT_EQ(proxy.shared.buffers.used(), 0u);
  }
}

TEST(BodyRate, LetsAnySpeedPassIfItIsZero) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.body_rate = 0; });
  const auto client = proxy.asks(announced(mib) + "x");
  proxy.tick(Clock::now() + seconds(59));
  EXPECT_EQ(client->got, "");
  proxy.tick_in(60);
  EXPECT_THAT(client->got, HasSubstr("stopped coming"));
  EXPECT_EQ(proxy.limit_hits(Limit::body_time), 1u);
}

TEST(BufferMemory, IsTakenAsABodyComesNotAsItIsAnnounced) {
  ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
  auto& buffers = proxy.shared.buffers;
  const auto client = proxy.asks(announced(16 * mib));
  EXPECT_EQ(buffers.used(), 0u);
  std::size_t sent = 0;
  for (const std::size_t more : {10 * kib, 100 * kib, mib, 4 * mib}) {
    proxy.hears(*client, std::string(more, ' '));
    sent += more;
    EXPECT_GE(buffers.used(), sent - net::BufferBudget::step);
    EXPECT_LE(buffers.used(), 2 * sent + 16 * kib) << sent;
  }
  proxy.hears(*client, std::string(16 * mib - sent, ' '));
  EXPECT_EQ(read_answer(client->got).status, 200u);
  EXPECT_EQ(buffers.used(), 0u) << "the connection is kept, the body is not";
}

TEST(BufferMemory, HoldsABodyOfKnownLengthExactlyAndOthersWithinTwice) {
  for (const bool chunked : {false, true}) {
    ScriptedProxy proxy;
    const std::string body(mib + 1, ' ');
    proxy.plan[0] = {[](net::Peer&) {}};
    const auto request = chunked ? "POST /v1/chat/completions HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: "
                                   "chunked\r\n\r\n" +
                                       chunk(body) + "0\r\n\r\n"
                                 : post(body);
    proxy.asks(request);
    EXPECT_GE(proxy.shared.buffers.used(), mib);
    EXPECT_LE(proxy.shared.buffers.used(), chunked ? 2 * mib + 64 * kib : mib + 2 * net::BufferBudget::step);
  }
}

TEST(BufferMemory, IsGivenBackWhenTheRequestIsSentAndItsAnswerAccepted) {
  ScriptedProxy proxy({says(sse_head() + chunk(token("a")))});
  const auto client =
      proxy.asks(post(R"({"stream":true,"prompt":")" + std::string(mib, 'x') + "\"}", "", "1.1", "/v1/completions"));
  EXPECT_THAT(client->got, HasSubstr("200 OK"));
  EXPECT_FALSE(read_answer(client->got).whole);
  EXPECT_EQ(proxy.shared.buffers.used(), 0u) << "the stream goes on without its request";
}

TEST(BufferMemory, PaysOnceForWhatCameBehindARequestInTheSameRead) {
  const std::string bodyless = "GET /v1/chat/completions HTTP/1.1\r\nHost: weir\r\n\r\n";
  for (const auto& request : {post(chat(true)), bodyless}) {
    ScriptedProxy proxy({[](net::Peer&) {}});
    auto& buffers = proxy.shared.buffers;
    const auto client = proxy.asks(request + "GET /health HTTP/1.1\r\nHost: weir\r\nX: " + std::string(15 * kib, 'x'));
    ASSERT_EQ(proxy.connections[0].size(), 1u) << "a replica answers it";
    EXPECT_TRUE(buffers.used() >= 12 * kib && buffers.used() <= 20 * kib) << buffers.used();
    proxy.hears(proxy.upstream(), request.starts_with("P") ? streamed_answer() : whole_answer("200 OK", "{}"));
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_TRUE(buffers.used() >= 12 * kib && buffers.used() <= 20 * kib) << "half a head waits for the rest";
    proxy.hears(*client, "\r\n\r\n");
    EXPECT_EQ(read_answer(read_answer(client->got).rest).status, 200u);
    EXPECT_EQ(buffers.used(), 0u);
  }
}

TEST(BufferMemory, ThatIsSpentRefusesNewBodiesAndFinishesWhatWasBegun) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.buffer_memory = mib; });
  proxy.plan[0] = {[](net::Peer&) {}, says(whole_answer("200 OK", completion))};
  const auto first = proxy.asks(post(std::string(mib, ' ')));
  ASSERT_TRUE(proxy.shared.buffers.spent());

  const auto second = proxy.client(post(chat(false)));
  const auto bodyless = proxy.client(health());
  const auto long_head = proxy.asks("GET /health HTTP/1.1\r\nHost: weir\r\nX: " + std::string(9'000, 'x'));
  EXPECT_EQ(read_answer(bodyless->got).status, 200u);
  for (const auto& refused : {second, long_head}) {
    const auto answer = read_answer(refused->got);
    EXPECT_EQ(answer.status, 503u);
    EXPECT_TRUE(answer.whole);
    EXPECT_THAT(answer.head, HasSubstr("Retry-After: "));
    EXPECT_THAT(answer.head, HasSubstr("Connection: close"));
    EXPECT_THAT(answer.body, HasSubstr("overloaded_error"));
    EXPECT_THAT(answer.body, HasSubstr("limits.buffer_memory"));
  }
  EXPECT_EQ(proxy.limit_hits(Limit::buffer_memory), 2u);
  EXPECT_TRUE(proxy.shared.wants_room.load()) << "other loops may hold slow bodies";

  proxy.hears(proxy.upstream(), whole_answer("200 OK", completion));
  EXPECT_EQ(read_answer(first->got).status, 200u);
  const auto after = proxy.asks(post(chat(false)));
  EXPECT_EQ(read_answer(after->got).status, 200u) << "there is room again";
  EXPECT_THAT(proxy.log_lines(), testing::Contains(HasSubstr(R"("outcome":"rejected")")).Times(2));
}

TEST(BufferMemory, RefusesABodyThatGrowsBeyondWhatIsLeft) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.buffer_memory = mib; });
  const auto first = proxy.client(announced(mib) + std::string(700 * kib, ' '));
  const auto second = proxy.asks(announced(mib) + std::string(100 * kib, ' '));
  proxy.hears(*second, std::string(500 * kib, ' '));
  const bool one = first->got.starts_with("HTTP/1.1 503 "), other = second->got.starts_with("HTTP/1.1 503 ");
  EXPECT_TRUE(one || other);
  EXPECT_LE(proxy.shared.buffers.used(), mib);
  EXPECT_EQ(proxy.limit_hits(Limit::buffer_memory),
            static_cast<std::uint64_t>(one) + static_cast<std::uint64_t>(other));
}

/// True if the client has been refused for memory.
bool has_no_room(const std::shared_ptr<net::Peer>& client) { return client->got.starts_with("HTTP/1.1 503 "); }

TEST(BufferMemory, ThatSlowBodiesHoldGoesToWhoeverComes) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.buffer_memory = 4 * mib; });
  proxy.plan[0] = {says(whole_answer("200 OK", completion))};
  std::vector<std::shared_ptr<net::Peer>> slow;
  for (int i = 0; i < 5; ++i) {
    slow.push_back(proxy.client(announced(mib) + std::string(mib - 64, ' ')));
    proxy.run();
  }
  EXPECT_EQ(std::ranges::count_if(slow, has_no_room), 1);
  ASSERT_TRUE(proxy.shared.buffers.spent());
  for (int i = 0; i < 3; ++i) {
    const auto whole = proxy.asks(post(chat(false)));
    EXPECT_EQ(read_answer(whole->got).status, 200u);
  }
  EXPECT_EQ(std::ranges::count_if(slow, has_no_room), 2) << "one that ends makes room for many";
  const auto ended = std::ranges::find_if(slow, has_no_room);
  const auto refusal = read_answer((*ended)->got);
  EXPECT_THAT(refusal.head, HasSubstr("Retry-After: "));
  EXPECT_THAT(refusal.body, HasSubstr("more slowly than others"));
  EXPECT_TRUE((*ended)->writing_ended());
  EXPECT_EQ(proxy.limit_hits(Limit::buffer_memory), 2u);
}

TEST(BufferMemory, ThatOneBodyGivesUpLeavesTheBytesOfTheOtherAlone) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.buffer_memory = 2 * mib + 64 * kib; });
  proxy.plan[0] = {says(whole_answer("200 OK", completion))};
  const auto slow = proxy.client(announced(mib) + std::string(600 * kib, ' '));
  const auto fast = proxy.client(announced(mib) + std::string(mib - 64, ' '));
  const std::size_t begun = 8 * kib, size = 512 * kib;
  const auto asker = proxy.asks(announced(size) + std::string(begun, 'c'));
  slow->says(std::string(200 * kib, 'A'));
  proxy.hears(*asker, std::string(size - begun, 'c'));
  EXPECT_TRUE(has_no_room(slow));
  EXPECT_EQ(fast->got, "");
  ASSERT_EQ(read_answer(asker->got).status, 200u);
  const auto& sent = proxy.upstream().got;
  EXPECT_TRUE(sent.ends_with("\r\n\r\n" + std::string(size, 'c'))) << std::ranges::count(sent, 'A');
}

/// Nobody needs a key to send half a head, so heads have an eighth of the memory, and end each other.
TEST(BufferMemory, OfBodiesIsNotTakenByHalfHeads) {
  ScriptedProxy proxy(1, [](config::Settings& settings) {
    settings.limits.buffer_memory = settings.limits.request_body = 4 * mib;
    settings.limits.request_head = 64 * kib;
  });
  proxy.plan[0] = {says(whole_answer("200 OK", completion))};
  std::vector<std::shared_ptr<net::Peer>> slow;
  for (int i = 0; i < 100; ++i) {
    slow.push_back(proxy.client("GET /health HTTP/1.1\r\nHost: weir\r\nX: " + std::string(60 * kib, 'x')));
    proxy.run();
    ASSERT_LE(proxy.shared.buffers.used(), mib / 2);
  }
  EXPECT_GE(proxy.shared.buffers.used(), mib / 4);
  const auto ended = std::ranges::find_if(slow, has_no_room);
  ASSERT_NE(ended, slow.end());
  EXPECT_THAT((*ended)->got, HasSubstr("more slowly than others"));
  EXPECT_TRUE((*ended)->writing_ended());
  const auto standing = std::ranges::count_if(slow, [](const auto& one) { return one->got.empty(); });
  const auto whole = proxy.asks(announced(3 * mib) + std::string(3 * mib, ' '));
  EXPECT_EQ(read_answer(whole->got).status, 200u);
  EXPECT_EQ(std::ranges::count_if(slow, [](const auto& one) { return one->got.empty(); }), standing);
  for (const auto& one : slow) one->breaks();
  proxy.run();
  EXPECT_EQ(proxy.loop.half_heads.used(), 0u);
}

TEST(BufferMemory, OfHalfHeadsIsNotAskedForByARequestWhoseHeadComesWhole) {
  ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
  net::BudgetHold others(proxy.loop.half_heads);
  others.set(proxy.loop.half_heads.limit());
  const auto field = "X: " + std::string(10 * kib, 'x') + "\r\n";
  EXPECT_EQ(read_answer(proxy.asks(post(chat(false), field))->got).status, 200u);
  const auto half = proxy.asks("POST /v1/chat/completions HTTP/1.1\r\nHost: weir\r\n" + field);
  EXPECT_TRUE(has_no_room(half));
}

TEST(BufferMemory, OfHeadsIsSharedAmongAddresses) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.buffer_memory = 16 * mib; });
  const auto half = "GET /health HTTP/1.1\r\nHost: weir\r\nX: " + std::string(40 * kib, 'x');
  std::vector<std::shared_ptr<net::Peer>> heads;
  const auto come = [&](net::PeerAddress from, int count) {
    proxy.address = from;
    for (int i = 0; i < count; ++i) {
      heads.push_back(proxy.client(half));
      proxy.run();
    }
    return proxy.loop.half_heads.used();
  };
  const auto of_one = come(ten(1), 40);
  EXPECT_LE(of_one, 16 * mib / 8 / 4);
  EXPECT_GT(proxy.limit_hits(Limit::buffer_share), 0u);
  EXPECT_GT(come(ten(2), 4), of_one) << "another address has room";
  for (const auto& one : heads) one->breaks();
  proxy.run();
  EXPECT_EQ(proxy.shared.addresses.half_heads.size(), 0u);
}

TEST(BufferMemory, OfAnotherLoopsSlowBodiesComesFreeWithinATick) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.buffer_memory = 2 * mib; });
  const auto first = proxy.client(announced(mib) + std::string(mib - 1, ' '));
  const auto second = proxy.asks(announced(mib) + std::string(mib - 1, ' '));
  proxy.tick(Clock::now());
  EXPECT_EQ(first->got + second->got, "");
  proxy.shared.wants_room = true;
  proxy.tick(Clock::now());
  EXPECT_NE(has_no_room(first), has_no_room(second));
  proxy.shared.wants_room = true;
  proxy.tick(Clock::now());
  EXPECT_NE(has_no_room(first), has_no_room(second)) << "there is room";
}

/// An address may hold a quarter of 16 MiB, and a proxy that is trusted is at 10.0.0.9.
class BufferShare : public testing::Test {
 protected:
  static ScriptedProxy::Change with_memory(std::size_t bytes) {
    return [bytes](config::Settings& settings) {
      settings.limits.buffer_memory = bytes;
      settings.limits.request_body = mib;
      settings.server.trusted_proxies = {std::get<config::Network>(config::parse_network("10.0.0.9"))};
    };
  }
  /// A client at this address sends all but the end of a body of a MiB. Returns whether it is refused.
  bool is_refused(const net::PeerAddress& from, const std::string& way = "") {
    proxy.address = from;
    auto request = announced(mib) + std::string(mib - 64, ' ');
    if (!way.empty()) request.insert(request.find("Content-Length"), "X-Forwarded-For: " + way + "\r\n");
    const auto client = proxy.asks(request);
    if (!client->got.empty()) {
      EXPECT_THAT(client->got, testing::AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("limits.buffer_share"),
                                              HasSubstr("Retry-After: ")));
    }
    return !client->got.empty();
  }
  ScriptedProxy proxy{1, with_memory(16 * mib)};
};

TEST_F(BufferShare, IsTheMostThatOneAddressHolds) {
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(is_refused(ten(1)));
  EXPECT_TRUE(is_refused(ten(1)));
  EXPECT_TRUE(is_refused(ten(9), "10.0.0.1")) << "through a proxy, too";
  EXPECT_EQ(proxy.limit_hits(Limit::buffer_share), 2u);
  EXPECT_FALSE(is_refused(ten(2)));
  EXPECT_FALSE(is_refused(ten(9), "10.0.0.3")) << "another client behind the same proxy";
  EXPECT_EQ(proxy.shared.addresses.buffers.size(), 3u);
}

TEST_F(BufferShare, IsNoneOfLoopbacksBecauseManyMayBeBehindIt) {
  for (const net::PeerAddress& loopback : {net::PeerAddress{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1},
                                           net::PeerAddress{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 9, 8, 7},
                                           net::PeerAddress{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}})
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(is_refused(loopback));
  EXPECT_EQ(proxy.shared.addresses.buffers.size(), 0u);
}

TEST_F(BufferShare, CountsWhatARequestHoldsOnceHoweverLongItsHeadIs) {
  for (const std::size_t head : {0u, 30u})
    for (const std::size_t body : {8u, 100u}) {
      ScriptedProxy one;
      one.address = ten(1);
      auto request = announced(mib);
      request.insert(request.find("Content-Length"), "X: " + std::string(head * kib, 'x') + "\r\n");
      one.asks(request + std::string(body * kib, ' '));
      EXPECT_GE(one.shared.buffers.used(), body * kib);
      EXPECT_EQ(one.shared.addresses.buffers.of(ten(1))->load(), one.shared.buffers.used());
    }
}

TEST_F(BufferShare, ThatIsFullIsSaidOnceAnHourWithItsAddressAndTheWayOut) {
  Said said;
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(is_refused(ten(1)));
  EXPECT_EQ(said.take(), "");
  EXPECT_TRUE(is_refused(ten(1)));
  EXPECT_THAT(said.take(), testing::AllOf(HasSubstr("[warning]"), HasSubstr("10.0.0.1 "),
                                          HasSubstr("limits.buffer_share"), HasSubstr("server.trusted_proxies")));
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(is_refused(ten(2)));
  EXPECT_TRUE(is_refused(ten(1)) && is_refused(ten(2)));
  EXPECT_EQ(said.take(), "");
  proxy.shared.told.full_share = Clock::now() - std::chrono::hours(1);
  EXPECT_TRUE(is_refused(ten(2)));
  EXPECT_THAT(said.take(), HasSubstr("10.0.0.2 "));
}

TEST_F(BufferShare, OfAnIPv6ClientIsThatOfItsNetwork) {
  for (unsigned char i = 0; i < 6; ++i)
    EXPECT_EQ(is_refused({0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, i, 0, 0, 0, 0, 0, 0, i}), i >= 4) << int{i};
  EXPECT_EQ(proxy.shared.addresses.buffers.size(), 1u);
}

TEST_F(BufferShare, HasRoomForTheLargestRequestHoweverLittleTheMemoryIsAndIsGivenBackWithIt) {
  ScriptedProxy little({says(whole_answer("200 OK", completion))}, with_memory(2 * mib));
  little.address = ten(1);
  for (int i = 0; i < 5; ++i) {
    const auto client = little.asks(post(std::string(mib, ' '), "X: " + std::string(30 * kib, 'x') + "\r\n"));
    EXPECT_EQ(read_answer(client->got).status, 200u);
    EXPECT_EQ(little.shared.addresses.buffers.size(), 0u);
  }
}

TEST(OwnAnswers, WaitForNoBodyAndHoldNone) {
  const std::string host = " HTTP/1.1\r\nHost: weir\r\n", length = "Content-Length: 1048576\r\n\r\n",
                    chunked = "Transfer-Encoding: chunked\r\n\r\n100000\r\n";
  for (const auto& request :
       {"GET /health" + host + length, "HEAD /health" + host + length, "GET /health" + host + chunked,
        "GET /health" + host + "Expect: 100-continue\r\n" + length, "POST /nowhere" + host + length,
        "GET /v1/models/none" + host + chunked, "OPTIONS *" + host + length}) {
    SCOPED_TRACE(request);
    ScriptedProxy proxy(1, [](config::Settings& settings) { settings.pools[0].models = {"m"}; });
    const auto client = proxy.asks(request + std::string(mib - 64, 'x'));
    proxy.tick_in(0.1);
    EXPECT_THAT(client->got, StartsWith("HTTP/1.1 "));
    EXPECT_THAT(client->got, testing::Not(StartsWith("HTTP/1.1 1")));
    EXPECT_THAT(client->got, HasSubstr("Connection: close\r\n"));
    EXPECT_EQ(proxy.shared.buffers.used(), 0u);
    EXPECT_TRUE(client->writing_ended());
    EXPECT_EQ(client->unread(), 0u) << "it is read and dropped, because a reset would take the answer away";
    EXPECT_TRUE(proxy.connections[0].empty());
  }
}

TEST(OwnAnswers, DropABodyThatIsThereAndGoOn) {
  const std::string head = "GET /health HTTP/1.1\r\nHost: weir\r\n", body = "GET /stolen HTTP/1.1\r\n\r\n";
  for (const auto& request : {head + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body,
                              head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(body) + "0\r\n\r\n"}) {
    ScriptedProxy proxy;
    const auto client = proxy.asks(request + health("x-request-id: second\r\n"));
    const auto first = read_answer(client->got), second = read_answer(first.rest);
    EXPECT_EQ(first.status, 200u);
    EXPECT_THAT(second.head, HasSubstr("x-request-id: second\r\n"));
    EXPECT_EQ(second.rest, "");
    EXPECT_FALSE(client->closed());
  }
}

TEST(ChunkedBody, MayHaveAsMuchFramingAsPayload) {
  for (const bool fits : {true, false}) {
    ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.request_body = 1000; });
    proxy.plan[0] = {says(whole_answer("200 OK", completion))};
    std::string request = "POST /v1/chat/completions HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n";
    const std::size_t chunks = 10, framing = fits ? 995 : 1005;  // The last chunk has 5 bytes more.
    for (std::size_t i = 0; i < chunks; ++i)
      request += "1;" + std::string((framing - 5) / chunks - 6, 'x') + "\r\n \r\n";
    const auto client = proxy.asks(request + "0\r\n\r\n");
    EXPECT_THAT(client->got, StartsWith(fits ? "HTTP/1.1 200 " : "HTTP/1.1 413 "));
    EXPECT_EQ(proxy.limit_hits(Limit::request_body), fits ? 0u : 1u);
  }
}

TEST(BufferMemory, PaysForAnErrorAnswerThatIsKept) {
  ScriptedProxy proxy(2);
  proxy.plan[0] = {says(whole_answer("500 x", std::string(40 * kib, 'x')))};
  proxy.plan[1] = {[](net::Peer&) {}};
  const auto client = proxy.asks(post(chat(false)));
  EXPECT_EQ(client->got, "");
  EXPECT_GE(proxy.shared.buffers.used(), 36 * kib);
  EXPECT_LE(proxy.shared.buffers.used(), 100 * kib);
  proxy.upstream(1).says(whole_answer("500 x", "{}"));
  proxy.run();
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 500 "));
  proxy.expect_at_rest();
}

TEST(BufferMemory, FollowsTheSettings) {
  ScriptedProxy proxy;
  EXPECT_EQ(proxy.shared.buffers.limit(), 512 * mib);
  auto settings = proxy.snapshot->settings;
  settings.limits.buffer_memory = 64 * mib;
  proxy.fleet.adopt(settings);
  proxy.tick(Clock::now());
  EXPECT_EQ(proxy.shared.buffers.limit(), 64 * mib);
}

TEST(HalfClose, EndsARequestOrDoesNot) {
  for (const auto half_close : {config::HalfClose::abort, config::HalfClose::allow}) {
    const bool allowed = half_close == config::HalfClose::allow;
    ScriptedProxy proxy(1, [&](config::Settings& settings) { settings.server.half_close = half_close; });
    proxy.plan[0] = {says(sse_head() + chunk(token("a")))};
    const auto at_once = proxy.client(post(chat(true)));
    at_once->ends();
    const auto later = proxy.asks(post(chat(true)));
    proxy.ends(*later);
    for (const auto& replica : proxy.connections[0]) EXPECT_EQ(replica->closed(), !allowed);
    for (const auto& replica : proxy.connections[0])
      if (!replica->closed()) replica->says(stream_end);
    proxy.run();
    for (const auto& client : {at_once, later}) {
      EXPECT_EQ(read_answer(client->got).whole, allowed);
      EXPECT_TRUE(client->closed());
    }
    const auto outcome = allowed ? R"("outcome":"ok")" : R"("outcome":"client_abort")";
    EXPECT_THAT(proxy.log_lines(), ElementsAre(HasSubstr(outcome), HasSubstr(outcome)));
  }
}

TEST(HalfClose, AResetEndsARequestEvenThen) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.server.half_close = config::HalfClose::allow; });
  proxy.plan[0] = {[](net::Peer&) {}};
  const auto client = proxy.asks(post(chat(true)));
  proxy.ends(*client);
  EXPECT_FALSE(proxy.upstream().closed());
  proxy.breaks(*client);
  EXPECT_TRUE(proxy.upstream().closed());
}

TEST(HalfClose, GivesAnAnswerOfWeirsOwnToAClientThatOnlyReads) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.server.half_close = config::HalfClose::allow; });
  const auto client = proxy.client(health());
  client->takes_nothing();
  proxy.ends(*client);
  client->takes_a_round(10);
  client->takes(10);
  proxy.run();
  EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_TRUE(client->closed());
}

TEST(Lingering, LetsAClientThatStillSendsReadItsAnswer) {
  const struct {
    const char* what;
    std::string request;
    unsigned status;
  } rows[]{{"no request", "nonsense\r\n\r\n", 400},
           {"half a head, too late", "POST /v1/chat", 408},
           {"a body that is too large", announced(std::size_t{1} << 40), 413},
           {"a body that nobody needs", "GET /health HTTP/1.1\r\nHost: weir\r\nContent-Length: 8388608\r\n\r\n", 200}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    ScriptedProxy proxy;
    const auto client = proxy.asks(row.request);
    if (row.status == 408) proxy.tick_in(10);
    EXPECT_EQ(read_answer(client->got).status, row.status);
    EXPECT_TRUE(client->writing_ended());
    proxy.hears(*client, std::string(8 * mib, 'x'), 100'000);
    EXPECT_EQ(client->unread(), 0u) << "it is read and dropped, because a reset would take the answer away";
    EXPECT_FALSE(client->closed());
    EXPECT_EQ(proxy.shared.buffers.used(), 0u);
    proxy.ends(*client);
    EXPECT_TRUE(client->closed());
    EXPECT_FALSE(client->closed_by_reset());
  }
}

TEST(Lingering, EndsAfterTwoSilentSeconds) {
  ScriptedProxy proxy;
  const auto client = proxy.asks("nonsense\r\n\r\n");
  const auto begun = Clock::now();
  proxy.tick(begun + seconds(1));
  proxy.hears(*client, "x");
  proxy.expect_closed_after(2, *client);
}

TEST(Lingering, EndsAfterSoManyBytes) {
  ScriptedProxy proxy;
  const auto client = proxy.asks("nonsense\r\n\r\n");
  const std::string some(8 * mib, 'x');
  for (int i = 0; i < 8; ++i) {
    EXPECT_FALSE(client->closed());
    proxy.hears(*client, some);
  }
  EXPECT_TRUE(client->closed());
}

TEST(Lingering, DropsWhatWasPipelinedBehindAnAnswerThatCloses) {
  for (const bool pipelined : {false, true}) {
    ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
    const auto client = proxy.asks(post(chat(false), "Connection: close\r\n") + (pipelined ? health() : ""));
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_EQ(read_answer(client->got).rest, "");
    EXPECT_EQ(client->closed(), !pipelined) << "closing over unread bytes would be a reset";
    EXPECT_EQ(client->writing_ended(), pipelined);
  }
}

TEST(OptionsOfTheServer, AreToldByWeir) {
  ScriptedProxy proxy;
  const auto client = proxy.asks("OPTIONS * HTTP/1.1\r\nHost: weir\r\n\r\n" + health());
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 204 No Content\r\nAllow: GET, HEAD, POST, "));
  const auto first = client->got.substr(0, client->got.find("\r\n\r\n"));
  EXPECT_THAT(first, testing::Not(HasSubstr("Content-Length")));
  EXPECT_THAT(first, testing::Not(HasSubstr("Content-Type")));
  EXPECT_EQ(read_answer(std::string_view(client->got).substr(first.size() + 4)).status, 200u)
      << "the connection goes on";
  EXPECT_TRUE(proxy.connections[0].empty());
}

}  // namespace
}  // namespace weir::proxy::serve
