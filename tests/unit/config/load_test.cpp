// Good files have these meanings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "config/address.hpp"
#include "config/load.hpp"
#include "load_text.hpp"
#include "tests/unit/config/load_text.hpp"

namespace weir::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Settings defaults_with_one_pool() {
  Replica replica;
  replica.name = replica.config = "gpu0";
  replica.url = {"127.0.0.1", 8001, "", "127.0.0.1:8001"};
  Pool pool;
  pool.name = "chat";
  pool.replicas = {replica};
  Settings settings;
  settings.pools = {pool};
  return settings;
}

TEST(Load, AFileWithOnlyAPoolGivesAllDefaults) { EXPECT_EQ(settings_in(one_pool), defaults_with_one_pool()); }

TEST(Load, InlineTablesMeanTheSame) {
  EXPECT_EQ(settings_in("pool = [{name = 'chat', replica = [{name = 'gpu0', url = 'http://127.0.0.1:8001'}]}]"),
            defaults_with_one_pool());
}

TEST(Load, CarriageReturnsAndAByteOrderMarkAreNoMatter) {
  std::string text = "\xEF\xBB\xBF";
  for (const char c : one_pool) text += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(settings_in(text), defaults_with_one_pool());
}

/// Keys one by one: EachLine.
TEST(Load, TablesOfTheFileHoldForPoolsAndShadowsThatSayNothingElse) {
  const auto settings = settings_in(R"(
[engine]
metrics_path = "/m"
[health]
path = "/live"
interval = 9
[[shadow]]
name = "fp8"
of = "chat"
twin = "gpu0"
[[shadow.replica]]
name = "cand0"
url = "http://10.0.0.8"
[[pool]]
name = "chat"
models = ["a", "b"]
  [pool.health]
  path = ""
  timeout = 3
  [pool.engine]
  metrics_path = ""
  [[pool.replica]]
  name = "gpu0"
  url = "http://gpu-box:8001/prefix/"
[[pool]]
name = "rest"
replica = [{ name = "gpu1", url = "http://10.0.0.7", expand = false }]
)");
  Health of_file, of_chat;
  of_file.path = "/live";
  of_chat.path = "";
  of_file.interval = of_chat.interval = Seconds{9};
  of_chat.timeout = Seconds{3};
  // An engine's page is read as often as it is probed.
  const EngineReading engine_of_file{"/m", Seconds{9}, Seconds{5}}, engine_of_chat{"", Seconds{9}, Seconds{3}};
  ASSERT_EQ(settings.pools.size(), 2u);
  EXPECT_TRUE(settings.pools[0].health == of_chat && settings.pools[0].engine == engine_of_chat);
  EXPECT_TRUE(settings.pools[1].health == of_file && settings.pools[1].engine == engine_of_file);
  ASSERT_EQ(settings.shadows.size(), 1u);
  EXPECT_TRUE(settings.shadows[0].health == of_file && settings.shadows[0].engine == engine_of_file);
  EXPECT_EQ(settings.shadows[0].replicas.at(0).config, "cand0");
  EXPECT_EQ(settings.pools[0].replicas.at(0).url.prefix, "/prefix");
}

TEST(Load, ABodyMayStandStillForHalfAsLongAsAnAnswer) {
  EXPECT_EQ(settings_in("limits.client_stall = 7\n" + one_pool).limits.body_time, Seconds{3.5});
}

TEST(Load, ASingleTextIsAListOfOne) {
  const auto settings = settings_in(
      "[server]\nlisten = '[::1]:80'\npaths = '*'\n[[pool]]\nname = 'p'\nmodels = 'm'\n"
      "replica = [{name = 'r', url = 'http://h'}]");
  EXPECT_THAT(settings.server.listen, ElementsAre(ListenAddress{"::1", 80}));
  EXPECT_THAT(settings.server.paths, ElementsAre("*"));
  EXPECT_THAT(settings.pools.at(0).models, ElementsAre("m"));
}

TEST(Load, ListenersCanBeSwitchedOff) {
  const auto settings = settings_in("metrics.listen = ''\nadmin.listen = ''\n" + one_pool);
  EXPECT_FALSE(settings.metrics.listen);
  EXPECT_FALSE(settings.admin.listen);
}

TEST(Load, PortsThatTheSystemChoosesDoNotCollide) {
  EXPECT_THAT(errors_in("server.listen = ['127.0.0.1:0', '127.0.0.1:0']\nmetrics.listen = '127.0.0.1:0'\n"
                        "admin.listen = '127.0.0.1:0'\n" +
                        one_pool),
              IsEmpty());
}

TEST(Load, EveryPolicyAndLevelHasItsWord) {
  const std::pair<const char*, Policy> policies[] = {{"least_queued_tokens", Policy::least_queued_tokens},
                                                     {"round_robin", Policy::round_robin},
                                                     {"random", Policy::random},
                                                     {"least_requests", Policy::least_requests},
                                                     {"power_of_two", Policy::power_of_two}};
  for (const auto& [word, policy] : policies) {
    const auto settings = settings_in("pool = [{name = 'p', policy = '" + std::string(word) +
                                      "', replica = [{name = 'r', url = 'http://h'}]}]");
    EXPECT_EQ(settings.pools.at(0).policy, policy) << word;
  }
  const std::pair<const char*, LogLevel> levels[] = {{"trace", LogLevel::trace},
                                                     {"debug", LogLevel::debug},
                                                     {"info", LogLevel::info},
                                                     {"warning", LogLevel::warning},
                                                     {"error", LogLevel::error}};
  for (const auto& [word, level] : levels) {
    EXPECT_EQ(settings_in("log.level = '" + std::string(word) + "'\n" + one_pool).log.level, level) << word;
  }
}

/// The bounds of every range are allowed; the table of errors has what lies beyond.
TEST(Load, BoundsAreAllowed) {
  for (const auto* line :
       {"server.threads = 0", "server.threads = 1024", "limits = { request_body = '1GiB', buffer_memory = '1GiB' }",
        "limits = { request_body = 1024, buffer_memory = '1MiB' }", "limits.buffer_memory = '1024GiB'",
        "limits.connections = 1", "limits.connections = 1000000", "limits.connect = 0.001", "limits.connect = '1ms'",
        "limits.connect = '24h'", "limits.connect = 86400", "limits.drain_delay = '0s'", "limits.retry_budget = 0",
        "limits.retry_budget = 1.0", "server.listen = '127.0.0.1:65535'"}) {
    EXPECT_THAT(errors_in(line + std::string("\n") + one_pool), IsEmpty()) << line;
  }
  for (const auto* key : {"weight = 0.001", "weight = 1000", "cost_per_hour = 0", "kv_tokens = 1",
                          "kv_tokens = 1_000_000_000_000", "max_in_flight = 1_000_000"}) {
    EXPECT_THAT(errors_in(one_pool + key), IsEmpty()) << key;
  }
}

/// Otherwise a key or a password that is half quoted would go to a terminal or a log.
TEST(SettingsSyntax, NoValueIsShown) {
  const std::string secret = "zq7";
  for (const auto& line : {"key = " + secret, "key = \"" + secret, "key = \"" + secret + "\\q\"", "key : " + secret,
                           "key \"" + secret + "\"", "key = [" + secret + "]", "key = 1 " + secret,
                           "url = http://u:" + secret + "@h", "key == \"" + secret + "\"", "- " + secret + ": x"}) {
    const auto errors = errors_in(line + "\n");
    ASSERT_EQ(errors.size(), 1u) << line;
    EXPECT_THAT(errors[0], Not(HasSubstr(secret))) << line;
  }
}

}  // namespace

// A reload says in words what it changes, and no key changes without a word.

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Replica replica(const std::string& name, std::uint16_t port) {
  Replica one;
  one.name = one.config = name;
  one.url = {.host = "h", .port = port, .prefix = "", .authority = "h:" + std::to_string(port)};
  return one;
}

Settings settings() {
  Settings all;
  Pool chat, code;
  chat.name = "chat";
  chat.models = {"m"};
  chat.replicas = {replica("gpu0", 1), replica("gpu1", 2)};
  code.name = "code";
  code.replicas = {replica("gpu2", 3)};
  all.pools = {chat, code};
  Slo fast, whole;
  fast.name = "fast";
  fast.pool = "chat";
  fast.tpot = Seconds(0.05);
  whole.name = "whole";
  whole.pool = "code";
  whole.e2e = Seconds(60);
  all.slos = {fast, whole};
  ClientKey alice;
  alice.name = "alice";
  alice.sha256[0] = 0xab;
  all.server.api_keys = "keys.toml";
  all.server.keys = {alice};
  Shadow fp8;
  fp8.name = "fp8";
  fp8.of = "chat";
  fp8.twin = "gpu0";
  fp8.replicas = {replica("cand0", 4)};
  all.shadows = {fp8};
  Rollout rollout;
  rollout.name = "next";
  rollout.pool = "chat";
  rollout.candidate = "gpu1";
  rollout.steps = {{false, 0.05, Seconds(600)}, {false, 1, Seconds(0)}};
  all.rollouts = {rollout};
  return all;
}

struct Change {
  std::function<void(Settings&)> make;
  std::string said;
};

class EachChange : public ::testing::TestWithParam<Change> {};

TEST_P(EachChange, IsSaid) {
  auto after = settings();
  GetParam().make(after);
  std::string said;
  for (const auto& clause : difference(settings(), after)) said += (said.empty() ? "" : "; ") + clause;
  EXPECT_EQ(said, GetParam().said);
  EXPECT_THAT(difference(after, settings()), Not(IsEmpty())) << "and the way back";
}

std::vector<ClientKey> with_first(Settings& settings, const std::function<void(ClientKey&)>& change) {
  auto keys = settings.server.keys.all();
  change(keys.front());
  return keys;
}

/// A line of the file, and what it changes. So each key is read into the field that the difference tells of.
struct Line {
  std::string line, said;
  std::string before = "";  ///< The line stands in place of this one.

  /// Returns a file with this line in the table that the difference names.
  std::string file() const { return file_with(line); }
  std::string file_with(const std::string& text) const {
    if (said.starts_with("pool chat: replica gpu0: ")) return one_pool + text;
    if (said.starts_with("slo fast: ")) return one_pool + "[[slo]]\nname = 'fast'\npool = 'chat'\n" + text;
    if (said.starts_with("shadow fp8: "))
      return one_pool + "[[shadow]]\nname = 'fp8'\nof = 'chat'\nreplica = [{ name = 'c', url = 'http://c' }]\n" + text;
    const std::string pool = "name = \"chat\"\n";
    std::string all = one_pool;
    return said.starts_with("pool chat: ") ? all.insert(all.find(pool) + pool.size(), text + "\n") : text + "\n" + all;
  }
};

class EachLine : public ::testing::TestWithParam<Line> {};

TEST_P(EachLine, IsReadAndSaid) {
  const auto before = settings_in(GetParam().file_with(GetParam().before)), after = settings_in(GetParam().file());
  EXPECT_THAT(difference(before, after), ElementsAre(GetParam().said));
  EXPECT_THAT(difference(after, before), ::testing::SizeIs(1)) << "and the way back";
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(Difference, EachLine, ::testing::Values(
    Line{"server.listen = ['127.0.0.1:8080', '[::1]:80']", "server.listen [127.0.0.1:8080] -> [127.0.0.1:8080, [::1]:80]"},
    Line{"server.threads = 3", "server.threads 0 -> 3"},
    Line{"server.paths = '*'", "server.paths [] -> [*]"},
    Line{"server.open = true", "server.open false -> true"},
    Line{"admin.token = 't'", "admin.token none -> hidden"},
    Line{"admin.state = '/s'", "admin.state \"\" -> /s"},
    Line{"server.half_close = 'allow'", "server.half_close abort -> allow"},
    Line{"server.trusted_proxies = 'unix:'", "server.trusted_proxies [] -> [unix:]"},
    Line{"server.cors_origins = '*'", "server.cors_origins [] -> [*]"},
    Line{"limits.connections_per_address = 7", "limits.connections_per_address 0 -> 7"},
    Line{"server.listen = 'unix:/run/weir.sock'", "server.listen [127.0.0.1:8080] -> [unix:/run/weir.sock]"},
    Line{"metrics.listen = ''", "metrics.listen 127.0.0.1:9090 -> \"\""},
    Line{"admin.listen = '127.0.0.1:1'", "admin.listen 127.0.0.1:9091 -> 127.0.0.1:1"},
    Line{"log.requests = ''", "log.requests requests.jsonl -> \"\""},
    Line{"log.level = 'warning'", "log.level info -> warning"},
    Line{"log.format = 'json'", "log.format text -> json"},
    Line{"log.instance = 'a'", "log.instance \"\" -> a"},
    Line{"log.prefixes = true", "log.prefixes false -> true"},
    Line{"limits.request_body = 1024", "limits.request_body 16MiB -> 1KiB"},
    Line{"limits.connections = 7", "limits.connections 10000 -> 7"},
    Line{"limits.buffer_memory = '16MiB'", "limits.buffer_memory 512MiB -> 16MiB"},
    Line{"limits.client_stall = 7", "limits.client_stall 2m -> 7s"},
    Line{"limits.connect = '250ms'", "limits.connect 2s -> 250ms"},
    Line{"limits.first_token = '2m'", "limits.first_token 5m -> 2m"},
    Line{"limits.between_tokens = 7", "limits.between_tokens 2m -> 7s"},
    Line{"limits.whole_answer = 7", "limits.whole_answer 30m -> 7s"},
    Line{"limits.upstream_idle = 7", "limits.upstream_idle 4s -> 7s"},
    Line{"limits.drain_delay = 7", "limits.drain_delay 5s -> 7s"},
    Line{"limits.drain = 7", "limits.drain 5m -> 7s"},
    Line{"limits.retry_budget = 0", "limits.retry_budget 0.2 -> 0"},
    Line{"measure.clock = 'read'", "measure.clock kernel -> read"},
    Line{"measure.inject_usage = false", "measure.inject_usage true -> false"},
    Line{"measure.inject_continuous_usage = true", "measure.inject_continuous_usage false -> true"},
    Line{"discovery.interval = 7", "discovery.interval 30s -> 7s"},
    Line{"discovery.nameserver = '127.0.0.1:53'", "discovery.nameserver none -> 127.0.0.1:53"},
    Line{"discovery.complete = true", "discovery.complete false -> true"},
    Line{"prefix_aware = false", "pool chat: prefix_aware true -> false"},
    Line{"max_in_flight = 7", "pool chat: max_in_flight none -> 7"},
    Line{"max_queued_tokens = 7", "pool chat: max_queued_tokens none -> 7"},
    Line{"queue = 0", "pool chat: queue 256 -> 0"},
    Line{"queue_time = 7", "pool chat: queue_time 30s -> 7s"},
    Line{"queue_time_down = 7", "pool chat: queue_time_down 1m -> 7s"},
    Line{"keep_alive = 7", "pool chat: keep_alive none -> 7s"},
    Line{"fair_by = 'address'", "pool chat: fair_by key -> address"},
    Line{"fair_by = 'header:x-user'", "pool chat: fair_by key -> header:x-user"},
    Line{"session = ['header:x-id', 'body:user']", "pool chat: session [] -> [header:x-id, body:user]"},
    Line{"health.path = ''", "pool chat: health.path /health -> none"},
    Line{"health.interval = 7", "pool chat: health.interval 5s -> 7s"},
    Line{"health.timeout = 7", "pool chat: health.timeout 5s -> 7s"},
    Line{"health.eject = false", "pool chat: health.eject true -> false"},
    Line{"engine.metrics_path = ''", "pool chat: engine.metrics_path /metrics -> none"},
    Line{"models = ['a', 'b']", "pool chat: models [] -> [a, b]"},
    Line{"policy = 'random'", "pool chat: policy least_queued_tokens -> random"},
    Line{"config = 'c'", "pool chat: replica gpu0: config gpu0 -> c"},
    Line{"gpu = 'L4'", "pool chat: replica gpu0: gpu \"\" -> L4"},
    Line{"weight = 2", "pool chat: replica gpu0: weight 1 -> 2"},
    Line{"cost_per_hour = 0.8", "pool chat: replica gpu0: cost_per_hour none -> 0.8"},
    Line{"kv_tokens = 7", "pool chat: replica gpu0: kv_tokens none -> 7"},
    Line{"max_context = 7", "pool chat: replica gpu0: max_context none -> 7"},
    Line{"max_in_flight = 7", "pool chat: replica gpu0: max_in_flight none -> 7"},
    Line{"max_queued_tokens = 7", "pool chat: replica gpu0: max_queued_tokens none -> 7"},
    Line{"api_key = 'k'", "pool chat: replica gpu0: api_key none -> hidden"},
    Line{"e2e = 9\nttft_client = 1", "slo fast: ttft_client none -> 1s", "e2e = 9"},
    Line{"e2e = 9\nttft = '800ms'", "slo fast: ttft none -> 800ms", "e2e = 9"},
    Line{"e2e = 9", "slo fast: tpot 50ms -> none", "e2e = 9\ntpot = 0.05"},
    Line{"ttft = 1\ne2e = '10m'", "slo fast: e2e none -> 10m", "ttft = 1"},
    Line{"sample = 0.5", "shadow fp8: sample 0.1 -> 0.5", "sample = 0.1"},
    Line{"twin = 'gpu0'\ncontrol = true", "shadow fp8: control false -> true", "twin = 'gpu0'"},
    Line{"twin = 'gpu0'\nstop_after = '2h'", "shadow fp8: stop_after none -> 2h", "twin = 'gpu0'"},
    Line{"twin = 'gpu0'\nexclude_keys = '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'", "shadow fp8: exclude_keys [] -> [01234567...]", "twin = 'gpu0'"},
    Line{"twin = 'gpu0'\nset = { model = 'm\"8', seed = 3, temperature = 0.5, logprobs = false }", "shadow fp8: set [] -> [logprobs = false, model = \"m\\\"8\", seed = 3, temperature = 0.5]", "twin = 'gpu0'"},
    Line{"twin = 'gpu0'\nset = { a = 0.7, b = 1.0, c = 0x10, d = -1e300, e = 1e-7, f = 0.1 }", "shadow fp8: set [] -> [a = 0.7, b = 1.0, c = 16, d = -1e+300, e = 1e-07, f = 0.1]", "twin = 'gpu0'"},
    Line{"twin = 'gpu0'\nforward_auth = true", "shadow fp8: forward_auth false -> true", "twin = 'gpu0'"}));

#define KEY_SAID(change, text) \
  Change{[](Settings& s) { s.server.keys = with_first(s, [](ClientKey& key) { key.change; }); }, text}
#define SAID(change, text) Change{[](Settings& s) { change; }, text}
INSTANTIATE_TEST_SUITE_P(Difference, EachChange, ::testing::Values(
    SAID(s.server.api_keys = "k.toml", "server.api_keys keys.toml -> k.toml"),
    SAID((s.server.keys = {s.server.keys[0], ClientKey{"bob", {}, {}, {}}}), "server.api_keys: key bob added"),
    SAID(s.server.keys = {}, "server.api_keys: key alice removed"),
    KEY_SAID(name = "bob", "server.api_keys: key bob added; server.api_keys: key alice removed"),
    KEY_SAID(sha256[3] = 1, "server.api_keys: key alice: sha256 ab000000... -> ab000001..."),
    KEY_SAID(sha256[4] = 1, "server.api_keys: key alice: sha256 changed"),
    KEY_SAID(models = {"m"}, "server.api_keys: key alice: models [] -> [m]"),
    KEY_SAID(max_in_flight = 3, "server.api_keys: key alice: max_in_flight none -> 3"),
    KEY_SAID(share = 0.5, "server.api_keys: key alice: share 1 -> 0.5"),
    SAID(s.server.tls = (ServerTls{{{"a.pem", "a.key"}, {"b.pem", "b.key"}}}),
         "server.tls none -> [a.pem with a.key, b.pem with b.key]"),
    SAID(s.pools[0].name = "talk", "pool talk (replica gpu0, replica gpu1) added; pool chat (replica gpu0, replica gpu1) removed"),
    SAID(s.pools[0].models = {}, "pool chat: models [m] -> []"),
    SAID(s.pools[1].policy = Policy::random, "pool code: policy least_queued_tokens -> random")));

INSTANTIATE_TEST_SUITE_P(DifferenceOfReplicas, EachChange, ::testing::Values(
    SAID(s.pools[0].replicas.push_back(replica("gpu3", 9)), "pool chat: replica gpu3 added"),
    SAID(s.pools[0].replicas.pop_back(), "pool chat: replica gpu1 removed"),
    SAID(s.pools[0].replicas[0].name = "a", "pool chat: replica a added; pool chat: replica gpu0 removed"),
    SAID(s.pools[0].replicas[0].url.authority = "h:9", "pool chat: replica gpu0: url http://h:1 -> http://h:9 (a new replica in its place)"),
    SAID(s.pools[0].replicas[0].url.prefix = "/x", "pool chat: replica gpu0: url http://h:1 -> http://h:1/x (a new replica in its place)"),
    SAID(s.pools[0].replicas[0].url.tls = true, "pool chat: replica gpu0: url http://h:1 -> https://h:1 (a new replica in its place)"),
    SAID(s.pools[0].replicas[0].url.unix_path = "/s", "pool chat: replica gpu0: url http://h:1 -> unix:/s (a new replica in its place)"),
    SAID(s.pools[0].replicas[0].tls.ca = "ca.pem", "pool chat: replica gpu0: tls.ca none -> ca.pem"),
    SAID(s.pools[0].replicas[0].tls.server_name = "n", "pool chat: replica gpu0: tls.server_name none -> n"),
    SAID(s.pools[0].replicas[0].tls.verify = false, "pool chat: replica gpu0: tls.verify true -> false"),
    SAID((s.pools[0].replicas[0].tls.own = Certificate{"a.pem", "a.key"}), "pool chat: replica gpu0: tls.cert none -> a.pem; pool chat: replica gpu0: tls.key none -> a.key"),
    SAID(s.pools[0].replicas[0].expand = true, "pool chat: replica gpu0: expand false -> true"),
    SAID(s.pools[0].replicas[0].max_context_refuses = true, "pool chat: replica gpu0: max_context_refuses false -> true"),
    SAID(std::swap(s.pools[0].replicas[0], s.pools[0].replicas[1]), "pool chat: its replicas stand in another order"),
    SAID(std::swap(s.pools[0], s.pools[1]), "the pools are tried in another order"),
    SAID(s.pools.pop_back(), "pool code (replica gpu2) removed"),
    SAID(s.slos[0].name = "f", "slo f added; slo fast removed"),
    SAID(s.slos[0].pool = "code", "slo fast: pool chat -> code"),
    SAID(s.shadows[0].name = "f", "shadow f (replica cand0) added; shadow fp8 (replica cand0) removed"),
    SAID(s.shadows[0].of = "code", "shadow fp8: of chat -> code"),
    SAID(s.shadows[0].twin = "gpu1", "shadow fp8: twin gpu0 -> gpu1"),
    SAID(s.shadows[0].health.path = "/h", "shadow fp8: health.path /health -> /h"),
    SAID(s.shadows[0].engine.metrics_path = "/m", "shadow fp8: engine.metrics_path /metrics -> /m"),
    SAID(s.shadows[0].replicas[0].weight = 2, "shadow fp8: replica cand0: weight 1 -> 2"),
    SAID(s.rollouts[0].name = "n", "rollout n added; rollout next removed"),
    SAID(s.rollouts[0].pool = "code", "rollout next: pool chat -> code"),
    SAID(s.rollouts[0].candidate = "gpu0", "rollout next: candidate gpu1 -> gpu0"),
    SAID(s.rollouts[0].shadow = "fp8", "rollout next: shadow none -> fp8"),
    SAID(s.rollouts[0].slo = "fast", "rollout next: slo none -> fast"),
    SAID(s.rollouts[0].steps[0].share = 0.07, "rollout next: steps [5% 10m, 100%] -> [7% 10m, 100%]"),
    SAID((s.rollouts[0].steps[0] = {true, 0, Seconds(60)}), "rollout next: steps [5% 10m, 100%] -> [shadow 1m, 100%]"),
    SAID(s.rollouts[0].answers = OtherAnswers::same, "rollout next: answers look -> same"),
    SAID(std::swap(s.slos[0], s.slos[1]), "the slos stand in another order")));
// clang-format on

TEST(Difference, OfEqualSettingsIsNothing) { EXPECT_THAT(difference(settings(), settings()), IsEmpty()); }

TEST(Difference, AReplicaThatMovesToAnotherPoolIsRemovedAndAdded) {
  auto after = settings();
  after.pools[1].replicas.push_back(after.pools[0].replicas[1]);
  after.pools[0].replicas.pop_back();
  EXPECT_THAT(difference(settings(), after),
              ElementsAre("pool code: replica gpu1 added", "pool chat: replica gpu1 removed"));
}

TEST(Difference, AnotherKeyIsSaidAndNotShown) {
  auto before = settings(), after = settings();
  before.pools[0].replicas[0].api_key = "secret-one";
  after.pools[0].replicas[0].api_key = "secret-two";
  before.admin.token = "secret-token";
  after.admin.token = "secret-other";
  EXPECT_THAT(difference(before, after),
              ElementsAre("admin.token changed", "pool chat: replica gpu0: api_key changed"));
  for (const auto& listed : listing_of(after))
    for (const auto& key : listed.keys) EXPECT_THAT(key.value, Not(HasSubstr("secret")));
}

TEST(Difference, OfHashesIsSaidWhereTheDigitsThatAreShownAreTheSame) {
  auto before = settings(), after = settings();
  before.shadows[0].exclude_keys = {"01234567" + std::string(56, 'a')};
  after.shadows[0].exclude_keys = {"01234567" + std::string(56, 'b')};
  EXPECT_THAT(difference(before, after), ElementsAre("shadow fp8: exclude_keys changed"));
}

TEST(Difference, WhetherAHiddenKeyChangedCannotBeTold) {
  auto after = settings();
  after.pools[0].replicas[0].api_key = "secret-two";
  auto told = listing_of(after);
  for (auto& listed : told)
    for (auto& key : listed.keys) key.secret.reset();
  EXPECT_THAT(difference(told, listing_of(after)), IsEmpty());
  EXPECT_THAT(cannot_tell(told, listing_of(after)), ElementsAre("pool chat: replica gpu0: api_key"));
  EXPECT_THAT(cannot_tell(listing_of(after), listing_of(after)), IsEmpty());
}

TEST(Difference, ThreadsAloneNeedARestart) {
  auto after = settings();
  after.server.threads = 2;
  after.limits.drain = Seconds(1);
  after.server.listen.push_back({"::1", 80});
  EXPECT_THAT(needs_restart(listing_of(settings()), listing_of(after)), ElementsAre("server.threads 0 -> 2"));
}

TEST(Difference, AKeyThatAnOlderWeirDoesNotKnowIsSaidToBeNew) {
  auto before = listing_of(settings());
  before.front().keys.pop_back();
  EXPECT_THAT(difference(before, listing_of(settings())), ElementsAre("discovery.complete is new: false"));
}

/// The processor's time that an action takes at least, of some tries.
double least_cpu_seconds(const std::function<void()>& action) {
  double least = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::clock();
    action();
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

TEST(Difference, OfManyKeysCostsAsMuchForEachAsOfFew) {
  const auto seconds = [](int keys, int replicas) {
    auto before = settings(), after = settings();
    auto old_keys = before.server.keys.all(), new_keys = old_keys;
    for (int i = 0; i < keys; ++i) {
      ClientKey key;
      key.name = "b" + std::to_string(i);
      old_keys.push_back(key);
      key.name[0] = i % 2 == 0 ? 'a' : 'b';
      new_keys.push_back(key);
    }
    before.server.keys = old_keys;
    after.server.keys = new_keys;
    for (int i = 0; i < replicas; ++i) {
      before.pools[0].replicas.push_back(replica("b" + std::to_string(i), 9));
      after.pools[0].replicas.push_back(replica((i % 2 == 0 ? "a" : "b") + std::to_string(i), 9));
    }
    const auto old_ones = listing_of(before), new_ones = listing_of(after);
    return least_cpu_seconds([&] {
      EXPECT_EQ(difference(old_ones, new_ones).size(), static_cast<std::size_t>(keys + replicas));
      EXPECT_THAT(needs_restart(old_ones, new_ones), IsEmpty());
      EXPECT_THAT(cannot_tell(old_ones, new_ones), IsEmpty());
    });
  };
  EXPECT_LT(seconds(4000, 0), 9 * seconds(1000, 0)) << "four times the keys; squares would be 16";
  EXPECT_LT(seconds(0, 1000), 9 * seconds(0, 250));
}

}  // namespace
}  // namespace weir::config
