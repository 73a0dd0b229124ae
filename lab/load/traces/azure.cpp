#include <algorithm>
#include <optional>

#include "lab/load/traces/formats.hpp"
#include "lab/text.hpp"
#include "metrics/compare/samples/rfc3339.hpp"

namespace weir::lab::load::traces {
namespace {

/// Takes what stands before the next comma from the front of `text`.
std::string_view take(std::string_view& text) {
  const std::string_view taken = text.substr(0, text.find(','));
  text.remove_prefix(std::min(text.size(), taken.size() + 1));
  return taken;
}

std::optional<std::uint64_t> tokens_in(std::string_view text) {
  const auto tokens = number_in<std::uint64_t>(text);
  if (!tokens || static_cast<double>(*tokens) > most_tokens) return std::nullopt;
  return std::max<std::uint64_t>(1, *tokens);
}

}  // namespace

Trace read_azure(std::istream& in, std::size_t limit) {
  std::optional<std::int64_t> first;
  // The line of the columns has been read, and stands here as an empty one.
  return read_lines(in, "", limit, true, [&first](std::string_view text) -> Entry {
    std::string_view rest = text;
    const auto at = metrics::compare::samples::parse_rfc3339(std::string(take(rest)) + 'Z');
    const auto prompt = tokens_in(take(rest)), output = tokens_in(rest);
    if (!at || !prompt || !output) {
      return "expected YYYY-MM-DD HH:MM:SS.fraction,prompt tokens,output tokens, got \"" + std::string(text) + "\"";
    }
    if (!first) first = *at;
    return TraceEntry{static_cast<double>(*at - *first) / 1e6, *prompt, *output};
  });
}

}  // namespace weir::lab::load::traces
