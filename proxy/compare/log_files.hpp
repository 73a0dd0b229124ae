// Reads the lines of request logs from files, plain or gzip, or from standard input.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace weir::proxy::compare {

/// Called with each line, without its newline, and its number from 1 on. metrics::compare::line_padding bytes behind a
/// line are readable. A line without newline ends the file: it may be one that is being written. A line that is longer
/// than metrics::compare::longest_line comes cut, one byte longer than that.
using OnLine = std::function<void(std::string_view line, std::uint64_t number, bool has_newline)>;

/// Reads a file in one buffer of 1 MiB; "-" is standard input. Whether it is gzip is told by its first bytes. Returns a
/// sentence if it cannot be read to its end; the lines before that have been given.
std::optional<std::string> for_each_line(const std::string& path, const OnLine& on_line);

}  // namespace weir::proxy::compare
