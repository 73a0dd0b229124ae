#include "lab/load/shape.hpp"

#include <algorithm>
#include <array>

namespace weir::lab::load {
namespace {

constexpr std::array<Shape, 3> known{{
    {"rag", 3000, 200},    // Retrieved passages and a question; a short answer.
    {"chat", 500, 250},    // A few turns; an answer of two paragraphs.
    {"agent", 8000, 150},  // Tools, files and what was done so far; one call.
}};

}  // namespace

std::span<const Shape> shapes() { return known; }

std::optional<Shape> shape(std::string_view name) {
  const auto found = std::ranges::find(known, name, &Shape::name);
  if (found == known.end()) return std::nullopt;
  return *found;
}

}  // namespace weir::lab::load
