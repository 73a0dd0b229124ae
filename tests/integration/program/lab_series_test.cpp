// Sweeps, peak users and experiments of weir-lab, against simulated replicas that step fast.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <filesystem>
#include <set>

#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/simulated_replica.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::integration {
namespace {

namespace json = boost::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A simulated replica that steps fast.
class FastReplica : public SimulatedReplica {
 public:
  FastReplica()
      : SimulatedReplica({"--step-ms", "1", "--prefill-us", "1", "--sequence-us", "0", "--max-batch", "256"}) {}
};

TEST(LabSweep, MeasuresEachNumberAtOnceAndWritesItsFiles) {
  const FastReplica replica;
  const auto report = replica.folder() / "sweep.json", page = replica.folder() / "sweep.html",
             log = replica.folder() / "sweep.log";
  const auto done = run_lab({"load", "--url", replica.url(), "--concurrency", "4,1,2", "--runs", "2", "--input-tokens",
                             "50", "--output-tokens", "200", "--json", report, "--html", page, "--log", log});
  EXPECT_EQ(done.exit.code, 0) << done.output;
  EXPECT_THAT(done.output, AllOf(HasSubstr("2 batches of each size are measured"), HasSubstr("at once"),
                                 HasSubstr("Decode: latency against throughput"), Not(HasSubstr("\x1b"))));
  const auto read = json::parse(read_file(report));
  const auto& points = read.at("sweep").as_array();
  ASSERT_EQ(points.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t n = std::int64_t{1} << i;
    EXPECT_EQ(points[i].at("concurrency"), n);
    EXPECT_EQ(points[i].at("prefill").at("latency_s").at("count"), 2 * n) << "the warm-up is left out";
    EXPECT_TRUE(points[i].at("own_delay").is_null() || points[i].at("own_delay").is_string());
    EXPECT_GT(points[i].at("decode").at("tokens_per_second").to_number<double>(), 0);
  }
  EXPECT_TRUE(read.at("knee").as_object().contains("decode"));
  EXPECT_THAT(read_file(page), HasSubstr("</html>"));
  for (const auto& file : {report, page, log})
    EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms(0600)) << file;
  std::set<std::string> ids;
  for (const auto& line : json_lines(read_file(log))) ids.insert(member(line, "id"));
  EXPECT_EQ(ids.size(), 3u * (1 + 2 + 4)) << "a line of its own for each request, warm-up included";
}

TEST(LabSweep, AServiceThatIsNotThereIsTold) {
  const auto done = run_lab({"load", "--url", url_of(free_port()), "--concurrency", "1,2", "--runs", "1"});
  EXPECT_EQ(done.exit.code, 1);
  EXPECT_THAT(done.output, AllOf(HasSubstr("requests failed (connect"), HasSubstr("nothing was measured")));
}

TEST(LabUsers, AreMeasuredOnceAllAreThere) {
  const FastReplica replica;
  const auto report = replica.folder() / "users.json";
  const auto done =
      run_lab({"load", "--url", replica.url(), "--users", "2,6", "--ramp", "20", "--think", "5ms", "--duration",
               "400ms", "--input-tokens", "50", "--output-tokens", "20", "--slo", "ttft=5,tpot=1", "--json", report});
  EXPECT_EQ(done.exit.code, 0) << done.output;
  EXPECT_THAT(done.output, HasSubstr("6 users at once still meet the objective (TTFT 5 s, TPOT 1 s"));
  const auto read = json::parse(read_file(report));
  ASSERT_EQ(read.at("users").as_array().size(), 2u);
  for (const auto& stage : read.at("users").as_array()) {
    EXPECT_GT(stage.at("e2e_s").at("p50").to_number<double>(), 0);
    EXPECT_GT(stage.at("output_tokens_per_second").to_number<double>(), 0);
    EXPECT_EQ(stage.at("failed"), 0);
    EXPECT_NEAR(stage.at("seconds").to_number<double>(), 0.4, 0.001) << "the ramp is not in it";
  }
  EXPECT_EQ(read.at("peak_users"), 6);
}

TEST(LabRates, AreTriedOneAfterTheOther) {
  const FastReplica replica;
  const auto report = replica.folder() / "rates.json", page = replica.folder() / "rates.html",
             log = replica.folder() / "rates.jsonl";
  const auto done = run_lab({"load",
                             "--url",
                             replica.url() + "/v1",
                             "--rate",
                             "40,20",
                             "--arrivals",
                             "constant",
                             "--duration",
                             "500ms",
                             "--warm-up",
                             "100ms",
                             "--input-tokens",
                             "50",
                             "--output-tokens",
                             "20",
                             "--slo",
                             "ttft=5",
                             "--json",
                             report,
                             "--html",
                             page,
                             "--log",
                             log});
  EXPECT_EQ(done.exit.code, 0) << done.output;
  EXPECT_THAT(done.output, HasSubstr("40 requests a second still meet the objective"));
  const auto read = json::parse(read_file(report));
  const auto& rates = read.at("rates").as_array();
  ASSERT_EQ(rates.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const double rate = i == 0 ? 20 : 40;
    EXPECT_EQ(rates[i].at("rate").to_number<double>(), rate);
    EXPECT_NEAR(rates[i].at("requests_ok").to_number<double>(), rate * 0.5, 2) << "those due within the time";
  }
  EXPECT_EQ(read.at("peak_rate").to_number<double>(), 40);
  EXPECT_THAT(read_file(page), HasSubstr("E2E against throughput"));
  std::size_t warm_up = 0;
  for (const auto& line : json_lines(read_file(log))) warm_up += line.contains("warm_up") ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(warm_up), 0.1 * (20 + 40), 3);
}

TEST(LabCtrlC, PrintsWhatWasMeasured) {
  const struct {
    std::vector<std::string> words;
    std::uintmax_t bytes;  ///< So much of the log has been written by then.
    std::vector<std::string> told;
  } rows[]{
      {{"--preset", "llmperf", "--requests", "0"}, 1, {"unfinished", "LLMPerfITL"}},
      // The batches are shorter than the time after which a load looks for Ctrl-C.
      {{"--concurrency", "1,2", "--runs", "10000", "--output-tokens", "10"},
       5000,
       {"ended by its user", "The knee is"}},
      {{"--users", "2,4", "--ramp", "0", "--duration", "10m", "--output-tokens", "10"},
       1,
       {"ended by its user", "E2E against throughput"}},
  };
  for (const auto& [words, bytes, told] : rows) {
    SCOPED_TRACE(words[0]);
    const FastReplica replica;
    const auto output = replica.folder() / "out", log = replica.folder() / "log";
    std::vector<std::string> command{WEIR_LAB_PROGRAM, "load", "--url", replica.url(), "--log", log};
    command.insert(command.end(), words.begin(), words.end());
    Process load(command, output);
    look_until("lines of its log",
               [&, bytes = bytes] { return std::filesystem::exists(log) && std::filesystem::file_size(log) >= bytes; });
    load.send(SIGINT);
    const auto exit = load.wait(patience);
    ASSERT_TRUE(exit);
    EXPECT_EQ(exit->code, 0) << read_file(output);
    for (const auto& one : told) EXPECT_THAT(read_file(output), HasSubstr(one));
  }
}

class LabExperiment : public testing::Test {
 protected:
  /// Writes an experiment of two rows at the replica.
  std::string written(const std::string& more = "") {
    const auto file = replica_.folder() / "cards.toml";
    write_file(file, "title = \"Cards\"\nrepeat = 2\n" + more +
                         "[prompts]\ncount = 6\ninput_tokens = 40\noutput_tokens = 10\noutput_stddev = 0\n"
                         "[[run]]\nlabel = \"fast\"\nurl = \"" +
                         replica_.url() + "\"\nconcurrency = [1, 3]\ncost_per_hour = 2\n");
    return file.string();
  }

  FastReplica replica_;
};

TEST_F(LabExperiment, RunsEveryRowAndDoesNotRepeatWhatIsDone) {
  const auto file = written();
  const auto csv = replica_.folder() / "cards.csv", page = replica_.folder() / "cards.html";
  const auto first = run_lab({"experiment", file, "--csv", csv, "--html", page});
  EXPECT_EQ(first.exit.code, 0) << first.output;
  EXPECT_THAT(first.output, AllOf(HasSubstr("[1/4] fast, 1 at once, repetition 1 of 2"),
                                  HasSubstr("[4/4] fast, 3 at once"), HasSubstr("cost / 1M")));
  EXPECT_THAT(read_file(csv), HasSubstr("\nfast,"));
  EXPECT_THAT(read_file(page), HasSubstr("</html>"));
  const auto kept = read_file(replica_.folder() / "cards.results.jsonl");
  EXPECT_EQ(std::count(kept.begin(), kept.end(), '\n'), 4);

  const auto again = run_lab({"experiment", file, "--markdown", "-"});
  EXPECT_EQ(again.exit.code, 0);
  EXPECT_THAT(again.output, AllOf(HasSubstr("4 of 4 repetitions are in"), HasSubstr("| fast | 1 |"),
                                  Not(HasSubstr("[1/")), Not(HasSubstr("Throughput against TPOT"))))
      << "Markdown stands in the place of the table";
  EXPECT_EQ(read_file(replica_.folder() / "cards.results.jsonl"), kept);

  const auto afresh = run_lab({"experiment", file, "--afresh"});
  EXPECT_THAT(afresh.output, HasSubstr("[4/4]"));
}

TEST_F(LabExperiment, GoesOnAfterCtrlC) {
  const auto file = written();
  std::string text = read_file(file);
  text.replace(text.find("repeat = 2"), 10, "repeat = 1000");
  write_file(file, text);
  const auto results = replica_.folder() / "cards.results.jsonl", output = replica_.folder() / "out";
  Process experiment({WEIR_LAB_PROGRAM, "experiment", file}, output);
  const auto done = [&] {
    const auto kept = std::filesystem::exists(results) ? read_file(results) : std::string();
    return std::count(kept.begin(), kept.end(), '\n');
  };
  look_until("three repetitions", [&] { return done() >= 3; });
  experiment.send(SIGINT);
  const auto exit = experiment.wait(patience);
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 1);
  EXPECT_THAT(read_file(output),
              AllOf(HasSubstr("ended by its user; the same command goes on from here"),
                    HasSubstr("Throughput against TPOT"), HasSubstr("of 1000 repetitions are done")));
  // Fewer repetitions are asked for than were done.
  text.replace(text.find("repeat = 1000"), 13, "repeat = 1");
  write_file(file, text);
  const auto again = run_lab({"experiment", file});
  EXPECT_EQ(again.exit.code, 0);
  EXPECT_THAT(again.output, AllOf(HasSubstr("2 of 2 repetitions are in "),
                                  HasSubstr("of repetitions beyond repeat = 1 and left out")));
}

TEST_F(LabExperiment, AReplicaThatIsNotThereIsToldAndTheOthersAreRun) {
  const auto file = written();
  const auto run = [](const std::string& label, const std::string& url) {
    return "[[run]]\nlabel = " + quoted(label) + "\nurl = " + quoted(url) + "\n";
  };
  write_file(file, read_file(file) + run("gone", url_of(free_port())) + run("typo", "http://no-such-host.invalid:80"));
  const auto done = run_lab({"experiment", file});
  EXPECT_EQ(done.exit.code, 1);
  EXPECT_THAT(done.output, AllOf(HasSubstr("answered no request (connect"), HasSubstr("gone, 1 at once: 0 of 2"),
                                 HasSubstr("answered no request (cannot resolve no-such-host.invalid")));
  const auto kept = read_file(replica_.folder() / "cards.results.jsonl");
  EXPECT_EQ(std::count(kept.begin(), kept.end(), '\n'), 4) << "what failed whole is not kept as done";
}

TEST_F(LabExperiment, GoesOnAfterALineThatWasCut) {
  const auto file = written();
  ASSERT_EQ(run_lab({"experiment", file}).exit.code, 0);
  const auto results = replica_.folder() / "cards.results.jsonl";
  const auto kept = read_file(results);
  write_file(results, kept.substr(0, kept.size() - 20));
  const auto again = run_lab({"experiment", file});
  EXPECT_EQ(again.exit.code, 0);
  EXPECT_THAT(again.output, AllOf(HasSubstr("3 of 4 repetitions are in"), HasSubstr("1 line of "), HasSubstr("[1/1]")));
  EXPECT_THAT(run_lab({"experiment", file}).output, HasSubstr("4 of 4 repetitions are in"));
}

}  // namespace
}  // namespace weir::integration
