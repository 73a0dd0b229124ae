// A command writes over no file that it reads, and says which file it cannot read.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "lab/load/load.hpp"
#include "lab/text.hpp"

namespace weir::lab {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::StartsWith;

class FilesOfACommand : public ::testing::Test {
 protected:
  FilesOfACommand() {
    fs::create_directories(dir_);
    std::ofstream(path("log")) << "line\n";
    fs::create_symlink(path("log"), path("link"));
    fs::create_hard_link(path("log"), path("hard"));
  }
  ~FilesOfACommand() override { fs::remove_all(dir_); }
  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  const fs::path dir_ =
      fs::path(::testing::TempDir()) /
      ("weir-files-" + std::to_string(::getpid()) + ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

/// Returns the sentence that refuses these files, or "".
std::string refused(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs = {}) {
  try {
    refuse_mixed(outputs, inputs);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST_F(FilesOfACommand, NoOutputIsWrittenOverAnInput) {
  const std::string log = path("log");
  fs::create_directories(path("folder"));
  for (const auto& same : {log, path("link"), path("hard"), path("./log"), path("folder/../log")}) {
    EXPECT_EQ(refused({{"--json", ""}, {"--html", same}}, {{"the log", log}}),
              "--html: " + same + " is the log, and would be lost; name another file");
  }
  EXPECT_EQ(refused({{"--html", path("page")}, {"--json", "-"}}, {{"the log", log}}), "");
  EXPECT_EQ(refused({{"--html", path("page")}}, {{"the trace", ""}}), "");
  EXPECT_EQ(refused({{"--html", "/dev/null"}}, {{"the log", "/dev/null"}}), "") << "a device keeps nothing";
}

TEST_F(FilesOfACommand, ALoadWritesOverNothingThatItReads) {
  const std::string log = path("log");
  load::LoadSettings settings;
  load::LoadOutput output;
  EXPECT_EQ(refused({{"--log", log}}, load::inputs_of(settings, output)), "");
  for (std::string* const read : {&output.trace, &output.api_key_file, &settings.ca}) {
    *read = log;
    EXPECT_THAT(refused({{"--log", path("hard")}}, load::inputs_of(settings, output)), EndsWith("name another file"));
    read->clear();
  }
}

TEST_F(FilesOfACommand, NoTwoOutputsRunTogether) {
  EXPECT_THAT(refused({{"--json", "-"}, {"--log", ""}, {"--html", "-"}}),
              StartsWith("--json and --html are both \"-\""));
  EXPECT_THAT(refused({{"--json", path("new")}, {"--log", path("./new")}}), StartsWith("--json and --log are both "));
  EXPECT_THAT(refused({{"--json", path("log")}, {"--log", path("hard")}}), StartsWith("--json and --log are both "));
  EXPECT_EQ(refused({{"--json", path("new")}, {"--log", path("other")}, {"--html", "-"}}), "");
  EXPECT_EQ(refused({{"--json", ""}, {"--log", ""}}), "");
  EXPECT_EQ(refused({{"--json", "/dev/null"}, {"--log", "/dev/null"}}), "");
}

TEST_F(FilesOfACommand, ALinkToAFileThatIsNotThereYetIsThatFile) {
  fs::create_directories(path("folder"));
  fs::create_symlink("new", path("to_new"));
  fs::create_symlink("../to_new", path("folder/to_link"));
  fs::create_symlink("around", path("around"));
  for (const auto& same : {path("to_new"), path("folder/to_link")}) {
    EXPECT_THAT(refused({{"--json", path("new")}, {"--log", same}}), StartsWith("--json and --log are both "));
    EXPECT_THAT(refused({{"--json", same}, {"--log", path("new")}}), StartsWith("--json and --log are both "));
    EXPECT_EQ(refused({{"--json", same}, {"--log", path("newer")}}), "");
  }
  EXPECT_EQ(refused({{"--json", path("around")}, {"--log", path("new")}}), "");
}

/// Standard output goes to a file, as behind a ">" of the shell.
TEST_F(FilesOfACommand, StandardOutputIsTheFileThatItGoesTo) {
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO), file = ::open(path("out").c_str(), O_CREAT | O_WRONLY, 0600);
  ASSERT_EQ(::dup2(file, STDOUT_FILENO), STDOUT_FILENO);
  const auto two = refused({{"--json", "-"}, {"--log", path("out")}});
  const auto by_device = refused({{"--json", "/dev/stdout"}, {"--log", "-"}});
  const auto input = refused({{"--json", "-"}}, {{"the log", path("out")}});
  const auto other = refused({{"--json", "-"}, {"--log", path("log")}}, {{"the trace", path("new")}});
  ::dup2(before, STDOUT_FILENO);
  ::close(before);
  ::close(file);
  EXPECT_EQ(two, "--json and --log are both " + path("out") + ", and would run together; name another file");
  EXPECT_EQ(by_device, "--json and --log are both /dev/stdout, and would run together; name another file");
  EXPECT_THAT(input, StartsWith("--json: - is the log, "));
  EXPECT_EQ(other, "");
}

TEST_F(FilesOfACommand, WhatCannotBeReadIsSaid) {
  const auto said = [&](const std::string& name) -> std::string {
    try {
      opened("the log ", name);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(said(path("log")), "");
  EXPECT_EQ(said("/dev/null"), "");
  EXPECT_EQ(said(path("none")), "cannot read the log " + path("none") + ": No such file or directory");
  EXPECT_EQ(said(dir_.string()), "cannot read the log " + dir_.string() + ": it is a directory; name the file in it");
}

}  // namespace
}  // namespace weir::lab
