// Prompts' prefixes on their way from a request's body to the pool, through whole sessions on scripted channels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <string>
#include <vector>

#include "proxy/keys/client_keys.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using balancer::Tokens;

ScriptedProxy::Change aware(const ScriptedProxy::Change& more = {}) {
  return [more](config::Settings& settings) {
    settings.pools[0].policy = config::Policy::least_queued_tokens;
    if (more) more(settings);
  };
}

/// A conversation's turn: its first message says which conversation it is.
std::string turn(int conversation, int turns, const std::string& fields = "", const std::string& more = "") {
  std::string body = R"({"model":"m","max_tokens":5,"messages":[)";
  for (int i = 0; i < turns; ++i)
    body += R"({"role":"user","content":")" + std::to_string(conversation) + std::string(2000, 'a') + "\"},";
  body.back() = ']';
  return post(body + more + "}", fields);
}

const std::string answered =
    R"({"object":"chat.completion","choices":[{"message":{"content":"a"},"finish_reason":"stop"}],)"
    R"("usage":{"prompt_tokens":600,"completion_tokens":1,"total_tokens":601}})";

class Prefixes : public testing::Test {
 protected:
  void begin(std::size_t replicas, const ScriptedProxy::Change& change) {
    proxy = std::make_unique<ScriptedProxy>(replicas, change);
    for (auto& plan : proxy->plan) plan = {says(whole_answer("200 OK", answered))};
  }
  std::size_t requests_of(std::size_t replica) const {
    std::size_t count = 0;
    for (const auto& connection : proxy->connections[replica]) count += whole_requests(connection->got);
    return count;
  }
  /// Returns which replica got it.
  std::size_t send(const std::string& request) {
    std::vector<std::size_t> before;
    for (std::size_t i = 0; i < 4; ++i) before.push_back(requests_of(i));
    EXPECT_EQ(read_answer(proxy->asks(request)->got).status, 200u);
    for (std::size_t i = 0; i < 4; ++i) {
      if (requests_of(i) > before[i]) return i;
    }
    ADD_FAILURE() << "no replica got the request";
    return 0;
  }
  balancer::PrefixSums sums(std::size_t replica) {
    auto& pool = *proxy->snapshot->pools.front()->balancer;
    return pool.figures().load(proxy->replica(replica).key.index, Clock::now()).prefix;
  }
  Tokens sum(Tokens balancer::PrefixSums::* member) {
    Tokens all = 0;
    for (std::size_t i = 0; i < proxy->snapshot->pools.front()->replicas.size(); ++i) all += sums(i).*member;
    return all;
  }
  std::unique_ptr<ScriptedProxy> proxy;
};

TEST_F(Prefixes, SendAConversationWhereItsLastTurnWas) {
  for (const bool is_aware : {true, false}) {
    begin(3, aware([&](config::Settings& settings) { settings.pools[0].prefix_aware = is_aware; }));
    int stayed = 0;
    constexpr int conversations = 8;
    for (int i = 0; i < conversations; ++i) {
      const auto first = send(turn(i, 1));
      stayed += send(turn(i, 2)) == first ? 1 : 0;
    }
    EXPECT_EQ(stayed == conversations, is_aware) << stayed;
    EXPECT_EQ(sum(&balancer::PrefixSums::looked_up) > 0, is_aware);
  }
}

TEST_F(Prefixes, GoWithEachAttempt) {
  begin(2, aware());
  for (std::size_t i = 0; i < 2; ++i)
    proxy->plan[i] = {says(whole_answer("500 x", "{}")), says(whole_answer("200 OK", answered))};
  EXPECT_EQ(read_answer(proxy->asks(turn(1, 1))->got).status, 500u);
  EXPECT_GT(sums(0).looked_up, 0u);
  EXPECT_EQ(sums(0).looked_up, sums(1).looked_up);
}

TEST_F(Prefixes, AreNotReadWhereNobodyLooksAtThem) {
  begin(2, aware());
  proxy->shared.bypass = true;
  send(turn(1, 1));
  EXPECT_EQ(sum(&balancer::PrefixSums::looked_up), 0u);
  proxy->shared.bypass = false;
  send(turn(1, 1));
  EXPECT_GT(sum(&balancer::PrefixSums::looked_up), 0u);

  begin(2, {});  // Round robin.
  EXPECT_FALSE(proxy->snapshot->is_prefix_aware());
  send(turn(1, 1));
  EXPECT_EQ(sum(&balancer::PrefixSums::looked_up), 0u);
}

TEST_F(Prefixes, StandInTheLogWhereItIsToHaveThemWhetherThePoolLooksAtThemOrNot) {
  for (const bool is_aware : {true, false}) {
    for (const bool logged : {true, false}) {
      begin(1, aware([&](config::Settings& settings) {
              settings.pools[0].prefix_aware = is_aware;
              settings.log.prefixes = logged;
            }));
      send(turn(1, 1));
      send(turn(1, 2));
      send(turn(2, 1));
      EXPECT_EQ(sum(&balancer::PrefixSums::looked_up) > 0, is_aware);
      std::vector<boost::json::value> prefixes;
      for (const auto& line : proxy->log_lines()) prefixes.push_back(boost::json::parse(line).at("prefixes"));
      ASSERT_EQ(prefixes.size(), 3u);
      if (!logged) {
        for (const auto& none : prefixes) EXPECT_TRUE(none.is_null());
        continue;
      }
      const auto& first = prefixes[0].as_array();
      const auto& second = prefixes[1].as_array();
      EXPECT_EQ(first.back().at(0), 2017) << "the message's text, and what stands for its end";
      EXPECT_NE(std::ranges::find(second, first.back()), second.end()) << "the second turn goes on from the first";
      for (const auto& mark : prefixes[2].as_array()) EXPECT_EQ(std::ranges::find(second, mark), second.end());
    }
  }
}

TEST_F(Prefixes, AreOfTheirPoolAndNotOfCopies) {
  begin(1, aware([](config::Settings& settings) {
          auto other = settings.pools[0];
          other.name = "other";
          other.models = {"n"};
          other.prefix_aware = false;
          other.replicas[0].name = "gpu9";
          settings.pools.insert(settings.pools.begin(), other);
          config::Shadow shadow;
          shadow.name = "shadow";
          shadow.of = "pool";
          shadow.twin = "gpu0";
          shadow.replicas = {settings.pools[1].replicas[0]};
          shadow.replicas[0].name = "gpu8";
          settings.shadows = {shadow};
        }));
  const auto is_aware = [](const fleet::PoolRuntime& pool) {
    return pool.balancer->figures().load(pool.replicas[0]->key.index, Clock::now()).prefix_aware;
  };
  EXPECT_TRUE(proxy->snapshot->is_prefix_aware());
  EXPECT_FALSE(is_aware(*proxy->snapshot->pools[0]));
  EXPECT_TRUE(is_aware(*proxy->snapshot->pools[1]));
  EXPECT_FALSE(is_aware(*proxy->snapshot->shadows[0]->pool));
}

TEST_F(Prefixes, OfOneClientSteerNoOtherUnlessThePoolSaysSo) {
  for (const auto isolation : {config::PrefixIsolation::key, config::PrefixIsolation::none}) {
    begin(1, aware([&](config::Settings& settings) {
            settings.server.api_keys = "keys.toml";
            std::vector<config::ClientKey> clients(2);
            clients[0].name = "alice";
            clients[1].name = "bob";
            for (auto& client : clients) client.sha256 = keys::sha256(client.name + "s-key");
            settings.server.keys = std::move(clients);
            settings.pools[0].prefix_isolation = isolation;
          }));
    const auto predicted = [&](const std::string& name) {
      const Tokens before = sum(&balancer::PrefixSums::predicted);
      send(turn(1, 1, "Authorization: Bearer " + name + "s-key\r\n"));
      return sum(&balancer::PrefixSums::predicted) - before;
    };
    EXPECT_EQ(predicted("alice"), 0u);
    EXPECT_EQ(predicted("bob") > 0, isolation == config::PrefixIsolation::none);
    EXPECT_GT(predicted("alice"), 0u);
  }
}

TEST_F(Prefixes, KeepSaltsApart) {
  begin(1, aware());
  send(turn(1, 1, "", R"(,"cache_salt":"a")"));
  send(turn(1, 1, "", R"(,"cache_salt":"b")"));
  EXPECT_EQ(sum(&balancer::PrefixSums::predicted), 0u);
  send(turn(1, 1, "", R"(,"cache_salt":"a")"));
  EXPECT_GT(sum(&balancer::PrefixSums::predicted), 0u);
}

}  // namespace
}  // namespace weir::proxy::serve
