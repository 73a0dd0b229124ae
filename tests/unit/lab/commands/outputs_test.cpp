// Every command knows what it reads, and writes none of its outputs there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "lab/commands/commands.hpp"

namespace weir::lab::commands {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OutputsOfACommand : public ::testing::Test {
 protected:
  OutputsOfACommand() { fs::create_directories(dir_); }
  ~OutputsOfACommand() override { fs::remove_all(dir_); }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  std::string text_of(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const fs::path dir_ = fs::path(::testing::TempDir()) / ("weir-outputs-" + std::to_string(::getpid()));
};

TEST_F(OutputsOfACommand, AreNotWrittenOverWhatItReads) {
  const std::string trace = R"({"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [0]})"
                            "\n";
  const std::string url = "http://127.0.0.1:1";
  const std::string experiment =
      "repeat = 1\n[prompts]\ncount = 1\n[[run]]\nlabel = \"a\"\nurl = \"" + url + "\"\n";
  const struct {
    const char* what;
    void (*add)(CLI::App&, int&);
    std::vector<std::string> words;  // FILE is where the text is, and INPUT the path that is written to.
    std::string file, text, input, sentence;
  } rows[] = {
      {"export", &add_export_command, {"export", "FILE", "--to", "INPUT"}, "t", trace, "t", "--to: INPUT is the log"},
      {"plan", &add_plan_command, {"plan", "FILE", "--json", "INPUT"}, "t", trace, "t", "--json: INPUT is the log"},
      {"a page", &add_plan_command, {"plan", "FILE", "--html", "INPUT"}, "t", trace, "t", "--html: INPUT is the log"},
      {"load",
       &add_load_command,
       {"load", "--url", url, "--requests", "1", "--trace", "FILE", "--log", "INPUT"},
       "t",
       trace,
       "t",
       "--log: INPUT is the trace"},
      {"several rates",
       &add_load_command,
       {"load", "--url", url, "--rate", "1,2", "--duration", "1s", "--trace", "FILE", "--html", "INPUT"},
       "t",
       trace,
       "t",
       "--html: INPUT is the trace"},
      {"an experiment",
       &add_experiment_command,
       {"experiment", "FILE", "--markdown", "INPUT"},
       "e.toml",
       experiment,
       "e.toml",
       "--markdown: INPUT is the experiment"},
      {"an experiment's results",
       &add_experiment_command,
       {"experiment", "FILE", "--csv", "INPUT"},
       "e.toml",
       experiment,
       "e.results.jsonl",
       "--csv: INPUT is the results file"},
  };
  for (const auto& [what, add, words, file, text, input, sentence] : rows) {
    SCOPED_TRACE(what);
    for (const auto& name : {input, file}) std::ofstream(path(name)) << text;
    const auto filled = [&](std::string word) {
      if (word == "FILE") return path(file);
      if (const auto at = word.find("INPUT"); at != std::string::npos) word.replace(at, 5, path(input));
      return word;
    };
    std::vector<std::string> backwards;  // As CLI11 takes them.
    std::ranges::transform(words, std::back_inserter(backwards), filled);
    std::ranges::reverse(backwards);
    CLI::App app;
    int status = 0;
    add(app, status);
    ::testing::internal::CaptureStderr();
    ::testing::internal::CaptureStdout();
    app.parse(backwards);
    ::testing::internal::GetCapturedStdout();
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(filled(sentence) + ", and would be lost"));
    EXPECT_EQ(status, 2);
    EXPECT_EQ(text_of(input), text);
  }
}

}  // namespace
}  // namespace weir::lab::commands
