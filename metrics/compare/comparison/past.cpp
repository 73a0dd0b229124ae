#include "metrics/compare/comparison/past.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "metrics/compare/comparison/moments.hpp"
#include "metrics/compare/samples/attainment.hpp"

namespace weir::metrics::compare::comparison {
namespace {

constexpr auto early_us = static_cast<std::int64_t>(look_seconds.back() * 1e6);

Past::Answer answer_of(const samples::Sample& sample) {
  return {sample.config, sample.replica, sample.shadow, sample.role};
}

bool holds(const sides::Selection& side, const Past::Answer& answer) {
  samples::Sample sample;
  std::tie(sample.config, sample.replica, sample.shadow, sample.role) = answer;
  // A shadow that was dropped before a replica was chosen for it has neither replica nor configuration: only its
  // [[shadow]] tells its side.
  const bool without_replica = sample.role == Role::shadow && sample.replica == 0 &&
                               (side.by == sides::By::replica || (side.by == sides::By::config && sample.config == 0));
  return without_replica || side.holds(sample);
}

bool same_thresholds(const config::Slo& x, const config::Slo& y) {
  return x.ttft_client == y.ttft_client && x.ttft == y.ttft && x.tpot == y.tpot && x.e2e == y.e2e;
}

PairValues values_of_pair(const pairs::Pair& pair, std::span<const config::Slo> slos) {
  PairValues values;
  values.at_us = pair.at_us;
  for (std::size_t i = 0; i < metrics_of_pairs.size(); ++i) {
    const auto a = pairs::value_of(metrics_of_pairs[i], *pair.a), b = pairs::value_of(metrics_of_pairs[i], *pair.b);
    values.a[i] = a && b ? static_cast<float>(*a) : samples::unknown;
    values.b[i] = a && b ? static_cast<float>(*b) : samples::unknown;
  }
  for (std::size_t i = 0; i < slos.size(); ++i) {
    const auto met = samples::judge_pair(slos[i], *pair.a, *pair.b);
    if (!met) continue;
    values.judged |= static_cast<std::uint8_t>(1u << i);
    if (!met->a) values.missed_a |= static_cast<std::uint8_t>(1u << i);
    if (!met->b) values.missed_b |= static_cast<std::uint8_t>(1u << i);
  }
  return values;
}

/// Moves the pairs and requests that were dispatched in the window into a pairing of their own.
pairs::Pairing within(const pairs::Pairing& whole, const statistics::Window& window) {
  pairs::Pairing part = whole;
  const auto outside = [&](const auto& item) { return !window.holds(item.at_us); };
  std::erase_if(part.pairs, outside);
  std::erase_if(part.only_a, outside);
  std::erase_if(part.only_b, outside);
  return part;
}

/// Adds the pairs of a pairing to those of a Past.
class Adding {
 public:
  /// `last_us` is the latest moment that the samples know of.
  Adding(Past& past, const samples::Names& names, std::int64_t last_us)
      : past_(past), names_(names), last_us_(last_us) {}

  /// Adds what counts of all pairs, whether the shadows were warm or not.
  void add_answers(std::span<const pairs::Pair> pairs) {
    for (const pairs::Pair& pair : pairs) {
      past_.answers_a.insert(answer_of(*pair.a));
      past_.answers_b.insert(answer_of(*pair.b));
      if (pair.primary != nullptr) past_.pools.insert(pair.primary->pool);
      past_.warming += !past_.from_us || pair.at_us < *past_.from_us;
      const auto reason = pair.b->drop_reason != 0 ? pair.b->drop_reason : pair.a->drop_reason;
      past_.answered = past_.answered || reason == 0;
      if (!past_.answered) ++past_.dropped[std::string(names_.text(reason))];
    }
    if (past_.answered) past_.dropped.clear();
    past_.faults = pairs::faults_of(pairs, names_, pairs::fault_margins, past_.faults);
    past_.sameness = pairs::sameness_of(pairs, past_.mode, names_, past_.faults, past_.sameness);
  }

  /// Adds what counts of pairs in the window alone. `window` is whole minutes of it.
  void add_measures(const pairs::Pairing& pairing, const statistics::Window& window) {
    past_.pairs += pairing.pairs.size();
    past_.only_a += pairing.only_a.size();
    past_.only_b += pairing.only_b.size();
    past_.durations.add(pairing.pairs);
    add_minutes(pairing, window);
    for (const pairs::Pair& pair : pairing.pairs) {
      past_.mirrored.add(pair);
      add_early(pair);
    }
    for (std::size_t i = 0; i < past_.slos.size(); ++i)
      past_.met[i].add(pairs::attained(past_.slos[i], pairing).met);
    // A request without a shadow may have one that still runs.
    const double p99_s = past_.durations.slower_p99_s();
    const auto may_run_us = std::isfinite(p99_s) ? static_cast<std::int64_t>(2e6 * p99_s) : std::int64_t{0};
    pairs::Load load = pairs::load_of(pairing, window, names_, true, std::min(window.to_us, last_us_ - may_run_us),
                                      past_.mirrored);
    load.add_earlier(past_.load);
    past_.load = std::move(load);
  }

 private:
  void add_minutes(const pairs::Pairing& pairing, const statistics::Window& window) {
    for (std::size_t i = 0; i < metrics_of_pairs.size(); ++i)
      past_.counts[i] += values_of(metrics_of_pairs[i], pairing).a.size();
    for (std::size_t i = 0; i < metrics_of_minutes.size(); ++i) {
      auto& minutes = past_.minutes[i];
      const auto room_us = static_cast<std::int64_t>(Past::most_minutes - minutes.size()) * Past::minute_us;
      const auto more = log_ratios_by_minute(values_of(metrics_of_minutes[i], pairing),
                                             {window.from_us, std::min(window.to_us, window.from_us + room_us)});
      minutes.insert(minutes.end(), more.begin(), more.end());
    }
  }

  void add_early(const pairs::Pair& pair) {
    if (pair.at_us >= past_.early_until_us) return;
    if (past_.early.size() >= Past::most_early) {
      past_.early_until_us = pair.at_us;
      return;
    }
    past_.early.push_back(values_of_pair(pair, past_.slos));
  }

  Past& past_;
  const samples::Names& names_;
  const std::int64_t last_us_;
};

/// Returns the moment of the first pair of warm shadows that was dispatched before `until_us`.
std::optional<std::int64_t> beginning_of(const pairs::Pairing& pairing, std::int64_t until_us) {
  for (const pairs::Pair& pair : pairing.pairs) {
    if (pair.at_us >= until_us) break;
    if (pair.at_us >= *pairing.warm_us) return pair.at_us;
  }
  return std::nullopt;
}

/// Returns a moment, or the end of the minute that it lies in; minutes are counted from `from_us`.
std::int64_t end_of_minute(std::int64_t us, std::int64_t from_us) {
  return from_us + (us - from_us + Past::minute_us - 1) / Past::minute_us * Past::minute_us;
}

template <class Metrics>
std::size_t place_in(const Metrics& metrics, statistics::Metric metric) {
  return static_cast<std::size_t>(std::ranges::find(metrics, metric) - metrics.begin());
}

}  // namespace

statistics::SideValues Past::early_values(statistics::Metric metric) const {
  statistics::SideValues values{.a = {}, .b = {}, .paired = true};
  const std::size_t at = place_in(metrics_of_pairs, metric);
  if (at == metrics_of_pairs.size()) return values;
  for (const PairValues& pair : early) {
    if (std::isnan(pair.a[at])) continue;
    values.a.push_back({pair.at_us, static_cast<double>(pair.a[at])});
    values.b.push_back({pair.at_us, static_cast<double>(pair.b[at])});
  }
  return values;
}

statistics::SideValues Past::early_misses(std::size_t slo) const {
  statistics::SideValues values{.a = {}, .b = {}, .paired = true};
  const auto has = [&](std::uint8_t bits) { return (bits >> slo & 1u) != 0; };
  for (const PairValues& pair : early) {
    if (!has(pair.judged)) continue;
    values.a.push_back({pair.at_us, has(pair.missed_a) ? 1.0 : 0.0});
    values.b.push_back({pair.at_us, has(pair.missed_b) ? 1.0 : 0.0});
  }
  return values;
}

std::optional<std::size_t> Past::place_of(const config::Slo& slo) const {
  const auto found = std::ranges::find_if(slos, [&](const config::Slo& one) { return same_thresholds(one, slo); });
  return found == slos.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - slos.begin()));
}

const statistics::Minutes& Past::minutes_of(statistics::Metric metric) const {
  return minutes[place_in(metrics_of_minutes, metric)];
}

bool Past::is_of(samples::Names::Name shadow) const {
  const auto is_it = [shadow](const Answer& answer) {
    return std::get<Role>(answer) == Role::shadow && std::get<2>(answer) == shadow;
  };
  return std::ranges::any_of(answers_a, is_it) || std::ranges::any_of(answers_b, is_it);
}

bool Past::suits(const sides::Selection& a, const sides::Selection& b, const pairs::Pairing& held) const {
  if (!held.pairs.empty() && held.mode != mode) return false;
  // Requests of both sides without a pair are a split, which is another comparison.
  if (held.pairs.empty() && !held.only_a.empty() && !held.only_b.empty()) return false;
  const auto all = [](const sides::Selection& side, const std::set<Answer>& answers) {
    return std::ranges::all_of(answers, [&](const Answer& answer) { return holds(side, answer); });
  };
  if (!all(a, answers_a) || !all(b, answers_b)) return false;
  // Another [[shadow]] on a side that both are of would have pairs of its own.
  const auto known = [](const samples::Sample& sample, const std::set<Answer>& answers) {
    return std::ranges::any_of(answers, [&](const Answer& answer) {
      return std::get<2>(answer) == sample.shadow && std::get<Role>(answer) == sample.role;
    });
  };
  return std::ranges::all_of(held.pairs, [&](const pairs::Pair& pair) {
    return known(*pair.a, answers_a) && known(*pair.b, answers_b);
  });
}

std::shared_ptr<const Past> with_leaving(const std::shared_ptr<const Past>& earlier,
                                         std::span<const samples::Sample> samples, const samples::Names& names,
                                         const sides::Selection& a, const sides::Selection& b,
                                         const pairs::WarmUp& warm_up, std::span<const config::Slo> slos,
                                         std::int64_t until_us) {
  if (earlier && until_us <= earlier->until_us) return earlier;
  const pairs::Pairing pairing = pair_up(samples, a, b, warm_up);
  if (pairing.mode == pairs::Mode::split || (earlier && !earlier->suits(a, b, pairing))) return earlier;
  auto past = earlier ? std::make_shared<Past>(*earlier) : std::make_shared<Past>();
  if (!earlier) {
    past->mode = pairing.mode;
    past->warm_up_s = warm_up.seconds;
    past->slos.assign(slos.begin(), slos.begin() + std::min<std::ptrdiff_t>(std::ssize(slos), Past::most_slos));
    past->met.resize(past->slos.size());
  }
  const pairs::Pairing later = within(pairing, {past->until_us, pairs::any_time.to_us});
  if (later.pairs.empty()) return earlier;
  // A clock that was set, or a silence of months: what was before is no part of one window with what comes now.
  constexpr std::int64_t longest_silence_us = 60 * std::int64_t{86'400'000'000};
  if (past->from_us && later.pairs.front().at_us - past->until_us > longest_silence_us)
    return with_leaving(nullptr, samples, names, a, b, warm_up, slos, until_us);
  // The window ends with a pair: what follows the last one stays with the samples.
  const std::int64_t end_us = later.pairs.back().at_us + 1;
  until_us = std::min(until_us, end_us);
  if (!past->from_us) {
    past->from_us = beginning_of(later, until_us);
    if (past->from_us) past->early_until_us = *past->from_us + early_us;
  }
  if (past->from_us) until_us = end_of_minute(until_us, *past->from_us);
  const statistics::Window leaving{past->until_us, until_us};
  pairs::Pairing left = within(later, leaving);
  const auto behind = [end_us](const pairs::Single& one) { return one.at_us >= end_us; };
  std::erase_if(left.only_a, behind);
  std::erase_if(left.only_b, behind);
  if (!left.pairs.empty()) past->to_us = left.pairs.back().at_us + 1;
  Adding adding(*past, names, last_moment(samples));
  adding.add_answers(left.pairs);
  if (past->from_us) {
    const statistics::Window window{std::max(leaving.from_us, *past->from_us), until_us};
    adding.add_measures(within(left, window), window);
  }
  past->until_us = until_us;
  return past->answers_a.empty() ? earlier : past;
}

}  // namespace weir::metrics::compare::comparison
