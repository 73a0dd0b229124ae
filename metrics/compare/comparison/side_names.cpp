#include "metrics/compare/comparison/side_names.hpp"

namespace weir::metrics::compare::comparison {
namespace {

/// Returns the name of the [[shadow]] on one side; "" if there are several.
std::string_view only_shadow(const pairs::Pairing& pairing, const samples::Names& names,
                             const samples::Sample* pairs::Pair::*side) {
  samples::Names::Name found = 0;
  for (const pairs::Pair& pair : pairing.pairs) {
    const auto name = (pair.*side)->shadow;
    if (name == 0 || (found != 0 && name != found)) return {};
    found = name;
  }
  return names.text(found);
}

ComparedSide named(const sides::Selection& side, bool shadow, const samples::Names& names) {
  if (side.by == sides::By::role) return {side.label(names), side.role};
  return {side.label(names), shadow || side.by == sides::By::shadow ? Role::shadow : Role::primary};
}

std::string label(const ComparedSide& side, bool ambiguous, std::string_view shadow) {
  return ambiguous && side.role == Role::shadow ? shadow_label(side.name, shadow) : side.name;
}

}  // namespace

void name_sides(Comparison& comparison, const pairs::Pairing& pairing, const samples::Names& names,
                const Options& options) {
  const bool control = pairing.mode == pairs::Mode::control;
  comparison.side_a = named(options.a, control, names);
  comparison.side_b = named(options.b, pairing.mode != pairs::Mode::split, names);
  const bool of_shadows = options.a.by == sides::By::role || options.a.by == sides::By::shadow;
  const bool same = !of_shadows && comparison.side_a.name == comparison.side_b.name;
  const auto shadow_a = only_shadow(pairing, names, &pairs::Pair::a);
  const auto shadow_b = only_shadow(pairing, names, &pairs::Pair::b);
  comparison.a = label(comparison.side_a, !of_shadows && (same || control), shadow_a);
  comparison.b = label(comparison.side_b, same, shadow_b);
  // Two shadows of one name and configuration are told apart by nothing but the roles.
  if (comparison.a == comparison.b && same) comparison.b = label(comparison.side_b, true, {});
}

}  // namespace weir::metrics::compare::comparison
