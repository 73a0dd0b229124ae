#include "proxy/compare/log_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "metrics/compare/samples/log_reading.hpp"

namespace weir::proxy::compare {
namespace {

using metrics::compare::samples::longest_line;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class LogFiles : public ::testing::Test {
 protected:
  ~LogFiles() override { std::filesystem::remove(file_); }

  void write(std::string_view text) { std::ofstream(file_, std::ios::binary) << text; }
  void compress(std::string_view text) {
    const auto file = gzopen(file_.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
  }
  /// Reads the lines, and whether each had a newline.
  std::optional<std::string> read() {
    lines_.clear();
    return for_each_line(file_.string(), [&](std::string_view line, std::uint64_t number, bool has_newline) {
      EXPECT_EQ(number, lines_.size() + 1);
      lines_.emplace_back(line, has_newline);
    });
  }

  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("weir-log-files-test-" + std::to_string(getpid()));
  std::vector<std::pair<std::string, bool>> lines_;
};

TEST_F(LogFiles, GiveTheirLines) {
  write("one\n\nthree\nfour");
  EXPECT_EQ(read(), std::nullopt);
  EXPECT_THAT(lines_, ElementsAre(Pair("one", true), Pair("", true), Pair("three", true), Pair("four", false)));
  write("");
  EXPECT_EQ(read(), std::nullopt);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(LogFiles, MayBeCompressed) {
  compress("one\ntwo\n");
  EXPECT_EQ(read(), std::nullopt);
  EXPECT_THAT(lines_, ElementsAre(Pair("one", true), Pair("two", true)));
}

TEST_F(LogFiles, ThatAreCutOffGiveWhatThereIs) {
  std::mt19937 random(1);
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(random()) + '\n';
  compress(text);
  std::filesystem::resize_file(file_, std::filesystem::file_size(file_) / 2);
  EXPECT_THAT(read().value_or(""), HasSubstr("ends within its compressed data"));
  EXPECT_GT(lines_.size(), 1000U);
}

TEST_F(LogFiles, ThatCannotBeReadAreNamed) {
  EXPECT_THAT(read().value_or(""), AllOf(HasSubstr(file_.string()), HasSubstr("No such file")));
  EXPECT_THAT(for_each_line(std::filesystem::temp_directory_path().string(), [](auto, auto, auto) {}).value_or(""),
              HasSubstr("directory"));
}

TEST_F(LogFiles, CutLinesThatAreTooLong) {
  const std::string long_line(longest_line, 'x');
  write("a\n" + long_line + "\n" + long_line + "y\nb\n" + std::string(5'000'000, 'z') + "\nc\n" + long_line + "yy");
  EXPECT_EQ(read(), std::nullopt);
  ASSERT_EQ(lines_.size(), 7U);
  EXPECT_EQ(lines_[1].first.size(), longest_line);
  for (const std::size_t i : {2U, 4U, 6U}) EXPECT_EQ(lines_[i].first.size(), longest_line + 1);
  EXPECT_EQ(lines_[3].first, "b");
  EXPECT_EQ(lines_[5].first, "c");
}

TEST_F(LogFiles, LinesOfAnyLengthArriveWhole) {
  std::mt19937 random(2);
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 400; ++i) {
    expected.emplace_back(random() % 20'000, static_cast<char>('a' + i % 26));
    text += expected.back() + '\n';
  }
  write(text);
  EXPECT_EQ(read(), std::nullopt);
  ASSERT_EQ(lines_.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(lines_[i].first, expected[i]);
}

}  // namespace
}  // namespace weir::proxy::compare
