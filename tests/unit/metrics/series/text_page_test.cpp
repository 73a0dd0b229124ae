#include "metrics/series/text_page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace weir::metrics::series {
namespace {

using testing::ElementsAre;

/// Returns the lines of a page that are samples.
std::vector<std::string> samples(const TextPage& page) {
  std::istringstream lines(page.sorted());
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with('#')) all.push_back(line);
  return all;
}

std::string written(auto value) {
  TextPage page;
  page.begin({"x", "Any."}, SeriesType::gauge);
  page.add("", value);
  return samples(page).at(0).substr(2);
}

TEST(TextPage, WritesNumbersAsTheyAreSpoken) {
  const std::vector<std::pair<double, std::string>> table{
      {0, "0"},
      {-0.0, "-0"},
      {1, "1"},
      {-2, "-2"},
      {0.009, "0.009"},  // With 16 digits as printf counts them it is 0.008999999999999999.
      {1.102, "1.102"},
      {0.0001, "0.0001"},
      {0.00001, "1e-05"},
      {100'000, "100000"},
      {1'048'576, "1048576"},
      {9'999'999'999'999'998, "9999999999999998"},
      {1e16, "1e+16"},
      {1'800'000'000, "1800000000"},
      {std::numeric_limits<double>::infinity(), "+Inf"},
      {-std::numeric_limits<double>::infinity(), "-Inf"},
      {std::numeric_limits<double>::quiet_NaN(), "NaN"}};
  for (const auto& [value, text] : table) EXPECT_EQ(written(value), text);
  EXPECT_EQ(written(std::uint64_t{0}), "0");
  EXPECT_EQ(written(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
}

TEST(TextPage, EveryNumberReadsBackAsItWas) {
  std::mt19937_64 random(24);
  for (int i = 0; i < 20'000; ++i) {
    const auto bits = random();
    // Half of the numbers are any doubles, half are nanoseconds in seconds.
    const double value = i % 2 == 0 ? std::bit_cast<double>(bits) : static_cast<double>(bits >> (i % 60)) / 1e9;
    if (std::isnan(value)) continue;
    const auto sample = read_sample("x " + written(value));
    ASSERT_TRUE(sample) << value;
    EXPECT_EQ(sample->value, value) << written(value);
  }
}

TEST(TextPage, EveryLabelReadsBackAsItWas) {
  std::mt19937_64 random(5);
  const std::string letters = "ab\\\"\n,={} \xc3\xa9";
  for (int i = 0; i < 2'000; ++i) {
    std::string first, second;
    for (auto* text : {&first, &second})
      for (auto length = random() % 8; length > 0; --length) *text += letters[random() % letters.size()];
    TextPage page;
    page.begin({"x", "Any."}, SeriesType::gauge);
    page.add(labels_with(labels_with("", {{"one", first}}), {{"two", second}, {"three", ""}}), 1.5);
    const auto lines = samples(page);
    ASSERT_EQ(lines.size(), 1U) << "a line end in a label is escaped";
    const auto sample = read_sample(lines[0]);
    ASSERT_TRUE(sample) << lines[0];
    EXPECT_EQ(sample->label("one"), first);
    EXPECT_EQ(sample->label("two"), second);
    EXPECT_EQ(sample->labels.size(), 3U);
    EXPECT_EQ(sample->value, 1.5);
  }
}

TEST(TextPage, SortsItsFamiliesAndKeepsTheOrderOfSamples) {
  TextPage page;
  page.begin({"b_total", "Second."}, SeriesType::counter);
  page.add(R"(x="2")", std::uint64_t{7});
  page.add(R"(x="1")", std::uint64_t{8});
  page.begin({"empty", "Has no sample."}, SeriesType::histogram);
  page.begin({"a", "First."}, SeriesType::gauge);
  page.add("", 0.5);
  EXPECT_EQ(page.sorted("a_rest 1\n"),
            "# HELP a First.\n# TYPE a gauge\na 0.5\n"
            "# HELP b_total Second.\n# TYPE b_total counter\nb_total{x=\"2\"} 7\nb_total{x=\"1\"} 8\n"
            "# HELP empty Has no sample.\n# TYPE empty histogram\na_rest 1\n");
}

TEST(TextPage, WritesAHistogramWithCumulativeBuckets) {
  const std::vector<std::uint64_t> bounds{1'000, 9'000'000, 2'000'000'000}, others{5};
  const std::vector<std::uint64_t> counts{1, 0, 2, 4};
  BoundTexts texts;
  TextPage page;
  page.begin({"h", "Any."}, SeriesType::histogram);
  page.add(R"(x="y")", texts.of(bounds, 1e9), counts, 10.25);
  EXPECT_EQ(texts.of(others, 1).size(), 2U) << "other bounds take their place";
  page.add("", texts.of(bounds, 1e3), counts, 0);
  EXPECT_THAT(samples(page),
              ElementsAre(R"(h_bucket{x="y",le="1e-06"} 1)", R"(h_bucket{x="y",le="0.009"} 1)",
                          R"(h_bucket{x="y",le="2"} 3)", R"(h_bucket{x="y",le="+Inf"} 7)", R"(h_sum{x="y"} 10.25)",
                          R"(h_count{x="y"} 7)", R"(h_bucket{le="1"} 1)", R"(h_bucket{le="9000"} 1)",
                          R"(h_bucket{le="2000000"} 3)", R"(h_bucket{le="+Inf"} 7)", "h_sum 0", "h_count 7"));
}

}  // namespace
}  // namespace weir::metrics::series
