#include "proxy/compare/request.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace weir::proxy::compare {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Request read(CompareOptions options) {
  options.logs = {"requests.jsonl"};
  auto request = request_of(options);
  if (const auto* problem = std::get_if<config::Problem>(&request)) {
    ADD_FAILURE() << problem->text;
    return {};
  }
  return std::get<Request>(request);
}

std::string problem_of(CompareOptions options) {
  if (options.logs.empty()) options.logs = {"requests.jsonl"};
  const auto request = request_of(options);
  const auto* problem = std::get_if<config::Problem>(&request);
  return problem ? problem->text : "fine";
}

TEST(CompareRequest, WithoutOptionsHasTheDefaults) {
  const auto request = read({});
  EXPECT_EQ(request.by, metrics::compare::sides::By::config);
  EXPECT_FALSE(request.from || request.to || request.length_us || request.slo || request.prompt_tokens);
  EXPECT_EQ(request.warm_up_s, 600);
  EXPECT_EQ(request.margins.tpot, 0.08);
  EXPECT_EQ(request.margins.failed, 0.002);
}

TEST(CompareRequest, TimesAreMomentsOrBeforeTheLastRequest) {
  CompareOptions options;
  options.from = "2026-11-21T00:00:01Z";
  options.to = "90s";
  const auto request = read(options);
  EXPECT_EQ(request.from->of(5), 1'795'219'201'000'000);
  EXPECT_EQ(request.to->of(100'000'000), 10'000'000);
  options.to.clear();
  options.length = "30m";
  EXPECT_EQ(read(options).length_us, 1'800'000'000);
}

TEST(CompareRequest, ThresholdsMakeAnObjective) {
  CompareOptions options;
  options.slo = "ttft_client=1,tpot=50ms,e2e=2m,ttft=0.5";
  const auto slo = read(options).slo.value();
  EXPECT_EQ(slo.ttft_client, config::Seconds(1));
  EXPECT_EQ(slo.tpot, config::Seconds(0.05));
  EXPECT_EQ(slo.e2e, config::Seconds(120));
  EXPECT_EQ(slo.ttft, config::Seconds(0.5));
}

TEST(CompareRequest, CostsAndPromptsAreRead) {
  CompareOptions options;
  options.costs = {"gpu0=0.8", "a=b=2"};
  options.prompt_tokens = "0-4096";
  const auto request = read(options);
  EXPECT_EQ(request.costs.find("gpu0")->second, 0.8);
  EXPECT_EQ(request.costs.find("a=b")->second, 2);
  EXPECT_EQ(request.prompt_tokens->high, 4096U);
}

TEST(CompareRequest, MarginsAreSharesOrPercent) {
  CompareOptions options;
  options.margins = {"tpot=3%", "ttft=0.2", "e2e=50%", "misses=1%", "errors=0.5%"};
  const auto margins = read(options).margins;
  EXPECT_NEAR(margins.tpot, 0.03, 1e-12);
  EXPECT_NEAR(margins.ttft, 0.2, 1e-12);
  EXPECT_NEAR(margins.e2e, 0.5, 1e-12);
  EXPECT_NEAR(margins.misses, 0.01, 1e-12);
  EXPECT_NEAR(margins.failed, 0.005, 1e-12);
  EXPECT_EQ(margins.output_tokens, 0.1);
  for (const auto* const wrong :
       {"misses=x1.2", "misses=0%",   "misses=101%", "misses=-1%",     "misses=1.2",     "errors=0.2%/0.2%",
        "errors=x1.2", "errors=101%", "errors=5",    "tpot=x1.2/0.2%", "tpot",           "tpot=",
        "tpot=0",      "tpot=-5%",    "tpot=x1",     "tpot=x5%",       "tpot=nan",       "tpot=inf",
        "tpot=11",     "tpot=1",      "ttft=5",      "itl=5%",         "mean_tokens=5%", "=5%"}) {
    options.margins = {wrong};
    EXPECT_THAT(problem_of(options), AllOf(HasSubstr("--margins \"" + std::string(wrong)), HasSubstr("tpot=5%")));
  }
}

TEST(CompareRequest, ThePageIsWrittenOverNothingThatIsRead) {
  const auto dir = std::filesystem::temp_directory_path() / ("weir-request-page-" + std::to_string(getpid()));
  std::filesystem::create_directories(dir);
  const auto file = (dir / "file").string();
  std::ofstream{file} << "text";
  CompareOptions options;
  options.html = (dir / "../" / dir.filename() / "file").string();
  EXPECT_EQ(problem_of(options), "fine");
  options.logs = {"requests.jsonl", file};
  EXPECT_THAT(problem_of(options), HasSubstr("is a log, and would be lost; name another file"));
  options.logs.clear();
  options.floor = file;
  EXPECT_THAT(problem_of(options), HasSubstr("is a log, and would be lost; name another file"));
  options.floor.clear();
  options.config = file;
  EXPECT_THAT(problem_of(options), HasSubstr("has the settings, which would be lost; name another file"));
  options.config.clear();
  options.logs = {"-"};
  EXPECT_EQ(problem_of(options), "fine");
  const int kept = ::dup(STDIN_FILENO), read = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ::dup2(read, STDIN_FILENO);
  EXPECT_THAT(problem_of(options), HasSubstr("is a log, and would be lost; name another file"));
  ::dup2(kept, STDIN_FILENO);
  ::close(read);
  ::close(kept);
  std::filesystem::remove_all(dir);
}

TEST(CompareRequest, NothingIsSaidTwice) {
  CompareOptions options;
  options.margins = {"ttft=10%", "tpot=3%", "ttft=5%"};
  EXPECT_EQ(problem_of(options), "--margins \"ttft=5%\": is there twice; leave one out");
  options.margins = {"ttft=10%", "tpot=3%"};
  options.slo = "ttft=1,tpot=1,ttft=2";
  EXPECT_EQ(problem_of(options), "--slo \"ttft=1,tpot=1,ttft=2\": has ttft twice; leave one out");
  options.slo = "ttft=1";
  options.costs = {"gpu0=1", "gpu1=1", "gpu0=2"};
  EXPECT_EQ(problem_of(options), "--cost \"gpu0=2\": is there twice; leave one out");
}

TEST(CompareRequest, SettingsHaveObjectivesCostsAndWhatShadowsHold) {
  const auto file =
      std::filesystem::temp_directory_path() / ("weir-request-test-" + std::to_string(getpid()) + ".toml");
  std::ofstream(file)
      << "[[pool]]\nname = \"chat\"\n[[pool.replica]]\nname = \"gpu0\"\nurl = \"http://h:1\"\n"
         "cost_per_hour = 0.8\n"
         "[[pool.replica]]\nname = \"fleet\"\nurl = \"http://fleet:1\"\nexpand = true\nconfig = \"fp8\"\n"
         "cost_per_hour = 0.5\nkv_tokens = 1\n"
         "[[shadow]]\nname = \"cand\"\nof = \"chat\"\nsample = 0.1\n"
         "[[shadow.replica]]\nname = \"cand0\"\nurl = \"http://h:2\"\nkv_tokens = 420000\n"
         "[[shadow.replica]]\nname = \"cand\"\nurl = \"http://cand:1\"\nexpand = true\nconfig = \"int4\"\nkv_tokens = "
         "5\n[[slo]]\nname = \"chat\"\npool = \"chat\"\ntpot = \"50ms\"\n";
  CompareOptions options;
  options.config = file.string();
  options.slo = "chat";
  options.costs = {"gpu1=2"};
  const auto request = read(options);
  EXPECT_EQ(request.slo->tpot, config::Seconds(0.05));
  EXPECT_EQ(request.costs.find("gpu0")->second, 0.8);
  EXPECT_EQ(request.costs.find("gpu1")->second, 2);
  EXPECT_EQ(request.costs.find("fp8")->second, 0.5) << "its replicas are fleet-1, fleet-2 and so on";
  EXPECT_EQ(request.kv_tokens, (std::map<std::string, std::uint64_t, std::less<>>{{"cand0", 420'000}, {"int4", 5}}));
  EXPECT_EQ(request.pool, "chat");
  options.pool = "other";
  EXPECT_EQ(read(options).pool, "other");
  options.slo = "chatt";
  EXPECT_THAT(problem_of(options), AllOf(HasSubstr("--slo \"chatt\""), HasSubstr("did you mean \"chat\"?")));
  std::filesystem::remove(file);
  EXPECT_THAT(problem_of(options), HasSubstr(file.string()));
}

TEST(CompareRequest, WithoutALogAsksForOne) {
  const auto request = request_of({});
  EXPECT_THAT(std::get<config::Problem>(request).text, HasSubstr("name a request log"));
}

TEST(CompareRequest, WhatIsWrongIsToldWithTheWayOut) {
  const struct {
    void (*set)(CompareOptions&);
    const char *option, *way_out;
  } cases[]{
      {[](auto& options) { options.from = "yesterday"; }, "--from \"yesterday\"", "such as 2h"},
      {[](auto& options) { options.to = "2026-11-21"; }, "--to \"2026-11-21\"", "2026-11-21T07:00:00Z"},
      {[](auto& options) { options.length = "0s"; }, "--for \"0s\"", "30m"},
      {[](auto& options) { options.warm_up = "-1s"; }, "--warm-up \"-1s\"", "60s"},
      {[](auto& options) { options.slo = "chat"; }, "--slo \"chat\"", "--config FILE"},
      {[](auto& options) { options.slo = "tpto=1"; }, "--slo \"tpto=1\"", "ttft_client, ttft, tpot and e2e"},
      {[](auto& options) { options.slo = "tpot=fast"; }, "--slo \"tpot=fast\"", "tpot=0.05"},
      {[](auto& options) { options.slo = "tpot=1,"; }, "fine", "fine"},
      {[](auto& options) { options.slo = "tpot=nan"; }, "--slo \"tpot=nan\"", "tpot=0.05"},
      {[](auto& options) { options.prompt_tokens = "4096"; }, "--prompt-tokens \"4096\"", "0-4096"},
      {[](auto& options) { options.prompt_tokens = "5-4"; }, "--prompt-tokens \"5-4\"", "0-4096"},
      {[](auto& options) { options.costs = {"0.8"}; }, "--cost \"0.8\"", "gpu0=0.80"},
      {[](auto& options) { options.costs = {"gpu0=inf"}; }, "--cost \"gpu0=inf\"", "gpu0=0.80"},
      {[](auto& options) { options.margin = 0; }, "--margin \"0\"", "0.02"},
      {[](auto& options) { options.from = "1h", options.to = "0s", options.length = "1h"; }, "--for", "leave one out"},
  };
  for (const auto& [set, option, way_out] : cases) {
    CompareOptions options;
    set(options);
    EXPECT_THAT(problem_of(options), AllOf(HasSubstr(option), HasSubstr(way_out)));
  }
}

}  // namespace
}  // namespace weir::proxy::compare
