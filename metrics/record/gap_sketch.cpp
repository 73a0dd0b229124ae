#include "metrics/record/gap_sketch.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace weir::metrics::record {

namespace {

constexpr std::uint64_t unit = 1000;  // The lower edge of bin 1 is so many nanoseconds.
constexpr std::uint64_t per_octave = 64;
constexpr std::uint64_t longest = std::uint64_t{1} << 56;  // Two years are the longest gap; this keeps the arithmetic
                                                           // below in 64 bits.

double lower_edge(std::uint16_t bin) {
  const auto above = static_cast<unsigned>(bin - 1);
  return std::ldexp(static_cast<double>(unit), static_cast<int>(above / per_octave)) *
         (1.0 + static_cast<double>(above % per_octave) / static_cast<double>(per_octave));
}

}  // namespace

std::uint16_t GapSketch::bin_of(Nanoseconds gap) {
  if (gap.count() < static_cast<std::int64_t>(unit)) return 0;
  const auto ns = std::min(static_cast<std::uint64_t>(gap.count()), longest);
  const auto octave = static_cast<unsigned>(std::bit_width(ns / unit)) - 1;
  const std::uint64_t base = unit << octave;
  return static_cast<std::uint16_t>(1 + octave * per_octave + (ns - base) * per_octave / base);
}

Nanoseconds GapSketch::middle_of(std::uint16_t bin) {
  if (bin == 0) return Nanoseconds{0};  // Bin 0 holds events of one read, whose gap is zero.
  bin = std::min(bin, bin_of(Nanoseconds{longest}));  // A log may name any bin.
  const double low = lower_edge(bin);
  const double high = lower_edge(static_cast<std::uint16_t>(bin + 1));
  return Nanoseconds{std::llround(std::sqrt(low * high))};
}

void GapSketch::add(Nanoseconds gap, std::uint32_t count) {
  const std::uint16_t index = bin_of(gap);
  const auto at = std::lower_bound(bins_.begin(), bins_.end(), index,
                                   [](const Bin& bin, std::uint16_t wanted) { return bin.index < wanted; });
  nanoseconds_ += static_cast<std::uint64_t>(std::max(gap.count(), Nanoseconds::rep{0})) * count;
  if (at != bins_.end() && at->index == index) {
    at->count += count;
  } else {
    bins_.insert(at, Bin{index, count});
  }
}

std::uint64_t GapSketch::count() const {
  std::uint64_t sum = 0;
  for (const Bin& bin : bins_) sum += bin.count;
  return sum;
}

}  // namespace weir::metrics::record
