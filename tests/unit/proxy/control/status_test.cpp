// The table of `weir status` fits 100 columns and shows what the API tells.
#include "proxy/control/status.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace weir::proxy::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string replica(const std::string& name, const std::string& state, const std::string& ttft,
                    const std::string& more = "") {
  return R"({"pool":"chat","name":")" + name + R"(","state":")" + state +
         R"(","state_seconds":3700.5,"reason":"it refuses connections)" + more +
         R"(","in_flight":12,"queued_prefill_tokens":1000,"queued_decode_tokens":234,"ttft_p50_seconds":)" + ttft +
         R"(,"tpot_p50_seconds":0.0234})";
}
std::string answer(const std::string& replicas) { return R"({"replicas":[)" + replicas + R"(],"pools":[]})"; }

TEST(StatusTable, ShowsEachReplicaInALine) {
  EXPECT_EQ(status_table(answer(replica("gpu0", "up", "0.213") + "," + replica("gpu1", "down", "null")), false),
            "replica  pool  state  for  in flight  queued tokens  TTFT p50  TPOT p50\n"
            "gpu0     chat  up     1 h         12           1234    213 ms   23.4 ms\n"
            "gpu1     chat  down   1 h         12           1234         -   23.4 ms\n"
            "    it refuses connections\n");
}

TEST(StatusTable, FitsAHundredColumns) {
  const std::string longest(64, 'n');
  auto text = answer(replica(longest, "draining", "1234.5", std::string(300, 'x')));
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
