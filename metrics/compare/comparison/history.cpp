#include "metrics/compare/comparison/history.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "metrics/compare/pairs/answers.hpp"
#include "metrics/compare/pairs/load.hpp"
#include "metrics/compare/pairs/values.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using samples::Names;
using statistics::Metric;

constexpr std::int64_t minute_us = 60'000'000;
/// Shorter samples are not looked into; long_run_variance() counts exactly.
constexpr std::int64_t least_us = 7 * 60 * minute_us;
/// A log whose moments lie farther apart than 60 days holds a mistake, and would take memory for each minute.
constexpr std::int64_t most_us = 60LL * 24 * 60 * minute_us;

/// Whole minutes of the wall clock that hold all the points.
std::optional<statistics::Window> span_of(const statistics::SideValues& values) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = std::numeric_limits<std::int64_t>::min();
  for (const auto* const side : {&values.a, &values.b}) {
    for (const statistics::Point& point : *side) {
      first = std::min(first, point.at_us);
      last = std::max(last, point.at_us);
    }
  }
  if (first > last || first < 0 || last - first > most_us) return std::nullopt;
  return statistics::Window{first / minute_us * minute_us, (last / minute_us + 1) * minute_us};
}

void add_series(History& history, Metric metric, const statistics::SideValues& values) {
  const auto window = span_of(values);
  if (window) history.minutes[static_cast<std::size_t>(metric)].push_back(log_ratios_by_minute(values, *window));
}

void add_pairs(History& history, pairs::Pairing pairing) {
  if (pairing.mode == pairs::Mode::split) return;
  std::erase_if(pairing.pairs, [&](const pairs::Pair& pair) { return pair.at_us < *pairing.warm_us; });
  for (const Metric metric : metrics_of_minutes) add_series(history, metric, values_of(metric, pairing));
}

bool suffices(const History& history) { return history.variance(Metric::tpot) || history.variance(Metric::ttft); }

/// Returns the [[shadow]]s whose answers came from the configuration that their primaries ran.
std::vector<Names::Name> controls_of(std::span<const samples::Sample> samples) {
  pairs::Answers primaries;
  for (const samples::Sample& sample : samples) {
    if (sample.role == Role::primary) primaries.add(sample);
  }
  primaries.settle();
  std::map<Names::Name, bool> same;
  for (const samples::Sample& sample : samples) {
    if (sample.role != Role::shadow || sample.drop_reason != 0 || sample.shadow == 0) continue;
    const samples::Sample* const primary = primaries.find(sample.pair);
    if (!primary) continue;
    const auto [one, added] = same.emplace(sample.shadow, true);
    one->second &= sample.config != 0 && sample.config == primary->config;
  }
  std::vector<Names::Name> controls;
  for (const auto& [shadow, is_control] : same) {
    if (is_control) controls.push_back(shadow);
  }
  return controls;
}

History of_controls(std::span<const samples::Sample> samples, const Names& names, const pairs::WarmUp& warm_up) {
  History history;
  for (const Names::Name shadow : controls_of(samples)) {
    auto pairing =
        pair_up(samples, {sides::By::role, 0, Role::primary}, {sides::By::shadow, shadow, Role::shadow}, warm_up);
    if (!pairs::twins(pairing.pairs)) continue;
    history.source += (history.source.empty() ? "" : ", ") + std::string(names.text(shadow)) + " against its primary";
    add_pairs(history, std::move(pairing));
  }
  return history;
}

History of_replicas(std::span<const samples::Sample> samples, const Names& names) {
  using Key = std::pair<Names::Name, Names::Name>;  // Pool and configuration.
  std::map<Key, std::set<Names::Name>> replicas;
  for (const samples::Sample& sample : samples) {
    if (sample.role == Role::primary && sample.config != 0 && sample.replica != 0)
      replicas[{sample.pool, sample.config}].insert(sample.replica);
  }
  History history;
  for (const auto& [key, found] : replicas) {
    std::vector<Names::Name> ordered(found.begin(), found.end());
    std::ranges::sort(ordered, {}, [&](Names::Name name) { return names.text(name); });
    for (std::size_t i = 0; i + 1 < ordered.size(); i += 2) {
      const Names::Name a = ordered[i], b = ordered[i + 1];
      for (const Metric metric : metrics_of_minutes) {
        statistics::SideValues values;
        for (const samples::Sample& sample : samples) {
          if (sample.role != Role::primary || sample.pool != key.first || sample.config != key.second) continue;
          if (sample.replica != a && sample.replica != b) continue;
          if (const auto value = pairs::value_of(metric, sample))
            (sample.replica == a ? values.a : values.b).push_back({sample.dispatched_us, *value});
        }
        add_series(history, metric, values);
      }
      history.source +=
          (history.source.empty() ? "" : ", ") + std::string(names.text(b)) + " against " + std::string(names.text(a));
    }
  }
  return history;
}

}  // namespace

std::optional<double> History::variance(Metric metric) const {
  return statistics::long_run_variance(minutes[static_cast<std::size_t>(metric)]);
}

double History::hours(Metric metric) const {
  std::size_t known = 0;
  for (const auto& series : minutes[static_cast<std::size_t>(metric)]) known += statistics::known_minutes(series);
  return static_cast<double>(known) / 60;
}

History history_between(std::span<const samples::Sample> samples, const sides::Selection& a, const sides::Selection& b,
                        const pairs::WarmUp& warm_up, std::string source) {
  History history;
  history.source = std::move(source);
  add_pairs(history, pair_up(samples, a, b, warm_up));
  return history;
}

std::optional<History> find_history(std::span<const samples::Sample> samples, const Names& names,
                                    const pairs::WarmUp& warm_up, bool paired) {
  if (samples.empty()) return std::nullopt;
  const auto [first, last] = std::ranges::minmax_element(samples, {}, &samples::Sample::dispatched_us);
  if (last->dispatched_us - first->dispatched_us < least_us) return std::nullopt;
  if (paired) {
    if (History history = of_controls(samples, names, warm_up); suffices(history)) return history;
  }
  History history = of_replicas(samples, names);
  return suffices(history) ? std::optional(std::move(history)) : std::nullopt;
}

}  // namespace weir::metrics::compare::comparison
