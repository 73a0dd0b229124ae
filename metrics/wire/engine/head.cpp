#include "metrics/wire/engine/head.hpp"

#include <charconv>
#include <optional>

#include "metrics/vocabulary.hpp"

namespace weir::metrics::wire {

namespace {

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t n = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, n);
  if (text.empty() || ec != std::errc() || stop != end) return std::nullopt;
  return n;
}

std::optional<double> milliseconds(std::string_view text) {
  const auto n = whole_number(text);
  return n ? believed_seconds(static_cast<double>(*n), 1e3) : std::nullopt;
}

std::optional<std::uint64_t> tokens(std::string_view text) {
  const auto n = whole_number(text);
  return n && *n <= most_tokens ? n : std::nullopt;
}

}  // namespace

EngineFigures engine_head(const std::function<std::string_view(std::string_view)>& value_of) {
  EngineFigures figures;
  figures.queue = milliseconds(value_of("x-queue-time"));
  figures.total = milliseconds(value_of("x-total-time"));
  figures.time_per_token = milliseconds(value_of("x-time-per-token"));
  figures.prompt_tokens = tokens(value_of("x-prompt-tokens"));
  figures.output_tokens = tokens(value_of("x-generated-tokens"));
  return figures;
}

}  // namespace weir::metrics::wire
