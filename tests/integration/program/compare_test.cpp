// `weir compare` reads logs with differences that are known, and finds them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/integration/peers/process.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::integration {
namespace {

namespace json = boost::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string time_of(int second) {
  char text[40];
  std::snprintf(text, sizeof text, "2026-11-21T%02d:%02d:%02d.000000Z", 7 + second / 3600, second / 60 % 60,
                second % 60);
  return text;
}

std::string id_of(int number, int of) {
  char text[40];
  std::snprintf(text, sizeof text, "%016x%016x", static_cast<unsigned>(of), static_cast<unsigned>(number));
  return text;
}

/// A request's line, with what a comparison reads.
struct Line {
  int second = 0;
  std::string id, pair, role, replica, config, outcome = "ok", shadow = "candidate";
  double ttft = 0.2, tpot = 0.02;
  double queue = 0;
  int prompt = 500, output = 101;

  std::string text() const {
    const double e2e = ttft + tpot * (output - 1);
    json::object line{{"v", 1},
                      {"time", time_of(second)},
                      {"id", id},
                      {"pair", nullptr},
                      {"role", role},
                      {"pool", "chat"},
                      {"replica", replica},
                      {"config", config},
                      {"api", "openai.chat"},
                      {"model", "m"},
                      {"stream", true},
                      {"status", 200},
                      {"outcome", outcome},
                      {"prompt_tokens", prompt},
                      {"cached_tokens", 0},
                      {"output_tokens", output},
                      {"queue_s", queue},
                      {"ttft_s", ttft},
                      {"ttft_client_s", ttft},
                      {"tpot_s", tpot},
                      {"e2e_s", e2e},
                      {"k_source", "settled"},
                      {"gap_bins", {{300, output - 1}}},
                      {"complete", "marker"},
                      {"in_flight_at_start", 2},
                      {"in_flight_mean", 2.5},
                      {"turn", 1 + second % 2},
                      {"lasted_s", e2e},
                      {"served", outcome == "ok"}};
    if (!pair.empty()) {
      line["pair"] = pair;
      line["shadow"] = shadow;
    }
    return json::serialize(line) + '\n';
  }
};

/// A twin for an hour, a pair a second: b takes `slower` times as long a token as a, and as long to the first one.
std::string twin_log(double slower, const std::string& config_b = "fp8", int seconds = 3600) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.03);
  std::string text;
  for (int second = 0; second < seconds; ++second) {
    const auto length = 80 + static_cast<int>(random() % 40);
    for (const bool shadow : {false, true}) {
      Line line;
      line.second = second;
      line.id = id_of(second, shadow ? 2 : 1);
      if (shadow) line.pair = id_of(second, 1);
      line.role = shadow ? "shadow" : "primary";
      line.queue = shadow ? 0.004 : 0.001;  // A shadow is sent a little after its primary.
      line.replica = shadow ? "cand0" : "gpu0";
      line.config = shadow ? config_b : "fp16";
      line.ttft *= std::exp(noise(random));
      line.tpot *= std::exp(noise(random)) * (shadow ? slower : 1);
      line.output = length;
      line.prompt = 300 + second % 1000;
      text += line.text();
    }
  }
  return text;
}

class Compare : public ::testing::Test {
 protected:
  std::string log(const std::string& name, const std::string& text) {
    const auto file = directory_.path() / name;
    write_file(file, text);
    return file.string();
  }

  static Finished compare(std::vector<std::string> words) {
    words.insert(words.begin(), "compare");
    return run_weir(std::move(words));
  }

  static json::object report(std::vector<std::string> words) {
    words.push_back("--json");
    const auto done = compare(std::move(words));
    EXPECT_EQ(done.exit.code, 0) << done.output;
    return json::parse(done.output).as_object();
  }

  static json::object verdict(const json::object& report, const char* metric, const char* of = "verdicts",
                              const char* key = "metric") {
    for (const auto& one : report.at(of).as_array()) {
      if (one.at(key) == json::value(metric)) return one.as_object();
    }
    ADD_FAILURE() << "no verdict on " << metric;
    return {};
  }
  static json::object fault(const json::object& report, const char* name) {
    return verdict(report, name, "faults", "fault");
  }

 private:
  const TemporaryDirectory directory_;
};

TEST_F(Compare, FindsTheDifferenceOfATwin) {
  const auto file = log("twin.jsonl", twin_log(1.1));
  const auto said =
      report({file, "--for", "50m", "--slo", "ttft_client=1,tpot=0.1", "--cost", "fp16=1.2", "--cost", "cand0=0.6"});
  EXPECT_EQ(said.at("state"), "final");
  EXPECT_EQ(said.at("a"), "fp16");
  EXPECT_EQ(said.at("b"), "fp8");
  EXPECT_EQ(said.at("pairs"), 3000) << "an hour, less ten minutes in which the shadow was cold";
  EXPECT_EQ(said.at("window").at("from"), "2026-11-21T07:10:00Z");
  const auto tpot = verdict(said, "tpot");
  EXPECT_EQ(tpot.at("verdict"), "worse");
  EXPECT_NEAR(tpot.at("estimate").to_number<double>(), 0.1, 0.01);
  for (const auto* same : {"ttft", "output_tokens"}) EXPECT_EQ(verdict(said, same).at("verdict"), "equivalent") << same;
  EXPECT_EQ(fault(said, "slo").at("verdict"), "not_worse") << "none of 3000 missed on either side";
  const auto& sides = said.at("sides").as_array();
  ASSERT_EQ(sides.size(), 2U);
  for (const auto& [index, cost] : {std::pair{0U, 1.2}, {1U, 0.6}})
    EXPECT_NEAR(sides[index].at("cost_per_thousand_requests").to_number<double>(), cost / 3.6, 0.01);
}

TEST_F(Compare, EachOptionChoosesWhichPairsCount) {
  const auto file = log("twin.jsonl", twin_log(1.1));
  const auto settings = log("weir.toml",
                            "[[pool]]\nname = \"chat\"\n[[pool.replica]]\nname = \"gpu0\"\nurl = \"http://h:1\"\n"
                            "[[shadow]]\nname = \"candidate\"\nof = \"chat\"\ntwin = \"gpu0\"\n"
                            "[[shadow.replica]]\nname = \"cand0\"\nurl = \"http://h:2\"\nkv_tokens = 799000\n");
  const struct {
    std::vector<std::string> words;
    int pairs;
  } rows[]{
      {{"--warm-up", "0s"}, 3600},
      {{"--pool", "chat"}, 3000},
      // In the seconds from 1200 to 2399, 300 and 400 have such prompts.
      {{"--prompt-tokens", "300-799", "--from", "2026-11-21T07:20:00Z", "--to", "2026-11-21T07:40:00Z"}, 700},
      // Prompts have 300 to 1299 tokens, so 17 minutes have prefilled what the shadow's memory holds.
      {{"--config", settings}, 2580},
  };
  for (auto [words, pairs] : rows) {
    words.insert(words.begin(), file);
    EXPECT_EQ(report(words).at("pairs"), pairs) << words[1];
  }
}

/// The reports themselves are golden files (unit/metrics/compare/report/report_test.cpp).
TEST_F(Compare, WritesTextWithDetailsOrMarkdown) {
  const auto file = log("twin.jsonl", twin_log(1.1));
  const auto text = compare({file, "--for", "50m"}).output;
  EXPECT_THAT(text, AllOf(HasSubstr("Final: 3000 pairs"), HasSubstr("More with --details"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(compare({file, "--details"}).output, HasSubstr("What each side did\n"));
  EXPECT_THAT(compare({file, "--markdown"}).output, HasSubstr("| TPOT | worse |"));
}

TEST_F(Compare, WritesAPageBesideTheText) {
  const auto file = log("twin.jsonl", twin_log(1.1)), page = log("report.html", "what was there");
  const auto text = compare({file}), with_page = compare({file, "--html", page});
  EXPECT_EQ(with_page.exit.code, 0);
  EXPECT_EQ(with_page.output, text.output);
  const auto html = read_file(page);
  EXPECT_THAT(html, ::testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(html, ::testing::EndsWith("</html>\n"));
  const auto said = report({file, "--html", page});
  EXPECT_THAT(html, HasSubstr(json::serialize(said.at("verdicts").at(0).at("why"))));
  std::filesystem::remove(page);
  EXPECT_EQ(compare({file, "--html", page, "--gate"}).exit.code, 3);
  EXPECT_EQ(std::filesystem::status(page).permissions(), std::filesystem::perms(0600));
}

TEST_F(Compare, ReadsSeveralLogsAndGzip) {
  const auto text = twin_log(1.1);
  const auto half = text.find('\n', text.size() / 2) + 1;
  const auto first = log("requests.jsonl.1", text.substr(0, half)), second = log("requests.jsonl", text.substr(half));
  ASSERT_EQ(run({"/usr/bin/env", "gzip", first}).exit.code, 0);
  const auto apart = report({first + ".gz", second}), whole = report({log("all.jsonl", text)});
  EXPECT_EQ(apart, whole);
  const auto piped =
      run({"/bin/sh", "-c", "exec \"$0\" compare --json \"$1\" - < \"$2\"", weir_program(), second, first + ".gz"});
  EXPECT_EQ(json::parse(piped.output), whole);
}

/// What equal GPUs drift apart by is then known, and any difference beyond the margin may be a verdict.
TEST_F(Compare, AFloorOfEightHoursTellsTheNoise) {
  const auto twin = log("twin.jsonl", twin_log(1.06)), floor = log("floor.jsonl", twin_log(1, "fp16", 30'600));
  EXPECT_EQ(verdict(report({twin, "--for", "30m"}), "tpot").at("verdict"), "inconclusive");
  EXPECT_EQ(verdict(report({twin, "--for", "30m", "--floor", floor}), "tpot").at("verdict"), "worse");
  const auto refused = compare({twin, "--floor", log("short.jsonl", twin_log(1, "fp16"))});
  EXPECT_EQ(refused.exit.code, 1);
  EXPECT_THAT(refused.output, HasSubstr("has pairs in 50 minutes, and it takes eight hours"));
}

TEST_F(Compare, AFloorOfTwoConfigurationsIsNone) {
  const auto floor = log("other.jsonl", twin_log(1.3));
  const auto refused = compare({log("twin.jsonl", twin_log(1.1)), "--floor", floor, "--gate"});
  EXPECT_EQ(refused.exit.code, 1);
  EXPECT_THAT(refused.output,
              HasSubstr("other.jsonl: a primary ran \"fp16\" and its shadow \"fp8\"; it takes the log of a twin"));
}

TEST_F(Compare, WithoutADeclaredWindowAllThereIsCounts) {
  const auto said = report({log("twin.jsonl", twin_log(1.1))});
  EXPECT_EQ(said.at("state"), "running");
  EXPECT_EQ(said.at("pairs"), 3000);
  EXPECT_EQ(verdict(said, "tpot").at("verdict"), "worse");
}

TEST_F(Compare, TheGatesExitStatusSaysWhetherToGoOnAndWhy) {
  const auto slower = log("slower.jsonl", twin_log(1.1)), same = log("same.jsonl", twin_log(1.0));
  const auto worse = compare({slower, "--gate"});
  EXPECT_EQ(worse.exit.code, 3);
  EXPECT_THAT(worse.output, AllOf(HasSubstr("gate: worse\n"), HasSubstr("worse: tpot: TPOT of fp8 is")));
  const auto pass = compare({same, "--gate"});
  EXPECT_EQ(pass.exit.code, 0) << pass.output;
  EXPECT_THAT(pass.output, HasSubstr("gate: pass\nMay be promoted"));
  const auto unknown = compare({same, "--gate", "--for", "9m"});
  EXPECT_EQ(unknown.exit.code, 4) << "it takes ten minutes";
  EXPECT_THAT(unknown.output, HasSubstr("not known: failed: "));
  EXPECT_EQ(compare({"/nowhere/requests.jsonl", "--gate"}).exit.code, 1);
}

TEST_F(Compare, SaysWhatItCannotDo) {
  const auto file = log("twin.jsonl", twin_log(1.1));
  const struct {
    std::vector<std::string> words;
    int status;
    const char* told;
  } cases[]{
      {{file, "--a", "int4", "--b", "fp8"}, 2, "--a \"int4\" is no configuration"},
      {{file, "--html", "/nowhere/report.html"}, 1, "--html /nowhere/report.html: cannot be written: No such file"},
      {{file, "--html", "/dev/full"}, 1, "--html /dev/full: cannot be written: No space left"},
      {{file, "--html", file}, 2, "is a log"},
      {{log("empty.jsonl", "")}, 2, "there is none"}};
  for (const auto& [words, status, told] : cases) {
    const auto done = compare(words);
    EXPECT_EQ(done.exit.code, status) << done.output;
    EXPECT_THAT(done.output, HasSubstr(told));
  }
  const auto broken = log("broken.jsonl", "weir: started\n" + twin_log(1.1) + "{\"v\":1,\"time\":\"2026-");
  EXPECT_THAT(compare({broken}).output,
              HasSubstr("1 of 7202 lines are no lines of a request log; the first is " + broken + ":1"));
}

/// Requests of one configuration, `rate` a second in [from, to), as `weir-lab load --log` writes them.
std::string load_log(const std::string& config, int from, int to, double slower, int series) {
  std::mt19937 random(static_cast<unsigned>(series));
  std::normal_distribution<double> noise(0, 0.03);
  std::string text;
  for (int second = from; second < to; ++second) {
    Line line;
    line.second = second;
    line.id = id_of(second, series);
    line.role = "primary";
    line.replica = line.config = config;
    line.ttft *= slower * std::exp(noise(random));
    line.tpot *= slower * std::exp(noise(random));
    text += line.text();
  }
  return text;
}

/// docs/guides/load-test.md, "Replay a log or a trace": a log, and a replay of it hours later.
TEST_F(Compare, AReplayIsSetBesideItsLog) {
  const auto requests = log("requests.jsonl", load_log("vllm-fp16", 0, 1200, 1, 1)),
             replay = log("replay.jsonl", load_log("candidate", 36'000, 37'200, 1.1, 2));
  for (const auto& more : {std::vector<std::string>{}, {"--from", "48h"}}) {
    std::vector<std::string> words{requests, replay, "--a", "vllm-fp16", "--b", "candidate"};
    words.insert(words.end(), more.begin(), more.end());
    const auto text = compare(words);
    EXPECT_EQ(text.exit.code, 0);
    EXPECT_THAT(text.output, AllOf(StartsWith("Run vllm-fp16 and candidate at the same time: they did not"),
                                   HasSubstr("TPOT from 20"), HasSubstr("Side by side: 1200 requests of vllm-fp16"),
                                   HasSubstr("The sides do not overlap"), Not(HasSubstr("would do"))));
    const auto said = report(words);
    EXPECT_EQ(said.at("apart").at("b").at("from"), "2026-11-21T17:00:00Z");
    EXPECT_EQ(verdict(said, "tpot").at("withheld"), true);
    EXPECT_NEAR(verdict(said, "tpot").at("estimate").to_number<double>(), 0.1, 0.01);
    for (const auto& side : said.at("sides").as_array()) {
      EXPECT_EQ(side.at("requests"), 1200);
      EXPECT_NEAR(side.at("rpm").to_number<double>(), 60, 0.1) << "over its own time";
    }
    words.push_back("--gate");
    EXPECT_EQ(compare(words).exit.code, 4);
  }
}

/// docs/guides/load-test.md, experiments: rows take turns, and --from lies before all of them.
TEST_F(Compare, ARowsRepetitionsAreAllCounted) {
  std::string text;
  for (int turn = 0; turn < 20; ++turn) {
    text += load_log("H800, 8 at once", 90 * turn, 90 * turn + 45, 1, 2 * turn + 1);
    text += load_log("H800, 32 at once", 90 * turn + 45, 90 * turn + 90, 1.2, 2 * turn + 2);
  }
  const auto cards = log("cards.jsonl", text);
  std::vector<std::string> words{cards, "--a", "H800, 8 at once", "--b", "H800, 32 at once", "--from", "24h"};
  const auto said = report(words);
  EXPECT_EQ(said.at("window").at("from"), "2026-11-21T07:00:00Z") << "where the requests begin";
  EXPECT_EQ(verdict(said, "tpot").at("verdict"), "worse");
  EXPECT_NEAR(verdict(said, "tpot").at("estimate").to_number<double>(), 0.2, 0.01);
  for (const auto& side : said.at("sides").as_array()) EXPECT_EQ(side.at("requests"), 900);
}

TEST_F(Compare, SeveralCandidatesAreOneTable) {
  std::string text;
  std::mt19937 random(3);
  std::normal_distribution<double> noise(0, 0.03);
  for (int second = 0; second < 3600; ++second) {
    int series = 0;
    for (const auto& [config, shadow, slower] :
         {std::tuple("fp16", "", 1.0), {"fp16", "control", 1.0}, {"fp8", "first", 1.1}, {"int4", "second", 1.0}}) {
      Line line;
      line.second = second;
      line.id = id_of(second, ++series);
      line.role = *shadow ? "shadow" : "primary";
      line.shadow = shadow;
      if (*shadow) line.pair = id_of(second, 1);
      line.config = config;
      line.replica = std::string(config) + shadow;
      line.ttft *= slower * std::exp(noise(random));
      line.tpot *= slower * std::exp(noise(random));
      text += line.text();
    }
  }
  const auto file = log("many.jsonl", text), page = log("report.html", "");
  const auto done = compare({file, "--html", page, "--gate", "--for", "45m"});
  EXPECT_EQ(done.exit.code, 3) << "one is worse";
  EXPECT_THAT(
      done.output,
      AllOf(HasSubstr("2 candidates against fp16 (control)\n"), ContainsRegex("\nfp8 +worse +.*worse"),
            ContainsRegex("\nint4 +pass +.*\n +equivalent"), HasSubstr("- Do not promote fp8: it is slower: TTFT")));
  EXPECT_THAT(read_file(page), HasSubstr("\"title\":\"Candidate int4\""));
  const auto said = report({file, "--for", "45m"});
  EXPECT_EQ(said.at("candidates").as_array().size(), 2U);
  EXPECT_EQ(compare({file, "--b", "int4", "--a", "fp16", "--gate", "--for", "45m"}).exit.code, 0);
}

}  // namespace
}  // namespace weir::integration
