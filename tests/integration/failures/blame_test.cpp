// Requests of one client that no replica can answer put no replica out, though most of them get no second opinion.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int bad_clients = 12, bad_requests_each = 25, good_clients = 2;

struct Answers {
  std::atomic<int> told = 0, good = 0, harmed = 0;
};

/// One client's broken requests, with so many at a time, beside those of others who ask until they end.
void ask_badly_and_well(const WeirUnderTest& weir, Answers& answers) {
  std::atomic<int> at_it = bad_clients;
  std::vector<std::thread> clients;
  clients.reserve(bad_clients + good_clients);
  for (int i = 0; i < bad_clients; ++i) {
    clients.emplace_back([&] {
      for (int request = 0; request < bad_requests_each; ++request)
        if (fetch(weir.port(), post(chat, chat_body("broken"), "x-user: bad\r\n")).status == 500) ++answers.told;
      --at_it;
    });
  }
  for (int i = 0; i < good_clients; ++i) {
    clients.emplace_back([&, i] {
      const auto request = post(chat, chat_body(), "x-user: good" + std::to_string(i) + "\r\n");
      while (at_it > 0) {
        const auto got = fetch(weir.port(), request);
        (got.status == 200 && got.end == BodyEnd::whole ? answers.good : answers.harmed)++;
      }
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(answers.told, bad_clients * bad_requests_each);
  EXPECT_GT(answers.good, 0);
  EXPECT_EQ(answers.harmed, 0);
}

TEST(Blame, OneClientsFloodOfRequestsThatNoReplicaCanAnswerEjectsNobodyWhateverTheRetryBudgetIs) {
  const auto script = vllm_chat(3);
  const auto plays = [&](Exchange& exchange) {
    if (exchange.request().body.find("broken") == std::string::npos) return play(exchange, script);
    exchange.send(answer("500 Internal Server Error", R"({"error":{"message":"cannot"}})"));
  };
  for (const std::string budget : {"0.0", "0.2"}) {
    ScriptedReplica a(plays), b(plays), c(plays);
    auto settings = pool_of({&a, &b, &c});
    settings.limits["retry_budget"] = budget;
    settings.pools[0].more["fair_by"] = "\"header:x-user\"";
    WeirUnderTest weir(settings);
    Answers answers;
    ask_badly_and_well(weir, answers);
    const auto page = weir.metrics_after(static_cast<std::size_t>(answers.told) + static_cast<std::size_t>(answers.good));
    EXPECT_EQ(page.sum("weir_replica_state", {{"state", "up"}}), 3);
    EXPECT_THAT(weir.output(), Not(HasSubstr("is ejected"))) << budget;
  }
}

}  // namespace
}  // namespace weir::integration
