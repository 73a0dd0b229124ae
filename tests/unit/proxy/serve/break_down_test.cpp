// Something is thrown within weir, by a mistake: the request has its answer or its break, its count, its
// line and nothing of the books, and all others go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/post.hpp>

#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// The next call of read or write throws.
void throw_now(ScriptedProxy& proxy) {
  proxy.calls.failing = proxy.calls.made;
  proxy.calls.error = net::Calls::throws;
}

TEST(BreakDown, OfARequestThatIsReadIs500WithItsCountAndItsLine) {
  ScriptedProxy proxy;
  const auto request = post(chat(false));
  for (const std::size_t begun : {std::size_t{30}, request.size() - 5}) {
    ScriptedProxy one;
    const auto client = one.asks(request.substr(0, begun));
    throw_now(one);
    one.hears(*client, request.substr(begun));
    EXPECT_THAT(client->got, AllOf(StartsWith("HTTP/1.1 500 "), HasSubstr("weir failed at this request"),
                                   HasSubstr("Connection: close")));
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_THAT(one.log_lines(),
                ElementsAre(AllOf(HasSubstr(R"("outcome":"rejected")"), HasSubstr(R"("status":500)"))));
    EXPECT_EQ(one.exposition.requests().all, 1u);
    one.expect_at_rest();
    one.ends(*client);
    EXPECT_TRUE(client->closed());
  }
}

TEST(BreakDown, OfAnIdleConnectionClosesItAndIsNoRequest) {
  ScriptedProxy proxy;
  const auto client = proxy.client();
  proxy.run();
  throw_now(proxy);
  proxy.hears(*client, "G");
  EXPECT_TRUE(client->closed());
  EXPECT_EQ(client->got, "");
  EXPECT_THAT(proxy.log_lines(), IsEmpty());
}

TEST(BreakDown, OfAnAnswerThatHasBegunCutsItOff) {
  ScriptedProxy proxy({says(sse_head() + chunk(token("a")))});
  const auto client = proxy.asks(post(chat(true)));
  throw_now(proxy);
  proxy.hears(proxy.upstream(), chunk(token("b")));
  EXPECT_TRUE(client->closed_by_reset());
  EXPECT_TRUE(proxy.upstream().closed());
  EXPECT_THAT(proxy.log_lines(), ElementsAre(HasSubstr(R"("outcome":"rejected")")));
  EXPECT_EQ(proxy.exposition.requests().all, 1u);
  proxy.expect_at_rest();
}

TEST(BreakDown, OfOneRequestIsNoReplicasFailure) {
  ScriptedProxy proxy;
  for (int i = 0; i < 20; ++i) {
    proxy.plan[0] = {[&](net::Peer& replica) {
      throw_now(proxy);
      replica.says(streamed_answer());
    }};
    const auto client = proxy.asks(post(chat(true)));
    EXPECT_THAT(client->got, StartsWith("HTTP/1.1 500 "));
  }
  auto& pool = *proxy.snapshot->pools.front()->balancer;
  EXPECT_EQ(pool.health().of(proxy.replica().key, Clock::now()).state, metrics::ReplicaState::up);
  proxy.plan[0] = {says(streamed_answer())};
  const auto client = proxy.asks(post(chat(true)));
  EXPECT_TRUE(read_answer(client->got).whole);
  proxy.expect_at_rest();
}

TEST(BreakDown, OfAHandlerStopsNoLoop) {
  ScriptedProxy proxy;
  exchange::Loop loop(proxy.shared, 1);
  int told = 0;
  struct Due final : net::Timed {
    explicit Due(int& count) : told(count) {}
    metrics::Moment deadline() const override { return due; }
    void deadline_passed(metrics::Moment) override {
      due = metrics::Moment::max();
      if (++told % 2 == 0) throw std::runtime_error("a test");
    }
    metrics::Moment due{};
    int& told;
  };
  std::vector<std::unique_ptr<Due>> all;
  for (int i = 0; i < 100; ++i) loop.deadlines.attach(*all.emplace_back(std::make_unique<Due>(told)));
  for (int i = 0; i < 5; ++i) boost::asio::post(loop.context, [] { throw std::runtime_error("a test"); });
  std::function<void()> end = [&] { told == 100 ? loop.context.stop() : boost::asio::post(loop.context, end); };
  boost::asio::post(loop.context, end);
  loop.run();
  EXPECT_EQ(told, 100) << "the tick came, and its round went on";
}

}  // namespace
}  // namespace weir::proxy::serve
