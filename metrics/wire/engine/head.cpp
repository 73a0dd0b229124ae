#include "metrics/wire/engine/head.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "metrics/vocabulary.hpp"
#include "metrics/wire/engine/members.hpp"

namespace weir::metrics::wire {

namespace {

static_assert(std::ranges::all_of(tgi_headers,
                                  [](const auto& header) { return header.key.starts_with(engine_headers_begin); }));

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t n = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, n);
  if (text.empty() || ec != std::errc() || stop != end) return std::nullopt;
  return n;
}

}  // namespace

EngineFigures engine_head(const std::function<std::string_view(std::string_view)>& value_of) {
  EngineReport report;
  for (const FigureMember& header : tgi_headers) {
    const auto said = whole_number(value_of(header.key));
    if (!said) continue;
    if (*said <= most_tokens) header.take_count(report, said);
    header.take_time(report, static_cast<double>(*said));
  }
  return report;
}

}  // namespace weir::metrics::wire
