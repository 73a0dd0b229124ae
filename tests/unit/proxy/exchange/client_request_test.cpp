#include <gtest/gtest.h>

#include "metrics/wire/request/inspector.hpp"
#include "proxy/exchange/client_request.hpp"

namespace weir::proxy::exchange {
namespace {

using balancer::Home;
using metrics::hash_of_name;

class Tie : public testing::Test {
 protected:
  Tie() {
    pool.balancer = balancer::Pool::make(config::Policy::round_robin, 1);
    std::vector<balancer::ReplicaSpec> replicas(2);
    replicas[0].url = "http://a";
    replicas[1].url = "http://b";
    pool.balancer->set_replicas(replicas, now);
  }
  /// Reads a request as weir does.
  balancer::story::Story::Request tied(const std::string& method, const std::string& path, const std::string& body = "",
                                       const std::string& fields = "") {
    ClientMessage message;
    message.head_bytes = method + " " + path + " HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
    message.head = *http::parse_request_head(message.head_bytes);
    message.api = metrics::wire::api_of(method, path);
    message.received = now;
    metrics::wire::RequestInspector inspector(message.api, method, path);
    inspector.feed(body);
    message.facts = std::make_shared<const metrics::wire::RequestFacts>(inspector.finish());
    balancer::story::Story::Request request;
    set_ties(request, homes, message, client, pool, secret);
    EXPECT_EQ(state_of(message) != 0, request.ties.home != 0 || request.ties.seeks);
    return request;
  }

  const Moment now{std::chrono::hours(1)};
  balancer::Homes homes;
  ClientIdentity client;
  fleet::PoolRuntime pool;
  const metrics::SipKey secret{1, 2};
  const std::uint64_t a = hash_of_name("http://a"), b = hash_of_name("http://b");  ///< The replicas.
};

TEST_F(Tie, IsTheHomeOfTheIdThatTheRequestNames) {
  homes.note(hash_of_name("resp_1"), {a, 5}, now);
  homes.note(hash_of_name("file-1"), {b}, now);
  const std::tuple<const char*, const char*, const char*, std::uint64_t> rows[] = {
      {"POST", "/v1/responses", R"({"input":"a","previous_response_id":"resp_1"})", a},
      {"GET", "/v1/responses/resp_1", "", a},
      {"GET", "/v1/responses/resp_1?stream=true", "", a},
      {"DELETE", "/v1/responses/resp_1", "", a},
      {"POST", "/v1/responses/resp_1/cancel", R"({"previous_response_id":"file-1"})", a},
      {"GET", "/v1/files/file-1/content", "", b},
      {"POST", "/v1/batches", R"({"input_file_id":"file-1"})", b},
  };
  for (const auto& [method, path, body, home] : rows) {
    const auto request = tied(method, path, body);
    EXPECT_EQ(request.ties.home, home) << path;
    EXPECT_FALSE(request.ties.seeks);
    EXPECT_EQ(request.lot, home == a ? 5u : 0u) << "the side of the request that made the state";
    EXPECT_EQ(request.ties.pin, 0u);
  }
}

// The settings write another url for the same machine, say.
TEST_F(Tie, IsSoughtWhereItsHomeIsNoLongerInThePool) {
  homes.note(hash_of_name("resp_1"), {hash_of_name("http://gone"), 5}, now);
  const auto request = tied("GET", "/v1/responses/resp_1");
  EXPECT_TRUE(request.ties.seeks);
  EXPECT_EQ(request.ties.home, 0u);
}

TEST_F(Tie, IsSoughtWhereTheIdIsNotKnown) {
  for (const auto* const path : {"/v1/responses/resp_9", "/v1/files/file-9"}) {
    const auto request = tied("GET", path);
    EXPECT_TRUE(request.ties.seeks);
    EXPECT_EQ(request.ties.home, 0u);
    EXPECT_NE(request.state, 0u);
  }
}

TEST_F(Tie, IsNoneForARequestThatNamesNothing) {
  const std::pair<const char*, const char*> rows[] = {
      {"/v1/responses", R"({"input":"a","previous_response_id":null})"},
      {"/v1/chat/completions", R"({"messages":[],"input_file_id":"file-1","previous_response_id":"resp_1"})"},
      {"/v1/embeddings", R"({"input":"a","session_id":"s"})"},
      {"/v1/files", ""},
      {"/tokenize", R"({"input_file_id":"file-1"})"},
  };
  for (const auto& [path, body] : rows) {
    const auto request = tied("POST", path, body);
    EXPECT_EQ(request.state, 0u) << path;
    EXPECT_EQ(request.ties.pin, 0u) << path;
    EXPECT_FALSE(request.ties.seeks) << path;
    EXPECT_EQ(request.lot, 0u) << path;
  }
}

TEST_F(Tie, NotesTheIdsOfWhatEnginesKeep) {
  EXPECT_TRUE(tied("POST", "/v1/responses", R"({"input":"a"})").hands_out);
  EXPECT_FALSE(tied("POST", "/v1/responses", R"({"input":"a","store":false})").hands_out);
  EXPECT_TRUE(tied("POST", "/v1/files").hands_out);
  EXPECT_TRUE(tied("POST", "/v1/batches").hands_out);
  EXPECT_FALSE(tied("GET", "/v1/files").hands_out);
  EXPECT_FALSE(tied("POST", "/v1/batches/b/cancel").hands_out);
  EXPECT_FALSE(tied("POST", "/v1/chat/completions", R"({"messages":[]})").hands_out);
}

TEST_F(Tie, PinsANameThatTheClientMadeUp) {
  const auto conversation = tied("POST", "/v1/responses", R"({"conversation":{"id":"conv_1"}})");
  EXPECT_EQ(conversation.ties.pin, hash_of_name("conv_1"));
  EXPECT_NE(conversation.lot, 0u);
  EXPECT_NE(conversation.lot, conversation.ties.pin) << "nobody can tell the side of a name";
  EXPECT_EQ(conversation.state, conversation.ties.pin) << "its 404 says nothing of a replica";
  EXPECT_FALSE(conversation.ties.seeks);
  const auto session = hash_of_name("s1");
  EXPECT_EQ(tied("POST", "/generate", R"({"text":"a","session_params":{"id":"s1"}})").ties.pin, session);
  EXPECT_EQ(tied("POST", "/open_session", R"({"session_id":"s1"})").ties.pin, session);
  EXPECT_EQ(tied("POST", "/close_session", R"({"session_id":"s1"})").ties.pin, session);
}

TEST_F(Tie, PinsASlotForOneCredential) {
  const std::string slot = R"({"prompt":"a","id_slot":0})", other = R"({"prompt":"a","id_slot":1})";
  const auto pin = [&](const std::string& body, const std::string& fields) {
    const auto request = tied("POST", "/completion", body, fields);
    EXPECT_EQ(request.state, 0u) << "a 404 there is as any other";
    return request.ties.pin;
  };
  const std::string alice = "Authorization: Bearer a\r\n", bob = "X-Api-Key: b\r\n";
  EXPECT_EQ(pin(slot, ""), 0u);
  EXPECT_NE(pin(slot, alice), 0u);
  EXPECT_EQ(pin(slot, alice), pin(slot, alice));
  EXPECT_NE(pin(slot, alice), pin(slot, bob));
  EXPECT_NE(pin(slot, alice), pin(other, alice));
}

TEST_F(Tie, IsASessionByTheSettingsAndDrawsItsSide) {
  const std::string body = R"({"messages":[],"user":"u"})";
  EXPECT_EQ(tied("POST", "/v1/chat/completions", body).ties.session, 0u);
  pool.settings.session = {{config::SessionBy::What::body, "user"}};
  const auto request = tied("POST", "/v1/chat/completions", body);
  EXPECT_EQ(request.ties.session, hash_of_name("u"));
  EXPECT_NE(request.lot, 0u);
  EXPECT_NE(request.lot, request.ties.session);
  homes.note(hash_of_name("resp_1"), {a, 5}, now);
  const auto follow_up = tied("POST", "/v1/responses", R"({"previous_response_id":"resp_1","user":"u"})");
  EXPECT_EQ(follow_up.lot, 5u) << "state comes first";
  EXPECT_EQ(follow_up.ties.session, hash_of_name("u"));
  homes.note(hash_of_name("resp_1"), {a}, now);
  EXPECT_EQ(tied("POST", "/v1/responses", R"({"previous_response_id":"resp_1","user":"u"})").lot, request.lot);
}

}  // namespace
}  // namespace weir::proxy::exchange
