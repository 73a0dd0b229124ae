// The live API of a running weir: figures, events in the words of the log, the stream, findings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>

#include "tests/integration/peers/keys_file.hpp"
#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/operated_weir.hpp"

namespace weir::integration {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

class LiveApi : public OperatedWeir {
 protected:
  json::value get(const std::string& path) const {
    const auto answer = get_admin(admin, path);
    EXPECT_EQ(answer.status, 200u) << answer.body;
    return json::parse(answer.body);
  }
};

TEST_F(LiveApi, ShowsRequestsAndWhoSentThem) {
  ScriptedReplica a(plays());
  const KeysFile keys;
  const auto alice = keys.add("alice");
  WeirUnderTest weir(keys.asked_by(with_admin(pool_of({&a}))));
  look_until("the first figures", [&] { return get_admin(admin, "/api/live").status == 200; });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, chat_body(), bearer(alice))).status, 200u);
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 401u);
  json::value all;
  look_until("three requests in the figures", [&] {
    all = get("/api/live");
    return member(all.at("pools").at("chat").at("outcomes_60s").as_object(), "ok") == "3";
  });
  EXPECT_EQ(all.at("keys").at("alice").at("requests_60s").to_number<int>(), 3);
  EXPECT_EQ(all.at("replicas").at("r0").at("state").as_string(), "up");
  EXPECT_EQ(all.at("replicas").at("r0").at("requests_60s").to_number<int>(), 3);
  const auto& slowest = all.at("requests").at("slowest").as_array();
  ASSERT_EQ(slowest.size(), 3u);
  EXPECT_EQ(slowest[0].at("key").as_string(), "alice");
  const auto lines = weir.log_lines(4);
  EXPECT_TRUE(std::ranges::any_of(lines, [&](const auto& line) { return line.at("id") == slowest[0].at("id"); }))
      << "by its id the request is found in the log";
  const auto window = get("/api/live/window?seconds=900&replica=r0");
  EXPECT_FALSE(window.at("replicas").at("r0").at("tokens_out_per_s").as_array().empty());
}

TEST_F(LiveApi, EventsAreTheLinesOfTheLog) {
  ScriptedReplica a(plays()), b(plays());
  auto settings = with_admin(pool_of({&a, &b}));
  WeirUnderTest weir(settings);
  const auto first = get("/api/events").at("last").to_number<std::uint64_t>();
  EXPECT_EQ(command({"drain", "r1"}).exit.code, 0);
  EXPECT_EQ(command({"bypass", "on"}).exit.code, 0);
  EXPECT_EQ(command({"bypass", "off"}).exit.code, 0);
  settings.limits["first_token"] = "17";
  weir.reload(settings);
  EXPECT_EQ(command({"undrain", "r1"}).exit.code, 0);
  const auto events = get("/api/events?since=" + std::to_string(first)).at("events").as_array();
  std::string whats;
  for (const auto& event : events) {
    EXPECT_THAT(weir.output(), HasSubstr("] " + std::string(event.at("text").as_string()) + "\n"));
    whats += std::string(event.at("what").as_string()) + ' ';
  }
  for (const auto* what : {"drain ", "bypass ", "reload "}) EXPECT_THAT(whats, HasSubstr(what));
  EXPECT_THAT(json::serialize(events), HasSubstr("reload (SIGHUP): limits.first_token 5m -> 17s"));
}

TEST_F(LiveApi, TheStreamTellsOfADrainAsItHappens) {
  ScriptedReplica a(plays()), b(plays());
  WeirUnderTest weir(with_admin(pool_of({&a, &b})));
  HttpClient viewer(admin);
  viewer.send("GET /api/live/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  auto stream = viewer.response_head("GET");
  EXPECT_EQ(stream.status, 200u);
  viewer.read_until(stream, "event: live\ndata: {\"schema\":1");
  viewer.read_until(stream, "event: change\n");
  EXPECT_EQ(command({"drain", "r1"}).exit.code, 0);
  viewer.read_until(stream, "\"state\":\"draining\"");
  viewer.read_until(stream, "replica 'r1' drains: it takes no more requests");
  viewer.close();
  EXPECT_EQ(get_admin(admin, "/api/live").status, 200u) << "a viewer that leaves takes nothing with it";
}

TEST_F(LiveApi, TheStreamEndsWhenItsTokenIsTakenBack) {
  ScriptedReplica a(plays());
  auto settings = with_admin(pool_of({&a}));
  settings.admin["token"] = quoted("abcdef");
  WeirUnderTest weir(settings);
  HttpClient viewer(admin);
  viewer.send("GET /api/live/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer abcdef\r\n\r\n");
  auto stream = viewer.response_head("GET");
  EXPECT_EQ(stream.status, 200u);
  settings.limits["first_token"] = "17";
  weir.reload(settings);
  viewer.read_until(stream, "limits.first_token 5m -> 17s");  // A reload that leaves the token ends no stream.
  settings.admin["token"] = quoted("ghijkl");
  weir.reload(settings);
  viewer.rest(stream);  // The stream has an end.
}

TEST_F(LiveApi, AFindingIsInTheLogOnThePageAndInTheMetrics) {
  ScriptedReplica a(plays());
  auto settings = with_admin(pool_of({&a}));
  settings.log["requests"] = quoted("/dev/full");
  WeirUnderTest weir(settings);
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  weir.wait_until_said("finding log_lines_lost: the request log loses lines, 1 so far: No space left on device");
  EXPECT_EQ(get("/api/live").at("findings").at("log_lines_lost:weir").at("severity").as_string(), "warning");
  EXPECT_EQ(weir.metrics().sum("weir_finding"), 1);
  EXPECT_EQ(weir.metrics().sum("weir_log_lines_dropped_total"), 1);
}

TEST_F(LiveApi, ARequestThatWentElsewhereShowsEachAttempt) {
  ScriptedReplica broken([](Exchange& exchange) { exchange.send(answer("500 Internal Server Error", "{}")); });
  ScriptedReplica good(plays());
  auto settings = with_admin(pool_of({&broken, &good}));
  settings.pools[0].more["policy"] = "\"round_robin\"";
  WeirUnderTest weir(settings);
  json::value found;
  look_until("the first figures", [&] { return get_admin(admin, "/api/live").status == 200; });
  // More requests than these could hide it, because only the slowest are shown.
  look_until("a request that the broken replica got first", [&] {
    EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
    return !broken.requests().empty();
  });
  look_until("a request of two attempts", [&] {
    const auto all = get("/api/live");
    for (const auto& one : all.at("requests").at("slowest").as_array()) {
      if (one.at("attempts").to_number<int>() == 2) found = one;
      if (one.at("attempts").to_number<int>() == 1) EXPECT_TRUE(one.at("tried").as_array().empty());
    }
    return !found.is_null();
  });
  const auto& tried = found.at("tried").as_array();
  ASSERT_EQ(tried.size(), 2u) << json::serialize(found);
  EXPECT_EQ(tried[0].at("replica").as_string(), "r0");
  EXPECT_EQ(tried[0].at("status").to_number<int>(), 500);
  EXPECT_EQ(tried[0].at("why").as_string(), "status");
  EXPECT_EQ(tried[1].at("replica").as_string(), "r1");
  EXPECT_TRUE(tried[1].at("why").is_null());
  EXPECT_LE(tried[0].at("to_s").to_number<double>(), tried[1].at("from_s").to_number<double>());
}

TEST_F(LiveApi, AReportIsOneFileAndWeirWritesItselfWhenItHasNoReplica) {
  const TemporaryDirectory folder;
  auto replica = std::make_unique<ScriptedReplica>(plays());
  auto settings = with_admin(pool_of({replica.get()}));
  settings.admin["reports"] = quoted(folder.path().string());
  WeirUnderTest weir(settings);
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  look_until("the first figures", [&] { return get_admin(admin, "/api/live").status == 200; });
  const auto file = (folder.path() / "asked.html").string();
  const auto written = command({"report", "--last", "1m", "--output", file});
  EXPECT_EQ(written.exit.code, 0);
  EXPECT_EQ(written.output, file + "\n");
  EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms(0600));
  EXPECT_THAT(read_file(file), HasSubstr("an operator asked for it"));
  const auto data = command({"report", "--json", "--output", "-"});
  EXPECT_EQ(json::parse(data.output).at("live").at("replicas").at("r0").at("state").as_string(), "up");
  EXPECT_EQ(command({"report", "--last", "1h"}).exit.code, 1);
  EXPECT_EQ(command({"report", "--output", "/nowhere/at/all.html"}).exit.code, 1);
  replica.reset();
  weir.wait_until_said("no replica of pool 'chat' is up: the last minutes are in the report '" +
                       folder.path().string());
}

}  // namespace
}  // namespace weir::integration
