// Chance that can be repeated: everything in a chaos run that is drawn comes from the run's seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>

namespace weir::chaos {

class Dice {
 public:
  /// Draws of the same seed and name are the same.
  Dice(std::uint64_t seed, std::string_view name) : random_(seed * 0x9e3779b97f4a7c15ULL ^ hash(name)) {}

  /// Returns a number from 0 to n - 1.
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  std::size_t between(std::size_t least, std::size_t most) { return least + below(most - least + 1); }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }

 private:
  static std::uint64_t hash(std::string_view text) {
    std::uint64_t value = 1469598103934665603ULL;
    for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return value;
  }

  std::mt19937_64 random_;
};

}  // namespace weir::chaos
