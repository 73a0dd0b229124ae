#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "proxy/exchange/client_side.hpp"
#include "tests/unit/proxy/net/scripted_channel.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::exchange {
namespace {

struct NotesNews final : ClientWatch::Listener {
  void client_gone() override { ++gone; }
  void client_writable() override { ++writable; }
  int gone = 0, writable = 0;
};

class ClientWatching : public testing::Test {
 protected:
  void report() {
    while (peer->report()) {
    }
  }
  net::Calls calls;
  std::shared_ptr<net::Peer> peer = std::make_shared<net::Peer>(calls);
  net::ScriptedChannel channel{peer};
  std::string unread;
  NotesNews told;
};

TEST(ClientWatchTells, ThatTheClientHasGoneAndThatItEndedItsDirectionUnlessThatIsAllowed) {
  enum When { before, unheard, listening, no_longer_listening };
  for (const auto half_close : {config::HalfClose::abort, config::HalfClose::allow})
    for (const bool reset : {false, true})
      for (const auto when : {before, unheard, listening, no_longer_listening}) {
        const bool goes = reset || half_close == config::HalfClose::abort;
        SCOPED_TRACE(testing::Message() << "when " << when << ", reset " << reset << ", goes " << goes);
        net::Calls calls;
        const auto peer = std::make_shared<net::Peer>(calls);
        net::ScriptedChannel channel(peer);
        std::string unread;
        NotesNews told;
        const auto report = [&] {
          while (peer->report()) {
          }
        };
        const auto leaves = [&] {
          peer->says("GET");
          reset ? peer->breaks() : peer->ends();
          report();
        };
        if (when == before) leaves();
        ClientWatch watch(channel, unread, half_close);
        if (when >= listening) watch.listen(&told);
        if (when == no_longer_listening) watch.listen(nullptr);
        EXPECT_EQ(watch.gone(), when == before && goes);
        if (when != before) leaves();
        EXPECT_EQ(watch.gone(), goes);
        EXPECT_EQ(told.gone, goes && when == listening ? 1 : 0);
        EXPECT_EQ(unread, when == before ? "" : "GET");
        peer->breaks();
        report();
        EXPECT_TRUE(watch.gone()) << "a reset is no half of a close";
      }
}

TEST_F(ClientWatching, ReadsNoMoreThanItsShare) {
  static_assert(ClientWatch::most_unread == 4096);
  unread = "before";
  ClientWatch watch(channel, unread);
  peer->says(std::string(10'000, 'x'), 1000);
  report();
  EXPECT_EQ(unread.size(), ClientWatch::most_unread);
  EXPECT_EQ(peer->unread(), 10'006 - ClientWatch::most_unread);
}

TEST_F(ClientWatching, KnowsOfAClientThatEndsBehindMoreThanItsShare) {
  ClientWatch watch(channel, unread);
  watch.listen(&told);
  peer->says(std::string(10'000, 'x'));
  report();
  ASSERT_GT(peer->unread(), 0u);
  EXPECT_FALSE(watch.gone());
  peer->ends();
  report();
  EXPECT_TRUE(watch.gone());
  EXPECT_EQ(told.gone, 1);
}

TEST_F(ClientWatching, TellsWhenTheClientTakesBytesAgain) {
  ClientWatch watch(channel, unread);
  watch.listen(&told);
  report();
  const int before = told.writable;
  peer->takes_nothing();
  const std::string_view bytes = "abc";
  EXPECT_LT(channel.write({&bytes, 1}, 0), 0);
  report();
  EXPECT_EQ(told.writable, before);
  peer->takes(3);
  report();
  EXPECT_EQ(told.writable, before + 1);
}

TEST_F(ClientWatching, EndsWithIt) {
  {
    const ClientWatch watch(channel, unread);
  }
  EXPECT_FALSE(peer->watched());
}

}  // namespace
}  // namespace weir::proxy::exchange

// A pool with keep_alive shows the clients of its streams life before an answer begins, and tells errors in the stream.

namespace weir::proxy::serve {
namespace {

using metrics::series::Retry;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string comment = ": weir keep-alive\n\n";

void keeps_alive(config::Settings& settings) {
  settings.pools[0].keep_alive = config::Seconds(10);
  settings.measure.inject_usage = false;
}

/// Replicas take one request each, and others wait.
void keeps_alive_in_the_queue(config::Settings& settings) {
  keeps_alive(settings);
  settings.pools[0].queue.requests = 256;
  for (auto& replica : settings.pools[0].replicas) replica.max_in_flight = 1;
}

std::size_t count(std::string_view text, std::string_view of) {
  std::size_t n = 0;
  for (auto at = text.find(of); at != std::string_view::npos; at = text.find(of, at + of.size())) ++n;
  return n;
}

boost::json::object only_line(ScriptedProxy& proxy) {
  const auto lines = proxy.log_lines();
  EXPECT_EQ(lines.size(), 1u);
  return lines.empty() ? boost::json::object() : boost::json::parse(lines.front()).as_object();
}

/// Returns the body of the only answer, which is whole.
std::string body_of(const net::Peer& client) {
  const auto seen = read_answer(client.got);
  EXPECT_TRUE(seen.whole);
  EXPECT_EQ(seen.status, 200u);
  EXPECT_EQ(count(client.got, "HTTP/1.1"), 1u) << "one head: " << client.got;
  return seen.body;
}

TEST(EarlyHead, GoesOutWithACommentWhereNothingComesAndTheAnswerGoesOnBehindIt) {
  ScriptedProxy proxy(1, keeps_alive);
  const auto client = proxy.asks(post(chat(true)));
  proxy.tick_in(9.9);
  EXPECT_EQ(client->got, "");
  proxy.tick_in(10.1);
  EXPECT_THAT(client->got, AllOf(StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"),
                                 HasSubstr("x-weir-id: "), HasSubstr("Transfer-Encoding: chunked\r\n"),
                                 EndsWith("\r\n\r\n" + std::string(exchange::comment_chunk))));
  proxy.tick_in(20);
  EXPECT_EQ(count(client->got, comment), 1u);
  proxy.tick_in(20.2);
  EXPECT_EQ(count(client->got, comment), 2u);
  proxy.hears(proxy.upstream(), streamed_answer());
  EXPECT_EQ(body_of(*client), comment + comment + read_answer(streamed_answer()).body);
  const auto line = only_line(proxy);
  EXPECT_EQ(line.at("outcome"), "ok");
  EXPECT_EQ(line.at("bytes_out"), read_answer(streamed_answer()).body.size()) << "comments count nowhere";
  client->got.clear();
  proxy.plan[0] = {says(streamed_answer())};
  proxy.hears(*client, post(chat(true)));
  EXPECT_EQ(body_of(*client), read_answer(streamed_answer()).body) << "the connection goes on";
}

TEST(EarlyHead, GoesOutWhileTheReplicasOwnHeadWaitsForAnEvent) {
  for (const bool refuses : {false, true}) {
    ScriptedProxy proxy(2, keeps_alive);
    proxy.plan[1] = {says(streamed_answer())};
    const auto client = proxy.asks(post(chat(true)));
    proxy.tick_in(5);
    proxy.hears(proxy.upstream(), sse_head("Transfer-Encoding: chunked\r\nx-own: 1\r\n") + chunk(":\n\n"));
    proxy.tick_in(10.1);
    EXPECT_EQ(read_answer(client->got).body, comment);
    const auto events = refuses ? refusing_event : token("a") + finish_event + done_event;
    proxy.hears(proxy.upstream(), chunk(events) + last_chunk);
    EXPECT_THAT(asked(proxy), ElementsAre(1, refuses ? 1 : 0, 0, 0)) << "nothing of the answer was on its way";
    const auto other = read_answer(streamed_answer()).body;
    EXPECT_EQ(body_of(*client), comment + (refuses ? other : ":\n\n" + token("a") + finish_event + done_event));
    EXPECT_THAT(client->got, Not(HasSubstr("x-own")));
  }
}

TEST(EarlyHead, LeavesRetriesAsTheyAre) {
  ScriptedProxy proxy(2, keeps_alive);
  proxy.plan[1] = {says(streamed_answer())};
  const auto client = proxy.asks(post(chat(true)));
  proxy.tick_in(10.1);
  proxy.breaks(proxy.upstream());
  EXPECT_THAT(asked(proxy), ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(body_of(*client), comment + read_answer(streamed_answer()).body);
  EXPECT_EQ(proxy.retries(Retry::reset), 1u);
}

TEST(EarlyHead, ShowsLifeInTheQueueToo) {
  for (const bool served : {true, false}) {
    ScriptedProxy proxy(1, keeps_alive_in_the_queue);
    const auto first = proxy.asks(post(chat(true)));
    const auto client = proxy.asks(post(chat(true)));
    proxy.tick_in(10.1);
    EXPECT_EQ(count(client->got, comment), 1u);
    proxy.tick_in(20.2);
    EXPECT_EQ(count(client->got, comment), 2u);
    if (served) {
      proxy.hears(proxy.upstream(), streamed_answer());
      proxy.hears(*proxy.connections[0].back(), streamed_answer());
      EXPECT_EQ(body_of(*client), comment + comment + read_answer(streamed_answer()).body);
    } else {
      proxy.tick_in(30.1);
      EXPECT_THAT(body_of(*client), AllOf(StartsWith(comment + comment + "data: {\"error\":"),
                                          HasSubstr("no replica of pool 'pool' had room in time")));
      EXPECT_FALSE(client->closed());
      EXPECT_EQ(only_line(proxy).at("status"), 429) << "the log has the answer that the client would have got";
    }
  }
}

TEST(EarlyHead, ATurnInTheQueueIsPutOffForAClientThatTakesNothing) {
  ScriptedProxy proxy(1, keeps_alive_in_the_queue);
  const auto first = proxy.asks(post(chat(true)));
  const auto client = proxy.asks(post(chat(true)));
  client->takes_nothing();
  proxy.tick_in(10.1);
  EXPECT_FALSE(client->closed());
  client->takes(net::Peer::any);
  proxy.tick_in(20.2);
  EXPECT_EQ(count(client->got, comment), 1u);
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 200 "));
  const auto other = proxy.asks(post(chat(true)));
  other->takes_nothing();
  other->takes(10);
  proxy.tick_in(20.4);
  EXPECT_TRUE(other->closed()) << "half a head goes nowhere";
}

TEST(EarlyHead, WhatIsNoEventStreamIsToldInsideTheStream) {
  const std::string refusing = sse_head() + chunk(refusing_event) + last_chunk;
  const struct {
    const char* what;
    std::string answer, told;
    const char* outcome;
  } rows[]{
      {"a refusal",
       whole_answer("400 Bad Request", R"({"error":{"message":"too long","type":"BadRequestError","code":400}})"),
       R"("message":"too long","type":"BadRequestError","param":null,"code":"400")", "client_error"},
      {"a refusal as vLLM had them",
       whole_answer("400 Bad Request", R"({"object":"error","message":"no","type":"Bad"})"),
       R"("message":"no","type":"Bad")", "client_error"},
      {"a refusal as TGI has them", whole_answer("422 No", R"({"error":"no","error_type":"validation"})"),
       R"("message":"no","type":"validation")", "client_error"},
      {"a page", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p>x",
       "a replica answered 200: <p>x", "truncated"},
      {"a document", whole_answer("200 OK", completion), "a replica answered 200: {\\\"id\\\"", "ok"},
      {"an error that another replica could better", whole_answer("500 Oh", "{}"), "a replica answered 500: {}",
       "upstream_error"},
      {"an error without a length",
       "HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("x") + last_chunk,
       "a replica answered 400\"", "client_error"},
      {"an error that is too large to keep", whole_answer("400 Bad Request", std::string(100 * kib, 'x')),
       "a replica answered 400: xxx", "client_error"},
      {"an error inside the answer", refusing, refusing_event, "replica_refused"},
      {"no HTTP", "nonsense\r\n\r\n", "did not answer properly", "upstream_error"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    ScriptedProxy proxy(1, keeps_alive);
    const auto client = proxy.asks(post(chat(true)));
    proxy.tick_in(10.1);
    proxy.hears(proxy.upstream(), row.answer);
    EXPECT_THAT(body_of(*client), AllOf(StartsWith(comment + "data: {\"error\":"), HasSubstr(row.told)));
    EXPECT_FALSE(client->closed());
    EXPECT_EQ(only_line(proxy).at("outcome"), row.outcome);
    proxy.expect_at_rest();
  }
}

TEST(EarlyHead, AnErrorThatNoOtherReplicaMayBetterIsAskedOfNoOther) {
  ScriptedProxy proxy(2, keeps_alive);
  const auto client = proxy.asks(post(chat(true)));
  proxy.tick_in(10.1);
  proxy.hears(proxy.upstream(), whole_answer("400 Bad Request", "{}"));
  EXPECT_THAT(asked(proxy), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(body_of(*client), HasSubstr("a replica answered 400: {}"));
}

TEST(EarlyHead, ErrorsThatCameBeforeItAreToldInsideTheStreamAsWell) {
  for (const bool in_band : {false, true}) {
    ScriptedProxy proxy(2, keeps_alive);
    proxy.plan[0] = {says(in_band ? sse_head() + chunk(refusing_event) + last_chunk : whole_answer("503 Busy", "{}"))};
    const auto client = proxy.asks(post(chat(true)));
    ASSERT_THAT(asked(proxy), ElementsAre(1, 1, 0, 0));
    proxy.tick_in(10.1);
    proxy.breaks(proxy.upstream(1));
    EXPECT_EQ(body_of(*client).find(in_band ? comment + refusing_event : comment + "data: {\"error\":"), 0u);
    if (!in_band) EXPECT_THAT(body_of(*client), HasSubstr("a replica answered 503: {}"));
  }
}

TEST(EarlyHead, IsForClientsThatCanReadIt) {
  const struct {
    const char* what;
    std::string request;
  } rows[]{
      {"no stream", post(chat(false))},
      {"HTTP/1.0", post(chat(true), "", "1.0")},
      {"lines", post(chat(true), "", "1.1", "/api/chat")},
      {"a HEAD", "HEAD /v1/chat/completions HTTP/1.1\r\nHost: weir\r\n\r\n"},
  };
  for (const auto& row : rows) {
    ScriptedProxy proxy(1, keeps_alive);
    const auto client = proxy.asks(row.request);
    ASSERT_EQ(proxy.connections[0].size(), 1u) << row.what;
    proxy.tick_in(60);
    EXPECT_EQ(client->got, "") << row.what;
  }
  ScriptedProxy without(1);
  const auto client = without.asks(post(chat(true)));
  without.tick_in(60);
  EXPECT_EQ(client->got, "") << "the pool does not say so";
}

TEST(EarlyHead, ThePoolsTimeCountsOnceTheAnswerHasBegunToo) {
  for (const bool set : {true, false}) {
    ScriptedProxy proxy(1, set ? ScriptedProxy::Change(keeps_alive) : nullptr);
    const auto client = proxy.asks(post(chat(true)));
    proxy.hears(proxy.upstream(), sse_head() + chunk(token("a")));
    for (const double seconds : {set ? 9.9 : 14.8, set ? 9.9 : 14.9}) proxy.tick_in(seconds);
    EXPECT_EQ(count(client->got, comment), 0u);
    for (const double seconds : {set ? 10.1 : 15.1, set ? 10.1 : 0}) proxy.tick_in(seconds);
    EXPECT_EQ(count(client->got, comment), 1u);
  }
}

TEST(EarlyHead, AStreamThatIsCutEndsWithAnErrorEvent) {
  ScriptedProxy proxy(1, keeps_alive);
  const auto client = proxy.asks(post(chat(true)));
  proxy.tick_in(10.1);
  proxy.shared.draining = proxy.shared.cutting = true;
  proxy.tick_in(10.2);
  EXPECT_THAT(read_answer(client->got).body,
              AllOf(StartsWith(comment + "data: {\"error\":"), HasSubstr("limits.drain")));
  EXPECT_TRUE(client->closed());
}

}  // namespace
}  // namespace weir::proxy::serve
