// Whose fault an answer was, and what follows for the replica that gave it: only its own fault counts against it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

balancer::ReplicaState state(ScriptedProxy& proxy, std::size_t replica) {
  return proxy.snapshot->pools.front()->balancer->health().of(proxy.replica(replica).key, Clock::now()).state;
}

unsigned status(ScriptedProxy& proxy, const std::string& body) {
  const auto client = proxy.asks(post(body));
  proxy.ends(*client);
  return read_answer(client->got).status;
}

TEST(Blamed, ARefusedRequestStopsNobodysQueueAndLeavesNothingInTheBooks) {
  for (const std::string_view refusal : {"400 Bad Request", "404 Not Found", "422 No", "413 Too Large", "501 No"}) {
    ScriptedProxy proxy(1, [](config::Settings& settings) {
      settings.pools.front().queue.requests = 9;
      settings.pools.front().replicas.front().max_in_flight = 1;
    });
    proxy.plan[0] = {[](net::Peer&) {}, says(streamed_answer())};
    const auto errs = proxy.asks(post(chat(false)));
    const auto waits = proxy.asks(post(chat(true)));
    EXPECT_EQ(waits->got, "");
    proxy.hears(proxy.upstream(), whole_answer(std::string(refusal), "{}"));
    EXPECT_EQ(read_answer(errs->got).status, static_cast<unsigned>(std::stoul(std::string(refusal.substr(0, 3)))));
    EXPECT_TRUE(read_answer(waits->got).whole) << refusal << ": it is sent at once";
    auto& figures = proxy.snapshot->pools.front()->balancer->figures();
    EXPECT_EQ(figures.load(proxy.replica().key.index, Clock::now()).prefill_left, 0u);
  }
}

// Without a retry no second replica is asked whose fault an error is.
TEST(Blamed, ErrorsThatOneClientProvokesEjectNobodyWhateverTheRetryBudgetIs) {
  const std::string bad_body = R"({"model":"m","messages":"bad","stream":false})";
  for (const double budget : {0.0, 0.2}) {
    ScriptedProxy proxy(3, [=](config::Settings& settings) { settings.limits.retry_budget = budget; });
    proxy.plan.fill({[&](net::Peer& peer) {
      peer.says(whole_answer(peer.got.ends_with(bad_body) ? "500 Broken" : "200 OK", completion));
    }});
    for (int i = 0; i < 60; ++i) {
      proxy.address = {9};
      for (int each = 0; i % 20 == 0 && each < 3; ++each) EXPECT_EQ(status(proxy, chat(false)), 200u);
      proxy.address = {6};
      status(proxy, bad_body);
    }
    for (std::size_t one = 0; one < 3; ++one) EXPECT_EQ(state(proxy, one), balancer::ReplicaState::up) << one << budget;
  }
}

TEST(Blamed, AReplicaThatRefusesWhatAnotherAnswersIsEjected) {
  for (const std::string refusal : {"400 Bad Request", "404 Not Found", "422 Unprocessable"}) {
    ScriptedProxy proxy(2);
    proxy.plan[0] = {says(whole_answer("200 OK", completion))};
    proxy.plan[1] = {says(whole_answer(refusal, "{}"))};
    int served = 0;
    for (int i = 0; i < 60; ++i) served += status(proxy, chat(false)) == 200 ? 1 : 0;
    EXPECT_EQ(state(proxy, 1), balancer::ReplicaState::ejected) << refusal;
    EXPECT_EQ(state(proxy, 0), balancer::ReplicaState::up) << refusal;
    EXPECT_GE(served, 40) << refusal << ": from the twentieth refusal on";
  }
}

// A storm of connections makes the loop late: its deadlines may pass before it is told what has connected.
TEST(Blamed, AConnectionThatIsThereInTimeIsNoTimeOutHoweverLateTheLoopIs) {
  for (const bool connects : {false, true}) {
    ScriptedProxy proxy(2, without_budget());
    proxy.on_connect[0] = [](net::Peer&) {};
    proxy.plan.fill({says(whole_answer("200 OK", completion))});
    std::vector<std::shared_ptr<net::Peer>> clients;
    for (int i = 0; i < 6; ++i) clients.push_back(proxy.client(post(chat(false))));
    proxy.run();
    ASSERT_EQ(proxy.connections[0].size(), 3u);
    proxy.tick_in(1.9);
    for (const auto& one : proxy.connections[0])
      if (connects) one->connects();
    proxy.tick_in(2.1);
    int served = 0;
    for (const auto& client : clients) served += read_answer(client->got).status == 200 ? 1 : 0;
    EXPECT_EQ(served == 6, connects) << served;
    const auto health = proxy.snapshot->pools.front()->balancer->health().of(proxy.replica().key, Clock::now());
    EXPECT_EQ(health.state == balancer::ReplicaState::up, connects);
    EXPECT_TRUE(!connects || proxy.connections[1].size() == 3) << "nothing is asked again";
    proxy.expect_at_rest();
  }
}

}  // namespace
}  // namespace weir::proxy::serve
