// A bad file gets exact messages, at exact places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "config/address.hpp"
#include "config/load.hpp"
#include "load_text.hpp"

namespace weir::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Returns the error of a file that has a wrong thing in this line, without the name of the file and the line.
std::string only_error(const std::string& toml, int line) {
  const auto errors = errors_in(toml);
  EXPECT_EQ(errors.size(), 1u) << toml << testing::PrintToString(errors);
  const std::string start = "weir.toml:" + std::to_string(line) + ":";
  if (errors.empty() || !errors.front().starts_with(start)) return testing::PrintToString(errors);
  return errors.front().substr(start.size());
}
std::string first_line(const std::string& line) { return only_error(line + "\n" + one_pool, 1); }
/// The line stands at the end of its replica.
std::string replica_line(const std::string& line) { return only_error(one_pool + line, 7); }

using Table = std::vector<std::pair<std::string, std::string>>;

TEST(SettingsErrors, SyntaxComesAlone) {
  EXPECT_THAT(errors_in("nonsense = 1\n[server]\nthreads = = 1\n[limits]\nconnect = -1\n"),
              ElementsAre("weir.toml:3:11: syntax error while parsing value: could not determine value type; text "
                          "stands in quotes, and so do addresses and numbers with a unit; true and false do not"));
  EXPECT_THAT(errors_in("[server]\nthreads = 1\nthreads = 2\n"),
              ElementsAre("weir.toml:3:11: syntax error while parsing key-value pair: cannot redefine existing integer "
                          "'threads'; it is there already; remove one, or write the header of the next table between "
                          "them"));
  EXPECT_THAT(errors_in("a = \"\xff\""),
              ElementsAre("weir.toml:1:5: syntax error: Encountered invalid utf-8 sequence; save the file as UTF-8"));
}

TEST(SettingsErrors, AllOthersComeTogetherInOrderOfLine) {
  EXPECT_THAT(
      errors_in("[[pool]]\n"
                "policy = 'fastest'\n"
                "[[pool.replica]]\n"
                "wieght = 2\n"
                "name = 'gpu 0'\n"
                "url = 'ftp://gpu0'\n"
                "[server]\n"
                "threads = -1\n"
                "[limits]\n"
                "request_body = '16M'\n"
                "connect = -3\n"
                "\n"
                "[mirrors]\n"),
      ElementsAre(
          "weir.toml:1:1: [[pool]]: name is missing; metrics and log need it, such as name = \"chat\"",
          "weir.toml:2:10: [[pool]] policy = \"fastest\": must be one of \"least_queued_tokens\", "
          "\"round_robin\", \"random\", \"least_requests\", \"power_of_two\"",
          "weir.toml:4:1: [[pool.replica]] wieght: unknown key; did you mean weight?",
          "weir.toml:5:8: [[pool.replica]] name = \"gpu 0\": must be a name in quotes: 1 to 64 letters, digits, "
          "\".\", \"_\" and \"-\", beginning with a letter or digit",
          "weir.toml:6:7: [[pool.replica]] url = \"ftp://gpu0\": must begin with http://, https:// or unix:/, such "
          "as \"http://127.0.0.1:8001\" or \"unix:/run/vllm.sock\"",
          "weir.toml:8:11: [server] threads = -1: must be a whole number from 0 to 1024",
          "weir.toml:10:16: [limits] request_body = \"16M\": must be a size from 1KiB to 1GiB: a whole number of "
          "bytes, or text such as \"64KiB\", \"16MiB\", \"1MB\"",
          "weir.toml:11:11: [limits] connect = -3: must be a time from 1ms to 24h: a number of seconds, or text "
          "such as \"250ms\", \"2s\", \"5m\", \"2h\"",
          "weir.toml:13:2: mirrors: unknown key; known here are server, metrics, admin, log, limits, measure, "
          "discovery, health, engine, pool, slo, shadow, rollout"));
}

TEST(SettingsErrors, OnlyAFileHoldsSettings) {
  const std::string instead = "write the settings to a file and name that";
  EXPECT_THAT(texts_of(load_file("-")),
              ElementsAre("-: cannot read settings file: standard input is not read; " + instead));
  EXPECT_THAT(texts_of(load_file("/dev/zero")),
              ElementsAre("/dev/zero: cannot read settings file: it is a device; " + instead));
  EXPECT_THAT(texts_of(load_file("/dev/null")),
              ElementsAre("/dev/null: cannot read settings file: it is a device; " + instead));
}

TEST(SettingsErrors, UnknownKeysNameTheNearestOrAllThatAreKnown) {
  const Table table = {
      {"sever.threads = 1", "1: sever: unknown key; did you mean server?"},
      {"threads = 1",
       "1: threads: unknown key; known here are server, metrics, admin, log, limits, measure, "
       "discovery, health, engine, pool, slo, shadow, rollout"},
      {"limits.conect = 1", "8: [limits] conect: unknown key; did you mean connect?"},
      {"limits.Drain-Delay = 1", "8: [limits] Drain-Delay: unknown key; did you mean drain_delay?"},
      {"log.zzzz = 'x'", "5: [log] zzzz: unknown key; known here are requests, level, format, instance, prefixes"},
      {"'a b' = 1",
       "1: \"a b\": unknown key; known here are server, metrics, admin, log, limits, measure, "
       "discovery, health, engine, pool, slo, shadow, rollout"}};
  for (const auto& [line, error] : table) EXPECT_EQ(first_line(line), error);
  EXPECT_EQ(replica_line("uri = 'x'"), "1: [[pool.replica]] uri: unknown key; did you mean url?");
  EXPECT_EQ(replica_line("cost = 1"), "1: [[pool.replica]] cost: unknown key; did you mean cost_per_hour?");
}

TEST(SettingsErrors, TablesAndListsOfTablesAreToldApart) {
  EXPECT_EQ(first_line("server = 1"), "10: server = 1: must be a table; write [server] on a line of its own");
  EXPECT_EQ(first_line("[[limits]]"), "1: limits = [...]: must be a table; write [limits] on a line of its own");
  EXPECT_THAT(
      errors_in("[pool]\nname = 'chat'\n"),
      ElementsAre("weir.toml:1:1: pool = {...}: must be a list of tables; write [[pool]] on a line of its own"));
  EXPECT_THAT(
      errors_in("pool = ['chat']\n"),
      ElementsAre("weir.toml:1:9: pool = \"chat\": must be a list of tables; write [[pool]] on a line of its own"));
  EXPECT_THAT(
      errors_in("[[pool]]\nname = 'chat'\n[pool.replica]\nname = 'gpu0'\n"),
      ElementsAre("weir.toml:3:1: [[pool]] replica = {...}: must be a list of tables; write [[pool.replica]] on a "
                  "line of its own"));
}

TEST(SettingsErrors, AddressesToListenOn) {
  const std::string expected =
      "must be a numeric address and a port, such as \"127.0.0.1:8080\", \"[::1]:8080\", or \"0.0.0.0:8080\" for every "
      "interface; or the path of a Unix-domain socket, such as \"unix:/run/weir/weir.sock\"";
  const Table table = {
      {"server.listen = 8080", "17: [server] listen = 8080: " + expected},
      {"server.listen = ''", "17: [server] listen = \"\": " + expected},
      {"server.listen = ':8080'", "17: [server] listen = \":8080\": " + expected},
      {"server.listen = 'gpu-box:8080'", "17: [server] listen = \"gpu-box:8080\": " + expected},
      {"server.listen = ['127.0.0.1:1', '::1:2']", "33: [server] listen = \"::1:2\": " + expected},
      {"server.listen = '127.0.0.1:65536'",
       "17: [server] listen = \"127.0.0.1:65536\": the port must be a whole number from 0 to 65535"},
      {"server.listen = []", "17: [server] listen = []: must hold at least one address, such as \"127.0.0.1:8080\""},
      {"metrics.listen = '9090'", "18: [metrics] listen = \"9090\": " + expected + "; or \"\" to switch it off"},
      {"metrics.listen = ['127.0.0.1:1']", "18: [metrics] listen = [...]: " + expected + "; or \"\" to switch it off"},
      {"admin.listen = '0.0.0.0:9091'", "16: [admin] listen = \"0.0.0.0:9091\": " + std::string(admin_needs_a_token) +
                                            "; or write \"\" to switch the "
                                            "listener off"},
      {"server.listen = 'unix:weir.sock'",
       "17: [server] listen = \"unix:weir.sock\": the path of a Unix-domain socket must be absolute, such as "
       "\"unix:/run/weir/weir.sock\""}};
  for (const auto& [line, error] : table) EXPECT_EQ(first_line(line), error);
}

TEST(SettingsErrors, AnAdminListenerElsewhereNeedsAToken) {
  for (const auto* local : {"127.0.0.1:1", "[::1]:1", "unix:/run/admin.sock"})
    EXPECT_THAT(errors_in("admin.listen = '" + std::string(local) + "'\n" + one_pool), IsEmpty()) << local;
  EXPECT_EQ(errors_in("admin.listen = '10.0.0.5:1'\n" + one_pool).size(), 1u);
  EXPECT_THAT(errors_in("admin.listen = '10.0.0.5:1'\nadmin.token = 'abcdefghijklmnop'\n" + one_pool), IsEmpty());
}

TEST(SettingsErrors, Doors) {
  const std::string network =
      "must be an address or a network, such as \"10.0.0.7\", \"10.0.0.0/8\" or \"fd00::/8\"; or \"unix:\" for all "
      "who come by a Unix-domain socket";
  const std::string origin =
      "must be the origin of a page as browsers write it, scheme, host and a port that is not the scheme's own, in "
      "lower case and without a path, such as \"https://app.example\" or \"http://localhost:3000\"; or \"*\" for all";
  const Table table = {
      {"server.trusted_proxies = 'lb'", "26: [server] trusted_proxies = \"lb\": " + network},
      {"server.trusted_proxies = 7", "26: [server] trusted_proxies = 7: " + network},
      {"server.trusted_proxies = ['10.0.0.0/8', '10.1.2.3/16']",
       "41: [server] trusted_proxies = \"10.1.2.3/16\": has bits behind those that count; write \"10.1.0.0/16\" for "
       "this network"},
      {"server.cors_origins = 'app.example'", "23: [server] cors_origins = \"app.example\": " + origin},
      {"server.cors_origins = 'https://app.example/'",
       "23: [server] cors_origins = \"https://app.example/\": " + origin},
      {"server.cors_origins = 'https://App.example'", "23: [server] cors_origins = \"https://App.example\": " + origin},
      {"server.cors_origins = 'https://a.example:443'",
       "23: [server] cors_origins = \"https://a.example:443\": " + origin},
      {"server.cors_origins = ['*', 'https://a.example']",
       "23: [server] cors_origins = [...]: \"*\" means every origin and stands alone; write [\"*\"], or name origins"},
      {"limits.connections_per_address = -1",
       "34: [limits] connections_per_address = -1: must be a whole number from 0 to 1000000"}};
  for (const auto& [line, error] : table) EXPECT_EQ(first_line(line), error);
}

TEST(SettingsErrors, ListenersMayNotCollide) {
  EXPECT_EQ(
      first_line("server.listen = ['127.0.0.1:1', '127.0.0.1:1']"),
      "33: [server] listen = \"127.0.0.1:1\": cannot be listened on together with \"127.0.0.1:1\", which is [server] "
      "listen in line 1; give one of them another port");
  EXPECT_EQ(
      first_line("server.listen = 'localhost:9090'"),
      "17: [server] listen = \"127.0.0.1:9090\": cannot be listened on together with \"127.0.0.1:9090\", which is "
      "[metrics] listen by default; give one of them another port");
  EXPECT_EQ(first_line("metrics.listen = '0.0.0.0:8080'"),
            "18: [metrics] listen = \"0.0.0.0:8080\": cannot be listened on together with \"127.0.0.1:8080\", which is "
            "[server] listen by default; give one of them another port");
  EXPECT_THAT(errors_in("admin.listen = '127.0.0.1:1'\nserver.listen = '127.0.0.1:1'\n" + one_pool),
              ElementsAre("weir.toml:2:17: [server] listen = \"127.0.0.1:1\": cannot be listened on together with "
                          "\"127.0.0.1:1\", which is [admin] listen in line 1; give one of them another port"));
  EXPECT_EQ(first_line("server.listen = ['unix:/run/a', 'unix:/run/a']"),
            "33: [server] listen = \"unix:/run/a\": cannot be listened on together with \"unix:/run/a\", which is "
            "[server] listen in line 1; give one of them another path");
  // A listener that is wrong itself says only that.
  EXPECT_EQ(errors_in("metrics.listen = 'x'\nserver.listen = '127.0.0.1:9090'\n" + one_pool).size(), 1u);
}

TEST(SettingsErrors, Values) {
  const std::string time = "a number of seconds, or text such as \"250ms\", \"2s\", \"5m\", \"2h\"";
  const std::string size = "a whole number of bytes, or text such as \"64KiB\", \"16MiB\", \"1MB\"";
  const std::string path =
      "must be a path such as \"/v1/chat/completions\", without \"?\", \"#\" and spaces; \"default\" for the routes "
      "that "
      "weir knows; or \"*\" alone for every path";
  const Table table = {
      {"server.threads = '4'", "18: [server] threads = \"4\": must be a whole number from 0 to 1024"},
      {"server.threads = 1.5", "18: [server] threads = 1.5: must be a whole number from 0 to 1024"},
      {"server.threads = 1025", "18: [server] threads = 1025: must be a whole number from 0 to 1024"},
      {"server.paths = 'v1'", "16: [server] paths = \"v1\": " + path},
      {"server.paths = ['/v1?x']", "17: [server] paths = \"/v1?***\": " + path},
      {"server.paths = ['/a b']", "17: [server] paths = \"/a b\": " + path},
      {"server.paths = ['*', '/v1']",
       "16: [server] paths = [...]: \"*\" means every path and stands alone; write [\"*\"], or leave it out"},
      {"server.open = 'no'", "15: [server] open = \"no\": must be true or false, without quotes"},
      {"log.requests = false",
       "16: [log] requests = false: must be one line of text in quotes, at most 4096 bytes long"},
      {"log.level = 'warn'",
       "13: [log] level = \"warn\": must be one of \"trace\", \"debug\", \"info\", \"warning\", \"error\"; did you "
       "mean "
       "\"warning\"?"},
      {"log.instance = \"a\\nb\"",
       "16: [log] instance = \"a\\u000Ab\": must be one line of text in quotes, at most 128 bytes long"},
      {"limits.request_body = 1023", "23: [limits] request_body = 1023: must be a size from 1KiB to 1GiB: " + size},
      {"limits.request_body = 1e5", "23: [limits] request_body = 1e+05: must be a size from 1KiB to 1GiB: " + size},
      {"limits.connect = 0", "18: [limits] connect = 0: must be a time from 1ms to 24h: " + time},
      {"limits.connect = '2'", "18: [limits] connect = \"2\": must be a time from 1ms to 24h: " + time},
      {"limits.connect = nan", "18: [limits] connect = nan: must be a time from 1ms to 24h: " + time},
      {"limits.connect = inf", "18: [limits] connect = inf: must be a time from 1ms to 24h: " + time},
      {"limits.connect = '25h'", "18: [limits] connect = \"25h\": must be a time from 1ms to 24h: " + time},
      {"limits.connect = 10:00:00", "18: [limits] connect = a date or time: must be a time from 1ms to 24h: " + time},
      {"limits.drain_delay = -0.5", "22: [limits] drain_delay = -0.5: must be a time from 0 to 24h: " + time},
      {"limits.retry_budget = 1.5", "23: [limits] retry_budget = 1.5: must be a number from 0 to 1"},
      {"measure.clock = 'kernal'",
       "17: [measure] clock = \"kernal\": must be one of \"kernel\", \"read\"; did you mean \"kernel\"?"},
      {"measure.inject_usage = 1", "24: [measure] inject_usage = 1: must be true or false, without quotes"}};
  for (const auto& [line, error] : table) EXPECT_EQ(first_line(line), error);
}

TEST(SettingsErrors, ValuesOfReplicas) {
  const Table table = {
      {"weight = 0", "10: [[pool.replica]] weight = 0: must be a number from 0.001 to 1000"},
      {"cost_per_hour = -1", "17: [[pool.replica]] cost_per_hour = -1: must be a number from 0 to 1000000"},
      {"max_context = 1.0", "15: [[pool.replica]] max_context = 1.0: must be a whole number from 1 to 1000000000000"},
      {"max_context_refuses = true",
       "23: [[pool.replica]] max_context_refuses = true: says to refuse what is longer than max_context, which this "
       "replica does not set; set max_context to the tokens that a request may have, or leave this out"},
      {"config = ''",
       "10: [[pool.replica]] config = \"\": must be one line of text in quotes, not empty and at most 128 bytes long"},
      {"gpu = []", "7: [[pool.replica]] gpu = []: must be one line of text in quotes, at most 128 bytes long"}};
  for (const auto& [line, error] : table) EXPECT_EQ(replica_line(line), error);
}

TEST(SettingsErrors, OfAPool) {
  const std::string fair =
      ": must be \"key\" for the client's key, \"address\" for its address, or \"header:NAME\" for a header of "
      "its "
      "request, such as \"header:x-user\"";
  const std::string session =
      ": must be \"key\" for the client's key, \"header:NAME\" for a header of its request, such as "
      "\"header:x-session-id\", or a member of its JSON: \"body:user\", \"body:session_id\", "
      "\"body:safety_identifier\", \"body:prompt_cache_key\"";
  const std::pair<std::string, std::string> rows[] = {
      {"queue = -1", "9: [[pool]] queue = -1: must be a whole number from 0 to 100000"},
      {"fair_by = 'keys'", "11: [[pool]] fair_by = \"keys\"" + fair},
      {"fair_by = 'header:'", "11: [[pool]] fair_by = \"header:\"" + fair},
      {"fair_by = 'header:x y'", "11: [[pool]] fair_by = \"header:x y\"" + fair},
      {"fair_by = 'header:x_y'", "11: [[pool]] fair_by = \"header:x_y\"" + fair},
      {"fair_by = 'address '", "11: [[pool]] fair_by = \"address \"" + fair},
      {"session = 'user'", "11: [[pool]] session = \"user\"" + session},
      {"session = ['header:x', 'body:users']", "24: [[pool]] session = \"body:users\"" + session},
      {"session = 'header:x y'", "11: [[pool]] session = \"header:x y\"" + session},
      {"session = 'key'",
       "11: [[pool]] session = \"key\": clients have no keys; set server.api_keys, or name a header or a member"},
      {"prefix_aware = 1", "16: [[pool]] prefix_aware = 1: must be true or false, without quotes"},
      {"queue_tim = 1", "1: [[pool]] queue_tim: unknown key; did you mean queue_time?"},
  };
  for (const auto& [line, error] : rows) {
    const auto at = std::string("weir.toml:3:");
    EXPECT_THAT(errors_in("[[pool]]\nname = 'chat'\n" + line + "\nreplica = [{name = 'r', url = 'http://h'}]\n"),
                ElementsAre(at + error));
  }
}

TEST(SettingsErrors, ThereMustBePoolsAndReplicas) {
  const auto none =
      "weir.toml: no [[pool]] in the file; add one with a name, and with a [[pool.replica]] with name and url";
  EXPECT_THAT(errors_in(""), ElementsAre(none));
  EXPECT_THAT(errors_in("pool = []"), ElementsAre(none));
  EXPECT_THAT(
      errors_in("\n[[pool]]\nname = 'chat'\n"),
      ElementsAre("weir.toml:2:1: [[pool]]: has no replica; add a [[pool.replica]] with name and url below it"));
  EXPECT_THAT(
      errors_in("[[pool]]\nname = 'chat'\n[[pool.replica]]\n"),
      ElementsAre("weir.toml:3:1: [[pool.replica]]: name is missing; metrics and log need it, such as name = \"gpu0\"",
                  "weir.toml:3:1: [[pool.replica]]: url is missing; say where it listens, such as url = "
                  "\"http://127.0.0.1:8001\""));
}

/// Returns a pool with one replica, in five lines: the name of the pool is in the second, the models are in the third.
std::string pool(const std::string& name, const std::string& models, const std::string& replica, int port) {
  return "[[pool]]\nname = '" + name + "'\nmodels = " + models + "\nreplica = [{name = '" + replica +
         "', url = 'http://h:" + std::to_string(port) + "'}]\n\n";
}

TEST(SettingsErrors, NamesAreUniqueInTheFile) {
  EXPECT_THAT(errors_in(pool("chat", "['a']", "gpu0", 1) + pool("chat", "['b']", "gpu1", 2)),
              ElementsAre("weir.toml:7:8: [[pool]] name = \"chat\": is taken in line 2; names are unique in the file"));
  EXPECT_THAT(
      errors_in(pool("one", "['a']", "gpu0", 1) + pool("two", "['b']", "gpu0", 2)),
      ElementsAre(
          "weir.toml:9:20: [[pool.replica]] name = \"gpu0\": is taken in line 4; names are unique in the file"));
  EXPECT_THAT(errors_in(pool("one", "['a']", "one", 1) + pool("two", "['b']", "two", 2)), IsEmpty())
      << "a pool and a replica may share a name";
}

TEST(SettingsErrors, EveryPoolAndEveryModelCanBeReached) {
  EXPECT_THAT(errors_in(pool("one", "['a']", "gpu0", 1) + pool("two", "[]", "gpu1", 2)), IsEmpty());
  EXPECT_THAT(
      errors_in(pool("one", "[]", "gpu0", 1) + pool("two", "['a']", "gpu1", 2) + pool("three", "[]", "gpu2", 3)),
      ElementsAre("weir.toml:6:1: [[pool]]: can never be chosen: the pool in line 1 takes any model and is tried "
                  "first; put that one last, or give it models",
                  "weir.toml:11:1: [[pool]]: can never be chosen: the pool in line 1 takes any model and is tried "
                  "first; put that one last, or give it models"));
  EXPECT_THAT(
      errors_in(pool("one", "['a', 'b']", "gpu0", 1) + pool("two", "['c', 'b']", "gpu1", 2)),
      ElementsAre("weir.toml:8:16: [[pool]] models = \"b\": never comes here: the pool in line 1 has this model and "
                  "is tried first; remove it from one of them"));
  EXPECT_THAT(errors_in(pool("one", "['a', 'a']", "gpu0", 1)),
              ElementsAre("weir.toml:3:16: [[pool]] models = \"a\": is in this list twice; remove one"));
  // The errors tell pools apart even if they share a line.
  EXPECT_THAT(errors_in("pool = [{name='p', models='a', replica=[{name='r', url='http://h'}]}, "
                        "{name='q', models='a', replica=[{name='s', url='http://h'}]}]"),
              ElementsAre(HasSubstr("never comes here: the pool in line 1 has this model")));
}

TEST(SettingsErrors, ObjectivesNameThemselvesTheirPoolAndAThreshold) {
  const auto slo = [](const std::string& lines) { return errors_in(one_pool + "[[slo]]\n" + lines); };
  EXPECT_THAT(slo("name = 'chat'\npool = 'chat'\nttft_client = '1s'\n"), IsEmpty());
  EXPECT_THAT(slo(""),
              ElementsAre("weir.toml:7:1: [[slo]]: name is missing; metrics need it, such as name = \"chat\"",
                          "weir.toml:7:1: [[slo]]: pool is missing; say whose requests it is about",
                          "weir.toml:7:1: [[slo]]: has no threshold; set at least one of ttft_client, ttft, tpot and "
                          "e2e, such as ttft_client = \"1s\""));
  EXPECT_THAT(slo("name = 'a'\npool = 'chta'\ne2e = 1\n"),
              ElementsAre("weir.toml:9:8: [[slo]] pool = \"chta\": is no pool of the file; did you mean \"chat\"?"));
  EXPECT_THAT(slo("name = 'a'\npool = 'embeddings'\ne2e = 1\n"),
              ElementsAre("weir.toml:9:8: [[slo]] pool = \"embeddings\": is no pool of the file; there are \"chat\""));
  EXPECT_THAT(slo("name = 'a'\npool = 'chat'\ne2e = 1\n[[slo]]\nname = 'a'\npool = 'chat'\ne2e = 2\n"),
              ElementsAre("weir.toml:12:8: [[slo]] name = \"a\": is taken in line 8; names are unique in the file"));
  EXPECT_THAT(slo("name = 'a'\npool = 'chat'\ntpot = 0\n"),
              ElementsAre(HasSubstr("[[slo]] tpot = 0: must be a time from 1ms to 24h: a number of seconds")))
      << "a wrong threshold is one";
  EXPECT_THAT(slo("name = 'a'\npool = 'chat'\nttf = 1\ntpot = 1\n"),
              ElementsAre("weir.toml:10:1: [[slo]] ttf: unknown key; did you mean ttft?"));
  EXPECT_THAT(errors_in("[slo]\n" + one_pool),
              ElementsAre("weir.toml:1:1: slo = {...}: must be a list of tables; write [[slo]] on a line of its own"));
  EXPECT_EQ(errors_in("[[slo]]\nname = 'a'\npool = 'chat'\ne2e = 1\n").size(), 1U) << "without a pool: only that";
}

TEST(SettingsErrors, ShadowsNameThePoolAndTheRequestsThatTheyGet) {
  const auto shadow = [](const std::string& lines) { return errors_in(one_pool + "[[shadow]]\n" + lines); };
  const std::string named = "name = 's'\nof = 'chat'\n";
  const std::string to = "replica = [{ name = 'c', url = 'http://10.0.0.9' }]\n";
  EXPECT_THAT(shadow(named + "twin = 'gpu0'\n" + to), IsEmpty());
  EXPECT_THAT(shadow(named + "sample = 0.1\n" + to), IsEmpty());
  EXPECT_THAT(shadow(""),
              ElementsAre("weir.toml:7:1: [[shadow]]: name is missing; metrics and log need it, such as name = \"fp8\"",
                          "weir.toml:7:1: [[shadow]]: of is missing; say which pool's requests are mirrored",
                          HasSubstr("says not which requests it gets; set twin = \"REPLICA\" for all that one "
                                    "replica gets, or sample = 0.1 for a share of the pool"),
                          HasSubstr("has no replica; add a [[shadow.replica]]")));
  EXPECT_THAT(shadow("name = 's'\nof = 'chta'\nsample = 0.1\n" + to),
              ElementsAre(HasSubstr("[[shadow]] of = \"chta\": is no pool of the file; did you mean \"chat\"?")));
  EXPECT_THAT(shadow(named + "twin = 'gpu1'\n" + to),
              ElementsAre(HasSubstr("twin = \"gpu1\": is no replica of the pool \"chat\"; did you mean \"gpu0\"?")));
  EXPECT_THAT(shadow(named + "twin = 'gpu0'\nsample = 0.1\n" + to),
              ElementsAre(HasSubstr("sample = 0.1: twin is set as well")));
  EXPECT_THAT(shadow(named + "sample = 0.1\ncontrol = true\n" + to),
              ElementsAre(HasSubstr("control = true: needs twin")));
  EXPECT_THAT(shadow(named + "twin = 'gpu0'\nreplica = [{ name = 'c', url = 'http://a' }, { name = 'd', url = "
                             "'http://b' }]\n"),
              ElementsAre(HasSubstr("is a twin and has more than one replica")));
  EXPECT_THAT(shadow(named + "twin = 'gpu0'\nreplica = [{ name = 'gpu0', url = 'http://a' }]\n"),
              ElementsAre(HasSubstr("[[shadow.replica]] name = \"gpu0\": is taken in line")));
  EXPECT_THAT(shadow(named + "twin = 'gpu0'\n" + to + "[[shadow]]\n" + named +
                     "twin = 'gpu0'\nreplica = [{ name = 'd', url = 'http://b' }]\n"),
              ElementsAre(HasSubstr("[[shadow]] name = \"s\": is taken in line")));
  EXPECT_THAT(
      shadow(named + "twin = 'gpu0'\nexclude_keys = 'sk-1'\n" + to),
      ElementsAre(HasSubstr("[[shadow]] exclude_keys: must be the SHA-256 of a client's key in 64 hex digits")));
  for (const std::string value : {"inf", "-inf", "nan", "2026-11-27", "[1]"}) {
    EXPECT_THAT(shadow(named + "twin = 'gpu0'\nset = { stop = " + value + " }\n" + to),
                ElementsAre(HasSubstr("must hold text, numbers, true or false")));
  }
  EXPECT_THAT(shadow(named + "twin = 'gpu0'\nset = 'model'\n" + to),
              ElementsAre(HasSubstr("[[shadow]] set = \"model\": must be a table")));
}

TEST(SettingsErrors, TheMemoryForBuffersHoldsALargestBody) {
  EXPECT_THAT(errors_in("limits.buffer_memory = '8MiB'\n" + one_pool),
              ElementsAre("weir.toml:1:24: [limits] buffer_memory = \"8MiB\": is less than request_body, so that the "
                          "largest body could not be read; raise this, or lower that"));
  EXPECT_THAT(errors_in("limits.request_body = '1GiB'\n" + one_pool),
              ElementsAre("weir.toml:1:23: [limits] request_body = \"1GiB\": is more than buffer_memory (512MiB by "
                          "default), so that such a body could not be read; lower this, or raise that"));
  EXPECT_THAT(errors_in("limits = { request_body = '8MiB', buffer_memory = '8MiB' }\n" + one_pool), IsEmpty());
}

TEST(SettingsErrors, UsageOnEveryChunkNeedsUsage) {
  const std::string says = "asks for usage on every chunk, but inject_usage = false ";
  EXPECT_THAT(errors_in("[measure]\ninject_usage = false\ninject_continuous_usage = true\n" + one_pool),
              ElementsAre("weir.toml:3:27: [measure] inject_continuous_usage = true: " + says +
                          "says not to ask for usage; set that to true, or leave this out"));
  EXPECT_THAT(errors_in("measure.inject_continuous_usage = true\n" + one_pool), IsEmpty());
}

TEST(SettingsErrors, KeysOfEarlierVersionsSayWhatHoldsNow) {
  const auto file_with = [](std::string_view table, const std::string& line) {
    if (table == "replica") return one_pool + line;
    if (table == "pool") return "[[pool]]\nname = 'p'\n" + line + "replica = [{name = 'r', url = 'http://h'}]\n";
    if (table == "shadow" || table == "rollout") return one_pool + "[[" + std::string(table) + "]]\n" + line;
    return std::string(table) + '.' + line + one_pool;
  };
  for (const auto& [table, key, now] : gone_keys) {
    const auto errors = errors_in(file_with(table, std::string(key) + " = 1\n"));
    EXPECT_THAT(errors, testing::Contains(
                            HasSubstr("] " + std::string(key) + ": is no setting any more; " + std::string(now))));
    EXPECT_THAT(errors, Not(testing::Contains(HasSubstr("unknown key"))));
  }
  EXPECT_THAT(errors_in("[engine.names]\nrunning = 'x'\n" + one_pool),
              ElementsAre("weir.toml:1:9: [engine] names: is no setting any more; weir knows the names of the figures "
                          "of all engines"));
  EXPECT_THAT(errors_in("[[pool]]\nname = 'p'\nhealth.up_after = 2\nreplica = [{name = 'r', url = 'http://h'}]\n"),
              ElementsAre(HasSubstr("[pool.health] up_after: is no setting any more; one passed probe")));
}

TEST(SettingsErrors, OneReplicaHasOneNameInItsPool) {
  EXPECT_THAT(errors_in(one_pool + "[[pool.replica]]\nname = 'gpu1'\nurl = 'http://127.0.0.1:8001/'\n"),
              ElementsAre("weir.toml:9:7: [[pool.replica]] url = \"http://127.0.0.1:8001/\": is taken in line 5; one "
                          "replica under two names would get twice its share"));
  EXPECT_THAT(errors_in(one_pool + "[[pool.replica]]\nname = 'gpu1'\nurl = 'http://127.0.0.1:8001/second'\n"),
              IsEmpty());
}

TEST(SettingsErrors, WeirIsNoReplicaOfItself) {
  const auto replica = [](const std::string& url) { return "[[pool.replica]]\nname = 'gpu1'\nurl = '" + url + "'\n"; };
  EXPECT_THAT(errors_in(one_pool + replica("http://localhost:8080")),
              ElementsAre("weir.toml:9:7: [[pool.replica]] url = \"http://localhost:8080\": is weir itself, which has "
                          "\"127.0.0.1:8080\" as [server] listen; give the replica's own port, or let weir listen on "
                          "another"));
  EXPECT_THAT(errors_in("server.listen = '0.0.0.0:8080'\n" + one_pool + replica("http://gpu-box:8080")), IsEmpty());
}

TEST(SettingsErrors, ShowNoSecrets) {
  for (const auto& text :
       {one_pool + "[[pool.replica]]\nname = 'gpu1'\nurl = 'http://me:s3cret@gpu1'\n",
        one_pool + "[[pool.replica]]\nname = 'gpu1'\nurl = 'http://me:s3c/s3cret@gpu1:x'\n",
        "admin.token = 's3cret s3cret'\n" + one_pool, "server.listen = 'http://me:s3cret@h'\n" + one_pool,
        "'http://me:s3cret@h' = 1\n" + one_pool,
        one_pool + "[[shadow]]\nname = 's'\nof = 'chat'\ntwin = 'gpu0'\nexclude_keys = ['sk-s3cret']\n"
                   "replica = [{ name = 'c', url = 'http://a' }]\n"}) {
    const auto errors = errors_in(text);
    EXPECT_EQ(errors.size(), 1u) << text;
    for (const auto& error : errors) EXPECT_THAT(error, Not(HasSubstr("s3cret")));
  }
}

TEST(SettingsErrors, ShowNeitherAClientsKeyNorItsHashWhereverItStands) {
  const std::string key = "weir-s3cret6789_abcdefghijklmnopq-ABCDEFGHIJKLMN";
  const std::string hash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
  for (const auto& [secret, shown] : {std::pair(key, "weir-..."), {hash, "01234567..."}}) {
    for (const auto& text : {"log.level = '" + secret + "'\n" + one_pool, secret + " = 1\n" + one_pool,
                             one_pool + "[[slo]]\nname = 'fast'\npool = '" + secret + "'\nttft = 1\n"}) {
      const auto errors = errors_in(text);
      EXPECT_EQ(errors.size(), 1u) << text;
      for (const auto& error : errors)
        EXPECT_THAT(error, AllOf(HasSubstr(shown), Not(HasSubstr(secret.substr(0, 20)))));
    }
    EXPECT_THAT(errors_in("[[pool]]\nname = 'chat'\n" + secret + "\n"),
                ElementsAre(Not(HasSubstr(secret.substr(0, 20)))));
  }
}

TEST(SettingsErrors, StayShortAndOnOneLine) {
  const auto quoted = [](const std::string& text) {
    return first_line("log.level = \"" + text + "\"").substr(std::string("13: [log] level = ").size());
  };
  EXPECT_TRUE(quoted(std::string(100, 'x')).starts_with('"' + std::string(80, 'x') + "...\": must"));
  // The 80th byte is in the middle of a character of two.
  std::string umlauts = "x";
  for (int i = 0; i < 60; ++i) umlauts += "\xc3\xa4";
  EXPECT_TRUE(quoted(umlauts).starts_with('"' + umlauts.substr(0, 79) + "...\": must"));
  EXPECT_TRUE(quoted("\\u001b[31m\\u007f").starts_with("\"\\u001B[31m\\u007F\": must"));
}

TEST(SettingsErrors, AReplicaThatExpandsHasANameToLookUpAndKeepsItsMembersNames) {
  const std::string begin = "[[pool]]\nname = \"chat\"\n[[pool.replica]]\nname = \"gpu\"\nexpand = true\nurl = ";
  const std::string other = "[[pool.replica]]\nurl = \"http://other\"\nname = ";
  EXPECT_THAT(errors_in(begin + "\"http://engines.example:8000\"\n" + other + "\"gpu-x1\"\n"), IsEmpty());
  EXPECT_THAT(
      errors_in(begin + "\"http://engines.example:8000\"\n" + other + "\"gpu-12\"\n"),
      ElementsAre("weir.toml:9:8: [[pool.replica]] name = \"gpu-12\": is a name for an address of \"gpu\", which "
                  "has expand = true in line 5; rename one of them"));
  for (const std::string host : {"10.0.0.1", "[fd00::1]"}) {
    const auto errors = errors_in(begin + "\"http://" + host + ":8000\"\n");
    ASSERT_EQ(errors.size(), 1u) << host;
    EXPECT_THAT(errors[0], testing::HasSubstr("is an address; give the url a host's name, or leave this out"));
  }
}

TEST(SettingsErrors, ANameserverIsAnIpv4Address) {
  EXPECT_THAT(errors_in("[discovery]\nnameserver = \"[::1]:53\"\n" + one_pool),
              ElementsAre("weir.toml:2:14: [discovery] nameserver = \"[::1]:53\": must be an IPv4 address and a port, "
                          "such as \"127.0.0.1:8600\""));
  EXPECT_EQ(settings_in("[discovery]\nnameserver = \"127.0.0.1:8600\"\n" + one_pool).discovery.nameserver->port, 8600);
}

TEST(SettingsErrors, FilesThatCannotBeReadSayWhy) {
  const Folder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  folder.file("large.toml", std::string(1024 * 1024 + 1, '\n'));
  const std::pair<std::string, std::string> rows[] = {
      {"none.toml", "No such file or directory"},
      {".", "it is a directory; name the file in it, such as \"" + folder / "." + "/weir.toml\""},
      {"pipe", "it is a pipe; write the settings to a file and name that"},
      {"large.toml", "it is larger than 1 MiB"}};
  for (const auto& [name, why] : rows)
    EXPECT_THAT(texts_of(load_file(folder / name)), ElementsAre(folder / name + ": cannot read settings file: " + why));
  const auto wrong = folder.file("wrong.toml", "\nx = 1\n" + one_pool), good = folder.file("good.toml", one_pool);
  EXPECT_THAT(texts_of(load_file(wrong)), ElementsAre(testing::StartsWith(wrong + ":2:1: x: unknown key")));
  std::filesystem::create_symlink(good, folder / "link.toml");
  EXPECT_THAT(texts_of(load_file(good)), IsEmpty());
  EXPECT_THAT(texts_of(load_file(folder / "link.toml")), IsEmpty());
}

}  // namespace
}  // namespace weir::config
