// Recipes of `weir compare --recipe`: settings and commands for a question that people ask of two configurations.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace weir::proxy::compare {

struct Step {
  std::string_view what;                    ///< Without a full stop at its end.
  std::array<std::string_view, 2> commands{};  ///< "" is none.
};

/// A side in the settings.
struct RecipeSide {
  std::string_view config;
  std::string_view more;  ///< Further lines of its replica's table.
};

struct Recipe {
  std::string_view name, question;
  std::array<std::string_view, 4> needs;  ///< Lines about what is needed, and what the verdict is about.
  RecipeSide now, candidate;
  std::string_view of_candidate;  ///< Further lines of the candidate's [[shadow]].
  std::array<Step, 4> steps;

  /// Returns a settings file in which all that is no setting is a comment; commands stand behind "#   $ ".
  std::string text() const;
};

/// Returns null for a name that is none.
const Recipe* find_recipe(std::string_view name);
/// "upgrade, quantised, flags and gpu"
std::string recipe_names();

}  // namespace weir::proxy::compare
