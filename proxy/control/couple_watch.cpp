#include "proxy/control/couple_watch.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "metrics/compare/comparison/history.hpp"

namespace weir::proxy::control {

namespace mc = metrics::compare;

void CoupleWatch::tick(metrics::Moment now) {
  if (under_way_ || now < next_ || slow_.is_full()) return;
  next_ = now + every;
  std::vector<mc::samples::Sample> samples;
  std::int64_t last_us = 0;
  for (const auto* const sample : history_.samples_since(now - back)) {
    samples.push_back(*sample);
    last_us = std::max(last_us, sample->dispatched_us);
  }
  if (samples.empty()) return;
  constexpr std::int64_t minute_us = 60'000'000;
  // The samples of a minute that began earlier are those alone that ended last.
  const std::int64_t first_whole = history_.wall_us(now - back) / minute_us + 1;
  const std::int64_t to = last_us / minute_us, from = std::max(to - (back.count() - 2), first_whole);
  auto find = [names = std::make_shared<mc::samples::Names>(history_.names()), mirrored = history_.mirrored(),
               samples = std::move(samples)] {
    mc::pairs::WarmUp warm_up;
    warm_up.mirrored = &mirrored;
    return mc::comparison::couples_of(samples, *names, warm_up);
  };
  slow_.make(std::move(find), [this, from, to](const std::shared_ptr<std::vector<mc::comparison::Couple>>& couples) {
    if (couples) history_.remember(*couples, from, to);
    under_way_ = false;
  });
  under_way_ = true;
}

}  // namespace weir::proxy::control
