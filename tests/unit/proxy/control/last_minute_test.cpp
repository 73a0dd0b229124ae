// The median of what came lately, read off the buckets of histograms.
#include "proxy/control/last_minute.hpp"

#include <gtest/gtest.h>

#include "proxy/fleet/fleet.hpp"

namespace weir::proxy::control {
namespace {

using std::chrono::seconds;

const std::vector<std::uint64_t> bounds{10, 20, 40};

std::optional<double> median(std::vector<std::uint64_t> before, std::vector<std::uint64_t> now) {
  return quantile_between({bounds, std::move(before)}, {bounds, std::move(now)}, 0.5);
}

TEST(QuantileBetween, IsReadWithinItsBucket) {
  EXPECT_EQ(median({0, 0, 0, 0}, {0, 0, 0, 0}), std::nullopt) << "nothing came";
  EXPECT_EQ(median({5, 5, 5, 5}, {5, 5, 5, 5}), std::nullopt);
  EXPECT_DOUBLE_EQ(*median({0, 0, 0, 0}, {0, 4, 0, 0}), 15);
  EXPECT_DOUBLE_EQ(*median({0, 0, 0, 0}, {2, 0, 0, 0}), 5);
  EXPECT_DOUBLE_EQ(*median({0, 0, 0, 0}, {1, 1, 2, 0}), 20);
  EXPECT_DOUBLE_EQ(*median({0, 0, 0, 0}, {1, 0, 3, 0}), 20 + 20 * (1.0 / 3));
  EXPECT_DOUBLE_EQ(*median({100, 0, 0, 0}, {100, 0, 0, 1}), 40) << "above every bound";
  EXPECT_DOUBLE_EQ(*median({100, 7, 0, 0}, {100, 9, 0, 0}), 15) << "what was there before does not count";
}

TEST(QuantileBetween, OfOtherBoundsIsUnknown) {
  EXPECT_EQ(quantile_between({{10, 20}, {1, 0, 0}}, {bounds, {2, 0, 0, 0}}, 0.5), std::nullopt);
  EXPECT_EQ(quantile_between({}, {bounds, {2, 0, 0, 0}}, 0.5), std::nullopt);
}

TEST(LastMinute, ForgetsWhatCameEarlier) {
  metrics::series::Exposition exposition{2, {"test", "test"}};
  config::Settings settings;
  config::Pool pool;
  pool.name = "chat";
  config::Replica replica;
  replica.name = replica.config = "a";
  replica.url = {.host = "127.0.0.1", .port = 1, .prefix = "", .authority = "127.0.0.1:1"};
  pool.replicas = {replica};
  settings.pools = {pool};
  fleet::Fleet fleet(settings, exposition, 1);
  auto& series = *fleet.world()->pools[0]->replicas[0]->series;
  const auto first_token_after = [&](std::size_t loop, seconds time) {
    series.shard(loop).time_to_first_token.observe(static_cast<std::uint64_t>(std::chrono::nanoseconds(time).count()));
  };
  LastMinute last(exposition);
  const metrics::Moment start{seconds(1000)};
  EXPECT_EQ(last.of(series).ttft, std::nullopt);
  last.sample(*fleet.world(), start);
  EXPECT_EQ(last.of(series).ttft, std::nullopt);
  for (int i = 0; i < 10; ++i) first_token_after(0, seconds(40));
  EXPECT_GT(*last.of(series).ttft, 20) << "those since the start, before a minute is over";
  for (auto at = start + seconds(5); at <= start + seconds(65); at += seconds(5)) last.sample(*fleet.world(), at);
  EXPECT_EQ(last.of(series).ttft, std::nullopt);
  for (int i = 0; i < 3; ++i) first_token_after(1, seconds(2));
  const auto medians = last.of(series);
  EXPECT_GT(*medians.ttft, 1);
  EXPECT_LE(*medians.ttft, 2);
  EXPECT_EQ(medians.tpot, std::nullopt);
}

}  // namespace
}  // namespace weir::proxy::control
