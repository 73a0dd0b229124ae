#include "metrics/compare/comparison/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "metrics/compare/comparison/notes.hpp"
#include "metrics/compare/comparison/why.hpp"
#include "metrics/compare/pairs/load.hpp"
#include "metrics/compare/pairs/values.hpp"
#include "metrics/compare/statistics/effects.hpp"
#include "metrics/compare/statistics/quantile.hpp"
#include "metrics/compare/statistics/share_ratio.hpp"

namespace weir::metrics::compare::comparison {
namespace {

/// Makes one comparison, step by step.
class Comparing {
 public:
  Comparing(std::span<const samples::Sample> samples, const samples::Names& names, const Options& options)
      : names_(names),
        options_(options),
        last_us_(last_moment(samples)),
        pairing_(pairs::pair_up(samples, options.a, options.b, options.warm_up, asked_for(options))) {}

  Compared run() {
    result_.mode = pairing_.mode;
    name_sides();
    for (const auto& [side, warm] : {std::pair(&result_.a, &pairing_.warm_a), std::pair(&result_.b, &pairing_.warm_b)})
      if (warm->lacks_tokens()) result_.unfilled = {*side, warm->kv_tokens, warm->prefilled};
    find_window();
    judge_answers();
    const double p99 = slower_p99();
    needed_s_ = static_cast<double>(statistics::block_count) * statistics::needed_block_s(options_.min_block_s, p99);
    keep_window();
    count();
    const double may_run_s = std::isfinite(p99) ? 2 * p99 : 0.0;
    load_ = pairs::load_of(pairing_, result_.window, names_, options_.same_load, last_us_ - microseconds(may_run_s));
    result_.unfinished = load_.unfinished;
    result_.sampled = load_.sampled;
    find_state();
    give_verdicts();
    if (!too_short_) result_.explorations = explore(pairing_, ttft_, tpot_, result_.window, options_.resamples);
    if (options_.bins > 0) {
      for (const auto& [metric, values] :
           {std::pair(statistics::Metric::ttft, &ttft_), std::pair(statistics::Metric::tpot, &tpot_)})
        result_.distributions.push_back(overlay_of(metric, *values, options_.bins));
    }
    result_.notes = notes_of(result_, load_, pairing_, drifting());
    return {std::move(result_), std::move(pairing_)};
  }

 private:
  /// A configuration may be on both sides, or beside the control in the primary's place too. Its shadow then has a name
  /// of its own.
  void name_sides() {
    const bool control = pairing_.mode == pairs::Mode::control;
    result_.side_a = named(options_.a, control);
    result_.side_b = named(options_.b, paired());
    const bool of_shadows = options_.a.by == sides::By::role || options_.a.by == sides::By::shadow;
    const bool same = !of_shadows && result_.side_a.name == result_.side_b.name;
    result_.a = label(result_.side_a, !of_shadows && (same || control));
    result_.b = label(result_.side_b, same);
  }
  ComparedSide named(const sides::Selection& side, bool shadow) const {
    if (side.by == sides::By::role) return {side.label(names_), side.role};
    return {side.label(names_), shadow || side.by == sides::By::shadow ? Role::shadow : Role::primary};
  }
  static std::string label(const ComparedSide& side, bool ambiguous) {
    return ambiguous && side.role == Role::shadow ? side.name + " (shadow)" : side.name;
  }

  /// Returns the window as far as it is declared.
  static statistics::Window asked_for(const Options& options) {
    statistics::Window asked = pairs::any_time;
    if (options.from_us) asked.from_us = *options.from_us;
    if (options.from_us && options.length_us) asked.to_us = *options.from_us + *options.length_us;
    if (options.to_us) asked.to_us = *options.to_us;
    return asked;
  }

  /// A log may hold any number, so it is kept within what fits.
  static std::int64_t microseconds(double seconds) {
    constexpr double most = 4e18;
    return static_cast<std::int64_t>(std::clamp(seconds * 1e6, -most, most));
  }

  static std::int64_t last_moment(std::span<const samples::Sample> samples) {
    std::int64_t last = 0;
    for (const samples::Sample& sample : samples) {
      const double lasted = std::isfinite(sample.lasted) ? static_cast<double>(sample.lasted) : 0.0;
      last = std::max(last, sample.received_us + microseconds(lasted));
    }
    return last;
  }

  bool paired() const { return pairing_.mode != pairs::Mode::split; }

  /// Sets the window. It is empty if the sides never met, or the shadow was never warm.
  void find_window() {
    statistics::Window& window = result_.window;
    std::int64_t from = 0, end = 0;
    if (paired()) {
      const auto warm = std::find_if(pairing_.pairs.begin(), pairing_.pairs.end(),
                                     [&](const pairs::Pair& pair) { return pair.at_us >= *pairing_.warm_us; });
      if (warm == pairing_.pairs.end()) {
        if (!options_.from_us || *pairing_.warm_us == pairs::never_warm) return;
        from = *pairing_.warm_us;
      } else {
        from = warm->at_us;
      }
      if (!pairing_.pairs.empty()) end = pairing_.pairs.back().at_us + 1;
    } else if (!pairing_.only_a.empty() && !pairing_.only_b.empty()) {
      const auto last = std::minmax(pairing_.only_a.back().at_us, pairing_.only_b.back().at_us);
      from = std::max(pairing_.only_a.front().at_us, pairing_.only_b.front().at_us);
      // Whoever says where the window begins wants all that follows.
      end = (options_.from_us ? last.second : last.first) + 1;
    } else {
      return;
    }
    window.from_us = options_.from_us ? std::max(*options_.from_us, pairing_.warm_us.value_or(0)) : from;
    declared_ = options_.to_us || options_.length_us;
    window.to_us = end;
    if (options_.length_us) window.to_us = window.from_us + *options_.length_us;
    if (options_.to_us) window.to_us = *options_.to_us;
    window.to_us = std::max(window.to_us, window.from_us);
  }

  /// Returns the 99th percentile of the slower side's durations, of all requests if none is in the window.
  double slower_p99() const {
    const double p99 = slower_p99_s(pairing_, result_.window);
    using Us = std::numeric_limits<std::int64_t>;
    return std::isfinite(p99) ? p99 : slower_p99_s(pairing_, {Us::min(), Us::max()});
  }

  /// Faults and likeness need no warm shadow, so they are of all pairs that were asked for.
  void judge_answers() {
    statistics::Window asked = asked_for(options_);
    const bool found = result_.window.to_us > result_.window.from_us;
    if (options_.length_us && !options_.from_us && found) asked.to_us = result_.window.to_us;
    const auto before = [](const pairs::Pair& pair, std::int64_t at_us) { return pair.at_us < at_us; };
    const auto first = std::lower_bound(pairing_.pairs.begin(), pairing_.pairs.end(), asked.from_us, before);
    const auto last = std::lower_bound(first, pairing_.pairs.end(), asked.to_us, before);
    result_.faults = pairs::faults_of({first, last}, names_, options_.fault_margins);
    result_.sameness = pairs::sameness_of({first, last}, pairing_.mode, names_, result_.faults);
  }

  void keep_window() {
    if (paired()) {
      const std::int64_t asked = options_.from_us.value_or(0);
      for (const pairs::Pair& pair : pairing_.pairs) {
        result_.warming += pair.at_us >= asked && pair.at_us < *pairing_.warm_us;
      }
    }
    const auto outside = [&](const auto& item) { return !result_.window.holds(item.at_us); };
    std::erase_if(pairing_.pairs, outside);
    std::erase_if(pairing_.only_a, outside);
    std::erase_if(pairing_.only_b, outside);
  }

  void count() {
    result_.pairs = pairing_.pairs.size();
    result_.requests_a = result_.pairs + pairing_.only_a.size();
    result_.requests_b = result_.pairs + pairing_.only_b.size();
    result_.divergence = pairs::divergence_of(pairing_.pairs, names_);
  }

  void find_state() {
    const bool short_blocks = result_.window.seconds() < needed_s_;
    const bool none = paired() ? pairing_.pairs.empty() : pairing_.only_a.empty() || pairing_.only_b.empty();
    if (options_.running || (declared_ && ends_before_window())) {
      result_.state = State::running;
    } else if (short_blocks || none) {
      result_.state = State::too_few;
    } else {
      result_.state = State::final;
    }
    too_short_ = short_blocks || none;
    if (result_.state == State::too_few && short_blocks && !result_.unfilled) result_.needs_s = needed_s_;
  }

  /// True if the samples end before the declared window. The last request need not lie at its very end.
  bool ends_before_window() const {
    constexpr double slack = 0.01;
    return result_.window.to_us - last_us_ > microseconds(slack * result_.window.seconds());
  }

  /// Returns the metrics whose differences drift slowly.
  std::vector<statistics::Metric> drifting() const {
    // A window longer than 60 days is a mistake, and would take memory for each of its minutes.
    constexpr double shortest_s = 1800, longest_s = 60 * 86400, most = 0.67;
    std::vector<statistics::Metric> result;
    const double length = result_.window.seconds();
    if (length < shortest_s || length > longest_s) return result;
    for (const auto& [metric, values] :
         {std::pair(statistics::Metric::ttft, &ttft_), std::pair(statistics::Metric::tpot, &tpot_)}) {
      if (statistics::lag_one_autocorrelation(log_ratios_by_minute(*values, result_.window)) > most)
        result.push_back(metric);
    }
    return result;
  }

  double margin_of(statistics::Metric metric) const {
    const double floor = std::abs(options_.floor[static_cast<std::size_t>(metric)]);
    const double set = set_margin_of(metric);
    return std::isfinite(floor) ? std::max(set, floor) : set;
  }
  double set_margin_of(statistics::Metric metric) const {
    if (metric == statistics::Metric::output_tokens_mean) return std::max(options_.margin, options_.mean_margin);
    return is_share(metric) || is_tail(metric) ? options_.share_margin : options_.margin;
  }

  /// A figure of medians: their logarithms are averaged over the blocks.
  void add_median(statistics::Metric metric, const statistics::SideValues& values) {
    const auto blocks = log_ratios(values, result_.window);
    const auto middle = [](const std::vector<statistics::Point>& points) {
      std::vector<double> all;
      for (const statistics::Point& point : points) all.push_back(point.value);
      return statistics::median(std::span(all));
    };
    add(metric, values,
        {.a = middle(values.a),
         .b = middle(values.b),
         .log = statistics::mean_of(blocks),
         .estimate = statistics::estimate_of(blocks),
         .blocks = blocks});
  }

  void add(statistics::Metric metric, const statistics::SideValues& values, const statistics::Ratio& ratio) {
    const auto known = [](double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; };
    Verdict verdict;
    verdict.metric = metric;
    verdict.margin = margin_of(metric);
    verdict.count = std::min(values.a.size(), values.b.size());
    verdict.value_a = known(ratio.a);
    verdict.value_b = known(ratio.b);
    verdict.p = std::numeric_limits<double>::quiet_NaN();
    std::ranges::transform(ratio.blocks, verdict.blocks.begin(), [](double block) { return statistics::shown(block); });
    verdict.estimate = statistics::shown_if_known(ratio.log);
    if (!too_short_) verdict.effect = ratio.estimate;
    if (verdict.effect) verdict.interval = statistics::shown(interval_of(*verdict.effect));
    result_.verdicts.push_back(std::move(verdict));
  }

  void give_verdicts() {
    const statistics::Window& window = result_.window;
    if (options_.slo) {
      const pairs::Attained attainment = pairs::attained(*options_.slo, pairing_);
      result_.slo = attainment.met;
      add(statistics::Metric::slo, attainment.missed, share_ratio(attainment.missed, window));
    }
    ttft_ = pairs::values_of(statistics::Metric::ttft, pairing_);
    tpot_ = pairs::values_of(statistics::Metric::tpot, pairing_);
    const statistics::SideValues lengths = pairs::values_of(statistics::Metric::output_tokens, pairing_);
    add_median(statistics::Metric::ttft, ttft_);
    add_median(statistics::Metric::tpot, tpot_);
    add_median(statistics::Metric::output_tokens, lengths);
    add(statistics::Metric::output_tokens_mean, lengths, mean_ratio(lengths, window));
    add(statistics::Metric::ttft_tail, ttft_, share_ratio(above_p95_of_a(ttft_, window), window));
    add(statistics::Metric::tpot_tail, tpot_, share_ratio(above_p95_of_a(tpot_, window), window));
    add_median(statistics::Metric::longest_gap, pairs::values_of(statistics::Metric::longest_gap, pairing_));
    const statistics::SideValues freezes = pairs::values_of(statistics::Metric::freezes, pairing_);
    add(statistics::Metric::freezes, freezes, share_ratio(freezes, window));
    decide_family(false);
    decide_family(true);
    const bool any = std::any_of(result_.verdicts.begin(), result_.verdicts.end(),
                                 [](const Verdict& verdict) { return verdict.effect.has_value(); });
    if (result_.state == State::final && !any) result_.state = State::too_few;
  }

  void decide_family(bool tails) {
    std::vector<statistics::Effect> family;
    std::vector<Verdict*> verdicts;
    for (Verdict& verdict : result_.verdicts) {
      if (is_tail(verdict.metric) != tails) continue;
      family.push_back({verdict.metric, verdict.effect, verdict.margin});
      verdicts.push_back(&verdict);
    }
    const std::vector<statistics::Decision> decisions = statistics::decide(family);
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      Verdict& verdict = *verdicts[i];
      verdict.finding = decisions[i].finding;
      verdict.p = decisions[i].p;
      const double estimate = verdict.estimate.value_or(0);
      const bool above = estimate > 0;
      const bool below = estimate < 0;
      verdict.load_forbids = load_bar_of(verdict.metric, above, below) != Bar::none;
      const Bar bar = bar_of(verdict);
      if (bar != Bar::none) {
        verdict.withheld = true;
        verdict.finding = statistics::Finding::inconclusive;
        if (bar == Bar::too_few) verdict.needs_s = result_.needs_s;
      }
      verdict.why = why(verdict, bar, decisions[i].held_back, result_);
    }
  }

  Bar bar_of(const Verdict& verdict) const {
    if (result_.state == State::running) return Bar::running;
    if (result_.unfilled) return Bar::cold;
    // Where the loads forbid a verdict, no window is long enough.
    const double estimate = verdict.estimate.value_or(0);
    if (result_.needs_s && !verdict.load_forbids) return Bar::too_few;
    if (result_.needs_s) return load_bar_of(verdict.metric, estimate > 0, estimate < 0);
    if (!verdict.effect) return Bar::no_values;
    return load_bar_of(verdict.metric, verdict.finding == statistics::Finding::worse,
                       verdict.finding == statistics::Finding::better);
  }

  /// `worse` and `better` are of b, and count for attainment alone.
  Bar load_bar_of(statistics::Metric metric, bool worse, bool better) const {
    if (metric == statistics::Metric::output_tokens || metric == statistics::Metric::output_tokens_mean)
      return Bar::none;
    if (!load_.same) return Bar::load_differs;
    if (!load_.spared()) return Bar::none;
    // An unfinished request counts as a miss, so a worse attainment of the side that was spared is real. A better one
    // might not be.
    const bool against_spared = metric == statistics::Metric::slo && ((worse && load_.spared_b > load_.spared_a) ||
                                                                      (better && load_.spared_a > load_.spared_b));
    return against_spared ? Bar::none : Bar::spared_load;
  }

  const samples::Names& names_;
  const Options& options_;
  const std::int64_t last_us_;  ///< The last moment that the samples tell of.
  pairs::Pairing pairing_;
  Comparison result_;
  pairs::Load load_;
  statistics::SideValues ttft_, tpot_;
  double needed_s_ = 0;
  bool declared_ = false, too_short_ = false;
};

}  // namespace

Compared compare_pairs(std::span<const samples::Sample> samples, const samples::Names& names, const Options& options) {
  return Comparing(samples, names, options).run();
}

Comparison compare(std::span<const samples::Sample> samples, const samples::Names& names, const Options& options) {
  return compare_pairs(samples, names, options).comparison;
}

Floor floor_of(const Comparison& same) {
  Floor floor{};
  for (const Verdict& verdict : same.verdicts) {
    floor[static_cast<std::size_t>(verdict.metric)] = verdict.estimate.value_or(0);
  }
  return floor;
}

}  // namespace weir::metrics::compare::comparison
