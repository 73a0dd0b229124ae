#include "lab/report/metrics_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace weir::lab::report {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(MetricsText, ReadsNamesLabelsAndValues) {
  std::istringstream in(
      "# HELP a What it is.\n# TYPE a counter\n"
      "a 3\n"
      "a{x=\"1\",y=\"two, {three}\"} 4.5e-1\r\n"
      "b{x=\"a\\\"b\\\\c\\nd\"} +Inf\n"
      "\n");
  const MetricsText page = read_metrics_text(in);
  ASSERT_EQ(page.samples.size(), 3u);
  EXPECT_EQ(page.unreadable, 0u);
  EXPECT_EQ(page.samples[0].value, 3);
  EXPECT_THAT(page.samples[1].labels, ElementsAre(Pair("x", "1"), Pair("y", "two, {three}")));
  EXPECT_DOUBLE_EQ(page.samples[1].value, 0.45);
  EXPECT_EQ(page.samples[2].labels.at("x"), "a\"b\\c\nd");
  EXPECT_TRUE(std::isinf(page.samples[2].value));
}

TEST(MetricsText, CountsWhatItCannotRead) {
  std::istringstream in("nonsense\n{x=\"1\"} 2\na{x=\"1\" 2\na{x} 2\na b\na{x=\"1\n");
  const MetricsText page = read_metrics_text(in);
  EXPECT_TRUE(page.samples.empty());
  EXPECT_EQ(page.unreadable, 6u);
}

TEST(MetricsText, SumsASeriesAltogetherAndByALabel) {
  std::istringstream in(
      "r{outcome=\"ok\",replica=\"a\"} 3\nr{outcome=\"ok\",replica=\"b\"} 4\n"
      "r{outcome=\"reset\",replica=\"b\"} 1\nr{outcome=\"timeout\",replica=\"b\"} 0\nr_other{outcome=\"ok\"} 9\n");
  const MetricsText page = read_metrics_text(in);
  EXPECT_EQ(page.sum("r"), 8);
  EXPECT_THAT(page.by_label("r", "outcome"), ElementsAre(Pair("ok", 7), Pair("reset", 1)));
  EXPECT_THAT(page.by_label("r", "pool"), ElementsAre(Pair("", 8)));
}

}  // namespace
}  // namespace weir::lab::report
