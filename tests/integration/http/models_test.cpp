// These tests are about the models that weir lists, replicas that want a key, and the key that weir may have for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <future>

#include "tests/integration/peers/errors.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Models = ScriptedReplica::ModelsQuestion;

const std::string vllm_list =
    R"({"object":"list","data":[{"id":"org/m","object":"model","created":1700000000,"owned_by":"vllm","root":"/m",)"
    R"("max_model_len":8192}]})";

/// This replica lists models to everyone, or only to those who bring its key.
ScriptedReplica::Handler lists(const std::string& list, const std::string& key = "") {
  return [=](Exchange& exchange) {
    const auto& head = exchange.request().head;
    if (!key.empty() && head.field("authorization") != "Bearer " + key && head.field("x-api-key") != key)
      return exchange.send(answer("401 Unauthorized", R"({"error":"Unauthorized"})"));
    exchange.send(answer("200 OK", exchange.request().target == "/v1/models" ? list : "{}"));
  };
}

WeirSettings any_model(std::initializer_list<const ScriptedReplica*> replicas) {
  auto settings = pool_of(replicas);
  settings.pools[0].more = {{"models", "[]"}};
  return settings;
}

/// Asks until the answer is as wanted, because weir asks the replicas when it starts, and shows what they say as it
/// comes.
Response models_when(const WeirUnderTest& weir, const std::function<bool(const Response&)>& wanted,
                     const std::string& fields = "", const std::string& path = "/v1/models") {
  HttpClient client(weir.port());
  const auto deadline = Clock::now() + patience;
  for (;;) {
    const auto got = client.exchange(get(path, fields), "GET");
    if (wanted(got)) return got;
    if (Clock::now() > deadline) throw TimedOut("another answer than " + std::to_string(got.status) + " " + got.body);
  }
}
auto holds(const std::string& text) {
  return [text](const Response& got) { return got.body.find(text) != std::string::npos; };
}

TEST(Models, AreTheReplicasOwnEntriesWholeAndEachOnce) {
  ScriptedReplica first(lists(vllm_list), Models::to_handler);
  ScriptedReplica second(lists(R"({"data":[{"id":"org/m","created":2},{"id":"n","meta":{"n_params":7}}]})"),
                         Models::to_handler);
  WeirUnderTest weir(any_model({&first, &second}));

  models_when(weir, holds("8192"));
  const auto got = models_when(weir, holds("n_params"));
  EXPECT_EQ(got.status, 200u);
  EXPECT_EQ(got.body,
            R"({"object":"list","data":[{"id":"org/m","object":"model","created":1700000000,"owned_by":"vllm",)"
            R"("root":"/m","max_model_len":8192},{"id":"n","meta":{"n_params":7}}]})"
            "\n");
  EXPECT_EQ(first.requests().at(0).head.field("authorization"), std::nullopt);

  for (const auto* path : {"/v1/models/org/m", "/v1/models/org%2Fm", "/v1/models/org%2fm?x=1"}) {
    const auto one = fetch(weir.port(), get(path), "GET");
    EXPECT_EQ(one.status, 200u) << path;
    EXPECT_EQ(member(boost::json::parse(one.body).as_object(), "max_model_len"), "8192") << path;
  }
  const auto none = fetch(weir.port(), get("/v1/models/org/other"), "GET");
  expect_error(none, 404, "invalid_request_error", "model_not_found");
  EXPECT_THAT(error_message(none), HasSubstr("'org/other'"));
  expect_error(fetch(weir.port(), get("/v1/models/%ff"), "GET"), 404, "invalid_request_error", "model_not_found");
  const auto head = fetch(weir.port(), "HEAD /v1/models/n HTTP/1.1\r\nHost: w\r\n\r\n", "HEAD");
  EXPECT_EQ(head.status, 200u);
}

TEST(Models, OfAPoolThatNamesThemAreThoseWithTheReplicasEntries) {
  ScriptedReplica replica(lists(R"({"data":[{"id":"m","created":5},{"id":"secret-lora","created":6}]})"),
                          Models::to_handler);
  auto settings = pool_of({&replica});
  settings.pools[0].more = {{"models", "[\"m\", \"unheard\"]"}};
  WeirUnderTest weir(settings);

  EXPECT_EQ(models_when(weir, holds("created")).body,
            R"({"object":"list","data":[{"id":"m","created":5},{"id":"unheard","object":"model","owned_by":"weir"}]})"
            "\n");
  EXPECT_EQ(fetch(weir.port(), get("/v1/models/secret-lora"), "GET").status, 404u);
  EXPECT_EQ(fetch(weir.port(), get("/v1/models/unheard"), "GET").status, 200u);
}

TEST(Models, OfAReplicaThatWantsAKeyAreAskedForWithTheClientsOwn) {
  ScriptedReplica replica(lists(vllm_list, "sk-client"), Models::to_handler);
  WeirUnderTest weir(any_model({&replica}));

  const auto refused = models_when(weir, [](const Response& got) { return got.status == 401; });
  expect_error(refused, 401, "invalid_request_error", "invalid_api_key");
  EXPECT_EQ(refused.head.field("www-authenticate"), "Bearer");
  expect_error(fetch(weir.port(), get("/v1/models/org/m"), "GET"), 401, "invalid_request_error", "invalid_api_key");

  for (const auto* fields : {"Authorization: Bearer sk-client\r\n", "X-Api-Key: sk-client\r\n"}) {
    const auto got = fetch(weir.port(), get("/v1/models", fields), "GET");
    EXPECT_EQ(got.status, 200u);
    EXPECT_THAT(got.body, HasSubstr("\"max_model_len\":8192"));
    EXPECT_EQ(fetch(weir.port(), get("/v1/models/org/m", fields), "GET").status, 200u);
    EXPECT_EQ(fetch(weir.port(), get("/v1/models/other", fields), "GET").status, 404u);
  }
  for (const auto* fields : {"", "Authorization: Bearer sk-other\r\n", "Authorization: \r\n"})
    EXPECT_EQ(fetch(weir.port(), get("/v1/models", fields), "GET").status, 401u)
        << "what one client may see is not shown to another: " << fields;
  weir.wait_until_said("replica 'r0' tells its models only to who has its key");
  EXPECT_THAT(weir.output() + weir.log_text(), Not(HasSubstr("sk-")));
}

TEST(Models, OfReplicasWithAndWithoutAKeyAreMergedForTheClient) {
  ScriptedReplica open(lists(R"({"data":[{"id":"free"}]})"), Models::to_handler);
  ScriptedReplica keyed(lists(R"({"data":[{"id":"paid"},{"id":"free","created":9}]})", "sk-client"),
                        Models::to_handler);
  WeirUnderTest weir(any_model({&open, &keyed}));

  models_when(weir, holds("free"));
  const auto both = models_when(weir, holds("paid"), "Authorization: Bearer sk-client\r\n");
  EXPECT_EQ(both.body, "{\"object\":\"list\",\"data\":[{\"id\":\"free\"},{\"id\":\"paid\"}]}\n");
  const auto one = fetch(weir.port(), get("/v1/models"), "GET");
  EXPECT_EQ(one.status, 200u);
  EXPECT_EQ(one.body, "{\"object\":\"list\",\"data\":[{\"id\":\"free\"}]}\n");
}

TEST(Models, ThatAReplicaDoesNotTellInTimeAreLeftOut) {
  Event over;
  ScriptedReplica hangs(
      [&](Exchange& exchange) {
        if (!exchange.request().head.has("authorization")) return exchange.send(answer("403 Forbidden", "{}"));
        exchange.wait_for_close();
        over.set();
      },
      Models::to_handler);
  ScriptedReplica open(lists(R"({"data":[{"id":"free"}]})"), Models::to_handler);
  WeirUnderTest weir(any_model({&hangs, &open}));
  hangs.wait_for_requests(1);
  models_when(weir, holds("free"));

  const auto got = models_when(
      weir, [&](const Response&) { return hangs.requests().size() > 1; }, "Authorization: Bearer sk-client\r\n");
  EXPECT_EQ(got.body, "{\"object\":\"list\",\"data\":[{\"id\":\"free\"}]}\n");
  over.wait("weir to give the asking up");
}

/// Waits until weir knows that these replicas want a key.
void wait_until_keyed(const WeirUnderTest& weir, std::size_t replicas) {
  for (std::size_t i = 0; i < replicas; ++i) {
    const auto line = "'r" + std::to_string(i) + "' tells its models only";
    for (const auto end = Clock::now() + patience; weir.output().find(line) == std::string::npos;)
      if (Clock::now() > end) throw TimedOut(line);
  }
}

TEST(Models, AreAskedOfSixteenKeyedReplicasAtMostOnBehalfOfAClient) {
  constexpr std::size_t replicas = 18;
  Progress asked;
  std::vector<std::unique_ptr<ScriptedReplica>> fleet;
  auto settings = any_model({});
  for (std::size_t i = 0; i < replicas; ++i) {
    const auto refuse = [&](Exchange& exchange) {
      asked.add(exchange.request().head.has("authorization") ? 1 : 0);
      exchange.send(answer("401 Unauthorized", "{}"));
    };
    fleet.push_back(std::make_unique<ScriptedReplica>(refuse, Models::to_handler));
    settings.pools[0].replicas.push_back({.name = "r" + std::to_string(i), .url = fleet.back()->url()});
  }
  WeirUnderTest weir(settings);
  wait_until_keyed(weir, replicas);
  EXPECT_EQ(fetch(weir.port(), get("/v1/models", "Authorization: Bearer x\r\n"), "GET").status, 401u);
  EXPECT_EQ(asked.value(), 16u);
}

/// A replica that refuses a question without a credential, as weir's own are, and keeps silent on one with it.
struct SilentToKeys {
  Event asked;
  std::promise<Clock::time_point> closed;
  ScriptedReplica replica{[this](Exchange& exchange) {
                            if (!exchange.request().head.has("authorization"))
                              return exchange.send(answer("401 Unauthorized", "{}"));
                            asked.set();
                            closed.set_value(exchange.wait_for_close());
                          },
                          Models::to_handler};

  /// Sends the question with a key, and waits until it has come.
  void get_asked(HttpClient& client) {
    client.send(get("/v1/models", "Authorization: Bearer x\r\n"));
    asked.wait("the question with a key");
  }
};

TEST(Models, AreNoLongerAskedForOnceTheClientHasLeft) {
  // weir's own limit is 2 s: if nothing notices the client, each round lasts until then. A slow machine may need
  // several rounds.
  Clock::duration shortest = patience;
  for (int round = 0; round < 5 && shortest >= std::chrono::seconds(1); ++round) {
    SilentToKeys silent;
    WeirUnderTest weir(any_model({&silent.replica}));
    wait_until_keyed(weir, 1);

    HttpClient client(weir.port());
    silent.get_asked(client);
    const auto left = Clock::now();
    client.close();
    shortest = std::min(shortest, value_of(silent.closed, "weir to give the asking up") - left);
    EXPECT_EQ(weir.metrics_after(1).sum("weir_requests_total", {{"outcome", "client_abort"}}), 1);
  }
  EXPECT_LT(shortest, std::chrono::seconds(1));
}

TEST(Models, AreNoLongerAskedForOnceWeirIsToEnd) {
  SilentToKeys silent;
  WeirUnderTest weir(any_model({&silent.replica}));
  wait_until_keyed(weir, 1);

  HttpClient client(weir.port());
  silent.get_asked(client);
  weir.process().send(SIGTERM);
  weir.process().send(SIGTERM);
  EXPECT_EQ(client.response("GET").status, 200u) << "what is known is told";
  weir.ends();
  EXPECT_EQ(weir.log_lines(1).size(), 1u) << "and no request goes without a line";
}

TEST(Models, AreAskedForOnBehalfOfSixtyFourClientsAtATime) {
  ScriptedReplica replica(
      [](Exchange& exchange) {
        const auto credential = exchange.request().head.field("authorization");
        if (credential == "hang") exchange.wait_for_close();
        if (credential != "hang") exchange.send(answer("403 Forbidden", "{}"));
      },
      Models::to_handler);
  WeirUnderTest weir(any_model({&replica}));
  wait_until_keyed(weir, 1);

  // weir asks for 2 s at most, and the others have to come within them: a slow machine may need several rounds.
  bool refused = false;
  for (int round = 0; round < 5 && !refused; ++round) {
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (std::size_t i = 0; i < 65; ++i) {
      clients.push_back(std::make_unique<HttpClient>(weir.port()));
      clients.back()->send(get("/v1/models", "Authorization: hang\r\n"));
    }
    for (auto& client : clients) {
      const auto got = client->response("GET");
      if (got.status != 429) continue;
      EXPECT_FALSE(refused) << "one was too many";
      refused = true;
      EXPECT_EQ(got.head.field("retry-after"), "1");
      expect_error(got, 429, "overloaded_error", "overloaded");
    }
  }
  EXPECT_TRUE(refused);
  EXPECT_EQ(fetch(weir.port(), get("/v1/models", "Authorization: Bearer x\r\n"), "GET").status, 401u)
      << "places are given back";
}

/// Collects everything that weir lets anyone read.
std::string all_that_is_told(const WeirUnderTest& weir, std::uint16_t admin_port) {
  return weir.output() + weir.log_text() + fetch(weir.metrics_port(), get("/metrics"), "GET").body +
         fetch(admin_port, get("/metrics"), "GET").body + fetch(admin_port, get("/api/replicas"), "GET").body;
}

TEST(Key, OfAReplicaGoesToItInPlaceOfTheClientsAndNowhereElse) {
  const std::string key = "sk-planted-5ecret", in_file = "sk-filed-5ecret";
  const TemporaryDirectory directory;
  write_file(directory.path() / "key", in_file + "\n");
  ScriptedReplica first(lists(vllm_list, key), Models::to_handler);
  ScriptedReplica second(lists(R"({"data":[{"id":"n"}]})", in_file), Models::to_handler);
  auto settings = any_model({&first});
  settings.pools[0].more = {{"models", "[\"org/m\"]"}};
  settings.pools[0].replicas[0].more = {{"api_key", "\"" + key + "\""}};
  settings.pools.push_back(
      {.name = "other",
       .replicas = {{.name = "filed",
                     .url = second.url(),
                     .more = {{"api_key_file", "\"" + (directory.path() / "key").string() + "\""}}}},
       .more = {{"models", "[]"}}});
  const auto admin_port = free_port();
  settings.admin = {{"listen", "\"127.0.0.1:" + std::to_string(admin_port) + "\""}};
  WeirUnderTest weir(settings);

  models_when(weir, holds("8192"));
  models_when(weir, holds("\"n\""));
  EXPECT_EQ(first.requests().at(0).head.field("authorization"), "Bearer " + key);
  EXPECT_EQ(second.requests().at(0).head.field("authorization"), "Bearer " + in_file);

  const std::string theirs = "Authorization: Bearer theirs\r\nX-Api-Key: theirs\r\n";
  for (const auto& fields : {std::string(), theirs}) {
    EXPECT_EQ(fetch(weir.port(), post(chat, chat_body("x", "org/m"), fields)).status, 200u);
    // weir may ask for the models once more at any time.
    auto all = first.requests();
    std::erase_if(all, [](const auto& one) { return one.target != chat; });
    ASSERT_FALSE(all.empty());
    const auto& received = all.back();
    EXPECT_EQ(received.head.field("authorization"), "Bearer " + key);
    EXPECT_EQ(received.head.field("x-api-key"), fields.empty() ? std::nullopt : std::optional(key));
    EXPECT_THAT(received.head.bytes, Not(HasSubstr("theirs")));
  }
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body("x", "n"))).status, 200u);
  EXPECT_EQ(second.requests().back().head.field("authorization"), "Bearer " + in_file);

  const auto unknown = fetch(weir.port(), get("/v1/models/none"), "GET");
  const auto nowhere = fetch(weir.port(), post("/nowhere", "{}"));
  const auto broken = fetch(weir.port(), "POST / HTTP/1.1\r\nbroken\r\n\r\n");
  weir.log_lines(6);
  const auto told = all_that_is_told(weir, admin_port) + unknown.head.bytes + unknown.body + nowhere.body + broken.body;
  EXPECT_THAT(told, HasSubstr("\"filed\"")) << "it was looked at";
  EXPECT_THAT(told, Not(HasSubstr("5ecret")));
  EXPECT_THAT(told, Not(HasSubstr("theirs")));
}

TEST(Key, ThatAReplicaRefusesOrThatLeadsNowhereIsNotSaid) {
  const std::string key = "sk-planted-5ecret";
  std::string body = chat_body("x", "m");
  ScriptedReplica replica(
      [](Exchange& exchange) {
        if (exchange.request().method == "GET") return exchange.send(answer("401 Unauthorized", "{}"));
        exchange.reset();
      },
      Models::to_handler);
  auto settings = pool_of({&replica});
  settings.pools[0].replicas[0].more = {{"api_key", "\"" + key + "\""}};
  const auto admin_port = free_port();
  settings.admin = {{"listen", "\"127.0.0.1:" + std::to_string(admin_port) + "\""}};
  WeirUnderTest weir(settings);

  replica.wait_for_requests(1);
  const auto lost = fetch(weir.port(), post(chat, body));
  EXPECT_EQ(lost.status, 502u);
  const auto deadline = Clock::now() + patience;
  while (weir.output().find("refuses the key") == std::string::npos && Clock::now() < deadline) weir.metrics();
  EXPECT_THAT(weir.output(), HasSubstr("replica 'r0' refuses the key that its api_key or api_key_file gives it"));
  weir.log_lines(1);
  EXPECT_THAT(all_that_is_told(weir, admin_port) + lost.body, Not(HasSubstr("5ecret")));
}

TEST(Cors, OfWeirsOwnAnswersIsAsTheReplicasGiveIt) {
  ScriptedReplica replica([](Exchange& exchange) {
    const auto origin = exchange.request().head.field("origin").value_or("");
    exchange.send(answer(
        "200 OK", "{}", "application/json",
        origin.empty() ? ""
                       : "Access-Control-Allow-Origin: " + origin + "\r\nAccess-Control-Allow-Credentials: true\r\n"));
  });
  WeirUnderTest weir(pool_of({&replica}));
  const std::string app = "Origin: https://app.example\r\n";
  const auto allowed = [](const Response& got) { return got.head.field("access-control-allow-origin"); };

  EXPECT_EQ(allowed(fetch(weir.port(), get("/nowhere", app), "GET")), std::nullopt) << "no replica has said anything";
  EXPECT_EQ(fetch(weir.port(), post(chat, whole_chat_body(), app)).status, 200u);
  for (const auto& request : {get("/nowhere", app), get("/v1/models", app), get("/v1/models/none", app),
                              get("/health", app), post(chat, chat_body("x", "no-such-model"), app)}) {
    const auto got = fetch(weir.port(), request, request.substr(0, request.find(' ')));
    EXPECT_EQ(allowed(got), "https://app.example") << request;
    EXPECT_EQ(got.head.field("access-control-allow-credentials"), "true");
    EXPECT_EQ(got.head.field("vary"), "Origin");
  }
  EXPECT_EQ(allowed(fetch(weir.port(), get("/nowhere"), "GET")), std::nullopt);
  EXPECT_EQ(allowed(fetch(weir.port(), get("/nowhere", "Origin: https://evil.example\r\n"), "GET")), std::nullopt);
}

TEST(Cors, APreflightIsAReplicasToAnswer) {
  ScriptedReplica replica([](Exchange& exchange) {
    exchange.send(
        "HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Allow-Methods: POST\r\n\r\n");
  });
  WeirUnderTest weir(pool_of({&replica}));

  const std::string fields =
      " HTTP/1.1\r\nHost: w\r\nOrigin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n\r\n";
  const std::vector<std::string> paths{chat, "/v1/models", "/v1/models/org/m", "/health", "/v1/audio/speech"};
  for (const auto& path : paths) {
    const auto got = fetch(weir.port(), "OPTIONS " + path + fields, "OPTIONS");
    EXPECT_EQ(got.status, 204u) << path;
    EXPECT_EQ(got.head.field("access-control-allow-methods"), "POST") << path;
    EXPECT_EQ(replica.requests().back().target, path);
  }
  expect_error(fetch(weir.port(), "OPTIONS /flush_cache" + fields, "OPTIONS"), 404, "invalid_request_error");
  EXPECT_EQ(fetch(weir.port(), get("/nowhere", "Origin: https://b.example\r\n"), "GET")
                .head.field("access-control-allow-origin"),
            "*");
  for (const auto& line : weir.log_lines(paths.size())) EXPECT_EQ(member(line, "api"), "other");
}

TEST(Routes, OfOtherServicesOfTheEnginesAreRelayedAndCounted) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  auto settings = pool_of({&replica});
  settings.server = {{"paths", "[\"default\", \"/my/route\"]"}};
  WeirUnderTest weir(settings);

  const std::vector<std::string> paths{
      "/v1/messages/count_tokens", "/apply-template", "/infill",       "/v1/audio/transcriptions",
      "/v1/images/generations",    "/v1/moderations", "/v1/reranking", "/my/route"};
  for (const auto& path : paths) {
    EXPECT_EQ(fetch(weir.port(), post(path, "{}")).status, 200u) << path;
    EXPECT_EQ(replica.requests().back().target, path);
  }
  EXPECT_EQ(fetch(weir.port(), post("/flush_cache", "{}")).status, 404u);
  const auto page = weir.metrics_after(paths.size() + 1);
  EXPECT_EQ(page.sum("weir_requests_total", {{"outcome", "ok"}, {"replica", "r0"}}), paths.size());
}

}  // namespace
}  // namespace weir::integration
