#include "metrics/compare/comparison/history.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "metrics/compare/pairs/faults.hpp"
#include "metrics/compare/table/table.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using samples::Names;
using statistics::Figure;

/// A log whose moments lie farther apart than 60 days holds a mistake, and would take memory for each minute.
constexpr std::int64_t most_minutes_apart = 60LL * 24 * 60;

/// Takes the minutes of a pairing.
void set_minutes(Couple& couple, const pairs::Pairing& pairing, const Names& names) {
  table::Table table;
  table::add(table, pairing, {.names = names, .slo = {}, .same_load = true});
  for (const table::Row& row : table.rows) {
    for (std::size_t i = 0; i < statistics::figure_count; ++i) {
      const auto figure = static_cast<Figure>(i);
      if (const auto value = statistics::figure_of(row.of(figure), table::scale_of(figure)))
        couple.minutes[i][row.minute] = *value;
    }
  }
}

/// Returns all minutes from the first to the last that is known.
statistics::Minutes series_of(const Couple::Minutes& known) {
  if (known.empty() || known.rbegin()->first - known.begin()->first > most_minutes_apart) return {};
  const std::int64_t first = known.begin()->first;
  statistics::Minutes series(static_cast<std::size_t>(known.rbegin()->first - first + 1),
                             std::numeric_limits<double>::quiet_NaN());
  for (const auto& [minute, value] : known) series[static_cast<std::size_t>(minute - first)] = value;
  return series;
}

/// Calls `take(primary, shadow)` for each answer of a shadow whose primary's is there.
template <class Take>
void for_each_mirrored(std::span<const samples::Sample> samples, Take take) {
  pairs::Answers primaries;
  for (const samples::Sample& sample : samples) {
    if (sample.role == Role::primary) primaries.add(sample);
  }
  primaries.settle();
  for (const samples::Sample& sample : samples) {
    if (sample.role != Role::shadow || sample.drop_reason != 0) continue;
    if (const samples::Sample* const primary = primaries.find(sample.pair)) take(*primary, sample);
  }
}

/// Returns the [[shadow]]s whose answers came from the configuration that their primaries ran, and the pools of those.
std::map<Names::Name, Names::Name> controls_of(std::span<const samples::Sample> samples) {
  std::map<Names::Name, Names::Name> pools;
  std::set<Names::Name> others;
  for_each_mirrored(samples, [&](const samples::Sample& primary, const samples::Sample& shadow) {
    if (shadow.shadow == 0) return;
    pools.emplace(shadow.shadow, primary.pool);
    if (shadow.config == 0 || shadow.config != primary.config) others.insert(shadow.shadow);
  });
  std::erase_if(pools, [&](const auto& one) { return others.contains(one.first); });
  return pools;
}

/// Joins couples of one pool.
History history_of(const std::vector<const Couple*>& couples) {
  History history;
  for (const Couple* const couple : couples) {
    history.pool = couple->pool;
    history.paired = couple->paired;
    history.source += (history.source.empty() ? "" : ", ") + couple->source;
    for (std::size_t i = 0; i < statistics::figure_count; ++i)
      history.minutes[i].push_back(series_of(couple->minutes[i]));
  }
  return history;
}

void add_controls(std::vector<Couple>& couples, std::span<const samples::Sample> samples, const Names& names,
                  const pairs::WarmUp& warm_up) {
  const sides::Selection primaries{sides::By::role, 0, Role::primary};
  for (const auto& [shadow, pool] : controls_of(samples)) {
    Couple couple = couple_of(samples, names, primaries, {sides::By::shadow, shadow, Role::shadow}, warm_up,
                              std::string(names.text(shadow)) + " against its primary");
    couple.pool = names.text(pool);
    if (couple.paired) couples.push_back(std::move(couple));
  }
}

void add_replicas(std::vector<Couple>& couples, std::span<const samples::Sample> samples, const Names& names) {
  using Key = std::pair<Names::Name, Names::Name>;  // Pool and configuration.
  std::map<Key, std::map<std::string_view, std::vector<const samples::Sample*>>> all;
  for (const samples::Sample& sample : samples) {
    if (sample.role == Role::primary && sample.config != 0 && sample.replica != 0)
      all[{sample.pool, sample.config}][names.text(sample.replica)].push_back(&sample);
  }
  for (const auto& [key, replicas] : all) {
    for (auto b = replicas.begin(); b != replicas.end(); ++b) {
      const auto a = b++;
      if (b == replicas.end()) break;
      Couple couple;
      couple.source = std::string(b->first) + " against " + std::string(a->first);
      couple.pool = names.text(key.first);
      pairs::Pairing split;
      const auto take = [](const std::vector<const samples::Sample*>& of, std::vector<pairs::Single>& singles) {
        for (const samples::Sample* const sample : of) singles.push_back({sample, sample->dispatched_us, sample});
        std::ranges::stable_sort(singles, {}, &pairs::Single::at_us);
      };
      take(a->second, split.only_a);
      take(b->second, split.only_b);
      set_minutes(couple, split, names);
      couples.push_back(std::move(couple));
    }
  }
}

}  // namespace

std::optional<double> History::variance(Figure figure) const {
  return statistics::long_run_variance(minutes[static_cast<std::size_t>(figure)]);
}

bool History::tells() const { return variance(Figure::tpot) || variance(Figure::ttft); }

double History::hours(Figure figure) const {
  std::size_t known = 0;
  for (const auto& series : minutes[static_cast<std::size_t>(figure)]) known += statistics::known_minutes(series);
  return static_cast<double>(known) / 60;
}

std::optional<Configurations> different_configurations(std::span<const samples::Sample> samples) {
  std::optional<Configurations> different;
  for_each_mirrored(samples, [&](const samples::Sample& primary, const samples::Sample& shadow) {
    if (!different && primary.config != shadow.config) different = {primary.config, shadow.config};
  });
  return different;
}

std::vector<Couple> couples_of(std::span<const samples::Sample> samples, const Names& names,
                               const pairs::WarmUp& warm_up) {
  std::vector<Couple> couples;
  add_controls(couples, samples, names, warm_up);
  add_replicas(couples, samples, names);
  return couples;
}

Couple couple_of(std::span<const samples::Sample> samples, const samples::Names& names, const sides::Selection& a,
                 const sides::Selection& b, const pairs::WarmUp& warm_up, std::string source) {
  Couple couple;
  couple.source = std::move(source);
  auto pairing = pair_up(samples, a, b, warm_up);
  couple.paired = pairing.mode != pairs::Mode::split && pairs::twins(pairing.pairs);
  if (!couple.paired) return couple;
  set_minutes(couple, pairing, names);
  return couple;
}

std::vector<History> histories_of(std::span<const Couple> couples) {
  std::vector<History> histories;
  for (const bool paired : {true, false}) {
    std::map<std::string_view, std::vector<const Couple*>> by_pool;
    for (const Couple& couple : couples) {
      if (couple.paired == paired) by_pool[couple.pool].push_back(&couple);
    }
    for (const auto& [pool, its_couples] : by_pool) {
      History history = history_of(its_couples);
      if (history.tells()) histories.push_back(std::move(history));
    }
  }
  return histories;
}

std::optional<History> history_for(std::span<const History> given, const std::set<Names::Name>& pools, bool paired,
                                   std::span<const samples::Sample> samples, const Names& names,
                                   const pairs::WarmUp& warm_up) {
  const auto suits = [&](const History& one) {
    const bool of_pools =
        one.pool.empty() || std::ranges::all_of(pools, [&](Names::Name pool) { return names.text(pool) == one.pool; });
    return of_pools && (paired || !one.paired) && one.tells();
  };
  if (const auto found = std::ranges::find_if(given, suits); found != given.end()) return *found;
  // Samples of less than that have no eight hours, and are not looked into.
  constexpr std::int64_t least_us = 7 * 60 * statistics::minute_us;
  if (samples.empty()) return std::nullopt;
  const auto [first, last] = std::ranges::minmax_element(samples, {}, &samples::Sample::dispatched_us);
  if (last->dispatched_us - first->dispatched_us < least_us) return std::nullopt;
  const auto here = histories_of(couples_of(samples, names, warm_up));
  const auto found = std::ranges::find_if(here, suits);
  return found == here.end() ? std::nullopt : std::optional(*found);
}

}  // namespace weir::metrics::compare::comparison
