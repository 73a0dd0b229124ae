#include "proxy/compare/reporting.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "metrics/compare/sides/side_choice.hpp"

namespace weir::proxy::compare {
namespace {

namespace mc = metrics::compare;

/// Returns when the shadow had its first request, if that is before what was kept.
std::optional<std::int64_t> first_mirrored(const ReadSamples& read, const mc::sides::SideChoice& sides) {
  std::optional<std::int64_t> first;
  for (const auto& [key, us] : read.first_mirrored) {
    mc::samples::Sample sample;
    sample.role = metrics::Role::shadow;
    std::tie(sample.config, sample.replica, sample.shadow) = key;
    if (sides.b.holds(sample)) first = std::min(first.value_or(us), us);
  }
  return first;
}

}  // namespace

Filter filter_of(const Request& request, const std::string& model) {
  Filter filter;
  filter.pool = request.pool;
  filter.model = model;
  filter.prompt_tokens = request.prompt_tokens;
  if (request.from && !request.from->before_last) filter.from_us = request.from->us;
  if (request.to && !request.to->before_last) filter.to_us = request.to->us;
  return filter;
}

mc::comparison::Options options_of(const Request& request, double margin, const mc::comparison::Floor& floor) {
  mc::comparison::Options options;
  options.slo = request.slo;
  options.margin = margin;
  options.floor = floor;
  options.min_block_s = request.min_block_s;
  options.warm_up.seconds = request.warm_up_s;
  return options;
}

std::variant<mc::report::Report, std::string> report_on(const ReadSamples& read, const mc::samples::Names& names,
                                                        const Request& request, double margin,
                                                        const mc::comparison::Floor& floor, const std::string& a,
                                                        const std::string& b, bool running) {
  const auto chosen = mc::sides::choose_sides(read.samples, names, request.by, a, b);
  if (const auto* sentence = std::get_if<std::string>(&chosen)) return *sentence;
  const auto& sides = std::get<mc::sides::SideChoice>(chosen);
  mc::report::ReportOptions options;
  options.by = request.by;
  options.comparison = options_of(request, margin, floor);
  options.comparison.a = sides.a;
  options.comparison.b = sides.b;
  options.comparison.running = running;
  options.comparison.length_us = request.length_us;
  options.comparison.resamples = 1000;
  if (request.from) options.comparison.from_us = request.from->of(read.last_us);
  if (request.to) options.comparison.to_us = request.to->of(read.last_us);
  options.comparison.warm_up.first_request_us = first_mirrored(read, sides);
  options.cost_per_hour = [&](std::string_view replica, std::string_view configuration) -> std::optional<double> {
    for (const auto name : {replica, configuration}) {
      if (const auto cost = request.costs.find(name); cost != request.costs.end()) return cost->second;
    }
    return std::nullopt;
  };
  return mc::report::make_report(read.samples, names, options);
}

}  // namespace weir::proxy::compare
