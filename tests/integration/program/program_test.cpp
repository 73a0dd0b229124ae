// The program says what is wrong with settings it cannot use, starts, and ends.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iterator>
#include <map>
#include <sstream>

#include "tests/golden.hpp"
#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string settings_with(const std::string& replicas) {
  return "[server]\nlisten = [\"127.0.0.1:" + std::to_string(free_port()) +
         "\"]\n[metrics]\nlisten = \"\"\n[admin]\nlisten = \"\"\n" +
         "[log]\nrequests = \"\"\n[[pool]]\nname = \"chat\"\n" + replicas;
}

std::string with_all(std::string text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// Runs each line of the golden file that begins with "$ ".
TEST(Program, CommandLinesSayWhatTheGoldenFileHas) {
  std::istringstream lines(read_file(WEIR_TEST_DATA "/golden/commands.txt"));
  std::string all;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) all += line + "\n\n";
    if (!line.starts_with("$ ")) continue;
    std::istringstream words(with_all(line.substr(2), "DATA", WEIR_TEST_DATA));
    std::vector<std::string> command(std::istream_iterator<std::string>(words), {});
    command[0] = command[0] == "weir" ? weir_program() : WEIR_LAB_PROGRAM;
    const auto done = run(std::move(command));
    all +=
        line + '\n' + with_all(done.output, WEIR_TEST_DATA, "DATA") + "=> " + std::to_string(done.exit.code) + "\n\n";
  }
  tests::expect_golden("commands.txt", all);
}

TEST(Program, ServeAndCheckSayAllThatIsWrongAtOnceAndNothingIsFineToo) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "weir.toml";
  write_file(file, settings_with("[[pool.replica]]\nname = \"a\"\nurl = \"http://h:1\"\n"));
  EXPECT_EQ(run_weir({"check", "--config", file.string()}).exit.code, 0);
  const auto wrong =
      settings_with("polisy = \"random\"\n[[pool.replica]]\nname = \"a\"\nurl = \"nonsense\"\nweight = 0\n");
  write_file(file, wrong);
  for (const auto& done : {run_weir({"check", "--config", file.string()}), serve_with(wrong)}) {
    EXPECT_EQ(done.exit.code, 2);
    EXPECT_THAT(done.output,
                AllOf(HasSubstr("weir.toml:11:1: [[pool]] polisy"), HasSubstr("nonsense"), HasSubstr("weight")));
  }
}

TEST(Program, APortThatIsTakenIsASentenceWithItsKeyAndExitCode1) {
  const Socket taken = Socket::listen(-1);
  for (const std::string key : {"server", "metrics", "admin"}) {
    std::map<std::string, std::string> listen{{"server", at_loopback(free_port())}, {"metrics", ""}, {"admin", ""}};
    listen[key] = at_loopback(taken.port());
    std::string text =
        "[log]\nrequests = \"\"\n[[pool]]\nname = \"chat\"\n[[pool.replica]]\nname = \"a\"\n"
        "url = \"http://127.0.0.1:1\"\n";
    for (const auto& [table, address] : listen) text = "[" + table + "]\nlisten = " + quoted(address) + "\n" + text;
    const auto done = serve_with(text);
    EXPECT_EQ(done.exit.code, 1) << key;
    EXPECT_THAT(done.output, HasSubstr(key + ".listen: cannot listen on " + listen[key] +
                                       ": the port is taken by another program (`ss -tanp`, as root, says which); "
                                       "end it, or give " +
                                       key + ".listen another port"));
  }
}

TEST(Program, WantOfADescriptorIsSaidAndToldFromARefusedConnection) {
  ScriptedReplica replica(always(answer("200 OK", "{}")));
  auto settings = pool_of({&replica});
  settings.limits = {{"upstream_idle", "\"1ms\""}};
  WeirUnderTest weir(settings);
  HttpClient kept(weir.port());
  EXPECT_EQ(kept.exchange(post(chat, whole_chat_body())).status, 200u);
  rlimit before{};
  ASSERT_EQ(::prlimit(weir.process().id(), RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(::prlimit(weir.process().id(), RLIMIT_NOFILE, &none, nullptr), 0);
  HttpClient client(weir.metrics_port());
  weir.wait_until_said("cannot accept a connection: Too many open files");
  const auto got = kept.exchange(post(chat, whole_chat_body()));
  ASSERT_EQ(::prlimit(weir.process().id(), RLIMIT_NOFILE, &before, nullptr), 0);
  EXPECT_EQ(client.exchange(get("/-/healthy"), "GET").status, 200u);
  EXPECT_EQ(got.status, 503u);
  EXPECT_THAT(got.body, AllOf(HasSubstr("no_descriptor"), HasSubstr("raise its limit of open files")));
  EXPECT_EQ(kept.exchange(post(chat, whole_chat_body())).status, 200u) << "and when there are some again";
  EXPECT_EQ(weir.metrics_after(3).sum("weir_retries_total"), 0);
}

TEST(Program, TheLogSaysWhatWasStartedAndWhyItEnds) {
  ScriptedReplica replica(always(answer("200 OK", "{}")));
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

TEST(Program, Usr1OpensTheRequestLogAnewAndNothingElse) {
  ScriptedReplica replica(always(answer("200 OK", "{}")));
  WeirUnderTest weir(pool_of({&replica}));
  const auto ask = [&] {
    EXPECT_EQ(fetch(weir.port(), post("/v1/embeddings", R"({"model":"m","input":"x"})")).status, 200u);
  };
  write_file(weir.settings_file(), "nonsense");
  ask();
  weir.log_lines(1);
  const auto moved = weir.log_file().string() + ".1";
  std::filesystem::rename(weir.log_file(), moved);
  weir.process().send(SIGUSR1);
  weir.wait_until_said("SIGUSR1: opened the request log");
  EXPECT_EQ(times_in(read_file(moved), "\n"), 1u);
  EXPECT_EQ(weir.log_text(), "");
  EXPECT_EQ(weir.output().find("reload"), std::string::npos);

  // weir cannot open the new name, so lines go on into the file that is open.
  std::filesystem::rename(weir.log_file(), moved);
  std::filesystem::create_directory(weir.log_file());
  weir.process().send(SIGUSR1);
  weir.wait_until_said("cannot open the request log");
  ask();
  weir.stop();
  EXPECT_EQ(times_in(read_file(moved), "\n"), 1u);
}

TEST(Program, HealthAndMetricsAreThereFromTheStart) {
  ScriptedReplica replica(always(answer("200 OK", "{}")));
  WeirUnderTest weir(pool_of({&replica}));
  EXPECT_EQ(fetch(weir.metrics_port(), get("/-/healthy"), "GET").status, 200u);
  EXPECT_EQ(fetch(weir.metrics_port(), get("/anything"), "GET").status, 404u);
  const auto page = fetch(weir.metrics_port(), get("/metrics"), "GET");
  EXPECT_THAT(page.head.field("content-type").value_or(""), StartsWith("text/plain; version=0.0.4"));
  EXPECT_TRUE(MetricsPage(page.body).has("weir_build_info"));
  expect_idle(MetricsPage(page.body));
}

TEST(Program, MetricsAreGzippedWhereTheScraperTakesIt) {
  ScriptedReplica replica(always(answer("200 OK", "{}")));
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
  EXPECT_LT(packed.body.size() * 3, plain.body.size());
  const auto head = asked("HEAD", "gzip");
  EXPECT_EQ(head.head.field("content-encoding"), "gzip");
  EXPECT_EQ(head.body, "");
}

/// A weir with one stream in flight, which goes on when the test says so.
struct OneStream {
  explicit OneStream(Keys limits)
      : replica([this](Exchange& exchange) { play_with_pause(exchange, script, 2, go_on); }),
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
  look_until("weir to refuse connections", [&] { return refuses_connections(one.weir.port()); });
  EXPECT_FALSE(one.weir.process().wait(std::chrono::milliseconds(0)).has_value()) << "a stream is under way";
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
  look_until("weir to be no longer ready",
             [&] { return fetch(one.weir.metrics_port(), get("/-/ready"), "GET").status == 503; });
  HttpClient late(one.weir.port());
  const auto got = late.exchange(get("/v1/models"), "GET");
  EXPECT_EQ(got.status, 200u);
  EXPECT_EQ(got.head.field("connection"), "close");

  one.go_on.set();
  one.client.rest(one.got);
  EXPECT_EQ(one.got.body, one.script.body(false));
  one.weir.stop();  // It sends the second signal.
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

}  // namespace
}  // namespace weir::integration
