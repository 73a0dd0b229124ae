// What one client may cost: memory for its request, time for its body, and the wait for what it still sends when it is
// refused. Clients and replicas are scripted, and time is an argument.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "config/network.hpp"
#include "proxy/serve/body_room.hpp"
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

TEST(BodyRate, LetsNobodyEarnTimeByWhatItSentBefore) {
  for (const std::size_t at_once : {std::size_t{0}, 20 * kib, mib}) {
    ScriptedProxy proxy;
    const auto client = proxy.client(announced(16 * mib));
    proxy.run();
    client->says(std::string(at_once, ' '));
    proxy.run();
    const auto begun = Clock::now();
    const auto window = body_window(proxy.snapshot->settings.limits);
    proxy.tick(begun + window / 2);
    EXPECT_EQ(client->got, "");
    client->says(" ");
    proxy.run();
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
  const auto client = proxy.client(announced(mib) + "x");
  proxy.run();
  proxy.tick(Clock::now() + seconds(59));
  EXPECT_EQ(client->got, "");
  proxy.tick_in(60);
  EXPECT_THAT(client->got, HasSubstr("stopped coming"));
  EXPECT_EQ(proxy.limit_hits(Limit::body_time), 1u);
}

TEST(BufferMemory, IsTakenAsABodyComesNotAsItIsAnnounced) {
  ScriptedProxy proxy;
  proxy.plan[0] = {says(whole_answer("200 OK", completion))};
  auto& buffers = proxy.shared.buffers;
  const auto client = proxy.client(announced(16 * mib));
  proxy.run();
  EXPECT_EQ(buffers.used(), 0u);
  std::size_t sent = 0;
  for (const std::size_t more : {10 * kib, 100 * kib, mib, 4 * mib}) {
    client->says(std::string(more, ' '));
    proxy.run();
    sent += more;
    EXPECT_GE(buffers.used(), sent - net::BufferBudget::step);
    EXPECT_LE(buffers.used(), 2 * sent + 16 * kib) << sent;
  }
  client->says(std::string(16 * mib - sent, ' '));
  proxy.run();
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
                                       chunk_of(body) + "0\r\n\r\n"
                                 : post(body);
    proxy.client(request);
    proxy.run();
    EXPECT_GE(proxy.shared.buffers.used(), mib);
    EXPECT_LE(proxy.shared.buffers.used(), chunked ? 2 * mib + 64 * kib : mib + 2 * net::BufferBudget::step);
  }
}

TEST(BufferMemory, IsGivenBackWhenTheRequestIsSentAndItsAnswerAccepted) {
  ScriptedProxy proxy;
  proxy.plan[0] = {says(stream_head + chunk_of(event("a")))};
  const auto client =
      proxy.client(post(R"({"stream":true,"prompt":")" + std::string(mib, 'x') + "\"}", "", "1.1", "/v1/completions"));
  proxy.run();
  EXPECT_THAT(client->got, HasSubstr("200 OK"));
  EXPECT_FALSE(read_answer(client->got).whole);
  EXPECT_EQ(proxy.shared.buffers.used(), 0u) << "the stream goes on without its request";
}

TEST(BufferMemory, PaysForWhatCameBehindARequestInTheSameRead) {
  ScriptedProxy proxy;
  proxy.plan[0] = {[](net::Peer&) {}};
  const auto following = "GET /health HTTP/1.1\r\nHost: weir\r\nX: " + std::string(15 * kib, 'x');
  auto& buffers = proxy.shared.buffers;
  const auto client = proxy.client(post(chat(true)) + following);
  proxy.run();
  EXPECT_GE(buffers.used(), 12 * kib);
  EXPECT_LE(buffers.used(), 20 * kib);
  proxy.connections[0].front()->says(streamed_answer());
  proxy.run();
  EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_GE(buffers.used(), 12 * kib) << "it is half a head now, and waits for the rest";
  EXPECT_LE(buffers.used(), 20 * kib) << "nobody pays for it twice";
  client->says("\r\n\r\n");
  proxy.run();
  EXPECT_EQ(read_answer(read_answer(client->got).rest).status, 200u);
  EXPECT_EQ(buffers.used(), 0u);
}

TEST(BufferMemory, IsPaidOnceForWhatCameBehindARequestWithoutABody) {
  ScriptedProxy proxy;
  proxy.plan[0] = {[](net::Peer&) {}};
  const auto following = "GET /health HTTP/1.1\r\nHost: weir\r\nX: " + std::string(15 * kib, 'x');
  const auto client = proxy.client("GET /v1/chat/completions HTTP/1.1\r\nHost: weir\r\n\r\n" + following);
  proxy.run();
  ASSERT_EQ(proxy.connections[0].size(), 1u) << "a replica answers it";
  EXPECT_GE(proxy.shared.buffers.used(), 12 * kib);
  EXPECT_LE(proxy.shared.buffers.used(), 20 * kib);
  client->breaks();
  proxy.run();
}

TEST(BufferMemory, ThatIsSpentRefusesNewBodiesAndFinishesWhatWasBegun) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.buffer_memory = mib; });
  proxy.plan[0] = {[](net::Peer&) {}, says(whole_answer("200 OK", completion))};
  const auto first = proxy.client(post(std::string(mib, ' ')));
  proxy.run();
  ASSERT_TRUE(proxy.shared.buffers.spent());

  const auto second = proxy.client(post(chat(false)));
  const auto bodyless = proxy.client(health());
  const auto long_head = proxy.client("GET /health HTTP/1.1\r\nHost: weir\r\nX: " + std::string(9'000, 'x'));
  proxy.run();
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

  proxy.connections[0].front()->says(whole_answer("200 OK", completion));
  proxy.run();
  EXPECT_EQ(read_answer(first->got).status, 200u);
  const auto after = proxy.client(post(chat(false)));
  proxy.run();
  EXPECT_EQ(read_answer(after->got).status, 200u) << "there is room again";
  EXPECT_THAT(proxy.log_lines(), testing::Contains(HasSubstr(R"("outcome":"rejected")")).Times(2));
}

TEST(BufferMemory, RefusesABodyThatGrowsBeyondWhatIsLeft) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.buffer_memory = mib; });
  const auto first = proxy.client(announced(mib) + std::string(700 * kib, ' '));
  const auto second = proxy.client(announced(mib) + std::string(100 * kib, ' '));
  proxy.run();
  second->says(std::string(500 * kib, ' '));
  proxy.run();
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
    const auto whole = proxy.client(post(chat(false)));
    proxy.run();
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
  const auto asker = proxy.client(announced(size) + std::string(begun, 'c'));
  proxy.run();
  slow->says(std::string(200 * kib, 'A'));
  asker->says(std::string(size - begun, 'c'));
  proxy.run();
  EXPECT_TRUE(has_no_room(slow));
  EXPECT_EQ(fast->got, "");
  ASSERT_EQ(read_answer(asker->got).status, 200u);
  const auto& sent = proxy.connections[0].front()->got;
  EXPECT_TRUE(sent.ends_with("\r\n\r\n" + std::string(size, 'c'))) << std::ranges::count(sent, 'A');
}

TEST(BufferMemory, ThatSlowHeadsHoldGoesToWhoeverComes) {
  ScriptedProxy proxy(1, [](config::Settings& settings) {
    settings.limits.buffer_memory = mib;
    settings.limits.request_head = 64 * kib;
  });
  proxy.plan[0] = {says(whole_answer("200 OK", completion))};
  std::vector<std::shared_ptr<net::Peer>> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(proxy.client("GET /health HTTP/1.1\r\nHost: weir\r\nX: " + std::string(60 * kib, 'x')));
    proxy.run();
  }
  ASSERT_TRUE(proxy.shared.buffers.spent());
  const auto whole = proxy.client(post(chat(false)));
  proxy.run();
  EXPECT_EQ(read_answer(whole->got).status, 200u);
  const auto ended = std::ranges::find_if(slow, has_no_room);
  ASSERT_NE(ended, slow.end());
  EXPECT_THAT((*ended)->got, HasSubstr("more slowly than others"));
  EXPECT_TRUE((*ended)->writing_ended());
}

TEST(BufferMemory, OfAnotherLoopsSlowBodiesComesFreeWithinATick) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.buffer_memory = 2 * mib; });
  const auto first = proxy.client(announced(mib) + std::string(mib - 1, ' '));
  const auto second = proxy.client(announced(mib) + std::string(mib - 1, ' '));
  proxy.run();
  proxy.tick(Clock::now());
  EXPECT_EQ(first->got + second->got, "");
  proxy.shared.wants_room = true;
  proxy.tick(Clock::now());
  EXPECT_NE(has_no_room(first), has_no_room(second));
  proxy.shared.wants_room = true;
  proxy.tick(Clock::now());
  EXPECT_NE(has_no_room(first), has_no_room(second)) << "there is room";
}

/// A client's address in 10.0.0.0/8.
net::PeerAddress ten(unsigned char last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}; }

TEST(BufferShare, IsTheMostThatOneAddressHolds) {
  ScriptedProxy proxy(1, [](config::Settings& settings) {
    settings.limits.buffer_memory = 16 * mib;
    settings.limits.request_body = mib;
    settings.server.trusted_proxies = {std::get<config::Network>(config::parse_network("10.0.0.9"))};
  });
  const auto sends = [&](net::PeerAddress from, const std::string& way = "") {
    proxy.address = from;
    auto request = announced(mib) + std::string(mib - 64, ' ');
    if (!way.empty()) request.insert(request.find("Content-Length"), "X-Forwarded-For: " + way + "\r\n");
    const auto client = proxy.client(request);
    proxy.run();
    return client;
  };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(sends(ten(1))->got, "") << "a quarter of 16 MiB";
  const auto beyond = sends(ten(1)), through_a_proxy = sends(ten(9), "10.0.0.1");
  for (const auto& refused : {beyond, through_a_proxy}) {
    EXPECT_TRUE(has_no_room(refused));
    EXPECT_THAT(refused->got, HasSubstr("limits.buffer_share"));
    EXPECT_THAT(refused->got, HasSubstr("Retry-After: "));
  }
  EXPECT_EQ(proxy.limit_hits(Limit::buffer_share), 2u);
  EXPECT_EQ(sends(ten(2))->got, "");
  EXPECT_EQ(sends(ten(9), "10.0.0.3")->got, "") << "another client behind the same proxy";
  EXPECT_EQ(proxy.shared.address_shares.size(), 3u);
}

TEST(BufferShare, IsNoneOfLoopbacksBecauseManyMayBeBehindIt) {
  for (const net::PeerAddress& loopback : {net::PeerAddress{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1},
                                           net::PeerAddress{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 9, 8, 7},
                                           net::PeerAddress{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}) {
    ScriptedProxy proxy(1, [](config::Settings& settings) {
      settings.limits.buffer_memory = 8 * mib;
      settings.limits.request_body = mib;
    });
    proxy.address = loopback;
    for (int i = 0; i < 6; ++i) {
      const auto client = proxy.client(announced(mib) + std::string(mib - 64, ' '));
      proxy.run();
      EXPECT_EQ(client->got, "");
    }
    EXPECT_EQ(proxy.shared.address_shares.size(), 0u);
  }
}

TEST(BufferShare, CountsWhatARequestHoldsOnceHoweverLongItsHeadIs) {
  for (const std::size_t head : {0u, 30u})
    for (const std::size_t body : {8u, 100u}) {
      ScriptedProxy proxy;
      proxy.address = ten(1);
      auto request = announced(mib);
      request.insert(request.find("Content-Length"), "X: " + std::string(head * kib, 'x') + "\r\n");
      const auto client = proxy.client(request + std::string(body * kib, ' '));
      proxy.run();
      EXPECT_GE(proxy.shared.buffers.used(), body * kib);
      EXPECT_EQ(proxy.shared.address_shares.of(ten(1))->load(), proxy.shared.buffers.used());
    }
}

TEST(BufferShare, ThatIsFullIsSaidOnceAnHourWithItsAddressAndTheWayOut) {
  ScriptedProxy proxy(1, [](config::Settings& settings) {
    settings.limits.buffer_memory = 16 * mib;
    settings.limits.request_body = mib;
  });
  Said said;
  const auto refused = [&](unsigned char last) {
    proxy.address = ten(last);
    const auto client = proxy.client(announced(mib) + std::string(mib - 64, ' '));
    proxy.run();
    return has_no_room(client);
  };
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(refused(1));
  EXPECT_EQ(said.take(), "");
  EXPECT_TRUE(refused(1));
  EXPECT_THAT(said.take(), testing::AllOf(HasSubstr("[warning]"), HasSubstr("10.0.0.1 "),
                                          HasSubstr("limits.buffer_share"), HasSubstr("server.trusted_proxies")));
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(refused(2));
  EXPECT_TRUE(refused(1) && refused(2));
  EXPECT_EQ(said.take(), "");
  proxy.shared.full_share_line = Clock::now() - std::chrono::hours(1);
  EXPECT_TRUE(refused(2));
  EXPECT_THAT(said.take(), HasSubstr("10.0.0.2 "));
}

TEST(BufferShare, OfAnIPv6ClientIsThatOfItsNetwork) {
  ScriptedProxy proxy(1, [](config::Settings& settings) {
    settings.limits.buffer_memory = 16 * mib;
    settings.limits.request_body = mib;
  });
  for (unsigned char i = 0; i < 6; ++i) {
    proxy.address = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, i, 0, 0, 0, 0, 0, 0, i};
    const auto client = proxy.client(announced(mib) + std::string(mib - 64, ' '));
    proxy.run();
    EXPECT_EQ(has_no_room(client), i >= 4) << int{i};
  }
  EXPECT_EQ(proxy.shared.address_shares.size(), 1u);
}

TEST(BufferShare, HasRoomForTheLargestRequestHoweverLittleTheMemoryIs) {
  ScriptedProxy proxy(1, [](config::Settings& settings) {
    settings.limits.buffer_memory = 2 * mib;
    settings.limits.request_body = mib;
  });
  proxy.plan[0] = {says(whole_answer("200 OK", completion))};
  proxy.address = ten(1);
  const auto client = proxy.client(post(std::string(mib, ' '), "X: " + std::string(30 * kib, 'x') + "\r\n"));
  proxy.run();
  EXPECT_EQ(read_answer(client->got).status, 200u);
}

TEST(BufferShare, IsGivenBackWithTheRequest) {
  ScriptedProxy proxy(1, [](config::Settings& settings) {
    settings.limits.buffer_memory = 4 * mib;
    settings.limits.request_body = mib;
  });
  proxy.plan[0] = {says(whole_answer("200 OK", completion))};
  proxy.address = ten(1);
  for (int i = 0; i < 5; ++i) {
    const auto client = proxy.client(post(std::string(mib, ' ')));
    proxy.run();
    EXPECT_EQ(read_answer(client->got).status, 200u);
    EXPECT_EQ(proxy.shared.address_shares.size(), 0u);
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
    const auto client = proxy.client(request + std::string(mib - 64, 'x'));
    proxy.run();
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

TEST(OwnAnswers, ReadWhatIsStillSentSoThatTheAnswerArrives) {
  ScriptedProxy proxy;
  const auto client = proxy.client("GET /health HTTP/1.1\r\nHost: weir\r\nContent-Length: 1048576\r\n\r\n");
  proxy.run();
  EXPECT_EQ(read_answer(client->got).status, 200u);
  EXPECT_TRUE(client->writing_ended());
  EXPECT_FALSE(client->closed());
  client->says(std::string(mib, 'x'), 100'000);
  proxy.run();
  EXPECT_EQ(client->unread(), 0u);
  client->ends();
  proxy.run();
  EXPECT_TRUE(client->closed());
  EXPECT_FALSE(client->closed_by_reset());
}

TEST(OwnAnswers, DropABodyThatIsThereAndGoOn) {
  const std::string head = "GET /health HTTP/1.1\r\nHost: weir\r\n", body = "GET /stolen HTTP/1.1\r\n\r\n";
  for (const auto& request : {head + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body,
                              head + "Transfer-Encoding: chunked\r\n\r\n" + chunk_of(body) + "0\r\n\r\n"}) {
    ScriptedProxy proxy;
    const auto client = proxy.client(request + health("x-request-id: second\r\n"));
    proxy.run();
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
    const auto client = proxy.client(request + "0\r\n\r\n");
    proxy.run();
    EXPECT_THAT(client->got, StartsWith(fits ? "HTTP/1.1 200 " : "HTTP/1.1 413 "));
    EXPECT_EQ(proxy.limit_hits(Limit::request_body), fits ? 0u : 1u);
  }
}

TEST(BufferMemory, PaysForAnErrorAnswerThatIsKept) {
  ScriptedProxy proxy(2);
  proxy.plan[0] = {says(whole_answer("500 x", std::string(40 * kib, 'x')))};
  proxy.plan[1] = {[](net::Peer&) {}};
  const auto client = proxy.client(post(chat(false)));
  proxy.run();
  EXPECT_EQ(client->got, "");
  EXPECT_GE(proxy.shared.buffers.used(), 36 * kib);
  EXPECT_LE(proxy.shared.buffers.used(), 100 * kib);
  proxy.connections[1].front()->says(whole_answer("500 x", "{}"));
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
    proxy.plan[0] = {says(stream_head + chunk_of(event("a")))};
    const auto at_once = proxy.client(post(chat(true)));
    at_once->ends();
    const auto later = proxy.client(post(chat(true)));
    proxy.run();
    later->ends();
    proxy.run();
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
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  client->ends();
  proxy.run();
  EXPECT_FALSE(proxy.connections[0].front()->closed());
  client->breaks();
  proxy.run();
  EXPECT_TRUE(proxy.connections[0].front()->closed());
}

TEST(HalfClose, GivesAnAnswerOfWeirsOwnToAClientThatOnlyReads) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.server.half_close = config::HalfClose::allow; });
  const auto client = proxy.client(health());
  client->takes_nothing();
  client->ends();
  proxy.run();
  client->takes_a_round(10);
  client->takes(10);
  proxy.run();
  EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_TRUE(client->closed());
}

TEST(Lingering, LetsAClientThatSendsBlindlyReadItsRefusal) {
  ScriptedProxy proxy;
  const auto client = proxy.client(announced(std::size_t{1} << 40));
  proxy.run();
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 413 "));
  EXPECT_TRUE(client->writing_ended());
  client->says(std::string(8 * mib, 'x'), 100'000);
  proxy.run();
  EXPECT_EQ(client->unread(), 0u) << "it is read and dropped, because a reset would take the answer away";
  EXPECT_FALSE(client->closed());
  EXPECT_EQ(proxy.shared.buffers.used(), 0u);
  client->ends();
  proxy.run();
  EXPECT_TRUE(client->closed());
  EXPECT_FALSE(client->closed_by_reset());
}

TEST(Lingering, EndsAfterTwoSilentSeconds) {
  ScriptedProxy proxy;
  const auto client = proxy.client("nonsense\r\n\r\n");
  proxy.run();
  const auto begun = Clock::now();
  proxy.tick(begun + seconds(1));
  client->says("x");
  proxy.run();
  proxy.expect_closed_after(2, *client);
}

TEST(Lingering, EndsAfterSoManyBytes) {
  ScriptedProxy proxy;
  const auto client = proxy.client("nonsense\r\n\r\n");
  proxy.run();
  const std::string some(8 * mib, 'x');
  for (int i = 0; i < 8; ++i) {
    EXPECT_FALSE(client->closed());
    client->says(some);
    proxy.run();
  }
  EXPECT_TRUE(client->closed());
}

TEST(Lingering, DropsWhatWasPipelinedBehindAnAnswerThatCloses) {
  for (const bool pipelined : {false, true}) {
    ScriptedProxy proxy;
    proxy.plan[0] = {says(whole_answer("200 OK", completion))};
    const auto client = proxy.client(post(chat(false), "Connection: close\r\n") + (pipelined ? health() : ""));
    proxy.run();
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_EQ(read_answer(client->got).rest, "");
    EXPECT_EQ(client->closed(), !pipelined) << "closing over unread bytes would be a reset";
    EXPECT_EQ(client->writing_ended(), pipelined);
  }
}

TEST(OptionsOfTheServer, AreToldByWeir) {
  ScriptedProxy proxy;
  const auto client = proxy.client("OPTIONS * HTTP/1.1\r\nHost: weir\r\n\r\n" + health());
  proxy.run();
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
