#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <vector>

#include "proxy/serve/session.hpp"
#include "tests/unit/proxy/net/tls/tls_peer.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Limit;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

TEST(Session, RelaysAnAnswerWhateverPiecesBytesComeIn) {
  for (const bool stream : {false, true}) {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{64}, net::Peer::any}) {
      SCOPED_TRACE(testing::Message() << "stream " << stream << ", pieces of " << piece);
      ScriptedProxy proxy({says(stream ? streamed_answer() : whole_answer("200 OK", completion), piece)});
      const auto client = proxy.client(post(chat(stream)), piece);
      client->takes_a_round(piece);
      proxy.run();
      const auto seen = read_answer(client->got);
      EXPECT_EQ(seen.status, 200u);
      EXPECT_TRUE(seen.whole);
      EXPECT_EQ(seen.rest, "");
      EXPECT_THAT(seen.body, StartsWith(stream ? token("a") + token("b") + token("c") : completion));
      EXPECT_THAT(seen.body, HasSubstr(stream ? "[DONE]" : completion));
      EXPECT_FALSE(client->closed());
      EXPECT_THAT(proxy.log_lines(), testing::ElementsAre(HasSubstr(R"("outcome":"ok")")));
      proxy.expect_at_rest();
    }
  }
}

TEST(Session, AnswersRequestsThatCameTogetherInTheirOrder) {
  ScriptedProxy proxy({says(streamed_answer()), says(whole_answer("200 OK", completion))});
  const auto client = proxy.asks(post(chat(true)) + post(chat(false)) + health());
  const auto first = read_answer(client->got);
  const auto second = read_answer(first.rest);
  const auto third = read_answer(second.rest);
  EXPECT_TRUE(first.whole);
  EXPECT_THAT(first.body, HasSubstr("[DONE]"));
  EXPECT_EQ(second.body, completion);
  EXPECT_THAT(third.body, HasSubstr("ok"));
  EXPECT_EQ(third.rest, "");
}

TEST(Session, KeepsARequestThatComesWhileAnAnswerIsUnderWay) {
  ScriptedProxy proxy;
  std::shared_ptr<net::Peer> client;
  proxy.plan[0] = {[&](net::Peer& replica) {
                     client->says(post(chat(false)).substr(0, 50));
                     replica.says(streamed_answer(), 30);
                     client->says(post(chat(false)).substr(50));
                   },
                   says(whole_answer("200 OK", completion))};
  client = proxy.client(post(chat(true)));
  proxy.run();
  const auto first = read_answer(client->got);
  EXPECT_TRUE(first.whole);
  EXPECT_EQ(read_answer(first.rest).body, completion);
  EXPECT_THAT(proxy.log_lines(), SizeIs(2));
}

TEST(Session, LeavesOthersTheirTurnWhileItReadsALongBody) {
  ScriptedProxy proxy;
  const std::string body = R"({"prompt":")" + std::string(1'000'000, 'a') + R"("})";
  proxy.plan[0] = {says(whole_answer("200 OK", completion))};
  const auto client = proxy.client(post(body));
  std::size_t turns = 0;
  for (; proxy.turn(); ++turns) {
  }
  EXPECT_GE(turns, body.size() / 16'384);
  EXPECT_EQ(client->unread(), 0u);
  EXPECT_THAT(proxy.log_lines(), SizeIs(1));
}

TEST(Session, LeavesOthersTheirTurnBetweenRequestsThatCameTogether) {
  ScriptedProxy proxy;
  std::string all;
  for (int i = 0; i < 200; ++i) all += health();
  const auto client = proxy.client(all);
  std::size_t turns = 0;
  for (; proxy.turn(); ++turns) {
  }
  EXPECT_GE(turns, 200u);
  EXPECT_THAT(proxy.log_lines(), SizeIs(200));
}

TEST(Session, GivesAHeadItsTimeOnceHoweverOftenBytesCome) {
  ScriptedProxy proxy;
  const auto client = proxy.asks("POST /v1/chat");
  const auto begun = Clock::now();
  proxy.hears(*client, "/completions HTTP/1.1\r\n");
  proxy.tick(begun + std::chrono::seconds(9));
  EXPECT_EQ(client->got, "");
  proxy.hears(*client, "Host: weir\r\n");
  proxy.tick(begun + std::chrono::seconds(10));
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(client->got, HasSubstr("Connection: close"));
  EXPECT_EQ(proxy.limit_hits(Limit::head_time), 1u);
  EXPECT_THAT(proxy.log_lines(), testing::ElementsAre(HasSubstr(R"("status":408)")));
}

TEST(Session, GivesTheHeadOfAPipelinedRequestTheTimeOfAHead) {
  ScriptedProxy proxy;
  const auto client = proxy.asks(health() + "POST /v1/chat");
  proxy.tick_in(10);
  EXPECT_THAT(read_answer(client->got).rest, StartsWith("HTTP/1.1 408 "));
}

TEST(Session, GivesABodyItsTimeAnewWithEachRead) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.body_rate = 0; });
  const auto whole = post(chat(false));
  const auto client = proxy.asks(whole.substr(0, whole.size() - 2));
  const auto begun = Clock::now();
  proxy.hears(*client, whole.substr(whole.size() - 2, 1));
  proxy.tick(begun + std::chrono::seconds(60) - nanosecond);
  EXPECT_EQ(client->got, "");
  proxy.tick_in(60);
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ(proxy.limit_hits(Limit::body_time), 1u);
}

TEST(Session, GivesNoAnswerOfItsOwnToAClientThatHasLeft) {
  ScriptedProxy proxy;
  const auto client = proxy.client(health());
  client->takes_nothing();
  proxy.run();
  proxy.ends(*client);
  EXPECT_TRUE(client->closed()) << "nobody reads the rest";
}

TEST(Session, CutsAClientThatTakesNothingOfAnAnswerOfWeirsOwn) {
  for (const auto& request : {health(), std::string("nonsense\r\n\r\n")}) {
    ScriptedProxy proxy;
    const auto client = proxy.client(request);
    client->takes_nothing();
    proxy.run();
    proxy.expect_closed_after(120, *client);
    EXPECT_EQ(client->got, "");
    EXPECT_TRUE(client->closed_by_reset()) << "what the kernel still holds would wait for it";
    EXPECT_EQ(proxy.limit_hits(Limit::client_stall), 1u);
  }
}

TEST(Session, CutsAClientThatTakesAnAnswerOfWeirsOwnTooSlowlyHoweverSteadily) {
  for (const bool enough : {false, true}) {
    ScriptedProxy proxy;
    const auto client = proxy.client(health());
    client->takes_nothing();
    client->unacknowledged = 100'000;
    proxy.run();
    const auto begin = Clock::now();
    for (int i = 1; i <= 16 && !client->closed(); ++i) {
      client->unacknowledged -= enough ? 15 * 256 : 1;  // 15 s later.
      proxy.tick(begin + std::chrono::seconds(15 * i));
      EXPECT_TRUE(i >= 8 || !client->closed());
    }
    EXPECT_EQ(client->closed(), !enough);
    EXPECT_EQ(proxy.limit_hits(Limit::answer_rate), enough ? 0u : 1u);
    EXPECT_EQ(proxy.limit_hits(Limit::client_stall), 0u);
    client->takes(net::Peer::any);
    proxy.run();
  }
}

TEST(Session, ClosesAnIdleClientAfterItsTime) {
  ScriptedProxy proxy;
  const auto fresh = proxy.client();
  const auto kept = proxy.asks(health());
  proxy.tick_in(74);
  EXPECT_FALSE(fresh->closed() || kept->closed());
  proxy.tick_in(75);
  EXPECT_TRUE(fresh->closed() && kept->closed());
  EXPECT_EQ(fresh->got, "");
  EXPECT_EQ(proxy.shared.connections.load(), 0u);
  EXPECT_EQ(proxy.loop.connections.load(), 0u);
}

TEST(Session, OffersNoKeepAliveWhileDraining) {
  for (const bool stream : {false, true}) {
    ScriptedProxy proxy({says(stream ? streamed_answer() : whole_answer("200 OK", completion))});
    proxy.shared.draining = true;
    const auto relayed = proxy.client(post(chat(stream)));
    const auto own = proxy.asks(health());
    for (const auto& client : {relayed, own}) {
      EXPECT_TRUE(read_answer(client->got).whole);
      EXPECT_THAT(client->got, HasSubstr("Connection: close"));
      EXPECT_TRUE(client->closed());
    }
  }
}

TEST(Session, ClosesAConnectionWithoutARequestInTime) {
  ScriptedProxy proxy;
  const auto idle = proxy.client();
  const auto kept = proxy.client(health());
  proxy.tick_in(74);
  EXPECT_FALSE(idle->closed());
  EXPECT_FALSE(kept->closed());
  proxy.tick_in(76);
  EXPECT_TRUE(idle->closed());
  EXPECT_TRUE(kept->closed());
}

TEST(Session, ClosesIdleClientsAndNoOthersWhenItEnds) {
  ScriptedProxy proxy({[](net::Peer&) {}});
  const auto idle = proxy.client();
  const auto kept = proxy.client(health());
  const auto begun = proxy.client("GET /heal");
  const auto waiting = proxy.asks(post(chat(true)));
  proxy.shared.draining = proxy.shared.closing = true;
  proxy.tick(Clock::now());
  EXPECT_TRUE(idle->closed());
  EXPECT_TRUE(kept->closed());
  EXPECT_FALSE(begun->closed());
  EXPECT_FALSE(waiting->closed());
  begun->says("th HTTP/1.1\r\nHost: weir\r\n\r\n");
  proxy.hears(proxy.upstream(), streamed_answer());
  EXPECT_TRUE(read_answer(begun->got).whole);
  EXPECT_TRUE(read_answer(waiting->got).whole);
  EXPECT_TRUE(begun->closed());
  proxy.tick(Clock::now());  // That one's answer was promised keep-alive, before the drain began.
  EXPECT_TRUE(waiting->closed());
  EXPECT_EQ(proxy.shared.connections.load(), 0u);
}

TEST(Session, ARequestThatCameInTheMomentOfClosingIsAnswered) {
  for (const bool whole : {true, false}) {
    ScriptedProxy proxy;
    const auto kept = proxy.asks(health());
    kept->got.clear();
    proxy.shared.draining = proxy.shared.closing = true;
    kept->arrives_unseen(whole ? health() : "GET /heal");
    proxy.tick(Clock::now());
    EXPECT_EQ(kept->closed(), whole);
    proxy.hears(*kept, whole ? "" : "th HTTP/1.1\r\nHost: weir\r\n\r\n");
    EXPECT_TRUE(read_answer(kept->got).whole);
    EXPECT_THAT(kept->got, HasSubstr("Connection: close"));
    EXPECT_TRUE(kept->closed());
  }
}

TEST(Session, ARequestOnAConnectionThatWaitedIsOfTheSettingsAtItsBeginning) {
  ScriptedProxy proxy;
  const auto kept = proxy.asks(health());
  auto settings = proxy.snapshot->settings;
  settings.server.paths = {"/health"};
  proxy.fleet.adopt(settings);
  kept->got.clear();
  proxy.hears(*kept, post(chat(false)));
  EXPECT_EQ(read_answer(kept->got).status, 404u);
}

TEST(Session, EndsAllThatIsUnderWayWhenCut) {
  ScriptedProxy proxy({says(sse_head() + chunk(token("a")))});
  const auto streaming = proxy.client(post(chat(true)));
  const auto idle = proxy.client();
  const auto half_a_head = proxy.client("POST /v1/ch");
  const auto half_a_body = proxy.client(post(chat(true)).substr(0, 150));
  const auto deaf = proxy.client(health());
  deaf->takes_nothing();
  proxy.run();
  proxy.shared.cutting = true;
  proxy.tick(Clock::now());
  proxy.tick(Clock::now());  // weir does not wait for what a refused request still sends.
  for (const auto& client : {streaming, idle, half_a_head, half_a_body, deaf}) EXPECT_TRUE(client->closed());
  EXPECT_FALSE(read_answer(streaming->got).body.empty());
  EXPECT_EQ(idle->got, "");
  for (const auto& begun : {half_a_head, half_a_body})
    EXPECT_THAT(begun->got, testing::AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("weir is stopping")));
  EXPECT_TRUE(deaf->closed_by_reset());
  for (const auto limit : {Limit::head_time, Limit::body_time, Limit::body_rate, Limit::client_stall})
    EXPECT_EQ(proxy.limit_hits(limit), 0u) << metrics::series::limit_names[static_cast<std::size_t>(limit)];
  const auto lines = proxy.log_lines();
  EXPECT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines, testing::Contains(HasSubstr(R"("outcome":"rejected")")).Times(3));
  EXPECT_THAT(lines, testing::Contains(HasSubstr(R"("outcome":"ok")")).Times(1)) << "what nobody took was health";
  proxy.expect_at_rest();
}

TEST(Session, CutsAnUntilCloseAnswerByAReset) {
  ScriptedProxy proxy;
  proxy.plan[0] = {[](net::Peer& replica) {
    replica.says(sse_head() + chunk(token("a")));
    replica.ends();
  }};
  const auto old = proxy.client(post(chat(true), "", "1.0"));
  const auto modern = proxy.asks(post(chat(true)));
  EXPECT_TRUE(read_answer(old->got).until_close);
  EXPECT_TRUE(old->closed_by_reset());
  EXPECT_TRUE(modern->closed());
  EXPECT_FALSE(modern->closed_by_reset()) << "its framing shows the cut";
  EXPECT_FALSE(read_answer(modern->got).whole);
}

TEST(Session, CountsARequestFromItsArrivalNotFromWhenTheLoopReadIt) {
  ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
  const auto client = proxy.client(post(chat(false)));
  client->arrival = Clock::now() - std::chrono::seconds(5);
  proxy.run();
  EXPECT_THAT(proxy.log_lines(), testing::ElementsAre(HasSubstr(R"("e2e_s":5.)")));
}

TEST(Session, CountsAClientThatLeavesInsideABodyAndNoneThatLeavesBeforeAHead) {
  for (const auto& bytes : {std::string(), std::string("POST /v1/ch"), post(chat(false)).substr(0, 150)})
    for (const bool reset : {false, true}) {
      SCOPED_TRACE(bytes);
      ScriptedProxy proxy;
      const auto client = proxy.client(bytes);
      reset ? proxy.breaks(*client) : proxy.ends(*client);
      EXPECT_TRUE(client->closed());
      EXPECT_EQ(client->got, "");
      EXPECT_THAT(proxy.log_lines(), SizeIs(bytes.size() == 150 ? 1 : 0));
      for (const auto& line : proxy.log_lines()) EXPECT_THAT(line, HasSubstr(R"("outcome":"client_abort")"));
    }
}

TEST(Session, InvitesABodyThatWaitsForIt) {
  ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
  const auto request = post(chat(false), "Expect: 100-continue\r\n");
  const auto head = request.find("\r\n\r\n") + 4;
  const auto client = proxy.client(request.substr(0, head));
  client->takes_a_round(1);
  proxy.run();
  EXPECT_EQ(client->got, "HTTP/1.1 100 Continue\r\n\r\n");
  proxy.hears(*client, request.substr(head));
  EXPECT_EQ(read_answer(std::string_view(client->got).substr(25)).body, completion);
}

/// A chunked request whose body has so many bytes.
std::string chunked_post(std::size_t size) {
  std::string request =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  for (std::size_t sent = 0; sent < size; sent += 50)
    request += chunk(std::string(std::min(size - sent, std::size_t{50}), ' '));
  return request + "0\r\n\r\n";
}

TEST(Session, TakesABodyOfExactlyItsLimitInWhateverPiecesItComes) {
  for (const bool chunked : {false, true})
    for (const std::size_t piece : {std::size_t{60}, net::Peer::any})
      for (const std::size_t size : {199u, 200u, 201u}) {
        SCOPED_TRACE(testing::Message() << size << " bytes, chunked " << chunked << ", pieces of " << piece);
        ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.request_body = 200; });
        proxy.plan[0] = {says(whole_answer("200 OK", completion))};
        const auto client = proxy.asks(chunked ? chunked_post(size) : post(std::string(size, ' ')), piece);
        EXPECT_THAT(client->got, StartsWith(size <= 200 ? "HTTP/1.1 200 " : "HTTP/1.1 413 "));
        EXPECT_EQ(proxy.limit_hits(Limit::request_body), size <= 200 ? 0u : 1u);
      }
}

/// A body that a method rarely has is a body all the same. Else it would be read as the next request.
TEST(Session, SendsTheBodyOfAnyMethodOnOnceAndAnswersWhatFollowsIt) {
  const std::string body = "GET /stolen HTTP/1.1\r\nHost: weir\r\n\r\n";
  for (const std::string method : {"GET", "HEAD", "DELETE", "OPTIONS"})
    for (const bool chunked : {false, true})
      for (const std::size_t limit : {body.size(), body.size() - 1}) {
        SCOPED_TRACE(testing::Message() << method << ", chunked " << chunked << ", a limit of " << limit);
        ScriptedProxy proxy(1, [&](config::Settings& settings) {
          settings.server.paths = {"*"};
          settings.limits.request_body = limit;
        });
        proxy.plan[0] = {says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")};
        const auto framing = chunked ? "Transfer-Encoding: chunked\r\n\r\n" + chunk(body) + "0\r\n\r\n"
                                     : "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
        const auto client = proxy.asks(method + " /any HTTP/1.1\r\nHost: weir\r\n" + framing + health());
        const auto first = read_answer(client->got);
        if (limit < body.size()) {
          EXPECT_EQ(first.status, 413u);
          EXPECT_TRUE(proxy.connections[0].empty());
          continue;
        }
        EXPECT_EQ(first.status, 200u);
        EXPECT_THAT(read_answer(first.rest).body, HasSubstr(R"("status":"ok")"));
        ASSERT_EQ(proxy.connections[0].size(), 1u);
        const auto& got = proxy.upstream().got;
        EXPECT_THAT(got, StartsWith(method + " /any HTTP/1.1\r\n"));
        EXPECT_EQ(got.substr(got.find("\r\n\r\n") + 4), body);
      }
}

TEST(Session, PassesARedirectBackAndFollowsNone) {
  for (const std::string status : {"301 Moved", "302 Found", "303 See Other", "307 There", "308 There"}) {
    SCOPED_TRACE(status);
    ScriptedProxy proxy({says(whole_answer(status, "{}", "Location: http://127.0.0.1:2/v1/chat/completions\r\n"))});
    const auto client = proxy.asks(post(chat(false)));
    EXPECT_THAT(client->got, StartsWith("HTTP/1.1 " + status.substr(0, 3)));
    EXPECT_THAT(client->got, HasSubstr("\r\nLocation: http://127.0.0.1:2/v1/chat/completions\r\n"));
    EXPECT_THAT(asked(proxy), testing::ElementsAre(1, 0, 0, 0)) << "nobody has gone to port 2";
    EXPECT_EQ(whole_requests(proxy.upstream().got), 1u);
  }
}

TEST(Session, LetsNothingOfARequestChooseWhereItGoes) {
  const auto to = [](const std::string& target, const std::string& fields) {
    const std::string body = R"({"model":"m","base_url":"http://127.0.0.1:2","host":"127.0.0.1:2","messages":[]})";
    return "POST " + target + " HTTP/1.1\r\n" + fields + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           body;
  };
  const std::string path = "/v1/chat/completions", host = "Host: weir\r\n";
  for (const auto& request :
       {to(path, "Host: 127.0.0.1:2\r\n"), to("http://127.0.0.1:2" + path, "Host: 127.0.0.1:2\r\n"),
        to(path, host + "X-Forwarded-Host: 127.0.0.1:2\r\n"), to(path, host + "Forwarded: host=\"127.0.0.1:2\"\r\n"),
        to(path, host + "X-Original-URL: http://127.0.0.1:2/\r\nX-Rewrite-URL: http://127.0.0.1:2/\r\n"),
        to(path + "?url=http://127.0.0.1:2/", host)}) {
    SCOPED_TRACE(request);
    ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
    const auto client = proxy.asks(request);
    EXPECT_EQ(read_answer(client->got).body, completion);
    ASSERT_THAT(asked(proxy), testing::ElementsAre(1, 0, 0, 0));
    EXPECT_THAT(proxy.upstream().got,
                testing::AllOf(StartsWith("POST " + path), HasSubstr("\r\nHost: 127.0.0.1:1\r\n")));
  }
}

TEST(VanishedClient, IsFoundWhereverItsRequestIs) {
  for (const std::string where : {"queue", "prefill", "decode"}) {
    SCOPED_TRACE(where);
    ScriptedProxy proxy(1, [&](config::Settings& settings) {
      settings.pools.front().queue.requests = 10;
      if (where == "queue") settings.pools.front().replicas.front().max_in_flight = 1;
    });
    proxy.plan[0] = {says(where == "decode" ? sse_head() + chunk(token("a")) : "")};
    if (where == "queue") proxy.client(post(chat(true)));
    proxy.run();
    const auto client = proxy.asks(post(chat(true)));
    const auto begun = Clock::now();
    proxy.tick(begun);
    client->vanishes();
    proxy.tick(begun + std::chrono::milliseconds(4900));
    EXPECT_FALSE(client->closed()) << "to look costs a system call, so it is done every 5 s";
    proxy.tick(begun + std::chrono::milliseconds(5100));
    EXPECT_TRUE(client->closed_by_reset());
    EXPECT_THAT(proxy.log_lines(), testing::ElementsAre(testing::AllOf(HasSubstr(R"("outcome":"client_abort")"),
                                                                       HasSubstr("\"phase\":\"" + where + "\""))));
    EXPECT_EQ(proxy.upstream().closed(), where != "queue") << "the one in the queue had none";
  }
}

TEST(Session, InvitesNoBodyThatItRefuses) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.request_body = 200; });
  const auto request = post(std::string(201, ' '), "Expect: 100-continue\r\n");
  const auto client = proxy.asks(request.substr(0, request.find("\r\n\r\n") + 4));
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 413 "));
}

using Speaks = RejectedClients::Speaks;

class TurningAway : public testing::Test {
 protected:
  /// Turns a client away that has sent `request` already, and returns its end of the connection.
  net::UniqueFd turn_away(Speaks speaks = Speaks::http, const std::string& request = "") {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    EXPECT_EQ(::send(ends[0], request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    rejected.add(net::UniqueFd(ends[1]), speaks);
    return net::UniqueFd(ends[0]);
  }
  /// Reads what there is; `ended` says whether the end is behind it. A reset shows as no text.
  static std::string read(const net::UniqueFd& client, bool& ended) {
    std::string text(4096, '\0');
    const auto size = ::recv(client.get(), text.data(), text.size(), 0);
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    ended = size > 0 && ::recv(client.get(), &ended, 1, MSG_PEEK) == 0;
    return text;
  }

  boost::asio::io_context context{1};
  RejectedClients rejected{context};
};

TEST_F(TurningAway, TellsTheClientAndWaitsUntilItCloses) {
  auto client = turn_away();
  context.poll();
  bool ended = false;
  EXPECT_THAT(read(client, ended),
              testing::AllOf(testing::StartsWith("HTTP/1.1 503 "), testing::HasSubstr("Retry-After: 5\r\n"),
                             testing::EndsWith("\r\n\r\n")));
  EXPECT_TRUE(ended);
  const std::string request(50'000, 'x');
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(::send(client.get(), request.data(), request.size(), MSG_NOSIGNAL), 50'000) << "somebody reads it";
    context.poll();
  }
  EXPECT_EQ(rejected.count(), 1u);
  client.reset();
  context.poll();
  EXPECT_EQ(rejected.count(), 0u);
}

TEST_F(TurningAway, ReadsNotMoreThanItsShare) {
  const auto client = turn_away();
  const std::string much(64 * 1024, 'x');
  std::size_t sent = 0;
  for (; sent <= 2 * RejectedClients::most_dropped; context.poll()) {
    const auto size = ::send(client.get(), much.data(), much.size(), MSG_NOSIGNAL);
    if (size < 0) break;
    sent += static_cast<std::size_t>(size);
  }
  EXPECT_GE(sent, RejectedClients::most_dropped);
  EXPECT_LE(sent, RejectedClients::most_dropped + 1024 * 1024);
  EXPECT_EQ(rejected.count(), 0u);
}

TEST_F(TurningAway, HoldsNotMoreThanItsShareAndTheLatestLongest) {
  std::vector<net::UniqueFd> clients;
  for (std::size_t i = 0; i < RejectedClients::most + 5; ++i)
    clients.push_back(turn_away(Speaks::http, "GET / HTTP/1.1"));
  EXPECT_EQ(rejected.count(), RejectedClients::most);
  for (auto& client : clients) {
    bool ended = false;
    EXPECT_THAT(read(client, ended), testing::StartsWith("HTTP/1.1 503 ")) << "no reset has taken it away";
    EXPECT_TRUE(ended);
  }
  context.poll();
  EXPECT_EQ(rejected.count(), RejectedClients::most);
  EXPECT_LT(::send(clients.front().get(), "x", 1, MSG_NOSIGNAL), 0) << "the first ones had to make room";
  EXPECT_EQ(::send(clients[5].get(), "x", 1, MSG_NOSIGNAL), 1);
  clients.clear();
  context.poll();
  EXPECT_EQ(rejected.count(), 0u);
}

TEST_F(TurningAway, GivesAnAlertToAClientThatSpeaksTls) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    auto peer = net::tls::TlsPeer::client();
    SSL_CTX_set_max_proto_version(&peer.context(), version);
    const auto client = turn_away(Speaks::tls, peer.take_ciphertext());
    context.poll();
    bool ended = false;
    const auto told = read(client, ended);
    EXPECT_TRUE(ended);
    peer.accept(told);
    EXPECT_EQ(peer.error, "tlsv1 alert internal error") << "no plain text, which no client of TLS could read";
  }
}

}  // namespace
}  // namespace weir::proxy::serve
