// The figures of shadows: what was mirrored to them and what was dropped. The control thread uses it.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "metrics/series/exposition.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/live/counts.hpp"
#include "proxy/live/memories.hpp"
#include "proxy/live/now.hpp"

namespace weir::proxy::live {

class ShadowFigures {
 public:
  /// Adds the row of the second that ends now, after `seconds`. `now` has the rows of the shadow's replicas.
  void take(Now& now, const fleet::ShadowRuntime& shadow, std::size_t seconds);
  /// To be called when all rows have been taken, with the same `seconds`.
  void end_second(std::size_t seconds) { end_second_of_unseen(memories_, seconds); }

 private:
  struct OfShadow {
    std::array<Minute, metrics::series::mirrored_names.size()> mirrored;
    std::array<Growth, metrics::series::mirrored_names.size()> grown;
    const metrics::series::ReplicaSeries* counted_by = nullptr;
    Moment began{};
    Wall began_wall{};
    bool seen = false;

    bool rest(std::size_t seconds);
  };

  static void take_counts(ShadowNow& row, OfShadow& memory, const fleet::ShadowRuntime& shadow, std::size_t seconds);

  std::map<std::string, OfShadow, std::less<>> memories_;
};

}  // namespace weir::proxy::live
