#include "proxy/control/last_minute.hpp"

#include <algorithm>

namespace weir::proxy::control {
namespace {

constexpr double nanoseconds = 1e9;

BucketCounts counts_of(const metrics::series::ReplicaSeries& series,
                       metrics::series::Histogram metrics::series::ReplicaShard::*histogram) {
  BucketCounts all;
  const auto bounds = ((*series.shards().front()).*histogram).bounds();
  all.bounds.assign(bounds.begin(), bounds.end());
  all.counts.resize(bounds.size() + 1);
  for (const auto& shard : series.shards()) {
    const auto& one = (*shard).*histogram;
    for (std::size_t i = 0; i <= one.bounds().size(); ++i) all.counts[one.place(bounds, i)] += one.bucket(i);
  }
  return all;
}

}  // namespace

std::optional<double> quantile_between(const BucketCounts& before, const BucketCounts& now, double q) {
  if (before.bounds != now.bounds || now.bounds.empty()) return std::nullopt;
  std::vector<double> came(now.counts.size());
  double all = 0;
  for (std::size_t i = 0; i < came.size(); ++i) {
    came[i] = static_cast<double>(now.counts[i] - std::min(before.counts[i], now.counts[i]));
    all += came[i];
  }
  if (all == 0) return std::nullopt;
  double below = 0;
  for (std::size_t i = 0; i < now.bounds.size(); ++i) {
    if (came[i] > 0 && below + came[i] >= q * all) {
      const auto from = i == 0 ? 0.0 : static_cast<double>(now.bounds[i - 1]);
      return from + (static_cast<double>(now.bounds[i]) - from) * (q * all - below) / came[i];
    }
    below += came[i];
  }
  return static_cast<double>(now.bounds.back());  // It is above every bound; nobody knows by how much.
}

LastMinute::Sample LastMinute::sample_of(const metrics::series::ReplicaSeries& series, metrics::Moment now) {
  using metrics::series::ReplicaShard;
  return {now, counts_of(series, &ReplicaShard::time_to_first_token),
          counts_of(series, &ReplicaShard::time_per_output_token)};
}

void LastMinute::sample(const fleet::World& world, metrics::Moment now) {
  const auto lock = exposition_.keep_bounds();
  decltype(samples_) kept;
  for (const auto& pool : world.all_pools) {
    for (const auto& replica : pool->replicas) {
      auto& samples = kept[replica->series.get()] = std::move(samples_[replica->series.get()]);
      samples.push_back(sample_of(*replica->series, now));
      while (samples.size() > 1 && now - samples[1].at >= window) samples.pop_front();
    }
  }
  samples_ = std::move(kept);
}

LastMinute::Medians LastMinute::of(const metrics::series::ReplicaSeries& series) const {
  const auto found = samples_.find(&series);
  if (found == samples_.end() || found->second.empty()) return {};
  const auto& before = found->second.front();
  const auto lock = exposition_.keep_bounds();
  const auto now = sample_of(series, {});
  const auto seconds = [](std::optional<double> value) {
    return value ? std::optional(*value / nanoseconds) : std::nullopt;
  };
  return {seconds(quantile_between(before.ttft, now.ttft, 0.5)), seconds(quantile_between(before.tpot, now.tpot, 0.5))};
}

}  // namespace weir::proxy::control
