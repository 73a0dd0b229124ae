// The table of `weir status` fits 100 columns and shows what the API tells.
#include "proxy/control/status.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace weir::proxy::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string replica(const std::string& name, const std::string& state, const std::string& ttft,
                    const std::string& more = "", const std::string& running = "12") {
  return R"({"pool":"chat","name":")" + name + R"(","state":")" + state +
         R"(","state_seconds":3700.5,"reason":"it refuses connections)" + more +
         R"(","in_flight":12,"queued_prefill_tokens":1000,"queued_decode_tokens":234,"ttft_p50_seconds":)" + ttft +
         R"(,"tpot_p50_seconds":0.0234,"engine":{"running":)" + running + R"(,"waiting":3}})";
}
std::string answer(const std::string& replicas, int waiting = 0) {
  return R"({"replicas":[)" + replicas + R"(],"pools":[{"name":"chat","waiting":)" + std::to_string(waiting) + "}]}";
}

TEST(StatusTable, ShowsEachReplicaInALine) {
  EXPECT_EQ(status_table(answer(replica("gpu0", "up", "0.213") + "," + replica("gpu1", "down", "null")), false),
            "replica  pool  state  for  in flight  queued tokens  TTFT p50  TPOT p50  engine\n"
            "gpu0     chat  up     1 h         12           1234    213 ms   23.4 ms    12+3\n"
            "gpu1     chat  down   1 h         12           1234         -   23.4 ms    12+3\n"
            "    it refuses connections\n"
            "engine: the requests that it runs + those in its own queue, as its metrics last said\n");
  auto silent = replica("gpu0", "up", "null", "", "null");
  silent.replace(silent.find("\"waiting\":3"), 11, "\"waiting\":null");
  EXPECT_THAT(status_table(answer(silent), false), Not(HasSubstr("engine: ")));
}

TEST(StatusTable, TellsPoolsApart) {
  std::string replicas;
  for (const auto* pool : {"llama-3-8b", "llama-3-70b"}) {
    auto one = replica("gpu0", "up", "0.2");
    one.replace(one.find("chat"), 4, pool);
    replicas += (replicas.empty() ? "" : ",") + one;
  }
  EXPECT_THAT(status_table(answer(replicas), false), AllOf(HasSubstr(" llama-3-8b  "), HasSubstr(" llama-3-70b ")));
}

TEST(StatusTable, SaysFirstHowWeirStands) {
  const auto table = [](const std::string& more) {
    auto text = answer(replica("gpu0", "up", "0.213"));
    text.insert(1, more + ",");
    return status_table(text, false);
  };
  const auto weir = [](const std::string& draining, const std::string& errors, const std::string& log) {
    return R"("weir":{"drains":)" + draining + R"(,"last_reload_errors":[)" + errors + R"(],"log":)" + log + "}";
  };
  const std::string fine = R"({"lines_lost":0,"loses":false,"waits_for_reader":false,"why":null})";
  EXPECT_THAT(table(weir("false", "", fine)), StartsWith("replica "));
  EXPECT_THAT(table(weir("true", "", fine)), StartsWith("weir DRAINS"));
  EXPECT_THAT(table(weir("false", R"("f:1:2: a","f:3:4: b")", fine)),
              AllOf(StartsWith("the last reload FAILED"), HasSubstr("\n    f:1:2: a\n    f:3:4: b\n")));
  EXPECT_THAT(table(weir("false", "", R"({"lines_lost":7,"loses":true,"waits_for_reader":false,"why":"No space"})")),
              StartsWith("the request log LOSES lines: No space; 7 so far\n"));
  EXPECT_THAT(table(weir("false", "", R"({"lines_lost":1,"loses":false,"waits_for_reader":true,"why":null})")),
              StartsWith("the request log has lost 1 line since weir began\nthe request log waits for a reader"));
  EXPECT_THAT(table(R"("bypass":false)"), StartsWith("replica "));
  EXPECT_THAT(table(R"("bypass":true)"), StartsWith("BYPASS is on"));
  EXPECT_THAT(table(R"("shadows":[{"name":"fp8","on":false},{"name":"fp4","on":true}])"),
              AllOf(StartsWith("shadow fp8 is off\n"), Not(HasSubstr("fp4"))));
}

TEST(StatusTable, SaysWhatAnEngineDoesNotTell) {
  auto text = answer(replica("gpu0", "up", "0.213", "", "null"));
  EXPECT_THAT(status_table(text, false), HasSubstr(" -+3\n"));
  text.replace(text.find("\"waiting\":3"), 11, "\"waiting\":null");
  EXPECT_THAT(status_table(text, false), HasSubstr(" -\n"));
}

TEST(StatusTable, TellsLongNamesApartByTheirEnd) {
  const auto table = status_table(
      answer(replica("llama-70b-instruct-1", "up", "1") + "," + replica("llama-70b-instruct-2", "up", "1")), false);
  EXPECT_THAT(table, HasSubstr("llama-70b-~uct-1 "));
  EXPECT_THAT(table, HasSubstr("llama-70b-~uct-2 "));
}

TEST(StatusTable, CountsWhatWaits) {
  EXPECT_THAT(status_table(answer(replica("gpu0", "up", "0.2")), false), Not(HasSubstr("wait")));
  EXPECT_THAT(status_table(answer(replica("gpu0", "up", "0.2"), 1), false),
              HasSubstr("1 request waits in pool chat\n"));
  EXPECT_THAT(status_table(answer(replica("gpu0", "up", "0.2"), 7), false),
              HasSubstr("7 requests wait in pool chat\n"));
}

TEST(StatusTable, SaysForHowLongTheOldestHasWaitedBeforeTheTable) {
  const auto table = [](int waiting, const std::string& oldest) {
    auto text = answer(replica("gpu0", "up", "0.2"), waiting);
    text.insert(text.size() - 3, R"(,"oldest_waiting_s":)" + oldest);
    return status_table(text, false);
  };
  EXPECT_THAT(table(0, "null"), StartsWith("replica "));
  EXPECT_THAT(table(1, "12.34"), StartsWith("1 request waits in pool chat, for 12.3 s\nreplica "));
  EXPECT_THAT(table(7, "0.25"), StartsWith("7 requests wait in pool chat, the oldest for 250 ms\nreplica "));
}

TEST(StatusTable, WarnsFirstWhereNoReplicaOfAPoolIsUp) {
  const auto with = [](const std::string& first, const std::string& second, int waiting = 0) {
    return status_table(answer(replica("gpu0", first, "0.2") + "," + replica("gpu1", second, "0.2"), waiting), false);
  };
  for (const auto* out : {"down", "ejected", "draining"}) {
    EXPECT_THAT(with(out, "down"), StartsWith("NO REPLICA of pool chat is up\nreplica ")) << out;
    for (const auto* in : {"up", "starting"}) EXPECT_THAT(with(out, in), StartsWith("replica ")) << out << ' ' << in;
  }
  EXPECT_THAT(with("down", "down", 1), StartsWith("NO REPLICA of pool chat is up\n1 request waits in pool chat\n"));
  EXPECT_THAT(status_table(R"({"replicas":[],"pools":[{"name":"chat","waiting":0}]})", false), StartsWith("replica "));
  auto shadow = replica("gpu1", "up", "0.2");
  shadow.insert(1, R"("role":"shadow",)");
  EXPECT_THAT(status_table(answer(replica("gpu0", "down", "0.2") + "," + shadow), false), StartsWith("NO REPLICA"));
}

TEST(StatusTable, FitsAHundredColumns) {
  const std::string longest(64, 'n');
  auto text = answer(replica(longest, "draining", "1234.5", std::string(300, 'x'), "99999"));
  for (std::string::size_type at; (at = text.find("12,\"queued")) != text.npos;) text.replace(at, 2, "1000000");
  text.replace(text.find("\"pool\":\"chat\""), 13, "\"pool\":\"" + longest + "\"");
  std::istringstream lines(status_table(text, false));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), status_columns) << line;
}

TEST(StatusTable, IsColouredOnATerminalOnly) {
  const auto text = answer(replica("gpu0", "down", "null"));
  EXPECT_THAT(status_table(text, false), Not(HasSubstr("\x1b")));
  EXPECT_THAT(status_table(text, true), HasSubstr("\x1b[31mdown\x1b[0m"));
}

TEST(StatusTable, ThrowsWhereSomethingElseAnswered) {
  for (const auto* text : {"", "<html>", "{}", R"({"replicas":[{}]})"})
    EXPECT_ANY_THROW(status_table(text, false)) << text;
}

}  // namespace
}  // namespace weir::proxy::control
