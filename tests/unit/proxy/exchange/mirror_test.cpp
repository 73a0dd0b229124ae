// Which requests a shadow gets.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "proxy/exchange/mirror.hpp"

namespace weir::proxy::exchange {
namespace {

class Wants : public ::testing::Test {
 protected:
  Wants() {
    shadow.state = std::make_shared<fleet::ShadowState>();
    shadow.settings.sample = 0.5;
    replica.settings.name = "gpu0";
    conversation(0);
  }

  void head(const std::string& fields) {
    auto& message = request.message;
    message.head_bytes = "POST /v1/chat/completions HTTP/1.1\r\nHost: weir\r\n" + fields + "\r\n";
    auto parsed = http::parse_request_head(message.head_bytes);
    ASSERT_TRUE(parsed);
    message.head = std::move(*parsed);
  }
  void conversation(std::uint64_t hash) {
    metrics::wire::RequestFacts facts;
    facts.conversation = hash;
    request.message.facts = std::make_shared<const metrics::wire::RequestFacts>(facts);
  }
  bool wanted() { return wants(shadow, replica, request, key); }

  const SipKey key{1, 2};
  fleet::ShadowRuntime shadow;
  fleet::Replica replica;
  ClientRequest request;
};

TEST_F(Wants, ATwinGetsAllThatItsPrimaryGets) {
  shadow.settings.sample.reset();
  shadow.settings.twin = "gpu0";
  EXPECT_TRUE(wanted());
  replica.settings.name = "gpu1";
  EXPECT_FALSE(wanted());
}

TEST_F(Wants, NothingWhileItIsOff) {
  shadow.settings.sample = 1;
  EXPECT_TRUE(wanted());
  shadow.state->on = false;
  EXPECT_FALSE(wanted());
}

TEST_F(Wants, ASampleHasItsShare) {
  head("");
  for (const double share : {0.1, 0.5, 0.9}) {
    shadow.settings.sample = share;
    int n = 0;
    for (int i = 0; i < 1000; ++i) {
      conversation(static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15);
      n += wanted() ? 1 : 0;
    }
    EXPECT_NEAR(n, share * 1000, 60);
  }
  shadow.settings.sample = 1;
  EXPECT_TRUE(wanted());
}

TEST_F(Wants, TheTurnsOfAConversationGoTogether) {
  head("");
  for (int i = 0; i < 50; ++i) {
    conversation(static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15);
    std::set<bool> answers;
    for (int turn = 0; turn < 5; ++turn) {
      request.ids.weir = std::to_string(turn);
      answers.insert(wanted());
    }
    EXPECT_EQ(answers.size(), 1u);
  }
}

TEST_F(Wants, OneConversationOfTwoClientsIsTwo) {
  conversation(7);
  std::set<bool> answers;
  for (int i = 0; i < 50; ++i) {
    head("Authorization: Bearer sk-" + std::to_string(i) + "\r\n");
    answers.insert(wanted());
  }
  EXPECT_EQ(answers.size(), 2u);
}

TEST(CanBeMirrored, OnlyInferenceRequestsThatWeirKnowsWithAllTheyNeed) {
  const auto can = [](auto change) {
    ClientMessage message;
    message.route = http::Route::inference;
    metrics::wire::RequestFacts facts;
    facts.api = metrics::Api::openai_chat;
    facts.whole_json = true;
    change(message, facts);
    message.facts = std::make_shared<const metrics::wire::RequestFacts>(facts);
    return can_be_mirrored(message);
  };
  EXPECT_TRUE(can([](auto&, auto&) {}));
  EXPECT_FALSE(can([](auto& message, auto&) { message.route = http::Route::unknown; }));
  EXPECT_FALSE(can([](auto&, auto& facts) { facts.api = metrics::Api::other; }));
  EXPECT_FALSE(can([](auto&, auto& facts) { facts.api = metrics::Api::openai_embeddings; }));
  EXPECT_FALSE(can([](auto&, auto& facts) { facts.whole_json = false; }));
  EXPECT_FALSE(can([](auto&, auto& facts) { facts.stored_context = true; }));
  EXPECT_FALSE(can([](auto&, auto& facts) { facts.gives_work = false; }));
}

}  // namespace
}  // namespace weir::proxy::exchange
