// An exchange runs between a scripted client and scripted replicas. The tests look at what relay and exchange do
// beside the rules.

#include "proxy/exchange/relay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <functional>

#include "proxy/exchange/mirror.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Limit;
using metrics::series::Retry;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::uint64_t observations(const metrics::series::Histogram& histogram) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i <= histogram.bounds().size(); ++i) count += histogram.bucket(i);
  return count;
}

/// Returns the Content-Length of a request that went to a replica, after checking that its body has it.
std::size_t body_sent(const net::Peer& replica) {
  const auto head = replica.got.find("\r\n\r\n") + 4;
  const auto length = replica.got.find("Content-Length: ");
  EXPECT_EQ(std::stoul(replica.got.substr(length + 16)), replica.got.size() - head);
  return replica.got.size() - head;
}

TEST(Connect, TakesAsLongAsTheLimitAllowsAndThenItIs504) {
  ScriptedProxy proxy;
  proxy.on_connect[0] = [](net::Peer&) {};
  const auto client = proxy.asks(post(chat(true)));
  const auto begun = Clock::now();
  proxy.tick(begun + std::chrono::milliseconds(1900));
  EXPECT_EQ(client->got, "");
  proxy.tick(begun + std::chrono::seconds(2));
  EXPECT_THAT(client->got, AllOf(StartsWith("HTTP/1.1 504 "), HasSubstr("limits.connect")));
  EXPECT_TRUE(proxy.upstream().closed());
  EXPECT_THAT(proxy.log_lines(), ElementsAre(HasSubstr(R"("status":504)")));
  EXPECT_FALSE(client->closed());
  proxy.expect_at_rest();
}

TEST(Connect, ThatFailsIsTheReplicasFaultOrAWantOfWeirsOwnWhichDoesNotWaitInTheQueue) {
  const auto later = [](int error) { return [error](net::Peer& replica) { replica.refuses(error); }; };
  const struct {
    const char* what;
    int at_once;
    std::function<void(net::Peer&)> on_connect;
    unsigned status;
    const char* code;
    std::optional<Limit> limit;
  } rows[]{
      {"refused", 0, later(ECONNREFUSED), 502, "replica_unreachable", {}},
      {"refused at once", ENETUNREACH, {}, 502, "replica_unreachable", {}},
      {"no descriptor", EMFILE, {}, 503, "no_descriptor", Limit::descriptors},
      {"no descriptor of the system's", ENFILE, {}, 503, "no_descriptor", Limit::descriptors},
      {"no port", EADDRNOTAVAIL, {}, 503, "no_socket", Limit::sockets},
      {"no buffer", ENOBUFS, {}, 503, "no_socket", Limit::sockets},
      {"no memory", ENOMEM, {}, 503, "no_socket", Limit::sockets},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    ScriptedProxy proxy(1, [&](config::Settings& settings) {
      if (row.limit) settings.pools.front().queue.requests = 9;
    });
    proxy.refuses_at_once[0] = row.at_once;
    proxy.on_connect[0] = row.on_connect;
    const auto client = proxy.asks(post(chat(true)));
    EXPECT_TRUE(proxy.replica().state->connect_failed) << "its name is looked up again";
    EXPECT_EQ(read_answer(client->got).status, row.status);
    EXPECT_THAT(client->got, HasSubstr(row.code));
    EXPECT_EQ(client->got.find("Retry-After: ") != std::string::npos, row.limit.has_value());
    for (const auto limit : {Limit::descriptors, Limit::sockets})
      EXPECT_EQ(proxy.limit_hits(limit), limit == row.limit ? 1u : 0u);
    const auto outcome = row.limit ? R"("outcome":"rejected")" : R"("outcome":"upstream_error")";
    EXPECT_THAT(proxy.log_lines(), ElementsAre(HasSubstr(outcome)));
    proxy.expect_at_rest();
  }
}

TEST(RequestOut, GoesOutInWhateverPiecesTheReplicaTakesAndCountsWhatIsInjected) {
  for (const std::size_t room : {std::size_t{1}, std::size_t{7}, std::size_t{100}, std::size_t{300}, net::Peer::any}) {
    ScriptedProxy proxy({says(streamed_answer())});
    proxy.on_connect[0] = [&](net::Peer& replica) {
      replica.connects();
      replica.takes_a_round(room);
    };
    const auto client = proxy.asks(post(chat(true)));
    EXPECT_TRUE(read_answer(client->got).whole);
    const auto& replica = proxy.upstream();
    EXPECT_THAT(replica.got, HasSubstr("include_usage"));
    EXPECT_GT(body_sent(replica), chat(true).size());
    EXPECT_EQ(proxy.shard().bytes[0].value(), body_sent(replica));
    EXPECT_THAT(client->got, Not(HasSubstr("usage")));
  }
}

TEST(ManyBytes, LeaveOthersTheirTurnOnTheirWayOutAndBack) {
  const std::string much(std::size_t{1} << 20, 'x');
  const auto body = R"({"model":"m","stream":false,"messages":[{"role":"user","content":")" + much + "\"}]}";
  ScriptedProxy proxy({says(whole_answer("200 OK", much))});
  const auto client = proxy.asks(post(body));
  EXPECT_EQ(body_sent(proxy.upstream()), body.size());
  EXPECT_EQ(read_answer(client->got).body, much);
}

std::size_t allocated() {
  const auto heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

TEST(RequestOut, ThatIsMirroredIsNotKeptWhileItsAnswerStreams) {
  ScriptedProxy proxy(1, [](config::Settings& settings) {
    config::Shadow shadow;
    shadow.name = "candidate";
    shadow.of = "pool";
    shadow.twin = "gpu0";
    shadow.replicas = settings.pools[0].replicas;
    shadow.replicas[0].name = "cand0";
    settings.shadows = {shadow};
  });
  exchange::Shadows shadows(proxy.shared, 0);
  proxy.shared.shadows = &shadows;
  constexpr std::size_t size = std::size_t{4} << 20;
  proxy.plan[0] = {says(sse_head() + chunk(token("a")))};
  const auto client = proxy.asks(
      post(R"({"model":"m","stream":true,"messages":[{"role":"user","content":")" + std::string(size, 'x') + "\"}]}"));
  ASSERT_THAT(client->got, HasSubstr("200 OK"));
  proxy.snapshot->shadows[0]->state->on = false;
  ASSERT_EQ(shadows.loop().context.poll(), 1u) << "one job was posted, and is gone";
  const auto streaming = allocated();
  proxy.hears(proxy.upstream(), stream_end);
  EXPECT_TRUE(read_answer(client->got).whole);
  const auto ended = allocated();
  EXPECT_LT(streaming, ended + size / 2);
}

TEST(RequestOut, AnsweredByHalfIsTakenBackByAResetAndItsConnectionIsNotUsedAgain) {
  ScriptedProxy proxy;
  proxy.on_connect[0] = [](net::Peer& replica) {
    replica.connects();
    replica.takes_nothing();
    replica.takes(50);
    replica.says(whole_answer("413 Too Large", R"({"error":"no"})"));
  };
  const auto client = proxy.asks(post(chat(false)));
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(proxy.upstream().got.size(), 50u);
  EXPECT_TRUE(proxy.upstream().closed_by_reset()) << "a FIN would wait behind the request's half";
  proxy.hears(*client, post(chat(false)));
  EXPECT_EQ(proxy.connections[0].size(), 2u);
}

TEST(RequestOut, SentWholeIsClosedByAnEnd) {
  ScriptedProxy proxy({says(whole_answer("200 OK", completion, "Connection: close\r\n"))});
  proxy.asks(post(chat(false)));
  EXPECT_TRUE(proxy.upstream().closed());
  EXPECT_FALSE(proxy.upstream().closed_by_reset());
}

TEST(RequestOut, IsTakenBackWhenTheClientLeavesHoweverFarItIs) {
  for (const std::string far : {"connecting", "half", "whole"})
    for (const bool reset : {false, true}) {
      SCOPED_TRACE(far);
      ScriptedProxy proxy;
      proxy.on_connect[0] = [&](net::Peer& replica) {
        if (far != "connecting") replica.connects();
        if (far == "half") replica.takes_nothing();
      };
      const auto client = proxy.asks(post(chat(true)));
      reset ? proxy.breaks(*client) : proxy.ends(*client);
      EXPECT_TRUE(client->closed());
      EXPECT_TRUE(proxy.upstream().closed());
      EXPECT_EQ(proxy.upstream().closed_by_reset(), far != "whole");
      EXPECT_THAT(proxy.log_lines(), ElementsAre(HasSubstr(R"("outcome":"client_abort")")));
      proxy.expect_at_rest();
    }
}

TEST(Reuse, NotOfOneThatWasClosedOrBroughtStrayBytesOrIsOld) {
  for (int what = 0; what < 4; ++what) {
    SCOPED_TRACE(what);
    ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
    const auto client = proxy.asks(post(chat(false)));
    auto& first = proxy.upstream();
    EXPECT_FALSE(first.closed());
    if (what == 0) first.ends();
    if (what == 1) first.says("HTTP/1.1 408 Too Late\r\n\r\n");
    if (what == 2) first.breaks();
    proxy.run();
    if (what == 3) proxy.tick_in(4);
    proxy.hears(*client, post(chat(false)));
    EXPECT_TRUE(first.closed());
    EXPECT_EQ(proxy.connections[0].size(), 2u);
    EXPECT_EQ(read_answer(read_answer(client->got).rest).body, completion);
    EXPECT_EQ(proxy.retries(Retry::stale_connection), 0u);
  }
}

TEST(Reuse, OfAStaleOneCostsNothingAndTheNextIsFresh) {
  ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
  const auto one = proxy.client(post(chat(false)));
  const auto two = proxy.asks(post(chat(false)));
  ASSERT_EQ(proxy.connections[0].size(), 2u);
  // Both die when they are written to.
  const auto both = proxy.connections[0];
  proxy.plan[0] = {[&](net::Peer& replica) {
    if (&replica == both[0].get() || &replica == both[1].get()) return replica.breaks();
    replica.says(whole_answer("200 OK", completion));
  }};
  proxy.hears(*one, post(chat(false)));
  EXPECT_EQ(read_answer(read_answer(one->got).rest).body, completion);
  EXPECT_EQ(proxy.retries(Retry::stale_connection), 1u) << "one stale connection, and then a fresh one";
  EXPECT_EQ(proxy.connections[0].size(), 3u);
  EXPECT_THAT(proxy.log_lines().back(), HasSubstr(R"("attempt":1)"));
}

TEST(AnswerIn, OfAnUntilCloseBodyThatIsResetIsBroken) {
  for (const bool reset : {false, true}) {
    for (const std::string version : {"1.0", "1.1"}) {
      ScriptedProxy proxy;
      proxy.plan[0] = {[&](net::Peer& replica) {
        replica.says("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + completion);
        reset ? replica.breaks() : replica.ends();
      }};
      const auto client = proxy.asks(post(chat(false), "", version));
      const auto seen = read_answer(client->got);
      EXPECT_EQ(seen.until_close ? client->closed_by_reset() : !seen.whole, reset);
      EXPECT_THAT(proxy.log_lines(),
                  ElementsAre(HasSubstr(reset ? R"("outcome":"upstream_reset")" : R"("outcome":"ok")")));
    }
  }
}

TEST(AnswerIn, ThatWasSentBeforeTheReplicaStoppedReadingIsRelayed) {
  ScriptedProxy proxy;
  proxy.on_connect[0] = [](net::Peer& replica) {
    replica.connects();
    replica.says(whole_answer("401 Unauthorized", R"({"error":"key"})"));
    replica.ends();
  };
  const auto client = proxy.asks(post(chat(false)));
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 401 "));
}

TEST(AnswerIn, GoesBeforeOthersOnceItFlows) {
  ScriptedProxy proxy;
  std::vector<bool> prioritized;
  proxy.plan[0] = {[&](net::Peer& replica) {
    prioritized.push_back(replica.prioritized());
    replica.says(streamed_answer());
  }};
  proxy.asks(post(chat(true)));
  prioritized.push_back(proxy.upstream().prioritized());
  EXPECT_THAT(prioritized, ElementsAre(false, true));
}

/// A stream in flight whose client has room for nothing more.
struct SlowClient {
  explicit SlowClient(std::size_t read_ahead = std::size_t{1} << 20, std::size_t answer_rate = 256)
      : proxy(1, [read_ahead, answer_rate](config::Settings& settings) {
          settings.limits.read_ahead = read_ahead;
          settings.limits.answer_rate = answer_rate;
        }) {
    proxy.plan[0] = {says(sse_head() + chunk(token("a")))};
    client = proxy.client(post(chat(true)));
    proxy.run();
    replica = proxy.connections[0].front();
    client->takes_nothing();
    client->unacknowledged = 1000;
  }
  void bursts(const std::string& bytes) { proxy.hears(*replica, bytes); }
  ScriptedProxy proxy;
  std::shared_ptr<net::Peer> client, replica;
};

TEST(SlowClient, IsCutOnceItHasTakenNothingForTheLimit) {
  SlowClient slow;
  slow.bursts(chunk(token("b")));
  const auto burst = Clock::now();
  slow.proxy.tick(burst + std::chrono::seconds(119));
  EXPECT_FALSE(slow.client->closed());
  slow.proxy.tick(burst + std::chrono::seconds(150));
  EXPECT_TRUE(slow.client->closed());
  EXPECT_TRUE(slow.replica->closed());
  EXPECT_EQ(slow.proxy.limit_hits(Limit::client_stall), 1u);
  EXPECT_TRUE(slow.client->closed_by_reset()) << "a FIN would wait behind the bytes that it does not take";
  slow.proxy.expect_at_rest();
}

TEST(SlowClient, IsCutOnceItTakesTooLittleHoweverSteadily) {
  for (const bool enough : {false, true}) {
    SlowClient slow;
    slow.client->unacknowledged = 100'000;
    slow.bursts(chunk(token(std::string(200'000, 'x'))));
    const auto burst = Clock::now();
    for (int i = 1; i <= 16 && !slow.client->closed(); ++i) {
      slow.client->unacknowledged -= (enough ? 15 * 256 : 1);  // 15 s later.
      slow.proxy.tick(burst + std::chrono::seconds(15 * i));
      EXPECT_TRUE(i >= 8 || !slow.client->closed());
    }
    EXPECT_EQ(slow.client->closed(), !enough);
    EXPECT_EQ(slow.proxy.limit_hits(Limit::answer_rate), enough ? 0u : 1u);
    EXPECT_EQ(slow.proxy.limit_hits(Limit::client_stall), 0u);
    EXPECT_EQ(slow.replica->closed(), !enough) << "its place on the GPU is free";
    slow.client->takes(net::Peer::any);
    slow.proxy.run();
  }
}

TEST(SlowClient, OwesNothingWhileTheReplicaIsSilent) {
  SlowClient slow;
  for (int i = 0; i < 4; ++i) {
    slow.client->takes_nothing();
    slow.bursts(chunk(token("b")));
    slow.client->takes(net::Peer::any);
    slow.proxy.run();
    slow.proxy.tick_in(119);
    EXPECT_FALSE(slow.client->closed());
  }
  EXPECT_EQ(slow.proxy.limit_hits(Limit::answer_rate), 0u);
}

TEST(SlowClient, IsPaidForAndGetsOneReadAheadWhereMemoryIsShort) {
  SlowClient slow;
  auto& buffers = slow.proxy.shared.buffers;
  const auto kept = [&] {
    for (int i = 0; i < 60; ++i) slow.bursts(chunk(token(std::string(10'000, 'x'))));
    return slow.replica->unread();
  };
  EXPECT_EQ(kept(), 0u) << "600 kB are less than a MiB ahead";
  EXPECT_GE(buffers.used(), 600'000u);
  EXPECT_LE(buffers.used(), 1'300'000u) << "a string grows by doubling";
  buffers.set_limit(buffers.used() * 5 / 4);
  for (int i = 0; i < 2; ++i) slow.bursts(chunk(token(std::string(10'000, 'x'))));
  ASSERT_TRUE(buffers.tight() && !buffers.spent());
  EXPECT_GT(slow.replica->unread(), 10'000u) << "what is tight is not spent, and one read ahead is enough all the same";
  EXPECT_GT(kept(), 500'000u) << "it is not read while so much is held";
  slow.client->takes(net::Peer::any);
  slow.proxy.run();
  EXPECT_EQ(slow.replica->unread(), 0u);
  EXPECT_LT(buffers.used(), 32'000u) << "the meter keeps the room that one event needed";
  slow.client->takes_nothing();
  buffers.set_limit(4096);
  slow.bursts(chunk(token(std::string(10'000, 'x'))));
  EXPECT_GT(buffers.used(), 4096u) << "what was begun is finished";
  slow.client->takes(net::Peer::any);
  slow.proxy.run();
  buffers.set_limit(std::size_t{64} << 20);
  slow.client->takes_nothing();
  EXPECT_EQ(kept(), 0u);
  EXPECT_GE(buffers.used(), 600'000u);
  slow.client->takes(net::Peer::any);
  slow.proxy.run();
  EXPECT_LT(buffers.used(), 32'000u) << "what has gone out is paid for no more, though nothing follows it";
}

TEST(Relay, PaysForAnEventThatIsNotWhole) {
  ScriptedProxy proxy;
  const std::string long_event =
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + std::string(100'000, 'x');
  proxy.plan[0] = {says(sse_head() + chunk(long_event))};
  const auto client = proxy.asks(post(chat(true), "", "1.1"));
  EXPECT_GE(proxy.shared.buffers.used(), 100'000u - net::BufferBudget::step);
  proxy.hears(proxy.upstream(), chunk("\"},\"finish_reason\":null}]}\n\n") + stream_end);
  EXPECT_TRUE(read_answer(client->got).whole);
  proxy.expect_at_rest();
}

TEST(SlowClient, IsNotLookedAtBeforeAnEighthOfTheLimit) {
  SlowClient slow;
  slow.client->unacknowledged = 100'000;
  slow.bursts(chunk(token("b")));
  const auto burst = Clock::now();
  slow.client->unacknowledged = 50'000;
  slow.proxy.tick(burst + std::chrono::seconds(14));
  slow.proxy.tick(burst + std::chrono::seconds(15));  // The relay sees that it has taken 50,000 bytes, now.
  slow.proxy.tick(burst + std::chrono::seconds(134));
  EXPECT_FALSE(slow.client->closed());
  slow.proxy.tick(burst + std::chrono::seconds(160));
  EXPECT_TRUE(slow.client->closed());
}

TEST(SlowClient, HasMadeProgressWhenAFlushWroteSomething) {
  SlowClient slow(std::size_t{1} << 20, 0);
  slow.bursts(chunk(token("b")));
  const auto before = Clock::now();
  slow.client->takes(5);
  slow.proxy.run();
  slow.proxy.tick(before + std::chrono::seconds(120) - nanosecond);
  EXPECT_FALSE(slow.client->closed());
  slow.proxy.tick_in(160);
  EXPECT_TRUE(slow.client->closed());
}

TEST(SlowClient, GetsTheRestOfAnAnswerThatIsOver) {
  SlowClient slow;
  slow.bursts(chunk(token("b")) + stream_end);
  EXPECT_FALSE(read_answer(slow.client->got).whole);
  EXPECT_EQ(slow.proxy.log_lines().size(), 0u) << "it is not over for the client";
  EXPECT_EQ(slow.proxy.snapshot->pools.front()->balancer->figures().in_flight(), 0u) << "it is over for the replica";
  slow.client->takes_a_round(7);
  slow.client->takes(7);
  slow.proxy.run();
  EXPECT_TRUE(read_answer(slow.client->got).whole);
  EXPECT_EQ(slow.proxy.log_lines().size(), 1u);
  slow.client->says(post(chat(true)));
  slow.client->takes(net::Peer::any);
  slow.proxy.run();
  EXPECT_EQ(slow.proxy.connections[0].size(), 1u) << "the replica's connection is free once the client has all";
}

TEST(SlowClient, PausesTheReplicaAtReadAheadAndGoesOnAtHalfOfIt) {
  SlowClient slow(1000);
  slow.bursts(chunk(std::string(1000, ':') + "\n\n"));
  slow.bursts(chunk(token("b")) + stream_end);
  EXPECT_GT(slow.replica->unread(), 0u);
  slow.client->takes(400);
  slow.proxy.run();
  EXPECT_GT(slow.replica->unread(), 0u);
  slow.client->takes(200);
  slow.proxy.run();
  EXPECT_EQ(slow.replica->unread(), 0u);
  slow.client->takes(net::Peer::any);
  slow.proxy.run();
  EXPECT_TRUE(read_answer(slow.client->got).whole);
  EXPECT_THAT(slow.proxy.log_lines().front(), Not(HasSubstr(R"("paused_s":0,)")));
}

TEST(SlowClient, HasNoGapsMeasuredInWhatGatheredWhileItPaused) {
  SlowClient slow(1000);
  const auto before = observations(slow.proxy.shard().inter_chunk_latency);
  slow.bursts(chunk(std::string(1000, ':') + "\n\n"));
  // More than two reads have gathered, of which none tells when its tokens came.
  std::string gathered;
  while (gathered.size() < 2 * exchange::Loop::read_size + 1000) gathered += chunk(token(std::string(500, 'b')));
  slow.bursts(gathered);
  slow.client->takes(net::Peer::any);
  slow.proxy.run();
  EXPECT_EQ(slow.replica->unread(), 0u);
  EXPECT_EQ(observations(slow.proxy.shard().inter_chunk_latency), before);
  slow.bursts(chunk(token("c")));
  slow.bursts(chunk(token("d")));
  EXPECT_GE(observations(slow.proxy.shard().inter_chunk_latency), before + 1) << "the backlog is over";
}

TEST(SlowClient, ThatLeavesTakesItsStreamAlong) {
  for (const bool while_writing : {false, true}) {
    SlowClient slow;
    slow.bursts(chunk(token("b")));
    slow.client->breaks();
    if (while_writing) slow.client->takes(5);
    slow.proxy.run();
    EXPECT_TRUE(slow.replica->closed());
    EXPECT_TRUE(slow.client->closed());
    EXPECT_THAT(slow.proxy.log_lines(), ElementsAre(HasSubstr(R"("outcome":"client_abort")")));
    slow.proxy.expect_at_rest();
  }
}

}  // namespace
}  // namespace weir::proxy::serve
