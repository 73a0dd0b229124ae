// Which sides a range of samples has, and which two of them are compared.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "metrics/compare/samples/sample.hpp"

namespace weir::metrics::compare::sides {

/// By::shadow selects by the name of the [[shadow]].
enum class By : std::uint8_t { config, replica, role, shadow };

/// Returns the name by which a sample is told apart; 0 with By::role.
constexpr samples::Names::Name name_in(const samples::Sample& sample, By by) {
  switch (by) {
    case By::config:
      return sample.config;
    case By::replica:
      return sample.replica;
    case By::shadow:
      return sample.shadow;
    case By::role:
      break;
  }
  return 0;
}

struct Selection {
  By by = By::config;
  samples::Names::Name name = 0;  ///< The config's, replica's or shadow's.
  Role role = Role::primary;      ///< Counts with By::role alone.

  bool operator==(const Selection&) const = default;

  bool holds(const samples::Sample& sample) const {
    if (by == By::role) return sample.role == role;
    return name_in(sample, by) == name && (by != By::shadow || sample.role == Role::shadow);
  }

  /// Returns what a report calls this side.
  std::string label(const samples::Names& names) const {
    return std::string(by == By::role ? name_of(role) : names.text(name));
  }
};

/// A configuration or replica in one role, or a role.
struct SideKey {
  samples::Names::Name name = 0;  ///< 0 with By::role.
  Role role = Role::primary;

  bool holds(const samples::Sample& sample, By by) const;
  std::string text(const samples::Names& names, By by) const;
};

/// Returns the sides, primaries first, then by name. Requests that no replica had are of no configuration or replica.
std::vector<SideKey> sides_of(std::span<const samples::Sample> samples, const samples::Names& names, By by);

/// Returns the samples of each side. What a shadow was spared before a replica was chosen for it belongs to every side
/// of that shadow.
std::vector<std::vector<const samples::Sample*>> samples_of(std::span<const SideKey> sides,
                                                            std::span<const samples::Sample> samples, By by);

struct SideChoice {
  Selection a, b;
};

/// Chooses by the names that were given, "" for none. A name may be that of a [[shadow]], too. Without names there must
/// be two: a is the primary's, or the first by name. One configuration in both roles is compared with itself. Otherwise
/// returns a sentence that says what there is.
std::variant<SideChoice, std::string> choose_sides(std::span<const samples::Sample> samples,
                                                   const samples::Names& names, By by, std::string_view a,
                                                   std::string_view b);

/// Returns each of several sides against one: against `a`, or without a name against the only one that primaries have.
/// Returns nothing where there are not two others at least.
std::vector<SideChoice> choose_candidates(std::span<const samples::Sample> samples, const samples::Names& names, By by,
                                          std::string_view a);

}  // namespace weir::metrics::compare::sides
