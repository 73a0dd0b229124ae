#include "metrics/wire/engine/report.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "metrics/vocabulary.hpp"

namespace weir::metrics::wire {

using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

void take_figure(raw_json_string key, value& part, std::span<const FigureMember> table, EngineReport& into) {
  for (const FigureMember& member : table) {
    if (key != member.key) continue;
    if (member.count != nullptr) return member.take_count(into, count_of(part));
    double time = 0;
    if (!is(part, simdjson::ondemand::json_type::number) || part.get_double().get(time) != simdjson::SUCCESS)
      time = std::numeric_limits<double>::quiet_NaN();
    return member.take_time(into, time);
  }
}

bool read_figures(simdjson::ondemand::object object, std::span<const FigureMember> table, EngineReport& into) {
  return for_each_field(object, [&](raw_json_string key, value& part) {
    take_figure(key, part, table, into);
    return true;
  });
}

bool read_vllm_metrics(value& metrics, EngineFigures& into) {
  EngineReport report;
  const bool whole = for_each_field_in(metrics, [&](raw_json_string key, value& part) {
    simdjson::ondemand::object drafts;
    if (key != vllm_drafts_key) {
      take_figure(key, part, vllm_metrics, report);
    } else if (is(part, simdjson::ondemand::json_type::object)) {
      return part.get_object().get(drafts) == simdjson::SUCCESS && read_figures(drafts, vllm_drafts, report);
    }
    return true;
  });
  report.add_queue_to_prefill();
  into = report;
  return whole;
}

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
