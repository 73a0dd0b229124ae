#include "metrics/text_page.hpp"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace weir::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily family(MetricType type, std::vector<double> values, std::vector<ClientMetric::Label> labels = {}) {
  MetricFamily out{"name", "What \\ it\nmeans \"here\".", type, {}};
  for (const double value : values) {
    ClientMetric metric;
    metric.label = labels;
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    out.metric.push_back(metric);
  }
  return out;
}

MetricFamily histogram(std::vector<ClientMetric::Label> labels) {
  MetricFamily out{"h", "H.", MetricType::Histogram, {}};
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.histogram.sample_count = 7;
  metric.histogram.sample_sum = 0.1 + 0.2;
  metric.histogram.bucket = {
      {1, 1e-6}, {2, 0.0005}, {4, 2.5}, {6, 1048576}, {7, std::numeric_limits<double>::infinity()}};
  out.metric.push_back(metric);
  return out;
}

TEST(TextPage, WritesTheFormat) {
  EXPECT_EQ(text_page({}), "");
  EXPECT_EQ(text_page({family(MetricType::Counter, {3}, {{"a", "x\"y\\z\n"}, {"b", ""}})}),
            "# HELP name What \\\\ it\\nmeans \"here\".\n# TYPE name counter\n"
            "name{a=\"x\\\"y\\\\z\\n\",b=\"\"} 3\n");
  EXPECT_EQ(text_page({histogram({{"a", "x"}})}),
            "# HELP h H.\n# TYPE h histogram\n"
            "h_count{a=\"x\"} 7\nh_sum{a=\"x\"} 0.30000000000000004\n"
            "h_bucket{a=\"x\",le=\"1e-06\"} 1\nh_bucket{a=\"x\",le=\"0.0005\"} 2\nh_bucket{a=\"x\",le=\"2.5\"} 4\n"
            "h_bucket{a=\"x\",le=\"1048576\"} 6\nh_bucket{a=\"x\",le=\"+Inf\"} 7\n");
  EXPECT_EQ(text_page({histogram({})}).substr(0, 43), "# HELP h H.\n# TYPE h histogram\nh_count 7\nh_");
}

TEST(TextPage, WritesNumbersThatReadBackTheSame) {
  const double values[] = {0,
                           -0.0,
                           1,
                           -1.5,
                           0.1,
                           1e-9,
                           123456789.25,
                           1'800'000'000.5,
                           999'999'999'999'999,
                           1e15,
                           1e300,
                           1.0 / 3,
                           4'503'599'627'370'497.5};
  for (const double value : values) {
    const auto text = text_page({family(MetricType::Gauge, {value})});
    EXPECT_EQ(std::stod(text.substr(text.rfind(' '))), value) << text;
  }
  const auto last_word = [](double value) {
    const auto text = text_page({family(MetricType::Gauge, {value})});
    return text.substr(text.rfind(' ') + 1);
  };
  EXPECT_EQ(last_word(std::nan("")), "NaN\n");
  EXPECT_EQ(last_word(-HUGE_VAL), "-Inf\n");
  EXPECT_EQ(last_word(1e6), "1000000\n");
}

/// Whatever prometheus-cpp writes, but for the digits of sums and values (and for a help text of several lines, which
/// it breaks the page with).
TEST(TextPage, IsThePageOfPrometheusCpp) {
  std::vector<MetricFamily> families{family(MetricType::Counter, {0, 1, 1e9}, {{"l", "v\"\\\n"}}),
                                     family(MetricType::Gauge, {0.25, -3}), histogram({{"a", "b"}, {"c", "d"}}),
                                     histogram({})};
  for (auto& one : families) one.help = "What it means.";
  std::ostringstream expected;
  prometheus::TextSerializer{}.Serialize(expected, families);
  std::istringstream ours(text_page(families)), theirs(expected.str());
  std::string a, b;
  while (std::getline(theirs, b)) {
    ASSERT_TRUE(std::getline(ours, a)) << b;
    if (b.starts_with('#')) {
      EXPECT_EQ(a, b);
    } else {
      EXPECT_EQ(a.substr(0, a.rfind(' ')), b.substr(0, b.rfind(' ')));
      EXPECT_NEAR(std::stod(a.substr(a.rfind(' '))), std::stod(b.substr(b.rfind(' '))), 1e-12);
    }
  }
  EXPECT_FALSE(std::getline(ours, a));
}

}  // namespace
}  // namespace weir::metrics
