// Reads a line of the request log (record/log_line.cpp) into a Sample: what sample_of() makes of the record itself. All
// that reads logs reads lines here, so that one line is damaged, foreign or a request to all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/compare/samples/sample.hpp"
#include "metrics/wire/request/prefix_chain.hpp"

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

/// Members beside the sample's that a replay of the request needs.
struct ForReplay {
  std::uint32_t attempt = unknown_count, max_tokens = unknown_count, prompt_tokens_estimate = unknown_count;
  std::uint32_t output_tokens = unknown_count;  ///< Those that weir only counted too, which the sample does not have.
  std::vector<wire::PrefixMark> prefixes{};     ///< In the order of their positions; empty where they are in no order.
};

/// Reads one line, without its newline. Members may stand in any order; unknown ones are skipped, and a value of the
/// wrong type is unknown. `sample` is valid where the line is a request, of a warm-up or not; `replay` may be null. It
/// allocates for gaps, for prefixes and for new names.
LineKind read_log_line(std::string_view line, Names& names, Sample& sample, ForReplay* replay = nullptr);

// Moments as text, as the request log has them.

/// Reads RFC 3339, such as 2026-11-21T07:00:00.123456Z or 2026-11-21T08:00:00+01:00. Returns microseconds since 1970,
/// finer digits cut off; nothing for any other text. A leap second counts as the second before it.
std::optional<std::int64_t> parse_rfc3339(std::string_view text);

/// Writes a moment in UTC, in whole seconds: 2026-11-21T07:00:00Z.
std::string format_rfc3339(std::int64_t us);

}  // namespace weir::metrics::compare::samples
