#include "metrics/series/own_families.hpp"

#include <gtest/gtest.h>
#include <prometheus/metric_family.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/metrics/series/exposition_scrape.hpp"

namespace weir::metrics::series {
namespace {

using prometheus::MetricFamily;

std::vector<std::string> names_of(const std::vector<MetricFamily>& families) {
  std::vector<std::string> names;
  for (const auto& family : families) names.push_back(family.name);
  return names;
}

TEST_F(ExpositionTest, EndsWithTheFamiliesOfWeirItself) {
  const auto own = names_of(own_families(exposition));
  const auto order = scrape().order;
  ASSERT_GT(order.size(), own.size());
  EXPECT_EQ(std::vector(order.end() - static_cast<std::ptrdiff_t>(own.size()), order.end()), own);
  EXPECT_TRUE(std::ranges::is_sorted(own));
}

TEST_F(ExpositionTest, WeirsOwnFamiliesAreTheSameWhateverTheFleet) {
  exposition.comparisons = [] { return std::vector<ComparisonGauges>{{"shadow", {{"ttft", 0.25}}, {{"on", true}}}}; };
  const auto samples_of = [](const std::vector<MetricFamily>& families) {
    std::size_t samples = 0;
    for (const auto& family : families) samples += family.metric.size();
    return samples;
  };
  const auto before = own_families(exposition);
  for (int i = 0; i < 50; ++i) exposition.add({"chat", "gpu" + std::to_string(i), ""}).shard(0).settle({});
  const auto after = own_families(exposition);
  EXPECT_EQ(names_of(after), names_of(before));
  EXPECT_EQ(samples_of(after), samples_of(before));
  for (const auto& family : after) {
    for (const auto& metric : family.metric) {
      for (const auto& label : metric.label) EXPECT_NE(label.name, "replica") << family.name;
    }
  }
}

TEST(OwnFamilies, HaveEveryDelayOfALoopInItsBucket) {
  std::mt19937_64 random(7);
  Exposition exposition(2, {"0", "c++"});
  std::vector<double> delays;
  for (int i = 0; i < 500; ++i) {
    const std::chrono::nanoseconds delay(random() >> (random() % 40 + 24));
    exposition.loop(1).ticked(delay);
    delays.push_back(std::chrono::duration<double>(delay).count());
  }
  const auto families = own_families(exposition);
  const auto found = std::ranges::find(families, "weir_loop_delay_seconds", &MetricFamily::name);
  ASSERT_NE(found, families.end());
  ASSERT_EQ(found->metric.size(), 2U);
  EXPECT_EQ(found->metric[0].histogram.sample_count, 0U) << "loop 0 had no tick";
  const auto& histogram = found->metric[1].histogram;
  for (const auto& bucket : histogram.bucket) {
    const auto within = std::ranges::count_if(delays, [&](double delay) { return delay <= bucket.upper_bound; });
    EXPECT_EQ(bucket.cumulative_count, static_cast<std::uint64_t>(within)) << bucket.upper_bound;
  }
  EXPECT_EQ(histogram.bucket.back().upper_bound, std::numeric_limits<double>::infinity());
  EXPECT_EQ(histogram.sample_count, delays.size());
  double sum = 0;
  for (const double delay : delays) sum += delay;
  EXPECT_NEAR(histogram.sample_sum, sum, sum * 1e-12);
}

}  // namespace
}  // namespace weir::metrics::series
