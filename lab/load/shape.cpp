#include "lab/load/shape.hpp"

#include <algorithm>
#include <array>

#include "lab/text.hpp"

namespace weir::lab::load {
namespace {

constexpr std::array<Shape, 3> known{{
    {"rag", 3000, 200},    // Retrieved passages and a question; a short answer.
    {"chat", 500, 250},    // A few turns; an answer of two paragraphs.
    {"agent", 8000, 150},  // Tools, files and what was done so far; one call.
}};

}  // namespace

std::span<const Shape> shapes() { return known; }

std::string describe_shapes() {
  std::string text = "Lengths of a kind of use, all alike:";
  for (const Shape& one : known) {
    text += (&one == &known.front() ? " " : ", ") + std::string(one.name) +
            format(" %.0f in and %.0f out", one.input_tokens, one.output_tokens);
  }
  return text;
}

std::optional<Shape> shape(std::string_view name) {
  const auto found = std::ranges::find(known, name, &Shape::name);
  if (found == known.end()) return std::nullopt;
  return *found;
}

}  // namespace weir::lab::load
