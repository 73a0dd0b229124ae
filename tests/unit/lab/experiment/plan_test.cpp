#include "lab/experiment/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/golden.hpp"

namespace weir::lab::experiment {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Plan plan_of(const std::string& toml) {
  auto read = read_plan(toml, "folder/cards.toml");
  if (const auto* errors = std::get_if<std::vector<config::SettingsError>>(&read)) {
    for (const auto& error : *errors) ADD_FAILURE() << error.text();
    return {};
  }
  return std::get<Plan>(std::move(read));
}

std::vector<std::string> errors_of(const std::string& toml, const std::string& file = "cards.toml") {
  const auto read = read_plan(toml, file);
  std::vector<std::string> texts;
  if (const auto* errors = std::get_if<std::vector<config::SettingsError>>(&read)) {
    for (const auto& error : *errors) texts.push_back(error.text());
  }
  return texts;
}

const std::string one_run = "[[run]]\nlabel = \"H800\"\nurl = \"http://127.0.0.1:8001\"\n";

TEST(Plan, HasDefaultsForAllButItsRuns) {
  const Plan plan = plan_of(one_run);
  EXPECT_EQ(plan.title, "cards");
  EXPECT_EQ(plan.results, "folder/cards.results.jsonl");
  EXPECT_EQ(plan.repeat, 3u);
  EXPECT_EQ(plan.prompts, 60u);
  EXPECT_EQ(plan.lengths.input_tokens, 550);
  ASSERT_EQ(plan.rows.size(), 1u);
  Row row;
  row.label = "H800";
  row.url = "http://127.0.0.1:8001";
  EXPECT_EQ(plan.rows[0], row);
}

TEST(Plan, TakesWhatIsWritten) {
  const Plan plan = plan_of(
      "title = \"Cards\"\nresults = \"done.jsonl\"\nrepeat = 5\n"
      "[prompts]\nshape = \"rag\"\ncount = 20\noutput_tokens = 50\nseed = 7\nignore_eos = true\n"
      "[[run]]\nlabel = \"a\"\nurl = \"http://h:1/p/\"\nmodel = \"m\"\napi = \"completions\"\ngpu = \"H20\"\n"
      "engine = \"tgi\"\nspeculation = 2\ncost_per_hour = 1.5\nconcurrency = 8\n");
  EXPECT_EQ(plan.title, "Cards");
  EXPECT_EQ(plan.results, "folder/done.jsonl");
  EXPECT_EQ(plan.repeat, 5u);
  EXPECT_EQ(plan.prompts, 20u);
  EXPECT_EQ(plan.lengths.input_tokens, 3000);
  EXPECT_EQ(plan.lengths.input_stddev, 0);
  EXPECT_EQ(plan.lengths.output_tokens, 50) << "a length beside a shape overrides it";
  EXPECT_EQ(plan.lengths.seed, 7u);
  EXPECT_TRUE(plan.ignore_eos);
  const Row row{"a", "http://h:1/p", "m", "H20", "tgi", load::Api::completions, 8, 2, 1.5};
  EXPECT_THAT(plan.rows, ElementsAre(row));
}

TEST(Plan, TakesUrlsAsSdksHaveThemAndOverTls) {
  const struct {
    std::string toml, url, ca;
  } rows[]{{"url = \"http://h:1/v1\"\n", "http://h:1", ""},
           {"url = \"http://h:1/p/v1/\"\n", "http://h:1/p", ""},
           {"url = \"https://h\"\n", "https://h", ""},
           {"url = \"https://h:8443/v1\"\nca = \"ca.pem\"\n", "https://h:8443", "folder/ca.pem"},
           {"url = \"https://h\"\nca = \"/etc/ca.pem\"\n", "https://h", "/etc/ca.pem"}};
  for (const auto& row : rows) {
    const Plan plan = plan_of("[[run]]\nlabel = \"a\"\n" + row.toml);
    ASSERT_EQ(plan.rows.size(), 1u) << row.toml;
    EXPECT_EQ(plan.rows[0].url, row.url);
    EXPECT_EQ(plan.rows[0].ca, row.ca);
  }
}

TEST(Plan, MakesARowOfEachConcurrency) {
  const Plan plan = plan_of(one_run + "concurrency = [1, 8, 32]\n");
  ASSERT_EQ(plan.rows.size(), 3u);
  EXPECT_EQ(plan.rows[0].concurrency, 1u);
  EXPECT_EQ(plan.rows[2].concurrency, 32u);
}

TEST(Plan, ErrorsReadAsTheirGoldenFile) {
  tests::expect_golden_answers("experiment_errors.txt", {{"RUN", one_run}},
                               [](const std::string& toml) { return errors_of(toml); });
  EXPECT_THAT(errors_of("a = " + std::string(50'000, '[')), ElementsAre(HasSubstr("nested")));
}

/// Has a settings file of weir's and an experiment beside it.
class PlanWithSettings : public testing::Test {
 protected:
  PlanWithSettings() : folder_(std::filesystem::temp_directory_path() / ("weir-plan-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    write("weir.toml",
          "[[pool]]\nname = \"chat\"\n[[pool.replica]]\nname = \"gpu0\"\nurl = \"http://127.0.0.1:8001\"\n"
          "gpu = \"H800\"\ncost_per_hour = 2.0\n"
          "[[pool.replica]]\nname = \"gpu1\"\nurl = \"http://127.0.0.1:8002\"\napi_key = \"secret-secret\"\n");
  }
  ~PlanWithSettings() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  std::vector<std::string> errors(const std::string& run) {
    return errors_of("settings = \"weir.toml\"\n[[run]]\nlabel = \"a\"\n" + run, (folder_ / "x.toml").string());
  }

  std::filesystem::path folder_;
};

TEST_F(PlanWithSettings, AReplicaBringsItsPlaceItsCardAndItsPrice) {
  write("x.toml",
        "settings = \"weir.toml\"\n[[run]]\nlabel = \"a\"\nreplica = \"gpu0\"\n"
        "[[run]]\nlabel = \"b\"\nreplica = \"gpu0\"\ngpu = \"other\"\ncost_per_hour = 3\n");
  const auto read = load_plan((folder_ / "x.toml").string());
  ASSERT_TRUE(std::holds_alternative<Plan>(read));
  const auto& rows = std::get<Plan>(read).rows;
  EXPECT_EQ(rows[0].url, "http://127.0.0.1:8001");
  EXPECT_EQ(rows[0].gpu, "H800");
  EXPECT_EQ(rows[0].cost_per_hour, 2.0);
  EXPECT_EQ(rows[1].gpu, "other");
  EXPECT_EQ(rows[1].cost_per_hour, 3.0);
}

TEST_F(PlanWithSettings, AReplicaOverTlsIsTakenWithItsAuthorityAndRefusedWithMore) {
  const std::string https = "[[pool]]\nname = \"p\"\n[[pool.replica]]\nname = \"gpu0\"\nurl = \"https://h\"\n";
  for (const std::string more : {"server_name = \"x\"", "verify = false"}) {
    write("weir.toml", https + "tls = {" + more + "}\n");
    EXPECT_THAT(errors("replica = \"gpu0\"\n"), ElementsAre(HasSubstr("which weir-lab does not speak"))) << more;
  }
  const std::string ca = WEIR_TEST_DATA "/tls/ca.pem";
  write("weir.toml", https + "tls = {ca = \"" + ca + "\"}\n");
  write("x.toml", "settings = \"weir.toml\"\n[[run]]\nlabel = \"a\"\nreplica = \"gpu0\"\n");
  const auto read = load_plan((folder_ / "x.toml").string());
  ASSERT_TRUE(std::holds_alternative<Plan>(read)) << std::get<1>(read)[0].text();
  EXPECT_EQ(std::get<Plan>(read).rows[0].url, "https://h");
  EXPECT_EQ(std::get<Plan>(read).rows[0].ca, ca);
}

TEST_F(PlanWithSettings, AReplicaThatCannotBeMeasuredIsTold) {
  EXPECT_THAT(errors("replica = \"gpu\"\n"),
              ElementsAre(HasSubstr("is no replica of the settings file; did you mean \"gpu0\"?")));
  EXPECT_THAT(errors("replica = \"zebra\"\n"), ElementsAre(HasSubstr("there are \"gpu0\", \"gpu1\"")));
}

TEST_F(PlanWithSettings, AKeyIsThatOfTheRunElseOfTheReplicaElseOfTheFile) {
  write("key", "of-a-file\n");
  write("x.toml",
        "settings = \"weir.toml\"\napi_key = \"for-all\"\n"
        "[[run]]\nlabel = \"a\"\nreplica = \"gpu0\"\n"
        "[[run]]\nlabel = \"b\"\nreplica = \"gpu1\"\n"
        "[[run]]\nlabel = \"c\"\nurl = \"http://127.0.0.1:8003\"\n"
        "[[run]]\nlabel = \"d\"\nreplica = \"gpu1\"\napi_key = \"its-own\"\n"
        "[[run]]\nlabel = \"e\"\nreplica = \"gpu0\"\napi_key_file = \"key\"\nconcurrency = [1, 2]\n");
  const auto read = load_plan((folder_ / "x.toml").string());
  ASSERT_TRUE(std::holds_alternative<Plan>(read)) << std::get<1>(read)[0].text();
  std::vector<std::string> keys;
  for (const Row& row : std::get<Plan>(read).rows) keys.push_back(row.api_key);
  EXPECT_THAT(keys, ElementsAre("for-all", "secret-secret", "for-all", "its-own", "of-a-file", "of-a-file"));
}

TEST_F(PlanWithSettings, NoErrorShowsAKey) {
  write("two", "first-secret\nsecond-secret\n");
  const auto both = errors("url = \"http://h:1\"\napi_key = \"my-secret\"\napi_key_file = \"two\"\n");
  EXPECT_THAT(both, ElementsAre(HasSubstr("x.toml:6:16: [[run]] api_key_file: the file holds something else")));
  write("one", "first-secret");
  const auto twice = errors("url = \"http://h:1\"\napi_key = \"my-secret\"\napi_key_file = \"one\"\n");
  EXPECT_THAT(twice, ElementsAre(HasSubstr("api_key is set as well, and a run has one key; remove one of them")));
  for (const auto& text : {both[0], twice[0]}) EXPECT_THAT(text, testing::Not(HasSubstr("-secret")));
}

TEST_F(PlanWithSettings, ErrorsOfTheSettingsFileNameThatFile) {
  write("weir.toml", "[[pool]]\nname = \"chat\"\n[[pool.replica]]\nname = \"gpu0\"\n");
  const auto all = errors("replica = \"gpu0\"\nconcurrency = 0\n");
  ASSERT_EQ(all.size(), 2u) << testing::PrintToString(all);
  EXPECT_THAT(all[0], HasSubstr("x.toml:5:"));
  EXPECT_THAT(all[1], HasSubstr("weir.toml:3:"));
}

TEST_F(PlanWithSettings, TheResultsAreKeptInNoFileThatIsRead) {
  write("key", "of-a-file\n");
  std::filesystem::create_symlink("x.toml", folder_ / "link");
  std::filesystem::create_hard_link(folder_ / "weir.toml", folder_ / "hard");
  const auto said_of = [&](const std::string& results) {
    write("x.toml", "results = \"" + results +
                        "\"\nsettings = \"weir.toml\"\n"
                        "[[run]]\nlabel = \"a\"\nreplica = \"gpu0\"\napi_key_file = \"key\"\nconcurrency = [1, 2]\n");
    const auto read = load_plan((folder_ / "x.toml").string());
    const auto* errors = std::get_if<std::vector<config::SettingsError>>(&read);
    return errors == nullptr ? "" : errors->size() == 1 ? (*errors)[0].text() : "several";
  };
  for (const auto& [results, what] : {std::pair("x.toml", "the experiment"), std::pair("./link", "the experiment"),
                                      std::pair("weir.toml", "the settings file"),
                                      std::pair("hard", "the settings file"), std::pair("key", "the file of a key")}) {
    EXPECT_THAT(said_of(results), AllOf(HasSubstr("x.toml:1:"), HasSubstr("results = \"" + std::string(results)),
                                        HasSubstr("is " + std::string(what) + ", and would be lost; name another")));
  }
  EXPECT_EQ(said_of("x.results.jsonl"), "");
}

TEST(Plan, AFileThatIsNotThereIsNamed) {
  for (const auto* const path : {"/nowhere/x.toml", "/tmp"}) {
    const auto read = load_plan(path);
    const auto* errors = std::get_if<std::vector<config::SettingsError>>(&read);
    ASSERT_TRUE(errors);
    EXPECT_THAT((*errors)[0].text(), HasSubstr(std::string(path) + ": cannot read the experiment: "));
  }
}

}  // namespace
}  // namespace weir::lab::experiment
