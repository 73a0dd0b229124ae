#include "lab/report/outage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace weir::lab::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr double noon = 1795262400;  // 2026-11-21T12:00:00Z

std::string line(const std::string& second, const std::string& replica, const std::string& outcome,
                 const std::string& e2e) {
  return R"({"time":"2026-11-21T12:00:)" + second + R"(Z","role":"primary","replica":")" + replica +
         R"(","outcome":")" + outcome + R"(","e2e_s":)" + e2e + "}\n";
}

Outage read(const std::string& log, const std::string& report, const std::string& metrics) {
  Outage outage;
  outage.replica = "b";
  outage.killed = noon + 2;
  outage.restarted = noon + 4;
  std::istringstream in(log), page(metrics);
  read_outage(outage, in, *object_of(report), read_metrics_text(page));
  return outage;
}

TEST(Outage, TellsWhatClientsSawWhatWasCountedAndWhenItWasBack) {
  const Outage o = read(line("01.0", "b", "upstream_reset", "1.1") +  // Broke off.
                            line("01.5", "a", "ok", "1") +            // Began before.
                            line("03.0", "a", "ok", "1") +            // Ran meanwhile.
                            line("03.5", "b", "upstream_error", "null") + line("04.5", "a", "ok", "1") +
                            line("04.2", "b", "ok", "2") + line("04.5", "b", "ok", "0.6") + "{\"time\":\"2026",
                        R"({"requests_ok":5,"errors":{"http_502":1,"reset":1}})",
                        "weir_requests_total{outcome=\"ok\",replica=\"a\"} 3\n"
                        "weir_requests_total{outcome=\"ok\",replica=\"b\"} 2\n"
                        "weir_requests_total{outcome=\"upstream_reset\",replica=\"b\"} 1\n"
                        "weir_retries_total{reason=\"connect\"} 4\nweir_retries_total{reason=\"reset\"} 0\n");
  EXPECT_EQ(o.ok, 5u);
  EXPECT_THAT(o.client, ElementsAre(Pair("http_502", 1), Pair("reset", 1)));
  EXPECT_THAT(o.outcomes, ElementsAre(Pair("ok", 5), Pair("upstream_reset", 1)));
  EXPECT_THAT(o.retries, ElementsAre(Pair("connect", 4)));
  EXPECT_EQ(o.meanwhile_ok, 1u);
  ASSERT_TRUE(o.back_end);
  EXPECT_NEAR(*o.back_end, 1.1, 1e-6);
  EXPECT_NEAR(*o.back_begin, 0.5, 1e-6);
  std::ostringstream out;
  print_outage(out, o);
  EXPECT_THAT(out.str(), HasSubstr("5 ok, 2 failed: http_502 1, reset 1\n"));
  EXPECT_THAT(out.str(), HasSubstr("requests: ok 5, upstream_reset 1; sent once more: connect 4\n"));
  EXPECT_THAT(out.str(), HasSubstr("first ok answer 1.10 s after its restart"));
}

TEST(Outage, SaysThatItNeverCameBack) {
  const Outage o = read(line("01.0", "b", "ok", "1"), R"({"requests_ok":1,"errors":{}})",
                        "weir_requests_total{outcome=\"ok\",replica=\"b\"} 1\n");
  EXPECT_FALSE(o.back_end) << "an answer from before the kill is none";
  std::ostringstream out;
  print_outage(out, o);
  EXPECT_THAT(out.str(), HasSubstr("1 ok, 0 failed: none\n"));
  EXPECT_THAT(out.str(), HasSubstr("no ok answer after its restart within this run\n"));
}

TEST(Outage, RefusesANameThatTheLogLacksAndAPageThatIsNone) {
  const auto refusal = [](const std::string& log, const std::string& metrics) -> std::string {
    try {
      read(log, R"({"requests_ok":1,"errors":{}})", metrics);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  const std::string page = "weir_requests_total{outcome=\"ok\",replica=\"a\"} 1\n";
  EXPECT_EQ(refusal(line("01.0", "b", "upstream_reset", "null"), page), "");
  EXPECT_EQ(refusal(line("01.0", "c", "ok", "1") + line("01.0", "a", "ok", "1"), page),
            "--replica: no line of the log is of \"b\"; it has lines of: a, c");
  EXPECT_EQ(refusal("", page), "--replica: no line of the log is of \"b\"; it has lines of: none");
  EXPECT_EQ(refusal(line("01.0", "b", "ok", "1"), R"({"requests_ok":1})"),
            "--metrics has no weir_requests_total, so it is no page of weir's metrics");
}

}  // namespace
}  // namespace weir::lab::report
