#include "proxy/compare/read_times.hpp"

#include <algorithm>

namespace weir::proxy::compare {
namespace {

constexpr std::int64_t hour_us = 3'600'000'000;
constexpr std::uint64_t most_strays = 10, in_so_many = 1000;
constexpr std::int64_t far = 10;

void add_to(Stretch& stretch, const Stretch& other) {
  stretch.first_us = std::min(stretch.first_us, other.first_us);
  stretch.last_us = std::max(stretch.last_us, other.last_us);
  stretch.requests += other.requests;
}

}  // namespace

std::int64_t hour_of(std::int64_t us) { return us >= 0 ? us / hour_us : -((hour_us - 1 - us) / hour_us); }

void ReadTimes::add(std::int64_t us) { add_to(hours_[hour_of(us)], {us, us, 1}); }

Stretch ReadTimes::taken() const {
  if (hours_.empty()) return {};
  std::uint64_t all = 0;
  for (const auto& [hour, stretch] : hours_) all += stretch.requests;
  /// The hour of the request of this rank.
  const auto hour_at = [&](std::uint64_t rank) {
    for (const auto& [hour, stretch] : hours_) {
      if (rank < stretch.requests) return hour;
      rank -= stretch.requests;
    }
    return hours_.rbegin()->first;
  };
  const auto low = hour_at(all / 4), high = hour_at(all - 1 - all / 4);
  const auto reach = far * std::max<std::int64_t>(1, 2 * (high - low));
  std::uint64_t before = 0, behind = 0;
  for (const auto& [hour, stretch] : hours_) {
    if (hour < low - reach) before += stretch.requests;
    if (hour > high + reach) behind += stretch.requests;
  }
  const auto most = std::max(most_strays, all / in_so_many);
  Stretch taken{hours_.begin()->first * hour_us, (hours_.rbegin()->first + 1) * hour_us - 1, all};
  if (before > 0 && before <= most) {
    taken.first_us = (low - reach) * hour_us;
    taken.requests -= before;
  }
  if (behind > 0 && behind <= most) {
    taken.last_us = (high + reach + 1) * hour_us - 1;
    taken.requests -= behind;
  }
  return taken;
}

Stretch ReadTimes::within(std::span<const Stretch> taken) const {
  Stretch found;
  for (const auto& [hour, stretch] : hours_)
    if (std::ranges::any_of(taken, [&](const Stretch& one) { return one.holds(stretch.first_us); }))
      add_to(found, stretch);
  return found;
}

}  // namespace weir::proxy::compare
