// A request while it is read: its cost, and its limits to the byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>

#include "proxy/http/credential.hpp"
#include "proxy/keys/client_keys.hpp"
#include "proxy/serve/request_reading.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Limit;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A request for weir's health whose head has so many bytes.
std::string head_of(std::size_t size) {
  const auto shortest = health("X: \r\n").size();
  return health("X: " + std::string(size - shortest, 'x') + "\r\n");
}

TEST(RequestReading, TakesAHeadOfExactlyItsLimitInWhateverPiecesItComes) {
  for (const std::size_t piece : {std::size_t{30}, net::Peer::any})
    for (const std::size_t size : {199u, 200u, 201u}) {
      SCOPED_TRACE(testing::Message() << size << " bytes, pieces of " << piece);
      ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.request_head = 200; });
      ASSERT_EQ(head_of(size).size(), size);
      const auto client = proxy.asks(head_of(size), piece);
      EXPECT_THAT(client->got, StartsWith(size <= 200 ? "HTTP/1.1 200 " : "HTTP/1.1 431 "));
      EXPECT_EQ(proxy.limit_hits(Limit::request_head), size <= 200 ? 0u : 1u);
    }
}

TEST(RequestReading, SaysWhetherTheLineOrTheHeadIsTooLongBeforeEitherIsWhole) {
  for (const bool line : {true, false}) {
    ScriptedProxy proxy(1, [](config::Settings& settings) { settings.limits.request_head = 10 * kib; });
    const auto client = proxy.asks((line ? "GET /" : "GET / HTTP/1.1\r\nX: ") + std::string(11 * kib, 'x'));
    EXPECT_THAT(client->got, StartsWith(line ? "HTTP/1.1 414 " : "HTTP/1.1 431 "));
  }
}

TEST(RequestReading, PaysForTheHeadAsWellAsForTheBody) {
  ScriptedProxy proxy;
  const auto padding = "X: " + std::string(40 * kib, 'x') + "\r\n";
  const auto client = proxy.asks(post(std::string(40 * kib, ' '), padding).substr(0, 80 * kib));
  EXPECT_EQ(client->got, "") << "some of the body is still to come";
  EXPECT_GE(proxy.shared.buffers.used(), 76 * kib);
}

TEST(RequestReading, IgnoresOneLineEndBeforeARequestLine) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, net::Peer::any}) {
    ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
    const auto client = proxy.asks(post(chat(false)) + "\r\n" + health(), piece);
    const auto first = read_answer(client->got), second = read_answer(first.rest);
    EXPECT_EQ(first.status, 200u);
    EXPECT_EQ(second.status, 200u);
    proxy.hears(*client, "\r\n", piece);
    proxy.tick_in(11);
    EXPECT_FALSE(client->closed()) << "it is an idle connection, and no head that takes too long";
    proxy.hears(*client, health(), piece);
    EXPECT_EQ(read_answer(second.rest).status, 0u);
    EXPECT_EQ(read_answer(read_answer(read_answer(client->got).rest).rest).status, 200u);
  }
}

TEST(RequestReading, IgnoresNothingElseBeforeARequestLine) {
  for (const std::string before : {"\r\n\r\n", "\n", "\r", " \r\n", "\r\n ", "\r\n\r"})
    for (const std::size_t piece : {std::size_t{1}, net::Peer::any}) {
      ScriptedProxy proxy;
      const auto client = proxy.asks(before + health(), piece);
      EXPECT_THAT(client->got, StartsWith("HTTP/1.1 400 ")) << before.size();
    }
}

TEST(RequestReading, RefusesARequestThatHasComeBack) {
  for (const bool came_back : {true, false}) {
    ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
    const auto via =
        "Via: 1.1 front\r\nvia: 1.0 a, 1.1 " + (came_back ? http::name_in_via() : "weir-0") + " (b)\r\nVia: 1.1 c\r\n";
    const auto client = proxy.asks(post(chat(false), via));
    EXPECT_EQ(read_answer(client->got).status, came_back ? 508u : 200u);
    EXPECT_EQ(client->got.find("loop_detected") != std::string::npos, came_back);
    EXPECT_EQ(proxy.connections[0].size(), came_back ? 0u : 1u);
    if (came_back) continue;
    EXPECT_THAT(proxy.connections[0].at(0)->got, HasSubstr("Via: 1.1 " + http::name_in_via() + "\r\n"));
  }
}

TEST(RequestReading, TellsNobodyToGoOnWhoHasGoneOn) {
  const auto request = post(chat(false), "Expect: 100-continue\r\n");
  for (const std::size_t of_body : {std::size_t{0}, std::size_t{1}, chat(false).size()}) {
    ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
    const auto client = proxy.asks(request.substr(0, request.size() - chat(false).size() + of_body));
    EXPECT_EQ(client->got.starts_with("HTTP/1.1 100 "), of_body == 0);
  }
}

TEST(RequestReading, CountsTheFieldsThatNoReplicaGetsOnceHoweverOftenTheyAreSent) {
  ScriptedProxy proxy(2);
  proxy.plan[0] = {says(whole_answer("500 x", "{}"))};
  proxy.plan[1] = {says(whole_answer("200 OK", completion))};
  const auto client = proxy.asks(post(chat(false), "X_One: 1\r\nContent_Length: 7\r\nX-Three: 3\r\n"));
  EXPECT_EQ(read_answer(client->got).status, 200u);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(proxy.connections[i].size(), 1u) << "it was sent to both";
    EXPECT_THAT(proxy.connections[i].front()->got, testing::AllOf(Not(HasSubstr("_One")), HasSubstr("X-Three: 3")));
  }
  EXPECT_EQ(proxy.loop.shard.dropped_fields.value(), 2u);
}

TEST(RequestReading, TakesNoRequestIdThatIsNone) {
  for (const bool valid : {true, false}) {
    ScriptedProxy proxy;
    const std::string id(valid ? 20 : 2000, 'i');
    const auto client = proxy.asks(health("x-request-id: " + id + "\r\n"));
    const auto answer = read_answer(client->got);
    EXPECT_EQ(answer.status, 200u);
    EXPECT_EQ(answer.head.find("x-request-id: " + id + "\r\n") != std::string::npos, valid);
    EXPECT_THAT(answer.head, HasSubstr("x-request-id: "));
  }
}

TEST(RequestReading, GivesBackWhatARefusedBodyHeldBeforeItsClientHasLeft) {
  ScriptedProxy proxy;
  const auto whole = post(std::string(100 * kib, ' '));
  const auto client = proxy.asks(whole.substr(0, whole.size() - 1));
  EXPECT_GE(proxy.shared.buffers.used(), 96 * kib);
  client->takes_nothing();
  proxy.tick_in(1000);
  EXPECT_EQ(client->got, "");
  EXPECT_FALSE(client->closed()) << "it has not read that it was too slow";
  EXPECT_EQ(proxy.shared.buffers.used(), 0u);
  client->takes(net::Peer::any);
  proxy.run();
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 408 "));
}

}  // namespace

// Clients with keys, through whole sessions on scripted channels.

namespace {

using metrics::series::Denied;
using testing::AllOf;
using testing::IsEmpty;
using testing::SizeIs;

config::ClientKey key(const std::string& name, const std::string& secret) {
  config::ClientKey one;
  one.name = name;
  one.sha256 = keys::sha256(secret);
  return one;
}

/// Alice may do all, bob may use the models m and n, and carol may have one request at a time.
ScriptedProxy::Change with_keys(const ScriptedProxy::Change& more = {}) {
  return [more](config::Settings& settings) {
    settings.server.api_keys = "keys.toml";
    auto bob = key("bob", "bobs-key"), carol = key("carol", "carols-key");
    bob.models = {"m", "n"};
    carol.max_in_flight = 1;
    settings.server.keys = {key("alice", "alices-key"), bob, carol};
    if (more) more(settings);
  };
}
std::string bearer(const std::string& secret) { return "Authorization: Bearer " + secret + "\r\n"; }
std::uint64_t denied(ScriptedProxy& proxy, Denied why) { return proxy.loop.shard.denied.value(why); }
boost::json::object line(ScriptedProxy& proxy, std::size_t index = 0) {
  const auto lines = proxy.log_lines();
  EXPECT_GT(lines.size(), index);
  return lines.size() > index ? boost::json::parse(lines[index]).as_object() : boost::json::object();
}
std::string get(const std::string& path, const std::string& fields = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: weir\r\n" + fields + "\r\n";
}
std::uint32_t under_way(ScriptedProxy& proxy, const std::string& secret) {
  const auto* const key = proxy.fleet.snapshot()->keys->find(secret);
  return key->use->requests + key->of_earlier_secrets();
}

TEST(KeyCheck, AReplicasOwnKeyTakesThePlaceOfTheClients) {
  ScriptedProxy proxy(1, with_keys([](auto& settings) { settings.pools[0].replicas[0].api_key = "sk-0"; }));
  proxy.plan[0] = {says(streamed_answer())};
  const auto client = proxy.asks(post(chat(true), bearer("alices-key")));
  EXPECT_THAT(proxy.connections[0].at(0)->got,
              AllOf(HasSubstr("Authorization: Bearer sk-0\r\n"), Not(HasSubstr("alices-key"))));
}

TEST(KeyCheck, WithoutARightKeyTheAnswerIs401BeforeTheBodyAndWithoutAContinue) {
  const struct {
    std::string fields;
    Denied why;
  } rows[]{{"", Denied::no_key},
           {bearer("mallorys-key"), Denied::wrong_key},
           {"x-api-key: mallorys-key\r\n", Denied::wrong_key},
           {"Authorization: Basic alices-key\r\n", Denied::no_key}};
  for (const auto& [fields, why] : rows) {
    for (const bool anthropic : {false, true}) {
      ScriptedProxy proxy(1, with_keys());
      const auto whole = post(chat(false), fields + "Expect: 100-continue\r\n", "1.1",
                              anthropic ? "/v1/messages" : "/v1/chat/completions");
      const auto client = proxy.asks(whole.substr(0, whole.find("\r\n\r\n") + 4));
      const auto seen = read_answer(client->got);
      EXPECT_EQ(seen.status, 401u) << fields;
      EXPECT_THAT(seen.head, AllOf(HasSubstr("WWW-Authenticate: Bearer\r\n"), HasSubstr("Connection: close\r\n")));
      EXPECT_THAT(seen.body, HasSubstr(anthropic ? R"("type":"authentication_error")" : R"("code":"invalid_api_key")"));
      EXPECT_THAT(client->got, Not(HasSubstr("mallory")));
      EXPECT_TRUE(client->writing_ended());
      EXPECT_EQ(denied(proxy, why), 1u) << fields;
      EXPECT_EQ(line(proxy).at("status"), 401);
      EXPECT_EQ(line(proxy).at("outcome"), "bad_request");
      EXPECT_TRUE(line(proxy).at("key").is_null());
      EXPECT_EQ(line(proxy).at("api"), anthropic ? "anthropic.messages" : "openai.chat");
      EXPECT_THAT(proxy.connections[0], IsEmpty());
    }
  }
}

TEST(KeyCheck, NothingButHealthIsOpen) {
  for (const auto* path : {"/v1/models", "/v1/models/m", "/v1/chat/completions", "/nowhere", "/"}) {
    ScriptedProxy proxy(1, with_keys());
    const auto client = proxy.asks(get(path));
    EXPECT_THAT(client->got, StartsWith("HTTP/1.1 401 ")) << path;
    EXPECT_THAT(proxy.connections[0], IsEmpty());
  }
  for (const auto* request :
       {"OPTIONS * HTTP/1.1\r\nHost: weir\r\n\r\n", "OPTIONS /v1/models/m HTTP/1.1\r\nHost: weir\r\n\r\n"}) {
    ScriptedProxy proxy(1, with_keys());
    const auto client = proxy.asks(request);
    EXPECT_THAT(client->got, StartsWith("HTTP/1.1 401 ")) << request;
    EXPECT_THAT(proxy.connections[0], IsEmpty());
  }
  ScriptedProxy proxy(1, with_keys());
  const auto client = proxy.asks(health());
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 200 "));
}

TEST(KeyCheck, WithoutKeysInTheSettingsNobodyNeedsOneAndCredentialsGoOn) {
  ScriptedProxy proxy({says(streamed_answer())});
  const auto client = proxy.asks(post(chat(true), bearer("sk-own")));
  EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_THAT(proxy.connections[0].at(0)->got, HasSubstr("Authorization: Bearer sk-own\r\n"));
  EXPECT_TRUE(line(proxy).at("key").is_null());
}

TEST(KeyCheck, AFileOfKeysWithoutOneLetsNobodyIn) {
  ScriptedProxy proxy(1, [](auto& settings) { settings.server.api_keys = "keys.toml"; });
  const auto client = proxy.asks(post(chat(false), bearer("alices-key")));
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 401 "));
}

TEST(KeyCheck, AKeyMayUseItsModelsAlone) {
  const auto body = [](const std::string& members) { return R"({"messages":[],)" + members + "}"; };
  const struct {
    std::string body;
    bool may;
  } rows[]{{body(R"("model":"m")"), true},
           {body(R"("model":"n")"), true},
           {body(R"("model":"o")"), false},
           {body(R"("model":"o","model":"m")"), false},
           {body(R"("model":"m","model":"m")"), false},
           {body(R"("model":"m","Model":"o")"), false},
           {body(R"("MODEL":"o","model":"m")"), false},
           {body(R"("mod\u0065l":"o","model":"m")"), false},
           {body(R"("Model":"m")"), false},
           {body(R"("model":"m","x":{"model":"o"},"models":"o","model2":"o")"), true},
           {body(R"("model":"m","model":"o")"), false},
           {body(R"("x":1)"), false},
           {body(R"("model":7)"), false},
           {R"({"model":"m","messages":[]} {"model":"o"})", false},
           {R"({"model":"m",)", false},
           {"", false}};
  for (const auto& [sent, may] : rows) {
    ScriptedProxy proxy({says(whole_answer("200 OK", completion))}, with_keys());
    const auto client = proxy.asks(post(sent, bearer("bobs-key")) + health());
    const auto seen = read_answer(client->got);
    EXPECT_EQ(seen.status, may ? 200u : 403u) << sent;
    EXPECT_EQ(denied(proxy, Denied::model), may ? 0u : 1u);
    EXPECT_EQ(line(proxy).at("key"), "bob");
    if (may) continue;
    EXPECT_THAT(seen.body, AllOf(HasSubstr(R"("code":"model_not_allowed")"), HasSubstr("m, n")));
    EXPECT_EQ(line(proxy).at("outcome"), "bad_request");
    EXPECT_THAT(proxy.connections[0], IsEmpty());
    EXPECT_THAT(seen.rest, StartsWith("HTTP/1.1 200 ")) << "the connection goes on";
  }
}

TEST(KeyCheck, AModelThatIsNamedTwiceIsRefusedInEveryDialectAndInBypass) {
  for (const bool bypassed : {false, true})
    for (const auto* path : {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/api/chat",
                             "/api/generate", "/generate", "/v1/embeddings", "/v1/rerank"})
      for (const auto* twice : {R"({"model":"m","Model":"o","prompt":"a"})", R"({"model":"o","model":"m"})"}) {
        ScriptedProxy proxy(1, with_keys());
        proxy.shared.bypass = bypassed;
        proxy.plan[0] = {says(whole_answer("200 OK", completion))};
        const auto client = proxy.client(post(twice, bearer("bobs-key"), "1.1", path));
        const auto any = proxy.asks(post(twice, bearer("alices-key"), "1.1", path));
        EXPECT_EQ(read_answer(client->got).status, 403u) << path << twice << bypassed;
        EXPECT_EQ(read_answer(any->got).status, 200u) << "another key is not limited";
      }
}

TEST(KeyCheck, ALimitedKeysBodyIsReadAsJsonInUtf8ByEveryEngine) {
  const struct {
    std::string fields;
    bool may;
  } rows[]{{"", true},
           {"Content-Type: application/json\r\n", true},
           {"content-type: APPLICATION/JSON ; Charset=UTF-8\r\n", true},
           {"Content-Type: application/json; charset=\"utf-8\"\r\n", true},
           {"Content-Type: application/json;charset=us-ascii\r\n", true},
           {"Content-Type: application/vnd.api+json; version=1\r\n", true},
           {"Content-Type: application/json; charset=utf-7\r\n", false},
           {"Content-Type: application/json; charset=cp037\r\n", false},
           {"Content-Type: application/json; charset=\"utf-16\"\r\n", false},
           {"Content-Type: application/json; charset=utf-8; charset=utf-7\r\n", false},
           {"Content-Type: application/json; charset = utf-7\r\n", false},
           {"Content-Type: application/json; charset*=utf-8''utf-7\r\n", false},
           {"Content-Type: application/json; x=\";charset=utf-8\r\n", false},
           {"Content-Type: application/x-www-form-urlencoded\r\n", false},
           {"Content-Type: text/plain\r\n", false},
           {"Content-Type: multipart/form-data; boundary=x\r\n", false},
           {"Content-Type: application/json\r\nContent-Type: application/json; charset=utf-7\r\n", false},
           {"Content-Encoding: gzip\r\n", false},
           {"Content-Encoding: identity\r\n", false}};
  for (const bool bypassed : {false, true})
    for (const auto& [fields, may] : rows) {
      SCOPED_TRACE(fields);
      ScriptedProxy proxy(1, with_keys());
      proxy.shared.bypass = bypassed;
      proxy.plan[0] = {says(whole_answer("200 OK", completion))};
      const auto ask = [&](const std::string& secret) {
        const auto body = chat(false);
        return proxy.asks("POST /v1/chat/completions HTTP/1.1\r\nHost: weir\r\n" + bearer(secret) + fields +
                          "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
      };
      const auto limited = ask("bobs-key"), any = ask("alices-key");
      const auto seen = read_answer(limited->got);
      EXPECT_EQ(seen.status, may ? 200u : 403u);
      EXPECT_EQ(read_answer(any->got).status, 200u) << "another key is not limited";
      EXPECT_EQ(seen.body.find("application/json in UTF-8") != std::string::npos, !may);
    }
}

TEST(KeyCheck, ALimitedKeyReachesNoRouteWithoutAModelOfItsOwn) {
  for (const bool bypassed : {false, true}) {
    const auto status = [&](const std::string& request) {
      ScriptedProxy proxy(1, with_keys());
      proxy.shared.bypass = bypassed;
      proxy.plan[0] = {says(whole_answer("200 OK", completion))};
      const auto client = proxy.asks(request);
      const auto seen = read_answer(client->got);
      EXPECT_EQ(proxy.connections[0].empty(), seen.status != 200u) << request;
      return seen.status;
    };
    for (const auto* path : {"/api/tags", "/api/v1/model", "/api/v1/info/version", "/api/v1/config/max_context_length",
                             "/api/v1/config/max_length", "/api/extra/version", "/api/extra/true_max_context_length"}) {
      EXPECT_EQ(status(get(path, bearer("bobs-key"))), 403u) << path;
      EXPECT_EQ(status(get(path, bearer("alices-key"))), 200u) << path;
      EXPECT_EQ(status(get(path)), 401u) << path;
    }
    for (const auto* path : {"/pooling", "/classify", "/v1/chat/completions/batch", "/api/extra/tokencount",
                             "/v1//chat/completions", "/v1/chat/completions/", "//tokenize"}) {
      EXPECT_EQ(status(post(R"({"model":"o"})", bearer("bobs-key"), "1.1", path)), 403u) << path;
      EXPECT_EQ(status(post(R"({"prompt":"a"})", bearer("bobs-key"), "1.1", path)), 403u) << path;
      EXPECT_EQ(status(post(R"({"model":"m"})", bearer("bobs-key"), "1.1", path)), 200u) << path;
      EXPECT_EQ(status(post(R"({"model":"o"})", bearer("alices-key"), "1.1", path)), 200u) << path;
      EXPECT_EQ(status(post(R"({"model":"m"})", "", "1.1", path)), 401u) << path;
    }
  }
}

TEST(KeyCheck, OneRightKeyEntersWhateverStandsInTheOtherFieldAndNeitherGoesOn) {
  const struct {
    std::string text, name;  ///< The name is the key's; "" if it is none of weir's.
  } secrets[]{{"", ""}, {"alices-key", "alice"}, {"carols-key", "carol"}, {"sk-ant-others", ""}, {"strange", ""}};
  for (const auto& in_bearer : secrets)
    for (const auto& in_field : secrets)
      for (const bool bearer_first : {true, false}) {
        const auto first = in_bearer.text.empty() ? "" : bearer(in_bearer.text);
        const auto second = in_field.text.empty() ? "" : "x-api-key: " + in_field.text + "\r\n";
        const bool one = in_bearer.text == in_field.text || in_bearer.text.empty() || in_field.text.empty();
        const bool two_rights = !in_bearer.name.empty() && !in_field.name.empty() && !one;
        const auto owner = in_bearer.name + (in_bearer.name.empty() ? in_field.name : "");
        SCOPED_TRACE(first + second + (bearer_first ? "" : "in the other order"));
        ScriptedProxy proxy({says(whole_answer("200 OK", completion))}, with_keys());
        std::string repeated, query = "?a=b";
        for (const auto& text : {in_bearer.text, in_field.text}) {
          if (text.empty()) continue;
          repeated += "X-Also: " + text + "\r\n";
          query += "&q=" + text;
        }
        const auto& id = in_field.text.empty() ? in_bearer.text : in_field.text;
        if (!id.empty()) repeated += "x-request-id: " + id + "\r\n";
        const auto fields = (bearer_first ? first + second : second + first) + repeated;
        const auto client = proxy.asks(post(chat(false), fields, "1.1", "/v1/chat/completions" + query));
        const auto wanted = two_rights ? 400u : owner.empty() ? 401u : 200u;
        EXPECT_EQ(read_answer(client->got).status, wanted);
        EXPECT_THAT(proxy.connections[0], SizeIs(wanted == 200 ? 1 : 0));
        EXPECT_EQ(line(proxy).at("api"), "openai.chat");
        if (wanted == 401) {
          EXPECT_EQ(denied(proxy, in_bearer.text.empty() && in_field.text.empty() ? Denied::no_key : Denied::wrong_key),
                    1u);
        }
        if (wanted != 200) continue;
        EXPECT_EQ(std::string(line(proxy).at("key").as_string()), owner);
        const auto& sent = proxy.connections[0].at(0)->got;
        EXPECT_THAT(sent, StartsWith("POST /v1/chat/completions?a=b HTTP/1.1\r\n"));
        for (const auto& text : {in_bearer.text, in_field.text}) {
          if (text.empty()) continue;
          EXPECT_THAT(sent, Not(HasSubstr(text)));
          EXPECT_THAT(proxy.log_lines().front(), Not(HasSubstr(text)));
          EXPECT_THAT(client->got, Not(HasSubstr(text)));
        }
      }
}

TEST(KeyCheck, OneKeyHoldsItsShareOfMemoryAndOthersTheirs) {
  constexpr std::size_t mib = 1024 * kib;
  ScriptedProxy proxy(1, with_keys([](auto& settings) {
                        settings.limits.buffer_memory = 8 * mib;
                        settings.limits.request_body = mib;
                      }));
  Said said;
  const auto sends = [&](const std::string& secret) {
    const auto whole = post(std::string(mib, ' '), bearer(secret));
    const auto client = proxy.asks(whole.substr(0, whole.size() - 1));
    return client;
  };
  EXPECT_EQ(sends("alices-key")->got + sends("alices-key")->got, "");
  EXPECT_THAT(sends("alices-key")->got, AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("limits.buffer_share")));
  EXPECT_EQ(sends("carols-key")->got, "");
  EXPECT_EQ(proxy.limit_hits(Limit::buffer_share), 1u);
  EXPECT_EQ(said.take(), "") << "no address is at fault";
}

TEST(KeyCheck, AModelListHasWhatTheKeyMayUse) {
  const auto change = with_keys([](auto& settings) { settings.pools[0].models = {"m", "o"}; });
  const struct {
    std::string secret, path;
    bool m, o;
  } rows[]{{"alices-key", "/v1/models", true, true},    {"bobs-key", "/v1/models", true, false},
           {"bobs-key", "/models", true, false},        {"bobs-key", "/v1//models/", true, false},
           {"alices-key", "/v1/models/o", false, true}, {"bobs-key", "/v1/models/m", true, false},
           {"bobs-key", "/v1/models/o", false, false}};
  for (const auto& [secret, path, m, o] : rows) {
    ScriptedProxy proxy(1, change);
    const auto client = proxy.asks(get(path, bearer(secret)));
    const auto seen = read_answer(client->got);
    EXPECT_EQ(seen.status, m || o ? 200u : 404u) << secret << path;
    EXPECT_EQ(seen.body.find(R"("id":"m")") != std::string::npos, m);
    EXPECT_EQ(seen.body.find(R"("id":"o")") != std::string::npos, o);
    EXPECT_EQ(line(proxy).at("key"), secret == "bobs-key" ? "bob" : "alice");
  }
}

TEST(KeyCheck, AKeyHasAsManyRequestsAsItMayAndNoOtherKeyIsTouched) {
  ScriptedProxy proxy({[](net::Peer&) {}, says(whole_answer("200 OK", completion))}, with_keys());
  const auto first = proxy.asks(post(chat(false), bearer("carols-key")));
  EXPECT_EQ(under_way(proxy, "carols-key"), 1u);
  const auto second = proxy.client(post(chat(false), bearer("carols-key")) + health());
  const auto other = proxy.asks(post(chat(false), bearer("alices-key")));
  const auto seen = read_answer(second->got);
  EXPECT_EQ(seen.status, 429u);
  EXPECT_THAT(seen.head, AllOf(HasSubstr("Retry-After: "), HasSubstr("retry-after-ms: 1")));
  EXPECT_THAT(seen.body, AllOf(HasSubstr("overloaded_error"), HasSubstr("key_max_in_flight"), HasSubstr("'carol'")));
  EXPECT_THAT(seen.rest, StartsWith("HTTP/1.1 200 ")) << "the connection goes on";
  EXPECT_EQ(proxy.limit_hits(Limit::key), 1u);
  EXPECT_EQ(line(proxy).at("outcome"), "rejected");
  EXPECT_EQ(line(proxy).at("key"), "carol");
  EXPECT_EQ(read_answer(other->got).status, 200u);
  proxy.connections[0].at(0)->says(whole_answer("200 OK", completion));
  proxy.run();
  EXPECT_EQ(read_answer(first->got).status, 200u);
  EXPECT_EQ(under_way(proxy, "carols-key"), 0u);
}

TEST(KeyCheck, WhatWaitsForAReplicaCountsAndWhoLeavesGivesItsPlaceBack) {
  ScriptedProxy proxy(1, with_keys([](auto& settings) {
                        settings.pools[0].queue.requests = 10;
                        settings.pools[0].replicas[0].max_in_flight = 1;
                      }));
  proxy.plan[0] = {[](net::Peer&) {}};
  const auto before = proxy.asks(post(chat(false), bearer("alices-key")));
  const auto waits = proxy.asks(post(chat(false), bearer("carols-key")));
  EXPECT_EQ(under_way(proxy, "carols-key"), 1u);
  EXPECT_EQ(proxy.snapshot->pools.front()->balancer->figures().queue(Clock::now()).waiting, 1u);
  const auto refused = proxy.asks(post(chat(false), bearer("carols-key")));
  EXPECT_EQ(read_answer(refused->got).status, 429u);
  proxy.ends(*waits);
  EXPECT_EQ(under_way(proxy, "carols-key"), 0u);
}

TEST(KeyCheck, AKeysWaitsAreCounted) {
  ScriptedProxy proxy(1, with_keys([](auto& settings) {
                        settings.pools[0].queue.requests = 10;
                        settings.pools[0].replicas[0].max_in_flight = 1;
                      }));
  proxy.plan[0] = {[](net::Peer&) {}};
  const auto& alice = *proxy.fleet.snapshot()->keys->find("alices-key")->use;
  const auto& carol = *proxy.fleet.snapshot()->keys->find("carols-key")->use;
  const auto first = proxy.asks(post(chat(false), bearer("alices-key")));
  EXPECT_EQ(alice.waiting, 0u) << "it found room at once";
  const auto waits = proxy.asks(post(chat(false), bearer("carols-key")));
  EXPECT_EQ(carol.waiting, 1u);
  EXPECT_EQ(carol.waits, 0u);
  proxy.ends(*waits);
  EXPECT_EQ(carol.waiting, 0u);
  EXPECT_EQ(carol.waits, 1u);
  EXPECT_GT(carol.waited_nanoseconds, 0u);
  EXPECT_EQ(alice.waits, 0u);
}

TEST(KeyCheck, EveryEndGivesThePlaceBack) {
  const std::vector<std::function<void(net::Peer&)>> ends{says(streamed_answer()),
                                                          says(sse_head() + chunk(token("a"))),
                                                          says(whole_answer("503 No", "{}")),
                                                          says("nonsense\r\n\r\n"),
                                                          [](net::Peer& replica) { replica.breaks(); },
                                                          [](net::Peer& replica) {
                                                            replica.says(sse_head() + chunk(token("a")));
                                                            replica.ends();
                                                          },
                                                          [](net::Peer&) {}};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    ScriptedProxy proxy({ends[i]}, with_keys());
    const auto client = proxy.asks(post(chat(true), bearer("carols-key")));
    proxy.breaks(*client);
    EXPECT_EQ(under_way(proxy, "carols-key"), 0u) << "end " << i;
    EXPECT_EQ(line(proxy).at("key"), "carol");
  }
}

TEST(KeyCheck, AReloadChangesWhoMayEnterFromTheNextRequestOn) {
  ScriptedProxy proxy(1, with_keys());
  proxy.plan[0] = {[](net::Peer& replica) { replica.says(sse_head() + chunk(token("a"))); },
                   says(whole_answer("200 OK", completion))};
  const auto client = proxy.asks(post(chat(true), bearer("alices-key")));
  auto settings = proxy.snapshot->settings;
  settings.server.keys = {key("alice", "alices-new-key")};
  proxy.fleet.adopt(settings);
  for (const auto& replica : proxy.fleet.snapshot()->pools.front()->replicas)
    replica->state->address.set(boost::asio::ip::tcp::endpoint(boost::asio::ip::address_v4::loopback(), 1));
  EXPECT_EQ(under_way(proxy, "alices-new-key"), 1u);
  proxy.connections[0].at(0)->says(chunk(token("b")) + stream_end);
  proxy.run();
  const auto first = read_answer(client->got);
  EXPECT_TRUE(first.whole) << "what is under way goes on";
  proxy.hears(*client, post(chat(false), bearer("alices-new-key")) + post(chat(false), bearer("alices-key")));
  const auto second = read_answer(read_answer(client->got).rest);
  EXPECT_EQ(second.status, 200u);
  EXPECT_THAT(second.rest, StartsWith("HTTP/1.1 401 "));
}

TEST(KeyCheck, AKeysShareDecidesInTheQueue) {
  ScriptedProxy proxy(1, with_keys([](auto& settings) {
                        auto keys = settings.server.keys.all();
                        keys[1].models.clear();
                        keys[1].share = 2;
                        settings.server.keys = keys;
                        settings.pools[0].queue.requests = 100;
                        settings.pools[0].replicas[0].max_in_flight = 1;
                      }));
  proxy.plan[0] = {[](net::Peer&) {}, says(whole_answer("200 OK", completion))};
  const auto first = proxy.asks(post(chat(false), bearer("carols-key")));
  std::vector<std::shared_ptr<net::Peer>> clients;
  // A prompt of unknown size costs a quantum, as one of this many tokens about does.
  const auto long_chat = [] {
    return R"({"model":"m","messages":[{"role":"user","content":")" + std::string(3 * 2048, 'x') + R"("}]})";
  };
  for (const auto* secret : {"alices-key", "bobs-key"})
    for (int i = 0; i < 6; ++i) clients.push_back(proxy.client(post(long_chat(), bearer(secret))));
  proxy.run();
  proxy.connections[0].at(0)->says(whole_answer("200 OK", completion));
  proxy.run();
  std::string order;
  const auto lines = proxy.log_lines();
  ASSERT_THAT(lines, SizeIs(13));
  for (std::size_t i = 1; i < 10; ++i) order += line(proxy, i).at("key").as_string().front();
  const auto bobs = std::count(order.begin(), order.end(), 'b');
  EXPECT_EQ(bobs, 6) << order;
  EXPECT_EQ(std::count(order.begin(), order.end(), 'a'), 3) << order;
}

/// Right keys of four clients; the first one's is of the shape that weir makes.
const std::vector<std::string> four_keys{"weir-" + std::string(43, 'x'), "0f5c9a3be1d84c7a",
                                         "sk-proj-Ab_3xYz.90~LmNoPq", "q83vEjRWeJCrze+/Asd0=="};

std::string with_escapes(const std::string& text, unsigned which) {
  std::string escaped;
  for (const auto c : text) {
    const bool must = c == '+' || c == '/' || c == '=';
    escaped += must || which % 5 == 0 ? "%" + keys::hex(keys::Sha256{static_cast<std::uint8_t>(c)}).substr(0, 2)
                                      : std::string(1, c);
    which = which * 31 + 7;
  }
  return escaped;
}

std::string without_escapes(std::string text) {
  for (auto at = text.find('%'); at != text.npos; at = text.find('%', at + 1))
    text.replace(at, 3, 1, static_cast<char>(std::stoi(text.substr(at + 1, 2), nullptr, 16)));
  return text;
}

TEST(KeyCheck, ANewKeyWithinARequestIdIsNotEchoedThoughNoneIsAccepted) {
  const std::string made = "weir-" + std::string(43, 'k');
  for (const std::string path : {"/health", "/v1/chat/completions", "/nowhere"}) {
    ScriptedProxy proxy(1, with_keys([](auto&) {}));
    const auto client = proxy.asks(post(chat(true), "X-Request-Id: job-" + made + "\r\n", "1.1", path));
    ASSERT_TRUE(read_answer(client->got).whole);
    auto seen = client->got;
    for (const auto& line : proxy.log_lines()) seen += line;
    EXPECT_THAT(seen, Not(HasSubstr(made))) << path;
  }
}

TEST(KeyCheck, NoRightKeyGoesToAReplicaOrIntoTheLogInWhateverFieldOrParameterItIs) {
  std::mt19937 random(7);
  const auto one_of = [&](const std::vector<std::string>& all) { return all[random() % all.size()]; };
  const auto some_key = [&] { return one_of(four_keys); };
  const std::vector<std::string> harmless{"org-Zz81Qp55Kd20Xw77", "application/json", "Go-http-client/1.1",
                                          "python-requests/2.31.0",
                                          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"};
  std::size_t planted = 0, passed = 0;
  for (int story = 0; story < 400 && !testing::Test::HasFailure(); ++story) {
    ScriptedProxy proxy(1, with_keys([](auto& settings) {
                          std::vector<config::ClientKey> all;
                          for (const auto& one : four_keys) all.push_back(key("c" + std::to_string(all.size()), one));
                          settings.server.keys = all;
                        }));
    proxy.plan[0] = {says(streamed_answer())};
    const auto own = some_key();
    std::string fields, query;
    if (random() % 8 > 0) fields += random() % 2 == 0 ? bearer(own) : "X-Api-Key: " + own + "\r\n";
    for (auto n = random() % 4; n > 0; --n, ++planted) {
      const auto name = one_of({"X-Customer", "User-Agent", "Accept", "Accept-Language", "X-Request-ID", "Referer",
                                "Idempotency-Key", "traceparent", "X-Stainless-Lang", "openai-organization", "From"});
      fields += name + ": " + one_of({"", "Bearer ", "Token  ", "key\t"}) + some_key() + "\r\n";
    }
    for (auto n = random() % 3; n > 0; --n, ++planted) {
      const auto parameter = with_escapes(some_key(), static_cast<unsigned>(random()));
      const auto as_name = random() % 4 == 0;
      query += (query.empty() ? "?" : "&") + (as_name ? "" : one_of({"customer=", "x=", "%6Bey="})) + parameter +
               one_of({"", as_name ? "=1" : "&a=b"});
    }
    if (random() % 4 == 0) query += (query.empty() ? "?" : "&") + some_key();
    const auto kept = one_of(harmless);
    fields += "X-Kept: " + kept + "\r\n";
    query += query.empty() ? "?kept=" + kept : "&kept=" + kept;
    const auto path = one_of({"/v1/chat/completions", "/v1/chat/completions", "/health", "/v1/models", "/nowhere"});
    SCOPED_TRACE(path + query + "\n" + fields);
    const auto client = proxy.asks(post(chat(true), fields, "1.1", path + query));
    ASSERT_TRUE(read_answer(client->got).whole) << client->got;
    auto seen = client->got;
    for (const auto& one : proxy.log_lines()) seen += one + "\n";
    for (const auto& connection : proxy.connections[0]) {
      ++passed;
      EXPECT_THAT(connection->got, AllOf(HasSubstr("X-Kept: " + kept + "\r\n"), HasSubstr("kept=" + kept)));
      seen += connection->got;
    }
    for (const auto& secret : four_keys) EXPECT_THAT(without_escapes(seen), Not(HasSubstr(secret)));
  }
  EXPECT_GT(planted, 500u);
  EXPECT_GT(passed, 50u);
}

}  // namespace
}  // namespace weir::proxy::serve
