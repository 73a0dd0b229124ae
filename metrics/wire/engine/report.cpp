#include "metrics/wire/engine/report.hpp"

#include <limits>

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

}  // namespace weir::metrics::wire
