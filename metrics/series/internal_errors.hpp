// Counts the exceptions that left a coroutine which nobody awaits, by the part of weir to which it belongs. Each is a
// bug. Any thread may count.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::metrics::series {

enum class Part : std::uint8_t {
  session,
  shadow,
  prober,
  resolver,
  engine_reader,
  model_directory,
  operators,
  control
};
inline constexpr std::array<std::string_view, 8> part_names{
    "session", "shadow", "prober", "resolver", "engine_reader", "model_directory", "operators", "control"};

class InternalErrors {
 public:
  void count(Part part) { of(part).fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t counted(Part part) const { return counts_[static_cast<std::size_t>(part)].load(); }

 private:
  std::atomic<std::uint64_t>& of(Part part) { return counts_[static_cast<std::size_t>(part)]; }

  std::array<std::atomic<std::uint64_t>, part_names.size()> counts_{};
};

}  // namespace weir::metrics::series
