// A small random source whose numbers are the same on every platform and standard library, so that a seed names a run.
//
// The generator is SplitMix64 (Steele, Lea, Flood 2014), which is not for secrets.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace weir::lab::engine {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// Returns a number in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  /// Returns a number in [0, n), n > 0. The bias of the remainder is below n / 2^64.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  /// Returns a normal number with mean 0 and deviation 1 (Box and Muller; the second value is discarded).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }
  /// Returns an exponential number with mean 1.
  double exponential() { return -std::log(1.0 - uniform()); }

 private:
  std::uint64_t state_;
};

}  // namespace weir::lab::engine
