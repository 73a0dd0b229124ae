// Good files have these meanings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/address.hpp"
#include "config/load.hpp"
#include "load_text.hpp"

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

/// Keys one by one: EachLine (difference_test.cpp).
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
}  // namespace weir::config
