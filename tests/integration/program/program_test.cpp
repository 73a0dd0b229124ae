// The program says what is wrong with settings it cannot use, starts, and ends.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <sstream>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string settings_with(const std::string& replicas) {
  return "[server]\nlisten = [\"127.0.0.1:" + std::to_string(free_port()) +
         "\"]\n[metrics]\nlisten = \"\"\n[admin]\nlisten = \"\"\n" +
         "[log]\nrequests = \"\"\n[[pool]]\nname = \"chat\"\n" + replicas;
}

TEST(Program, HelpAndVersionAreNoErrors) {
  const auto help = run({weir_program(), "--help"});
  EXPECT_EQ(help.exit.code, 0);
  EXPECT_THAT(help.output, AllOf(HasSubstr("serve"), HasSubstr("check")));
  const auto version = run({weir_program(), "--version"});
  EXPECT_EQ(version.exit.code, 0);
  EXPECT_THAT(version.output, HasSubstr("0."));
}

TEST(Program, WrongUsageIsTold) {
  EXPECT_EQ(run({weir_program()}).exit.code, 2);
  EXPECT_EQ(run({weir_program(), "swim"}).exit.code, 2);
  EXPECT_EQ(run({weir_program(), "serve", "--confg", "x"}).exit.code, 2);
}

TEST(Program, AMissingSettingsFileIsNamed) {
  for (const auto* command : {"serve", "check"}) {
    const auto done = run({weir_program(), command, "--config", "/nowhere/weir.toml"});
    EXPECT_EQ(done.exit.code, 2);
    EXPECT_THAT(done.output, HasSubstr("/nowhere/weir.toml"));
  }
}

TEST(Program, SettingsThatCannotBeUsedAreToldWithTheirLine) {
  const struct {
    std::string replicas;
    std::vector<std::string> told;
  } wrong[]{
      {"[[pool.replica]]\nname = \"a\"\nurl = \"ftp://x\"\n", {"weir.toml:13:", "ftp://x"}},
      {"[[pool.replica]]\nname = \"a\"\nurl = \"http://h:1\"\n[[pool.replica]]\nname = \"a\"\nurl = \"http://h:2\"\n",
       {"weir.toml:15:", "\"a\""}},
      {"[[pool.replica]]\nname = \"a\"\nurl = \"http://h:1\"\nwieght = 2\n", {"weir.toml:14:", "wieght"}},
      {"[[pool.replica]\n", {"weir.toml:11:"}},
  };
  for (const auto& [replicas, told] : wrong) {
    const auto done = serve_with(settings_with(replicas));
    EXPECT_EQ(done.exit.code, 2) << done.output;
    for (const auto& words : told) EXPECT_THAT(done.output, HasSubstr(words));
  }
}

TEST(Program, CheckSaysAllThatIsWrongAtOnceAndNothingIsFineToo) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "weir.toml";
  write_file(file, settings_with("[[pool.replica]]\nname = \"a\"\nurl = \"http://h:1\"\n"));
  EXPECT_EQ(run({weir_program(), "check", "--config", file.string()}).exit.code, 0);

  write_file(file,
             settings_with("polisy = \"random\"\n[[pool.replica]]\nname = \"a\"\nurl = \"nonsense\"\nweight = 0\n"));
  const auto done = run({weir_program(), "check", "--config", file.string()});
  EXPECT_EQ(done.exit.code, 2);
  EXPECT_THAT(done.output, AllOf(HasSubstr("polisy"), HasSubstr("nonsense"), HasSubstr("weight")));
}

TEST(Program, APortThatIsTakenIsASentenceAndExitCode1) {
  const Socket taken = Socket::listen(-1);
  const auto port = std::to_string(taken.port());
  const auto done =
      serve_with("[server]\nlisten = [\"127.0.0.1:" + port +
                 "\"]\n[metrics]\nlisten = \"\"\n[admin]\nlisten = \"\"\n[log]\nrequests = \"\"\n"
                 "[[pool]]\nname = \"chat\"\n[[pool.replica]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n");
  EXPECT_EQ(done.exit.code, 1);
  EXPECT_THAT(done.output, HasSubstr("server.listen: cannot listen on 127.0.0.1:" + port +
                                     ": the port is taken by 'integration' (process " + std::to_string(::getpid()) +
                                     "); end it, or give server.listen another port"));
}

TEST(Program, IdleConnectionsOfOperatorsAreBounded) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  WeirUnderTest weir(pool_of({&replica}));
  const std::string get = "GET /-/healthy HTTP/1.1\r\nHost: weir\r\n\r\n";
  std::deque<HttpClient> clients;
  for (int i = 0; i < 64; ++i) clients.emplace_back(weir.metrics_port());
  EXPECT_EQ(clients.back().exchange(get, "GET").status, 200u);
  HttpClient one_more(weir.metrics_port());
  EXPECT_EQ(one_more.exchange(get, "GET").status, 200u);
  EXPECT_TRUE(clients.front().closed_by_server());
  weir.wait_until_said("64 connections to the metrics listener are open: the one that has waited longest goes");
  EXPECT_EQ(clients.back().exchange(get, "GET").status, 200u) << "one that was answered waits anew";
}

TEST(Program, WantOfADescriptorForAClientIsSaid) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  WeirUnderTest weir(pool_of({&replica}));
  rlimit before{};
  ASSERT_EQ(::prlimit(weir.process().id(), RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(::prlimit(weir.process().id(), RLIMIT_NOFILE, &none, nullptr), 0);
  HttpClient client(weir.metrics_port());
  weir.wait_until_said("cannot accept a connection: Too many open files");
  ASSERT_EQ(::prlimit(weir.process().id(), RLIMIT_NOFILE, &before, nullptr), 0);
  EXPECT_EQ(client.exchange("GET /-/healthy HTTP/1.1\r\nHost: weir\r\n\r\n", "GET").status, 200u);
}

TEST(Program, AnyListenersPortThatIsTakenNamesItsKey) {
  const Socket taken = Socket::listen(-1);
  const auto address = "\"127.0.0.1:" + std::to_string(taken.port()) + "\"";
  for (const std::string key : {"metrics", "admin"}) {
    const auto other = key == "metrics" ? "admin" : "metrics";
    const auto done = serve_with("[server]\nlisten = [\"127.0.0.1:" + std::to_string(free_port()) + "\"]\n[" + key +
                                 "]\nlisten = " + address + "\n[" + other +
                                 "]\nlisten = \"\"\n[log]\nrequests = \"\"\n[[pool]]\nname = \"chat\"\n"
                                 "[[pool.replica]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n");
    EXPECT_EQ(done.exit.code, 1);
    EXPECT_THAT(done.output, HasSubstr(key + ".listen: cannot listen on 127.0.0.1:" + std::to_string(taken.port())));
  }
}

TEST(Program, TheLogSaysWhatWasStartedAndWhyItEnds) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  auto settings = pool_of({&replica});
  settings.pools[0].replicas[0].more = {{"config", "\"vllm-fp16\""}};
  WeirUnderTest weir(settings);
  EXPECT_THAT(weir.output(),
              AllOf(HasSubstr("[info] weir 0."), HasSubstr("pool 'chat': model m, least_queued_tokens, 1 replica"),
                    HasSubstr("replica 'r0' of pool 'chat': " + replica.url() + ", config 'vllm-fp16'"),
                    HasSubstr("serving on http://127.0.0.1:" + std::to_string(weir.port())),
                    HasSubstr("metrics on http://127.0.0.1:" + std::to_string(weir.metrics_port()))));
  EXPECT_EQ(fetch(weir.port(), post("/v1/embeddings", R"({"model":"m","input":"x"})")).status, 200u);
  EXPECT_EQ(fetch(weir.port(), post(chat, R"({"model":"unknown"})")).status, 404u);
  weir.stop();
  EXPECT_THAT(weir.output(), HasSubstr("weir ends: SIGTERM, drained; 2 requests, 1 of them answered well"));
}

TEST(Program, TheFirstFailureOfAReplicaIsToldAndItsReturn) {
  std::atomic<bool> healthy{false};
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.send(healthy ? answer("200 OK", "{}") : answer("500 Internal Server Error", "{}"));
  });
  WeirUnderTest weir(pool_of({&replica}));
  const auto ask = [&] { return fetch(weir.port(), post("/v1/embeddings", R"({"model":"m","input":"x"})")).status; };
  // The next attempt may be another loop's. What one attempt has to tell is told when its line is in the request log.
  std::size_t asked = 0;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(ask(), 500u);
    weir.log_lines(++asked);
  }
  EXPECT_THAT(weir.output(), HasSubstr("replica 'r0' fails: status 500\n"));
  EXPECT_EQ(weir.output().find("fails"), weir.output().rfind("fails")) << "one line";
  healthy = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ask(), 200u);
    weir.log_lines(++asked);
  }
  EXPECT_THAT(weir.output(), ContainsRegex("replica 'r0' answers again after [0-9]+ s, in which 5 attempts failed\n"));
  EXPECT_EQ(weir.output().find("answers again"), weir.output().rfind("answers again")) << "one line";
}

TEST(Program, AJsonLogIsOneObjectALine) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  auto settings = pool_of({&replica});
  settings.log = {{"format", "\"json\""}};
  WeirUnderTest weir(settings);
  weir.stop();
  std::istringstream lines(weir.output());
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto object = boost::json::parse(line).as_object();
    for (const auto* name : {"time", "level", "message"}) EXPECT_TRUE(object.at(name).is_string()) << line;
    EXPECT_EQ(object.size(), 3u);
  }
  EXPECT_GT(count, 5u);
}

TEST(Program, Usr1OpensTheRequestLogAnewAndNothingElse) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  WeirUnderTest weir(pool_of({&replica}));
  std::size_t files = 0;
  write_file(weir.settings_file(), "nonsense");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(fetch(weir.port(), post("/v1/embeddings", R"({"model":"m","input":"x"})")).status, 200u);
    weir.log_lines(1);
    const auto moved = weir.log_file().string() + "." + std::to_string(++files);
    std::filesystem::rename(weir.log_file(), moved);
    weir.process().send(SIGUSR1);
    weir.wait_until_said("SIGUSR1: opened the request log", files);
    const auto text = read_file(moved);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  }
  EXPECT_EQ(weir.log_text(), "");
  EXPECT_EQ(weir.output().find("reload"), std::string::npos);

  // weir cannot open the new name, so lines go on into the file that is open.
  const auto moved = weir.log_file().string() + ".last";
  std::filesystem::rename(weir.log_file(), moved);
  std::filesystem::create_directory(weir.log_file());
  weir.process().send(SIGUSR1);
  weir.wait_until_said("cannot open the request log");
  EXPECT_EQ(fetch(weir.port(), post("/v1/embeddings", R"({"model":"m","input":"x"})")).status, 200u);
  weir.stop();
  EXPECT_EQ(read_file(moved).back(), '\n');
}

TEST(Program, ARequestLogThatTakesNothingDoesNotKeepWeirFromEnding) {
  const TemporaryDirectory directory;
  const auto pipe = (directory.path() / "requests").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int nobody_reads = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(nobody_reads, 0);
  ASSERT_GT(::fcntl(nobody_reads, F_SETPIPE_SZ, 4096), 0);
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  auto settings = pool_of({&replica});
  settings.log = {{"requests", '"' + pipe + '"'}};
  {
    WeirUnderTest weir(settings);
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(fetch(weir.port(), post("/v1/embeddings", R"({"model":"m","input":"x"})")).status, 200u);
    weir.stop();
    EXPECT_THAT(weir.output(), AllOf(HasSubstr("the request log '" + pipe + "' did not take its last lines within 5 s"),
                                     HasSubstr("weir ends: SIGTERM, drained; 20 requests")));
  }
  ::close(nobody_reads);
}

TEST(Program, HealthAndMetricsAreThereFromTheStart) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  WeirUnderTest weir(pool_of({&replica}));

  EXPECT_EQ(fetch(weir.metrics_port(), get("/-/healthy"), "GET").status, 200u);
  EXPECT_EQ(fetch(weir.metrics_port(), get("/anything"), "GET").status, 404u);
  const auto page = fetch(weir.metrics_port(), get("/metrics"), "GET");
  EXPECT_THAT(page.head.field("content-type").value_or(""), StartsWith("text/plain; version=0.0.4"));
  const MetricsPage metrics(page.body);
  for (const auto* outcome : {"ok", "ok_empty", "upstream_error", "upstream_reset", "truncated", "timeout",
                              "replica_refused", "client_error", "client_abort"})
    EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", outcome}, {"replica", "r0"}}), 0) << outcome;
  EXPECT_EQ(metrics.sum("weir_time_to_first_token_seconds_count", {{"replica", "r0"}}), 0);
  EXPECT_TRUE(metrics.has("weir_build_info"));
  expect_idle(metrics);
}

TEST(Program, MetricsAreGzippedWhereTheScraperTakesIt) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  WeirUnderTest weir(pool_of({&replica}));
  const auto asked = [&](const char* method, const std::string& accepted) {
    return fetch(weir.metrics_port(),
                 std::string(method) + " /metrics HTTP/1.1\r\nHost: h\r\nAccept-Encoding: " + accepted + "\r\n\r\n",
                 method);
  };
  const auto plain = asked("GET", "identity"), packed = asked("GET", "gzip;q=0.9, *;q=0.1");
  EXPECT_EQ(plain.head.field("content-encoding"), std::nullopt);
  EXPECT_EQ(plain.head.field("vary"), "Accept-Encoding");
  EXPECT_THAT(plain.body, HasSubstr("weir_build_info"));
  EXPECT_EQ(packed.head.field("content-encoding"), "gzip");
  EXPECT_THAT(packed.body, StartsWith("\x1f\x8b\x08"));
  EXPECT_LT(packed.body.size() * 5, plain.body.size());
  const auto head = asked("HEAD", "gzip");
  EXPECT_EQ(head.head.field("content-encoding"), "gzip");
  EXPECT_EQ(head.body, "");
}

/// A weir with one stream in flight, which goes on when the test says so.
struct OneStream {
  explicit OneStream(Keys limits = {})
      : replica([this](Exchange& exchange) {
          exchange.send(sse_head() + chunk(script.events[0]) + chunk(script.events[1]));
          go_on.wait("the test to go on");
          for (std::size_t i = 2; i < script.events.size(); ++i) exchange.send(chunk(script.events[i]));
          exchange.send(chunk(script.marker) + std::string(last_chunk));
        }),
        weir([&] {
          auto settings = pool_of({&replica});
          settings.limits = std::move(limits);
          return settings;
        }()),
        client(weir.port()) {
    client.send(post(chat, chat_body()));
    got = client.response_head();
    client.read_until(got, script.events[1]);
  }
  ~OneStream() { go_on.set(); }

  StreamScript script = vllm_chat(5);
  Event go_on;
  ScriptedReplica replica;
  WeirUnderTest weir;
  HttpClient client;
  Response got;
};

bool refuses_connections(std::uint16_t port) {
  try {
    Socket::connect(port);
    return false;
  } catch (const PeerGone&) {
    return true;
  }
}

TEST(Program, TermLetsAStreamFinishAndNobodyElseIn) {
  OneStream one(Keys{{"drain", "300"}});
  one.weir.process().send(SIGTERM);
  const auto deadline = Clock::now() + patience;
  while (!refuses_connections(one.weir.port()) && Clock::now() < deadline)
    EXPECT_FALSE(one.weir.process().wait(std::chrono::milliseconds(5)).has_value()) << "a stream is under way";
  EXPECT_TRUE(refuses_connections(one.weir.port()));
  one.weir.wait_until_said("1 connection is left, 1 request on it, the oldest for ");

  one.go_on.set();
  one.client.rest(one.got);
  EXPECT_EQ(one.got.body, one.script.body(false));
  EXPECT_EQ(one.got.end, BodyEnd::whole);
  EXPECT_TRUE(one.client.closed_by_server());
  one.weir.ends();
  EXPECT_EQ(member(one.weir.log_lines(1).front(), "outcome"), "ok");
}

TEST(Program, WhileItDelaysItsDrainWeirServesButIsNotReady) {
  OneStream one(Keys{{"drain_delay", "30"}});
  one.weir.process().send(SIGTERM);
  const auto deadline = Clock::now() + patience;
  while (fetch(one.weir.metrics_port(), get("/-/ready"), "GET").status == 200 && Clock::now() < deadline) {
  }
  EXPECT_EQ(fetch(one.weir.metrics_port(), get("/-/ready"), "GET").status, 503u);
  HttpClient late(one.weir.port());
  const auto got = late.exchange(get("/v1/models"), "GET");
  EXPECT_EQ(got.status, 200u);
  EXPECT_EQ(got.head.field("connection"), "close");

  one.go_on.set();
  one.client.rest(one.got);
  EXPECT_EQ(one.got.body, one.script.body(false));
  one.weir.stop();  // It sends the second signal.
}

TEST(Program, ASecondTermStopsAtOnce) {
  OneStream one(Keys{{"drain", "300"}});
  one.weir.process().send(SIGTERM);
  const auto deadline = Clock::now() + patience;
  while (!refuses_connections(one.weir.port()) && Clock::now() < deadline)
    one.weir.process().wait(std::chrono::milliseconds(5));
  one.weir.process().send(SIGTERM);
  const auto exit = one.weir.process().wait(soon);
  ASSERT_TRUE(exit.has_value()) << "it waits for the stream all the same";
  EXPECT_EQ(exit->signal, 0);
  one.client.rest(one.got);
  EXPECT_THAT(one.got.end, AnyOf(Eq(BodyEnd::fin), Eq(BodyEnd::reset))) << "what is cut must not look whole";
  one.weir.stop();
  EXPECT_EQ(one.weir.log_lines(1).size(), 1u) << "what was cut is counted and logged";
}

TEST(Program, ADrainThatTakesTooLongEnds) {
  OneStream one(Keys{{"drain", "0.5"}});
  one.weir.process().send(SIGTERM);
  ASSERT_TRUE(one.weir.process().wait(soon).has_value());
  one.client.rest(one.got);
  EXPECT_THAT(one.got.end, AnyOf(Eq(BodyEnd::fin), Eq(BodyEnd::reset)));
  one.weir.stop();
  EXPECT_EQ(one.weir.log_lines(1).size(), 1u);
}

}  // namespace
}  // namespace weir::integration
