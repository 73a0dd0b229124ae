#include "lab/report/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "metrics/record/gap_sketch.hpp"

namespace weir::lab::report {
namespace {

using testing::HasSubstr;

/// Returns a line of the request log; `fields` replace or follow what is usual.
std::string log_line(std::string_view time, std::string_view replica, std::string_view config,
                     std::string_view fields) {
  return R"({"v":1,"time":")" + std::string(time) + R"(","role":"primary","replica":")" + std::string(replica) +
         R"(","config":")" + std::string(config) + R"(",)" + std::string(fields) + "}\n";
}

std::string bins(int gap_ms, int count) {
  const auto bin = metrics::record::GapSketch::bin_of(std::chrono::milliseconds(gap_ms));
  return "\"gap_bins\":[[" + std::to_string(bin) + "," + std::to_string(count) + "]]";
}

std::string ok_line(std::string_view second, std::string_view replica, std::string_view config, int ttft_ms) {
  return log_line("2026-11-21T07:00:" + std::string(second) + "Z", replica, config,
                  R"("outcome":"ok","ttft_s":)" + std::to_string(ttft_ms / 1e3) + R"(,"ttft_client_s":)" +
                      std::to_string((ttft_ms + 1) / 1e3) +
                      R"(,"tpot_s":0.02,"e2e_s":2,"prompt_tokens":100,"output_tokens":50,"k_source":"settled",)" +
                      bins(20, 49));
}

TEST(LogSummary, GroupsByReplicaAndByConfiguration) {
  std::istringstream in(ok_line("00.5", "gpu0", "a", 100) + ok_line("01", "gpu1", "a", 200) +
                        ok_line("08.5", "gpu2", "b", 400));
  const LogSummary summary = read_log(in);
  EXPECT_EQ(summary.all.ok, 3u);
  EXPECT_EQ(summary.replicas.size(), 3u);
  EXPECT_EQ(summary.configs.at("a").ok, 2u);
  EXPECT_DOUBLE_EQ(summary.elapsed(), 10);
  EXPECT_NEAR(load::distribution(summary.configs.at("a").ttft)->p50, 0.150, 1e-6);
  EXPECT_NEAR(load::distribution(summary.configs.at("a").ttft_client)->p50, 0.151, 1e-6);
  EXPECT_NEAR(summary.all.itl()->mean, 0.020, 0.020 * 0.016);
  EXPECT_EQ(summary.all.itl()->count, 147u);
  EXPECT_EQ(summary.all.output_tokens, 150u);
}

TEST(LogSummary, GapsBetweenEventsOfSeveralTokensAreNoItl) {
  const auto with = [](int tokens, const char* source) {
    std::istringstream in(log_line("2026-11-21T07:00:00Z", "gpu0", "a",
                                   R"("outcome":"ok","output_tokens":)" + std::to_string(tokens) + R"(,"k_source":")" +
                                       source + "\"," + bins(20, 48)));
    return read_log(in).all.itl().has_value();
  };
  EXPECT_TRUE(with(49, "wire"));
  EXPECT_TRUE(with(50, "wire")) << "the last one is an empty event";
  EXPECT_FALSE(with(51, "wire"));
  EXPECT_FALSE(with(150, "wire"));
  EXPECT_TRUE(with(50, "settled"));
  for (const char* const unknown : {"null", "unknown"}) EXPECT_FALSE(with(49, unknown));
}

TEST(LogSummary, FailuresAndAbortsAreCountedApartFromLatencies) {
  std::istringstream in(
      ok_line("00", "gpu0", "a", 100) +
      log_line("2026-11-21T07:00:01Z", "gpu0", "a", R"("outcome":"upstream_error","ttft_s":9,"output_tokens":7)") +
      log_line("2026-11-21T07:00:01Z", "gpu0", "a", R"("outcome":"client_abort","ttft_s":9,"output_tokens":null)") +
      log_line("2026-11-21T07:00:01Z", "", "", R"("outcome":"rejected","ttft_s":null)"));
  const LogSummary summary = read_log(in);
  EXPECT_EQ(summary.all.ok, 1u);
  EXPECT_EQ(summary.all.failed, 2u);
  EXPECT_EQ(summary.all.aborted, 1u);
  EXPECT_EQ(load::distribution(summary.all.ttft)->count, 1u);
  EXPECT_EQ(summary.all.output_tokens, 57u) << "tokens of failures count";
}

TEST(LogSummary, SkipsShadowsAndCountsWhatItCannotRead) {
  std::istringstream in(ok_line("00", "gpu0", "a", 100) +
                        "{\"time\":\"2026-11-21T07:00:00Z\",\"role\":\"shadow\",\"outcome\":\"ok\"}\n" +
                        "nonsense\n{\"time\":\"yesterday\",\"role\":\"primary\"}\n{\"v\":1,\"time\":\"2026-11");
  const LogSummary summary = read_log(in);
  EXPECT_EQ(summary.all.ok, 1u);
  EXPECT_EQ(summary.unreadable, 2u) << "the last line is still being written";
}

TEST(PrintSummary, ShowsReplicasAndConfigurations) {
  std::istringstream in(ok_line("00", "gpu0", "sim-a", 100) + ok_line("01", "gpu1", "sim-b", 200) + "nonsense\n");
  std::ostringstream out;
  print_summary(out, read_log(in));
  EXPECT_THAT(out.str(), HasSubstr("gpu0 (sim-a)         1       0       0     100.0   100.0"));
  EXPECT_THAT(out.str(), HasSubstr("sim-b                1       0       0     200.0   200.0"));
  EXPECT_THAT(out.str(),
              HasSubstr("3.0 s, 40.0 requests a minute, 100.0 tokens/s with prompts\n1 lines could not be read"));
}

}  // namespace
}  // namespace weir::lab::report
