// Clients' keys and TLS outlast every change of the fleet, with streams under way and after them.
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "tests/integration/peers/dns_server.hpp"
#include "tests/integration/peers/keys_file.hpp"
#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/tls_bridge.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

/// A stream that has begun. A key's place is free a moment after the client has read the end of the request that had it.
struct Stream {
  Stream(const Bridge& tls, const std::string& request) {
    look_until("the key to have room for a stream", [&] {
      client = std::make_unique<HttpClient>(tls.port());
      client->send(request);
      streamed = client->response_head();
      return streamed.status != 429;
    });
    EXPECT_EQ(streamed.status, 200u);
  }
  std::string replica() const { return streamed.head.field("x-weir-replica").value_or(""); }
  void end(const StreamScript& script) {
    client->rest(streamed);
    EXPECT_EQ(streamed.body, script.body(false));
  }

  std::unique_ptr<HttpClient> client;
  Response streamed;
};

/// A weir that wants TLS and a key with at most two requests. Streams whose prompt says so are held open.
class LastingGuard : public testing::Test {
 protected:
  LastingGuard() {
    for (const char name : {'A', 'B', 'C', 'D'}) holds[name];
  }

  /// The prompt "hold X" is answered whole once holds[X] is set, and any other at once.
  void answer(Exchange& exchange) {
    const auto& body = exchange.request().body;
    const auto at = body.find("hold ");
    if (at == std::string::npos) return play(exchange, script);
    exchange.send(sse_head() + chunk(script.events[0]));
    holds.at(body[at + 5]).wait("the test to end the stream");
    for (std::size_t i = 1; i < script.events.size(); ++i) exchange.send(chunk(script.events[i]));
    exchange.send(chunk(script.marker) + std::string(last_chunk));
  }
  std::unique_ptr<ScriptedReplica> machine(std::uint16_t port = 0, unsigned number = 1) {
    return std::make_unique<ScriptedReplica>([this](Exchange& exchange) { answer(exchange); },
                                             ScriptedReplica::ModelsQuestion::answered_unseen, port, number);
  }
  void guard(WeirSettings& settings) const {
    settings = keys.asked_by(std::move(settings));
    settings.server["tls"] =
        "{ cert = " + quoted(tls_file("local.pem")) + ", key = " + quoted(tls_file("local.key")) + " }";
  }

  std::string asked(const std::string& prompt, const std::string& model = "m") const {
    return post(chat, chat_body(prompt, model), bearer(key));
  }
  /// One stream of the key is under way, and nobody without a key gets in.
  void expect_guarded(const WeirUnderTest& weir, const Bridge& tls) {
    EXPECT_EQ(fetch(tls.port(), post(chat, chat_body())).status, 401u) << "without a key";
    EXPECT_EQ(fetch(tls.port(), post(chat, chat_body(), bearer("sk-wrong"))).status, 401u);
    EXPECT_EQ(fetch(weir.port(), asked("in clear")).status, 400u) << "plain HTTP at the port of TLS";
    Stream second(tls, asked("hold C", "n"));
    EXPECT_EQ(fetch(tls.port(), asked("Say.")).status, 429u) << "max_in_flight counts what began before the change";
    holds.at('C').set();
    second.end(script);
  }
  void expect_no_key_at(const ScriptedReplica& replica) const {
    for (const auto& request : replica.requests()) EXPECT_FALSE(request.head.has("authorization")) << request.body;
  }

  const KeysFile keys;
  const std::string key = keys.add("alice", {"--max-in-flight", "2"});
  const StreamScript script = vllm_chat(3);
  std::map<char, Event> holds{};
};

struct Change {
  const char* name;
  /// `at` is the place in the first pool of the replica that has the stream.
  std::function<void(WeirSettings&, std::size_t at, const std::string& other_url)> apply;
  bool moves_the_stream = true;  ///< Its replica leaves.
};

class LastingGuardOverAReload : public LastingGuard, public testing::WithParamInterface<Change> {};

TEST_P(LastingGuardOverAReload, KeysAndTlsHold) {
  const auto one = machine(), two = machine(), three = machine(), elsewhere = machine(), shadow = machine();
  auto settings = pool_of({one.get(), two.get()});
  settings.pools.push_back({.name = "code", .replicas = {{.name = "c", .url = three->url()}}});
  settings.pools[1].more["models"] = "[\"n\"]";
  settings.shadows = {{"fp8", {{"cand0", shadow->url(), {}}}, {{"of", "\"code\""}, {"sample", "0.0001"}}}};
  guard(settings);
  WeirUnderTest weir(settings);
  const Bridge tls(Bridge::Kind::plain_to_tls, weir.port());
  Stream moved(tls, asked("hold A"));
  std::optional<Stream> kept(std::in_place, tls, asked("hold B", "n"));
  GetParam().apply(settings, moved.replica() == "r0" ? 0 : 1, elsewhere->url());
  weir.rewrite(settings);
  weir.process().send(SIGHUP);
  weir.wait_until_said("reload (SIGHUP): ");
  EXPECT_EQ(fetch(tls.port(), post(chat, chat_body())).status, 401u) << "at once";
  EXPECT_EQ(fetch(tls.port(), asked("Say.")).status, 429u) << "at once, too";
  holds.at('A').set();
  moved.end(script);
  if (GetParam().moves_the_stream) {
    weir.wait_until_said("is gone: its last request has ended");
  } else {  // A request that knows the shadow keeps it.
    holds.at('B').set();
    kept->end(script);
    kept.emplace(tls, asked("hold D", "n"));
    weir.metrics_when("the shadow to be gone", [](const MetricsPage& page) {
      return !page.has("weir_requests_in_flight", {{"replica", "cand0"}});
    });
  }
  weir.metrics();  // The control thread has published what follows from it.
  expect_guarded(weir, tls);
  holds.at('B').set();
  holds.at('D').set();
  kept->end(script);
  for (const auto* replica : {one.get(), two.get(), three.get(), elsewhere.get(), shadow.get()})
    expect_no_key_at(*replica);
}

INSTANTIATE_TEST_SUITE_P(
    Changes, LastingGuardOverAReload,
    testing::Values(Change{"ReplicaRemoved",
                           [](auto& settings, auto at, auto&) {
                             auto& replicas = settings.pools[0].replicas;
                             replicas.erase(replicas.begin() + static_cast<std::ptrdiff_t>(at));
                           }},
                    Change{"ReplicaRenamed",
                           [](auto& settings, auto at, auto&) { settings.pools[0].replicas[at].name = "renamed"; }},
                    Change{"ReplicaMoved",
                           [](auto& settings, auto at, auto& url) { settings.pools[0].replicas[at].url = url; }},
                    Change{"PoolRenamed", [](auto& settings, auto, auto&) { settings.pools[0].name = "talk"; }},
                    Change{"PoolReplaced",
                           [](auto& settings, auto, auto& url) {
                             settings.pools[0] = {.name = "talk", .replicas = {{.name = "r7", .url = url}}};
                           }},
                    Change{"ShadowRemoved", [](auto& settings, auto, auto&) { settings.shadows.clear(); }, false}),
    [](const auto& change) { return std::string(change.param.name); });

TEST_F(LastingGuard, KeysAndTlsHoldWhenAMemberOfANameHasLeft) {
  const auto port = free_port();
  const auto one = machine(port, 1), two = machine(port, 2), other = machine();
  DnsServer dns;
  dns.answers({"127.0.0.1", "127.0.0.2"});
  WeirSettings settings{.pools = {{.name = "chat",
                                   .replicas = {{.name = "gpu",
                                                 .url = "http://engines.weir.test:" + std::to_string(port),
                                                 .more = {{"expand", "true"}}}}},
                                  {.name = "code",
                                   .replicas = {{.name = "c", .url = other->url()}},
                                   .more = {{"models", "[\"n\"]"}}}}};
  settings.discovery = {{"nameserver", dns.address()}, {"interval", "\"100ms\""}};
  settings.health = {{"interval", "\"100ms\""}};
  guard(settings);
  WeirUnderTest weir(settings);
  weir.metrics_when("both members to be there", [](const MetricsPage& page) {
    return page.has("weir_requests_in_flight", {{"replica", "gpu-1"}}) &&
           page.has("weir_requests_in_flight", {{"replica", "gpu-2"}});
  });
  const Bridge tls(Bridge::Kind::plain_to_tls, weir.port());
  Stream moved(tls, asked("hold A")), kept(tls, asked("hold B", "n"));
  dns.answers({moved.replica() == "gpu-1" ? "127.0.0.2" : "127.0.0.1"});
  (moved.replica() == "gpu-1" ? one : two)->resets_connections(1000000);
  weir.wait_until_said("replica '" + moved.replica() + "' leaves: ");
  EXPECT_EQ(fetch(tls.port(), post(chat, chat_body())).status, 401u);
  holds.at('A').set();
  moved.end(script);
  weir.wait_until_said("is gone: its last request has ended");
  weir.metrics();
  expect_guarded(weir, tls);
  holds.at('B').set();
  kept.end(script);
  for (const auto* replica : {one.get(), two.get(), other.get()}) expect_no_key_at(*replica);
}

}  // namespace
}  // namespace weir::integration
