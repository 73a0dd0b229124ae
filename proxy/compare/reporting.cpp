#include "proxy/compare/reporting.hpp"

#include <optional>
#include <utility>

#include "metrics/compare/sides/side_choice.hpp"

namespace weir::proxy::compare {
namespace {

namespace mc = metrics::compare;

/// Returns what is known of a replica by its name or its configuration.
template <class Value>
std::optional<Value> known_of(const std::map<std::string, Value, std::less<>>& known, std::string_view replica,
                              std::string_view config) {
  for (const auto name : {replica, config}) {
    if (const auto found = known.find(name); found != known.end()) return found->second;
  }
  return std::nullopt;
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
  options.margins = request.margins;
  for (const auto fault : {mc::pairs::Fault::failed, mc::pairs::Fault::empty})
    options.fault_margins[static_cast<std::size_t>(fault)] = request.margins.errors;
  options.min_block_s = request.min_block_s;
  options.warm_up.seconds = request.warm_up_s;
  return options;
}

mc::pairs::KvTokens kv_tokens_of(std::map<std::string, std::uint64_t, std::less<>> known,
                                 const mc::samples::Names& names) {
  return [known = std::move(known), &names](auto replica, auto config) {
    return known_of(known, names.text(replica), names.text(config));
  };
}

std::variant<mc::report::Report, std::string> report_on(const ReadSamples& read, const mc::samples::Names& names,
                                                        const Request& request, double margin, const Noise& noise,
                                                        const std::string& a, const std::string& b) {
  const auto chosen = mc::sides::choose_sides(read.samples, names, request.by, a, b);
  if (const auto* sentence = std::get_if<std::string>(&chosen)) return *sentence;
  const auto& sides = std::get<mc::sides::SideChoice>(chosen);
  mc::report::ReportOptions options;
  options.by = request.by;
  options.comparison = options_of(request, margin, noise.floor);
  options.comparison.histories = noise.histories;
  options.comparison.a = sides.a;
  options.comparison.b = sides.b;
  options.comparison.length_us = request.length_us;
  options.comparison.resamples = 1000;
  if (request.from) options.comparison.from_us = request.from->of(read.last_us);
  if (request.to) options.comparison.to_us = request.to->of(read.last_us);
  options.comparison.warm_up.mirrored = &read.mirrored;
  options.comparison.warm_up.kv_tokens = kv_tokens_of(request.kv_tokens, names);
  options.cost_per_hour = [&](std::string_view replica, std::string_view config) {
    return known_of(request.costs, replica, config);
  };
  return mc::report::make_report(read.samples, names, options);
}

}  // namespace weir::proxy::compare
