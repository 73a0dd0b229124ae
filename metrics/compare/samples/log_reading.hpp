// Reads a line of the request log (record/log_line.cpp) into a Sample: what sample_of() makes of the record itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "metrics/compare/samples/sample.hpp"

namespace weir::metrics::compare::samples {

enum class LineKind : std::uint8_t {
  request,
  foreign,  ///< JSON, but no line of weir's request log, or one of a later version.
  broken,   ///< No JSON object, or longer than longest_line.
  warm_up,  ///< A request of a load's warm-up ("warm_up":true), which counts in no figure.
};

inline constexpr std::size_t longest_line = 64 * 1024;
/// So many bytes behind a line must be readable, whatever they hold.
inline constexpr std::size_t line_padding = 64;

/// Reads one line, without its newline. Members may stand in any order; unknown ones are skipped, and a value of the
/// wrong type is unknown. `sample` is valid where the line is a request. It allocates for gaps and for new names.
LineKind read_log_line(std::string_view line, Names& names, Sample& sample);

}  // namespace weir::metrics::compare::samples
