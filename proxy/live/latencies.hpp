// The TTFT and TPOT of the last requests of a replica or a pool, and their quantiles. A plain value without a clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "metrics/moment.hpp"

namespace weir::proxy::live {

class Latencies {
 public:
  /// The requests of the last minute count, and no more of them than this. 16 bytes each.
  static constexpr std::size_t most = 1000;
  static constexpr std::chrono::seconds minute{60};
  /// Fewer values have no p95.
  static constexpr std::size_t least_for_p95 = 20;

  struct Quantiles {
    std::optional<double> ttft_p50, ttft_p95, tpot_p50;  ///< In seconds.
  };

  /// Takes a request that ended at `now`; an absent figure counts nowhere.
  void add(std::optional<double> ttft, std::optional<double> tpot, metrics::Moment now);
  /// Returns the quantiles of the requests that ended within `back` before now. Costs O(of these).
  Quantiles quantiles(metrics::Moment now, std::chrono::seconds back = minute) const;

 private:
  struct One {
    metrics::Moment ended;
    float ttft, tpot;  ///< NaN is unknown.
  };
  std::vector<One> ring_;
  std::size_t next_ = 0;
};

}  // namespace weir::proxy::live
