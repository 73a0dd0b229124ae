// What so many users at once got: the figures of the time in which all of them were there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/load/connection.hpp"
#include "lab/users/objective.hpp"

namespace weir::lab::users {

/// The time over which a stage is measured, in seconds of the monotonic clock.
struct Window {
  double from = 0, to = 0;
  double seconds() const { return to - from; }
  bool holds(double moment) const { return moment >= from && moment < to; }
};

struct Stage {
  std::uint64_t users = 0;
  double seconds = 0;  ///< The window's length; 0 if it was never reached.
  /// Of requests that were sent within the window.
  std::uint64_t ok = 0, failed = 0, unfinished = 0, good = 0;
  std::string failure;  ///< The first failure's own words; "" if there was none.
  std::vector<float> ttft, tpot, e2e;
  std::string own_delay;     ///< The load tool itself was too slow, by its own words; "" if it was not.
  double output_tokens = 0;  ///< Those that came within the window, whenever their requests were sent.

  double output_tokens_per_second() const { return seconds > 0 ? output_tokens / seconds : 0; }
  double requests_per_minute() const { return seconds > 0 ? 60 * static_cast<double>(ok) / seconds : 0; }
  /// Returns the share of answered and failed requests that met the objective; nothing without any.
  std::optional<double> attainment() const;
};

/// `good` counts only with an objective.
Stage stage_of(std::uint64_t users, std::span<const load::Result> results, const Window& window,
               const std::optional<Objective>& objective);

/// A stage meets the objective if so large a share of its requests does.
inline constexpr double least_attainment = 0.99;

/// Returns the highest number of users up to which every stage met the objective; nothing if the first did not.
/// `stages` are in order of users.
std::optional<std::uint64_t> peak_users(std::span<const Stage> stages);

}  // namespace weir::lab::users
