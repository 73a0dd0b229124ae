#include "lab/report/observers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <sstream>

#include "lab/load/request_lines.hpp"
#include "lab/sim/truth.hpp"
#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::report {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string truth(int ttft_ms, int tpot_ms, std::uint64_t tokens, sim::Status status = sim::Status::finished) {
  sim::Truth t;
  t.stream = true;
  t.status = status;
  t.received = sim::Moment(std::chrono::seconds(5));
  t.first_token = t.received + std::chrono::milliseconds(ttft_ms);
  t.last_token = *t.first_token + std::chrono::milliseconds(tpot_ms) * static_cast<std::int64_t>(tokens - 1);
  t.output_tokens = tokens;
  return sim::truth_line(t) + "\n";
}

TEST(StreamTimes, GivesTheEnginesOwnTimesOfFinishedStreams) {
  sim::Truth whole;
  whole.first_token = whole.last_token = whole.received + std::chrono::seconds(9);
  sim::Truth refused;
  refused.status = sim::Status::refused;
  std::istringstream first(truth(100, 20, 11) + truth(900, 90, 5, sim::Status::aborted) + sim::truth_line(whole) +
                           "\n" + sim::truth_line(refused) + "\n");
  std::istringstream second(truth(300, 40, 11) + truth(200, 0, 1) + "{\"status\":\"fini");
  StreamTimes log;
  log.read_truth(first);
  log.read_truth(second);
  const Observed engine = log.observed("the engine itself");
  EXPECT_EQ(engine.requests, 3u);
  EXPECT_EQ(engine.ttft->count, 3u);
  EXPECT_NEAR(engine.ttft->p50, 0.200, 1e-6);
  EXPECT_EQ(engine.tpot->count, 2u) << "one token has no time per output token";
  EXPECT_NEAR(engine.tpot->mean, 0.030, 1e-6);
  EXPECT_FALSE(engine.itl);
}

TEST(StreamTimes, GivesAClientsTimesOfItsOkRequests) {
  const load::Made made{.sent = 1, .ttft = 0.1, .gap = 0.02, .events = 3, .output_tokens = 3};
  const auto ok = load::made_result(made);
  auto failed = ok;
  failed.outcome = "reset";
  load::RequestLines lines("");
  std::istringstream in(lines.line(ok) + "\n" + lines.line(failed) + "\nnonsense\n");
  StreamTimes log;
  log.read_load(in);
  const Observed client = log.observed("the client itself");
  EXPECT_EQ(client.requests, 1u);
  EXPECT_NEAR(client.ttft->p50, 0.100, 1e-6);
  EXPECT_NEAR(client.tpot->p50, 0.020, 1e-6);
}

boost::json::object report(double ttft_p50, double tpot_p50) {
  return {{"requests_ok", 8},
          {"ttft_s", {{"count", 8}, {"mean", ttft_p50 + 0.001}, {"p50", ttft_p50}, {"p95", 0.2}, {"p99", nullptr}}},
          {"tpot_s", {{"count", 8}, {"mean", tpot_p50}, {"p50", tpot_p50}, {"p95", 0.03}}},
          {"itl_s", nullptr}};
}

Observed seen(std::string who, const boost::json::object& report) {
  return observed(std::move(who), *object_of(boost::json::serialize(report)));
}

TEST(PrintObservers, PutsThemUnderEachOther) {
  std::ostringstream out;
  print_observers(out, {seen("the client itself", report(0.0521, 0.0182))});
  EXPECT_THAT(out.str(),
              HasSubstr("the client itself               8     53.10   52.10  200.00    18.20   18.20   30.00 "
                        "       -       -       -\n"));
}

TEST(PrintAdded, IsTheDifferenceOfTheMedians) {
  std::ostringstream out, none;
  print_added(out, seen("", report(0.0524, 0.0182)), seen("", report(0.0520, 0.01825)));
  EXPECT_THAT(out.str(), HasSubstr("TTFT +0.40 ms (52.40 with it, 52.00 without)"));
  EXPECT_THAT(out.str(), HasSubstr("TPOT -0.05 ms (18.20 with it, 18.25 without)"));
  print_added(out, seen("", report(0.0524, 0.018249)), seen("", report(0.0524, 0.018250)));
  EXPECT_THAT(out.str(), HasSubstr("TPOT 0.00 ms"));
  print_added(none, seen("", {}), seen("", report(0.05, 0.02)));
  EXPECT_THAT(none.str(), HasSubstr("TTFT unknown"));
}

TEST(Overhead, SaysWhatTheBucketsSayExactly) {
  std::istringstream in(R"(# HELP weir_token_overhead_seconds x
weir_token_overhead_seconds_bucket{replica="a",le="1e-05"} 40
weir_token_overhead_seconds_bucket{replica="a",le="2e-05"} 60
weir_token_overhead_seconds_bucket{replica="a",le="0.0001"} 90
weir_token_overhead_seconds_bucket{replica="a",le="+Inf"} 100
weir_token_overhead_seconds_sum{replica="a"} 0.003
weir_token_overhead_seconds_count{replica="a"} 100
weir_token_overhead_seconds_bucket{replica="b",le="1e-05"} 60
weir_token_overhead_seconds_bucket{replica="b",le="2e-05"} 100
weir_token_overhead_seconds_bucket{replica="b",le="0.0001"} 100
weir_token_overhead_seconds_bucket{replica="b",le="+Inf"} 100
weir_token_overhead_seconds_sum{replica="b"} 0.001
weir_token_overhead_seconds_count{replica="b"} 100
)");
  const auto o = overhead(read_metrics_text(in));
  ASSERT_TRUE(o);
  EXPECT_EQ(o->events, 200u);
  EXPECT_NEAR(o->mean, 2e-5, 1e-12);
  EXPECT_EQ(o->half_within, 1e-5);
  EXPECT_EQ(o->most_within, std::nullopt) << "95 % are below the last bound";
  std::ostringstream out;
  print_overhead(out, *o);
  EXPECT_THAT(out.str(), HasSubstr("200 token events held 20 us on average"));
  EXPECT_THAT(out.str(), HasSubstr("half of them at most 10 us, 99 % more than the last bucket's bound"));
}

TEST(Overhead, IsUnknownWhereNothingWasMeasured) {
  std::istringstream in("weir_token_overhead_seconds_count{replica=\"a\"} 0\n");
  EXPECT_FALSE(overhead(read_metrics_text(in)));
}

boost::json::object many_requests(double p99) {
  boost::json::object many = report(0.05, 0.02);
  many["requests_ok"] = 120;
  many["ttft_s"].as_object()["count"] = 120;
  many["ttft_s"].as_object()["p99"] = p99;
  many["ttft_s"].as_object()["max"] = 0.61;
  return many;
}

TEST(PrintReports, SetsTheP99BesideTheFirst) {
  std::ostringstream out;
  print_reports(out, {seen("round_robin", many_requests(0.5)), seen("least_requests", many_requests(0.4)),
                      seen("other", many_requests(0.55))});
  EXPECT_THAT(out.str(), HasSubstr("round_robin          120      51.0      50.0     200.0     500.0     610.0\n"));
  EXPECT_THAT(out.str(), HasSubstr("p99 against round_robin: least_requests -20 %, other +10 %. One run; behind each "
                                   "p99 stand the 2 slowest of 120 requests.\n"));
}

TEST(PrintReports, HasNoP99OfFewerThanAHundredRequests) {
  std::ostringstream out, one, none;
  print_reports(out, {seen("round_robin", many_requests(0.5)), seen("least_requests", report(0.05, 0.02))});
  EXPECT_THAT(out.str(), HasSubstr("least_requests         8      51.0      50.0     200.0         -"));
  EXPECT_THAT(out.str(), HasSubstr("p95 against round_robin: least_requests 0 %. One run; behind each p95 stand the 1 "
                                   "slowest of 8 requests.\n"));
  print_reports(one, {seen("round_robin", report(0.05, 0.02))});
  EXPECT_THAT(one.str(), Not(HasSubstr("against")));
  print_reports(none, {seen("round_robin", report(0.05, 0.02)), seen("broken", {})});
  EXPECT_THAT(none.str(), HasSubstr("broken              0         -"));
  EXPECT_THAT(none.str(), Not(HasSubstr("against")));
}

}  // namespace
}  // namespace weir::lab::report
