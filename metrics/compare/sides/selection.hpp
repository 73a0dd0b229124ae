// Which samples are one side of a comparison.
#pragma once

#include <cstdint>
#include <string>

#include "metrics/compare/samples/sample.hpp"

namespace weir::metrics::compare::sides {

/// By::shadow selects by the name of the [[shadow]].
enum class By : std::uint8_t { config, replica, role, shadow };

struct Selection {
  By by = By::config;
  samples::Names::Name name = 0;  ///< The config's, replica's or shadow's.
  Role role = Role::primary;      ///< Counts with By::role alone.

  bool operator==(const Selection&) const = default;

  bool holds(const samples::Sample& sample) const {
    switch (by) {
      case By::config:
        return sample.config == name;
      case By::replica:
        return sample.replica == name;
      case By::role:
        return sample.role == role;
      case By::shadow:
        return sample.role == Role::shadow && sample.shadow == name;
    }
    return false;
  }

  /// Returns what a report calls this side.
  std::string label(const samples::Names& names) const {
    return std::string(by == By::role ? name_of(role) : names.text(name));
  }
};

}  // namespace weir::metrics::compare::sides
