#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "config/values.hpp"

namespace weir::config {
namespace {

TEST(Quantity, ReadsTimesWithEachUnit) {
  const std::pair<const char*, double> table[] = {{"250ms", 0.25}, {"1ms", 0.001}, {"2s", 2},    {"2 s", 2},
                                                  {"1.5s", 1.5},   {"5m", 300},    {"2h", 7200}, {"0.5h", 1800},
                                                  {"0s", 0},       {"0ms", 0},     {"007s", 7},  {"24h", 86400}};
  for (const auto& [text, seconds] : table) {
    const auto time = parse_duration(text);
    ASSERT_TRUE(time) << text;
    EXPECT_DOUBLE_EQ(time->count(), seconds) << text;
  }
}

TEST(Quantity, RefusesWhatIsNoTime) {
  for (const auto* text : {"",    "s",    "2",   "2 ",     "-2s",  "+2s",  " 2s", "2s ",  "2  s",  "2S",   "2sec", "2d",
                           "2us", "1e3s", ".5s", "1.5.5s", "1,5s", "infs", "inf", "nans", "0x10s", "2s2s", "2m30s"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
  EXPECT_FALSE(parse_duration(std::string(400, '9') + "h")) << "beyond what a double holds";
}

TEST(Quantity, ReadsSizesWithEachUnit) {
  const std::pair<const char*, std::int64_t> table[] = {
      {"0B", 0},
      {"512B", 512},
      {"64KiB", 65536},
      {"16MiB", 16'777'216},
      {"16 MiB", 16'777'216},
      {"1GiB", 1 << 30},
      {"1KB", 1000},
      {"1MB", 1'000'000},
      {"2GB", 2'000'000'000},
      {"9223372036854775807B", std::numeric_limits<std::int64_t>::max()}};
  for (const auto& [text, bytes] : table) EXPECT_EQ(parse_size(text), bytes) << text;
}

TEST(Quantity, RefusesWhatIsNoSize) {
  for (const auto* text : {"", "B", "16", "-1B", "+1B", "1.5MiB", "16mib", "16kB", "16M", "16MiBs", " 16MiB", "16MiB ",
                           "16TiB", "9223372036854775808B", "9007199254740992KiB", "99999999999999999999GiB"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(Quantity, WritesTheLargestUnitThatDivides) {
  EXPECT_EQ(format_duration(Seconds{0}), "0");
  EXPECT_EQ(format_duration(Seconds{0.001}), "1ms");
  EXPECT_EQ(format_duration(Seconds{1.5}), "1500ms");
  EXPECT_EQ(format_duration(Seconds{90}), "90s");
  EXPECT_EQ(format_duration(Seconds{300}), "5m");
  EXPECT_EQ(format_duration(Seconds{86400}), "24h");
  EXPECT_EQ(format_size(0), "0");
  EXPECT_EQ(format_size(1000), "1000B");
  EXPECT_EQ(format_size(1024), "1KiB");
  EXPECT_EQ(format_size(16 << 20), "16MiB");
  EXPECT_EQ(format_size(1536), "1536B");
}

TEST(Quantity, WhatIsWrittenReadsBack) {
  for (const std::int64_t amount : {1, 7, 999, 1000, 1023, 1024, 60'000, 65'536, 3'600'000, 86'400'000, 1 << 30}) {
    EXPECT_EQ(parse_size(format_size(amount)), amount);
    const Seconds time{static_cast<double>(amount) / 1000};
    EXPECT_DOUBLE_EQ(parse_duration(format_duration(time))->count(), time.count());
  }
}

TEST(Quantity, WritesNumbersWithoutExponent) {
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_number(0.001), "0.001");
  EXPECT_EQ(format_number(1'000'000), "1000000");
}

}  // namespace
}  // namespace weir::config
