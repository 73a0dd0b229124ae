// Lengths of requests by the kind of use: a few tokens in and many out cost an engine other things than the reverse.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weir::lab::load {

struct Shape {
  std::string_view name;
  double input_tokens, output_tokens;
};

/// Returns all shapes: rag, chat and agent.
std::span<const Shape> shapes();

/// Returns their lengths in words, for --help.
std::string describe_shapes();

/// Returns nothing if there is none of that name.
std::optional<Shape> shape(std::string_view name);

}  // namespace weir::lab::load
