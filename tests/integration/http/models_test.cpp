// The models that weir lists, and replicas that tell them only to who has their key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Models = ScriptedReplica::ModelsQuestion;

const std::string vllm_list =
    R"({"object":"list","data":[{"id":"org/m","object":"model","created":1700000000,"owned_by":"vllm","root":"/m",)"
    R"("max_model_len":8192}]})";

/// Replicas that list models to everyone, or only to those who bring its key.
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

/// Asks until the answer is as wanted: weir asks the replicas when it starts, and shows what they say as it comes.
Response models_when(const WeirUnderTest& weir, const std::function<bool(const Response&)>& wanted,
                     const std::string& fields = "") {
  HttpClient client(weir.port());
  Response got;
  look_until("another list of models", [&] {
    got = client.exchange(get("/v1/models", fields), "GET");
    return wanted(got);
  });
  return got;
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
  EXPECT_EQ(none.status, 404u);
  EXPECT_THAT(none.body, AllOf(HasSubstr("\"code\":\"model_not_found\""), HasSubstr("'org/other'")));
  EXPECT_EQ(fetch(weir.port(), get("/v1/models/%ff"), "GET").status, 404u);
  const auto head = fetch(weir.port(), "HEAD /v1/models/n HTTP/1.1\r\nHost: w\r\n\r\n", "HEAD");
  EXPECT_EQ(head.status, 200u);
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
  weir.wait_until_said(" tells its models only");
  models_when(weir, holds("free"));

  const auto got = fetch(weir.port(), get("/v1/models", "Authorization: Bearer sk-client\r\n"), "GET");
  EXPECT_EQ(got.body, "{\"object\":\"list\",\"data\":[{\"id\":\"free\"}]}\n");
  over.wait("weir to give the asking up");
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
  weir.wait_until_said(" tells its models only", replicas);
  EXPECT_EQ(fetch(weir.port(), get("/v1/models", "Authorization: Bearer x\r\n"), "GET").status, 401u);
  EXPECT_EQ(asked.value(), 16u);
}

/// An engine that serves the models that it lists, and tells 404 for the others.
class Engine {
 public:
  explicit Engine(std::vector<std::string> models) : models_(std::move(models)) {}
  void load(const std::string& model) {
    const std::lock_guard lock(mutex_);
    models_.push_back(model);
  }
  void unload(const std::string& model) {
    const std::lock_guard lock(mutex_);
    std::erase(models_, model);
  }
  ScriptedReplica::Handler handler() {
    return [this](Exchange& exchange) {
      const std::lock_guard lock(mutex_);
      if (exchange.request().target == "/v1/models") {
        std::string entries;
        for (const auto& model : models_)
          entries += std::string(entries.empty() ? "" : ",") + R"({"id":")" + model + R"("})";
        return exchange.send(answer("200 OK", R"({"data":[)" + entries + "]}"));
      }
      const auto body = boost::json::parse(exchange.request().body).as_object();
      const bool has = std::ranges::find(models_, std::string(body.at("model").as_string())) != models_.end();
      ++(has ? served : refused);
      exchange.send(has ? answer("200 OK", vllm_whole_chat(5)) : answer("404 Not Found", R"({"code":404})"));
    };
  }
  std::atomic<int> served = 0, refused = 0;

 private:
  std::mutex mutex_;
  std::vector<std::string> models_;
};

TEST(Models, DecideWhichReplicaGetsARequest) {
  Engine with({"base", "adapter"}), without({"base", "small"});
  ScriptedReplica first(without.handler(), Models::to_handler), second(with.handler(), Models::to_handler);
  WeirUnderTest weir(any_model({&first, &second}));
  models_when(weir, [](const Response& got) { return holds("small")(got) && holds("adapter")(got); });
  const auto ask = [&](const std::string& model, int prompt) {
    const auto text = "Prompt " + std::to_string(prompt);
    const auto body = R"({"model":")" + model + R"(","messages":[{"role":"user","content":")" + text + R"("}]})";
    return fetch(weir.port(), post("/v1/chat/completions", body));
  };
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask("adapter", i).status, 200u);
  EXPECT_EQ(with.served, 20);
  EXPECT_EQ(without.refused, 0);

  without.load("new");
  models_when(weir, holds("new"));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask("new", i).status, 200u);
  EXPECT_EQ(without.served, 20);
  EXPECT_EQ(with.refused, 0);

  // The lists are some seconds old.
  without.load("adapter");
  with.unload("adapter");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask("adapter", i).status, 200u);
  EXPECT_EQ(without.served, 40);
  EXPECT_LE(with.refused, 3);
}

}  // namespace
}  // namespace weir::integration
