#include "proxy/live/latencies.hpp"

#include <gtest/gtest.h>

#include <random>
#include <span>
#include <vector>

#include "metrics/compare/statistics/quantile.hpp"

namespace weir::proxy::live {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Beside a list of all requests.
TEST(Latencies, AreThoseOfTheLastMinuteAndOfTheLastThousand) {
  std::mt19937 random(3);
  std::lognormal_distribution<float> value(0, 1);
  struct One {
    metrics::Moment at;
    std::optional<float> ttft, tpot;
  };
  std::vector<One> all;
  Latencies latencies;
  metrics::Moment now{};
  for (int i = 0; i < 5000; ++i) {
    now += milliseconds(random() % (i < 2500 ? 20 : 200));
    One one{now, {}, {}};
    if (random() % 4 != 0) one.ttft = value(random);
    if (random() % 4 != 0) one.tpot = value(random);
    latencies.add(one.ttft, one.tpot, now);
    if (one.ttft || one.tpot) all.push_back(one);
    if (i % 97 != 0) continue;
    for (const auto back : {seconds(60), seconds(10)}) {
      std::vector<float> ttft, tpot;
      const auto from = all.size() - std::min(all.size(), Latencies::most);
      for (const auto& known : std::span(all).subspan(from)) {
        if (now - known.at > back) continue;
        if (known.ttft) ttft.push_back(*known.ttft);
        if (known.tpot) tpot.push_back(*known.tpot);
      }
      const auto got = latencies.quantiles(now, back);
      using metrics::compare::statistics::quantile;
      ASSERT_EQ(got.ttft_p50.has_value(), !ttft.empty());
      if (got.ttft_p50) ASSERT_DOUBLE_EQ(*got.ttft_p50, quantile(std::span(ttft), 0.5));
      ASSERT_EQ(got.ttft_p95.has_value(), ttft.size() >= Latencies::least_for_p95);
      if (got.ttft_p95) ASSERT_DOUBLE_EQ(*got.ttft_p95, quantile(std::span(ttft), 0.95));
      ASSERT_EQ(got.tpot_p50.has_value(), !tpot.empty());
      if (got.tpot_p50) ASSERT_DOUBLE_EQ(*got.tpot_p50, quantile(std::span(tpot), 0.5));
    }
  }
}

}  // namespace
}  // namespace weir::proxy::live
