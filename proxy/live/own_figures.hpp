// The figures of weir itself: its process, the delays that it adds, and the limits that were hit. The control thread
// uses it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "metrics/series/exposition.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/live/counts.hpp"
#include "proxy/live/now.hpp"
#include "proxy/live/recent.hpp"

namespace weir::proxy::live {

class OwnFigures {
 public:
  OwnFigures(const metrics::series::Exposition& exposition, std::size_t threads, Wall started, Moment began)
      : exposition_(exposition), threads_(threads), started_(started), began_(began) {}

  /// Sets the figures of the second that ends now, after `seconds`.
  void take(Now& now, const fleet::Snapshot& snapshot, const std::string& instance, std::size_t seconds);
  /// Adds the open descriptors, which are counted once in ten seconds.
  void complete(Now& now);

 private:
  void take_process(WeirNow& weir, Moment now);
  void take_bypass(WeirNow& weir, Moment now);
  void take_delays(WeirNow& weir, const fleet::Snapshot& snapshot, std::size_t seconds);
  void take_limits(WeirNow& weir, std::size_t seconds);

  const metrics::series::Exposition& exposition_;
  const std::size_t threads_;
  const Wall started_;
  const Moment began_;
  std::array<std::pair<Growth, Minute>, metrics::series::limit_names.size()> limits_;
  Recent loop_delay_, overhead_;
  Growth cpu_;
  Moment cpu_at_{};
  std::optional<double> descriptors_;
  Moment descriptors_at_{};
  std::optional<Moment> bypass_since_;
  std::vector<std::uint64_t> counts_;  ///< Kept for its memory.
};

}  // namespace weir::proxy::live
