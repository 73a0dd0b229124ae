#include "proxy/live/own_figures.hpp"

#include <set>

#include "proxy/live/process.hpp"
#include "proxy/live/shard_sums.hpp"

namespace weir::proxy::live {
namespace {

namespace ms = metrics::series;
using metrics::seconds;

}  // namespace

void OwnFigures::take(Now& now, const fleet::Snapshot& snapshot, const std::string& instance, std::size_t passed) {
  auto& weir = now.weir;
  weir.version = exposition_.build().version;
  weir.instance = instance;
  weir.started = started_;
  weir.uptime_seconds = seconds(now.at - began_);
  weir.threads = threads_;
  take_process(weir, now.at);
  take_bypass(weir, now.at);
  if (snapshot.server_tls && snapshot.server_tls->ends() != Wall::max())
    weir.certificate_ends = snapshot.server_tls->ends();
  take_delays(weir, snapshot, passed);
  take_limits(weir, passed);
}

void OwnFigures::take_process(WeirNow& weir, Moment now) {
  const auto used = cpu_.of(cpu_seconds());
  if (cpu_at_ != Moment{} && now > cpu_at_) weir.cpu = used / seconds(now - cpu_at_);
  cpu_at_ = now;
  weir.memory_bytes = live::memory_bytes();
  weir.descriptors_limit = live::descriptors_limit();
}

void OwnFigures::take_bypass(WeirNow& weir, Moment now) {
  weir.bypass_seconds.reset();
  if (!weir.bypass) {
    bypass_since_.reset();
  } else {
    bypass_since_ = bypass_since_.value_or(now);
    weir.bypass_seconds = seconds(now - *bypass_since_);
  }
}

void OwnFigures::take_delays(WeirNow& weir, const fleet::Snapshot& snapshot, std::size_t passed) {
  counts_.clear();
  add_histograms(exposition_.loops(), [](const ms::LoopShard& shard) -> const auto& { return shard.loop_delay; },
                 counts_);
  loop_delay_.take(ms::loop_delay_bounds, counts_, fade_in(recent_seconds, passed));
  weir.loop_delay_p99 = scaled(loop_delay_.bound_of_quantile(0.99), nanoseconds);
  counts_.clear();
  std::set<const ms::ReplicaSeries*> added;
  snapshot.each_replica([&](const fleet::PoolRuntime& pool, const auto& replica) {
    if (pool.shadow.empty() && added.insert(replica->series.get()).second)
      add_histograms(replica->series->shards(), [](const ms::ReplicaShard& shard) -> const auto& {
        return shard.token_overhead;
      }, counts_);
  });
  counts_.resize(ms::overhead_bounds.size() + 1, 0);
  overhead_.take(ms::overhead_bounds, counts_, fade_in(Minute::seconds, passed));
  weir.overhead_p99 = scaled(overhead_.bound_of_quantile(0.99), nanoseconds);
}

void OwnFigures::take_limits(WeirNow& weir, std::size_t passed) {
  for (std::size_t limit = 0; limit < limits_.size(); ++limit) {
    auto& [growth, minute] = limits_[limit];
    minute.add(growth.of(sum_of(exposition_.loops(), [&](const ms::LoopShard& shard) -> const auto& {
      return shard.limit_hits[limit];
    })));
    minute.end_second(passed);
    if (minute.sum() > 0) weir.limits_60s.emplace_back(ms::limit_names[limit], minute.sum());
  }
}

void OwnFigures::complete(Now& now) {
  constexpr std::chrono::seconds descriptors_every{10};
  if (!descriptors_ || now.at - descriptors_at_ >= descriptors_every) {
    descriptors_ = open_descriptors();
    descriptors_at_ = now.at;
  }
  now.weir.descriptors = descriptors_;
}

}  // namespace weir::proxy::live
