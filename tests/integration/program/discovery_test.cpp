// Replicas behind a host's name, with a real nameserver that changes its answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "tests/integration/peers/dns_server.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using Names = std::set<std::string>;

class Discovery : public testing::Test {
 protected:
  /// A machine of the same port as the others: 127.0.0.`number`.
  ScriptedReplica& machine(unsigned number) {
    auto& place = machines[number];
    place = std::make_unique<ScriptedReplica>(plays(vllm_chat(3)), ScriptedReplica::ModelsQuestion::answered_unseen,
                                              port, number);
    return *place;
  }

  WeirSettings settings(std::string interval, Keys more) const {
    auto settings = pool_at("http://engines.weir.test:" + std::to_string(port), std::move(more));
    settings.pools[0].replicas[0].name = "gpu";
    settings.pools[0].more = {{"policy", "\"round_robin\""}};
    settings.discovery = {{"nameserver", dns.address()}, {"interval", '"' + interval + '"'}};
    settings.health = {{"interval", "\"100ms\""}};
    return settings;
  }

  static Names in_use(const MetricsPage& page) {
    Names names;
    for (const auto name : {"gpu", "gpu-1", "gpu-2", "gpu-3"})
      if (page.has("weir_requests_in_flight", {{"replica", name}})) names.insert(name);
    return names;
  }
  static void wait_for(const WeirUnderTest& weir, const Names& names) {
    weir.metrics_when("replicas to come and go", [&](const MetricsPage& page) { return in_use(page) == names; });
  }

  const std::uint16_t port = free_port();
  DnsServer dns;
  std::map<unsigned, std::unique_ptr<ScriptedReplica>> machines;
};

TEST_F(Discovery, EachAddressOfANameIsAReplicaThatComesAndGoesWithTheAnswers) {
  for (const unsigned number : {1U, 2U, 3U}) machine(number);
  dns.answers({"127.0.0.2", "127.0.0.1"});
  WeirUnderTest weir(settings("200ms", {{"expand", "true"}}));
  wait_for(weir, {"gpu-1", "gpu-2"});
  Names seen;
  for (int i = 0; i < 4; ++i) seen.insert(who_answers(weir));
  EXPECT_EQ(seen, (Names{"gpu-1", "gpu-2"}));
  EXPECT_GT(machines[1]->requests().size(), 0u);
  EXPECT_GT(machines[2]->requests().size(), 0u);
  EXPECT_EQ(machines[1]->requests().front().head.field("host"), "engines.weir.test:" + std::to_string(port));

  dns.answers({"127.0.0.2", "127.0.0.3"});
  weir.wait_until_said("replica 'gpu-3' is new: 'engines.weir.test' is 127.0.0.3");
  machines.erase(1);  // The machine takes no connections either, so it leaves.
  weir.wait_until_said("replica 'gpu-1' leaves: 'engines.weir.test' is no longer 127.0.0.1");
  wait_for(weir, {"gpu-2", "gpu-3"});
  dns.answers({"127.0.0.1", "127.0.0.2", "127.0.0.3"});
  wait_for(weir, {"gpu-1", "gpu-2", "gpu-3"});
}

TEST_F(Discovery, WhereAnswersAreCompleteAMachineThatOneLacksDrainsThoughItServes) {
  for (const unsigned number : {1U, 2U}) machine(number);
  Event go_on;
  machines[3] =
      std::make_unique<ScriptedReplica>([&](Exchange& exchange) { play_with_pause(exchange, vllm_chat(3), 1, go_on); },
                                        ScriptedReplica::ModelsQuestion::answered_unseen, port, 3);
  dns.answers({"127.0.0.1", "127.0.0.2", "127.0.0.3"});
  auto complete = settings("100ms", {{"expand", "true"}});
  complete.discovery.insert({"complete", "true"});
  WeirUnderTest weir(complete);
  wait_for(weir, {"gpu-1", "gpu-2", "gpu-3"});
  std::list<HttpClient> clients;
  Response streamed;
  do {
    clients.emplace_back(weir.port()).send(post(chat, chat_body()));
    streamed = clients.back().response_head();
  } while (streamed.head.field("x-weir-replica") != "gpu-3");
  dns.answers({"127.0.0.1", "127.0.0.2"});
  weir.wait_until_said("replica 'gpu-3' leaves: 'engines.weir.test' is no longer 127.0.0.3");
  for (int i = 0; i < 6; ++i) EXPECT_NE(who_answers(weir), "gpu-3");
  go_on.set();
  clients.back().rest(streamed);
  EXPECT_THAT(streamed.body, testing::HasSubstr("[DONE]"));
  wait_for(weir, {"gpu-1", "gpu-2"});
}

TEST_F(Discovery, AReplicaWhoseNameHasNoAddressIsDownUntilItHasOne) {
  machine(1);
  dns.answers({});
  WeirUnderTest weir(settings("100ms", {}));
  weir.wait_until_said("replica 'gpu' is down, it was up: its name 'engines.weir.test' has no address: ");
  EXPECT_EQ(weir.metrics().state_of("gpu"), "down");
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 502u) << "there is no queue";
  dns.answers({"127.0.0.1"});
  weir.metrics_when("the replica to be back", [](const MetricsPage& page) { return page.state_of("gpu") != "down"; });
  EXPECT_EQ(who_answers(weir), "gpu");
}

TEST_F(Discovery, AConnectionThatFailsLeadsToALookUpAtOnce) {
  machine(1);
  dns.answers({"127.0.0.1"});
  WeirUnderTest weir(settings("1h", {}));
  machines[1]->wait_for_probes(1);
  machine(2);
  dns.answers({"127.0.0.2"});
  machines.erase(1);
  weir.wait_until_said("replica 'gpu': 'engines.weir.test' is 127.0.0.2 now, it was 127.0.0.1");
  weir.metrics_when("the replica to be back", [](const MetricsPage& page) { return page.state_of("gpu") != "down"; });
  EXPECT_EQ(who_answers(weir), "gpu");
}

}  // namespace
}  // namespace weir::integration
