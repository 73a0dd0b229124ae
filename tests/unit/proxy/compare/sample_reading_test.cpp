#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "metrics/compare/samples/log_reading.hpp"
#include "proxy/compare/sample_reading.hpp"

namespace weir::proxy::compare {
namespace {

using metrics::Role;

class SampleReading : public ::testing::Test {
 protected:
  ~SampleReading() override { std::filesystem::remove(file_); }

  /// Adds a line: `id` and `pair` are single hex digits, and `more` is members.
  void add(char id, char pair, const std::string& more) {
    const std::string zeros(31, '0');
    text_ += R"({"v":1,"time":"2026-11-21T07:00:00Z","api":"openai.chat","outcome":"ok","id":")" + zeros + id + '"';
    if (pair != ' ') text_ += R"(,"role":"shadow","pair":")" + zeros + pair + '"';
    text_ += ',' + more + "}\n";
  }
  const ReadSamples& read() {
    std::ofstream(file_) << text_;
    read_ = {};
    const auto failure = read_samples({file_.string()}, filter_, names_, [](std::uint64_t) {}, read_);
    EXPECT_EQ(failure, std::nullopt);
    return read_;
  }

  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("weir-sample-reading-test-" + std::to_string(getpid()));
  std::string text_;
  Filter filter_;
  metrics::compare::samples::Names names_;
  ReadSamples read_;
};

TEST_F(SampleReading, CountsWhatIsNoRequest) {
  add('1', ' ', R"("pool":"chat")");
  text_ += "weir: started\n\n{}\n";
  add('2', ' ', R"("pool":"chat")");
  text_ += R"({"v":1,"ti)";
  const auto& found = read();
  EXPECT_EQ(found.samples.size(), 2U);
  EXPECT_EQ(found.lines, 5U);
  EXPECT_EQ(found.unread, 2U) << "the last line is still being written";
  EXPECT_EQ(found.first_unread, file_.string() + ":2");
  EXPECT_EQ(found.last_us, 1'795'244'400'000'000);
}

/// A clock that was not set, and a damaged line.
TEST_F(SampleReading, LinesOfAnotherTimeAreLeftOut) {
  const std::int64_t seven = 1'795'244'400'000'000;
  const metrics::compare::sides::Selection shadows{metrics::compare::sides::By::role, 0, Role::shadow};
  const auto dated = [&](const std::string& time, const std::string& more) {
    text_ += R"({"v":1,"time":")" + time + R"(","api":"openai.chat","outcome":"ok")" + more + "}\n";
  };
  for (int i = 0; i < 40; ++i) dated("2026-11-21T07:00:" + std::to_string(10 + i) + "Z", "");
  dated("2026-11-21T07:00:00Z", R"(,"role":"shadow")");
  EXPECT_EQ(read().strays, 0U);
  for (const auto* time : {"1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z", "2025-11-21T07:00:00Z"}) {
    dated(time, "");
    dated(time, R"(,"role":"shadow")");
  }
  const auto& found = read();
  EXPECT_EQ(found.strays, 6U);
  EXPECT_EQ(found.first_stray, file_.string() + ":42 (1969-12-31T23:59:59Z)");
  EXPECT_EQ(found.samples.size(), 41U);
  EXPECT_EQ(found.requests, 41U);
  EXPECT_EQ(found.first_us, seven);
  EXPECT_EQ(found.last_us, seven + 49'000'000);
  EXPECT_EQ(found.logs.front().first_us, seven);
  EXPECT_EQ(found.mirrored.warm(shadows, {}, 0, {}).first_us, seven);
}

TEST_F(SampleReading, LinesOfAWarmUpDoNotCount) {
  add('1', ' ', R"("pool":"chat")");
  add('2', ' ', R"("pool":"chat","warm_up":true)");
  add('3', ' ', R"("pool":"chat","warm_up":false)");
  const auto& found = read();
  EXPECT_EQ(found.samples.size(), 2U);
  EXPECT_EQ(found.warm_up, 1U);
  EXPECT_EQ(found.unread, 0U);
}

TEST_F(SampleReading, AShadowGoesWithItsPrimary) {
  add('1', ' ', R"("pool":"chat","model":"m","prompt_tokens":100)");
  add('2', ' ', R"("pool":"chat","model":"other","prompt_tokens":200)");
  add('3', ' ', R"("pool":"code","model":"m","prompt_tokens":300)");
  for (const char pair : {'1', '2', '3', '4'})
    add(static_cast<char>(pair + 4), pair, R"("pool":"chat:shadow","model":"rewritten","prompt_tokens":150)");
  EXPECT_EQ(read().samples.size(), 7U);
  const auto pairs_with = [&](Filter filter) {
    filter_ = std::move(filter);
    std::string primaries, shadows;
    for (const auto& sample : read().samples)
      (sample.role == Role::primary ? primaries : shadows) +=
          static_cast<char>('0' + (sample.role == Role::primary ? sample.id : sample.pair)[1]);
    EXPECT_EQ(primaries, shadows);
    return primaries;
  };
  EXPECT_EQ(pairs_with({"chat", "", {}, {}, {}}), "12");
  EXPECT_EQ(pairs_with({"", "m", {}, {}, {}}), "13");
  EXPECT_EQ(pairs_with({"", "", PromptRange{100, 200}, {}, {}}), "12");
  EXPECT_EQ(pairs_with({"code", "other", {}, {}, {}}), "");
}

/// A user waits in a gap whether its tokens are known or not, and also before an answer breaks.
TEST_F(SampleReading, KeepsTheGapsOfAllStreams) {
  add('1', ' ', R"("k_source":"settled","gap_bins":[[1,2]])");
  add('2', ' ', R"("k_source":null,"gap_bins":[[1,2]])");
  add('3', ' ', R"("k_source":"wire","gap_bins":[[1,2]],"served":false)");
  const auto& found = read();
  ASSERT_EQ(found.samples.size(), 3U);
  for (const auto& sample : found.samples) EXPECT_EQ(sample.gaps.size(), 1U);
}

TEST_F(SampleReading, WhatAShadowHasPrefilledDoesNotDependOnWhichPromptsAreAskedFor) {
  add('1', ' ', R"("prompt_tokens":900)");
  add('2', '1', R"("served":true,"prompt_tokens":900)");
  filter_.prompt_tokens = PromptRange{0, 100};
  ASSERT_TRUE(read().samples.empty());
  const std::int64_t minute_after_seven = 1'795'244'460'000'000;
  const metrics::compare::sides::Selection shadows{metrics::compare::sides::By::role, 0, Role::shadow};
  const auto warm_holding = [&](std::uint64_t tokens) {
    return read().mirrored.warm(shadows, {}, 1, [tokens](auto, auto) { return tokens; }).from_us;
  };
  EXPECT_EQ(warm_holding(900), minute_after_seven);
  EXPECT_EQ(warm_holding(901), metrics::compare::pairs::never_warm);
}

TEST_F(SampleReading, TimesHaveAnHourToSpare) {
  add('1', ' ', R"("pool":"chat")");
  add('2', '1', R"("pool":"chat","config":"fp8")");
  const std::int64_t seven = 1'795'244'400'000'000, hour = 3'600'000'000;
  filter_.from_us = seven + hour;
  EXPECT_EQ(read().samples.size(), 2U);
  filter_.from_us = seven + hour + 1;
  EXPECT_TRUE(read().samples.empty());
  // When the shadow became warm does not depend on the window.
  metrics::compare::sides::Selection shadows{metrics::compare::sides::By::role, 0, Role::shadow};
  EXPECT_EQ(read().mirrored.warm(shadows, {}, 0, {}).from_us, seven);
  filter_ = {};
  filter_.to_us = seven - hour - 1;
  EXPECT_TRUE(read().samples.empty());
}

TEST_F(SampleReading, ARequestThatStandsThereTwiceCountsOnce) {
  add('1', ' ', R"("pool":"chat","prompt_tokens":100)");
  add('2', '1', R"("prompt_tokens":100,"config":"new","replica":"r","shadow":"s")");
  add('3', ' ', R"("pool":"chat","prompt_tokens":100)");
  const auto once = read();
  EXPECT_EQ(once.repeated, 0u);
  EXPECT_EQ(once.first_repeated, "");
  const auto alone = text_;
  add('4', ' ', R"("pool":"chat","prompt_tokens":100)");
  text_ += alone;
  const auto& twice = read();
  EXPECT_EQ(twice.samples.size(), once.samples.size() + 1);
  EXPECT_EQ(twice.lines, 7u);
  EXPECT_EQ(twice.repeated, 3u);
  EXPECT_EQ(twice.first_repeated, file_.string() + ":5");
  filter_.pool = "none";
  EXPECT_EQ(read().repeated, 1u) << "what was mirrored counts whatever the filter says";
}

TEST_F(SampleReading, RequestsWithoutAnIdAreAllDifferent) {
  add('0', ' ', R"("pool":"chat")");
  add('0', ' ', R"("pool":"chat")");
  EXPECT_EQ(read().samples.size(), 2u);
  EXPECT_EQ(read().repeated, 0u);
}

/// Logs of a primary and its shadow, a pair a second.
class SeveralLogs : public ::testing::Test {
 protected:
  ~SeveralLogs() override { std::filesystem::remove_all(folder_); }

  /// Pairs from `from_s` on, with ids that begin at `id`; `which` says what is written: primaries, shadows or both.
  std::string log(int from_s, int pairs, int id, const char* config = "fp16", const char* which = "both") {
    std::filesystem::create_directories(folder_);
    const auto file = folder_ / std::to_string(number_++);
    std::ofstream out(file);
    for (int i = 0; i < pairs; ++i) {
      const int at_s = from_s + i;
      char text[400];
      const auto write = [&](const char* role, const char* of, unsigned series) {
        std::snprintf(text, sizeof text,
                      R"({"v":1,"time":"2026-11-21T%02d:%02d:%02dZ","api":"openai.chat","outcome":"ok",)"
                      R"("id":"%016x%016x","role":"%s","config":"%s","replica":"%s")",
                      at_s / 3600, at_s / 60 % 60, at_s % 60, series, static_cast<unsigned>(id + i), role, of, of);
        out << text;
        if (series == 2) {
          std::snprintf(text, sizeof text, R"(,"pair":"%016x%016x","shadow":"s")", 1U, static_cast<unsigned>(id + i));
          out << text;
        }
        out << "}\n";
      };
      if (std::string_view(which) != "shadows") write("primary", config, 1);
      if (std::string_view(which) != "primaries") write("shadow", "fp8", 2);
    }
    return file.string();
  }
  /// Returns how many runs the logs are of.
  std::size_t runs(const std::vector<std::string>& logs) {
    ReadSamples read;
    metrics::compare::samples::Names names;
    EXPECT_EQ(read_samples(logs, {}, names, [](std::uint64_t) {}, read), std::nullopt);
    std::set<std::size_t> found;
    for (const auto& one : read.logs) found.insert(one.run);
    return found.size();
  }

  int number_ = 0;
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("weir-several-logs-test-" + std::to_string(getpid()));
};

TEST_F(SeveralLogs, BelongTogetherIfTheyShareARequestOrAPairOrOneGoesOn) {
  const auto first = log(0, 1000, 0), next = log(1000, 1000, 1000), after_a_pause = log(2500, 600, 3000);
  EXPECT_EQ(runs({first}), 1U);
  EXPECT_EQ(runs({first, next}), 1U) << "it was rotated";
  EXPECT_EQ(runs({next, first, after_a_pause}), 1U);
  EXPECT_EQ(runs({first, after_a_pause}), 2U);
  EXPECT_EQ(runs({first, log(900, 1000, 5000)}), 1U) << "long requests end in the next log";
  EXPECT_EQ(runs({first, log(0, 1000, 5000)}), 2U) << "another weir, at the same time";
  EXPECT_EQ(runs({first, log(40'000, 1000, 5000)}), 2U);
  EXPECT_EQ(runs({first, log(0, 1000, 0, "fp16", "shadows")}), 1U) << "a part of it";
  EXPECT_EQ(runs({log(0, 500, 0, "fp16", "shadows"), log(0, 500, 0, "fp16", "primaries")}), 1U);
  EXPECT_EQ(runs({first, log(1000, 500, 7000, "other", "primaries")}), 2U) << "no side is in both";
  EXPECT_EQ(runs({first, log(0, 0, 0)}), 1U) << "an empty log is of no run";
}

TEST_F(SeveralLogs, SayWhichSidesTheyHave) {
  ReadSamples read;
  metrics::compare::samples::Names names;
  ASSERT_EQ(read_samples(
                {log(10, 20, 0), log(70'000, 5, 900, "other", "primaries")}, {}, names, [](std::uint64_t) {}, read),
            std::nullopt);
  ASSERT_EQ(read.logs.size(), 2U);
  EXPECT_EQ(read.requests, 45U);
  EXPECT_EQ(read.logs[0].requests, 40U);
  EXPECT_EQ(read.logs[0].first_us, read.first_us);
  EXPECT_EQ(read.logs[0].last_us - read.logs[0].first_us, 19'000'000);
  EXPECT_EQ(read.logs[1].last_us, read.last_us);
  using metrics::compare::sides::By;
  const auto has = [&](std::size_t log, By by, const char* name) {
    return read.logs[log].has({by, names.of(name), metrics::Role::primary});
  };
  EXPECT_TRUE(has(0, By::config, "fp8"));
  EXPECT_TRUE(has(0, By::shadow, "s"));
  EXPECT_FALSE(has(1, By::config, "fp8"));
  EXPECT_TRUE(has(1, By::replica, "other"));
  EXPECT_FALSE(has(0, By::config, "other"));
}

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

constexpr std::int64_t hour = 3'600'000'000, day = 24 * hour, now = 1'795'244'400'000'000;

class Times {
 public:
  Times& spread(std::uint64_t requests, std::int64_t from, std::int64_t length) {
    for (std::uint64_t i = 0; i < requests; ++i) {
      const auto us = from + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(length));
      all_.push_back(us);
      times_.add(us);
    }
    return *this;
  }
  std::uint64_t strays() const {
    const auto taken = times_.taken();
    const auto within = times_.within(std::span(&taken, 1));
    std::uint64_t inside = 0;
    std::int64_t first = INT64_MAX, last = INT64_MIN;
    for (const auto us : all_) {
      if (us < taken.first_us || us > taken.last_us) continue;
      ++inside;
      first = std::min(first, us);
      last = std::max(last, us);
    }
    EXPECT_EQ(within.requests, inside);
    EXPECT_EQ(taken.requests, inside);
    EXPECT_EQ(within.first_us, first);
    EXPECT_EQ(within.last_us, last);
    return all_.size() - inside;
  }

 private:
  std::mt19937_64 random_{4};
  std::vector<std::int64_t> all_;
  ReadTimes times_;
};

TEST(ReadTimes, FewLinesFarAwayAreStrays) {
  EXPECT_EQ(Times().spread(1000, now, 1).spread(1, -5, 1).strays(), 1u) << "before 1970";
  EXPECT_EQ(Times().spread(1000, now, hour / 2).spread(3, 0, hour).spread(2, now + 4000 * day, hour).strays(), 5u);
  EXPECT_EQ(Times().spread(100'000, now, day).spread(100, 0, hour).strays(), 100u) << "a thousandth";
  EXPECT_EQ(Times().spread(100'000, now, day).spread(150, 0, hour).strays(), 0u) << "too many to be strays";
  EXPECT_EQ(Times().spread(8, now, hour).spread(1, 0, 1).strays(), 1u);
}

TEST(ReadTimes, RunsThatLieFarApartAreNone) {
  EXPECT_EQ(Times().spread(1000, now - 30 * day, hour).spread(1000, now, hour).strays(), 0u);
  EXPECT_EQ(Times().spread(100, now - 30 * day, hour).spread(5000, now, hour).strays(), 0u);
  EXPECT_EQ(Times().spread(1, now - 30 * day, 1).spread(1, now, 1).strays(), 0u) << "two lines are no bulk";
  EXPECT_EQ(Times().spread(5, now - 5 * hour, hour).spread(1000, now, hour).strays(), 0u) << "near enough";
  Times weeks;
  for (int i = 0; i < 8; ++i) weeks.spread(20, now + i * 7 * day, hour);
  EXPECT_EQ(weeks.strays(), 0u);
  EXPECT_EQ(Times().strays(), 0u);
}

}  // namespace
}  // namespace weir::proxy::compare
