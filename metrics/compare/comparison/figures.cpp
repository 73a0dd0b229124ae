#include "metrics/compare/comparison/figures.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "metrics/compare/comparison/margins.hpp"
#include "metrics/compare/pairs/values.hpp"
#include "metrics/compare/statistics/minority.hpp"
#include "metrics/compare/statistics/quantile.hpp"
#include "metrics/compare/statistics/share_ratio.hpp"

namespace weir::metrics::compare::comparison {
namespace {

/// Returns the ratio of the values in a window.
using RatioOf = std::function<statistics::Ratio(const statistics::SideValues&, const statistics::Window&)>;

double median_in(const std::vector<statistics::Point>& points, const statistics::Window& window) {
  std::vector<double> all;
  for (const statistics::Point& point : points) {
    if (window.holds(point.at_us)) all.push_back(point.value);
  }
  return statistics::median(std::span(all));
}

/// Medians: their logarithms are averaged over the blocks.
statistics::Ratio median_ratio(const statistics::SideValues& values, const statistics::Window& window) {
  const auto blocks = log_ratios(values, window);
  return {.a = median_in(values.a, window),
          .b = median_in(values.b, window),
          .log = statistics::mean_of(blocks),
          .estimate = statistics::estimate_of(blocks),
          .blocks = blocks};
}

statistics::Ratio tail_ratio(const statistics::SideValues& values, const statistics::Window& window) {
  return share_ratio(above_p95_of_a(values, window), window);
}

/// Returns the figure that a tail or a minority is one of.
statistics::Metric base_of(statistics::Metric metric) {
  if (metric == statistics::Metric::ttft_tail || metric == statistics::Metric::ttft_minority)
    return statistics::Metric::ttft;
  if (metric == statistics::Metric::tpot_tail || metric == statistics::Metric::tpot_minority)
    return statistics::Metric::tpot;
  return metric == statistics::Metric::output_tokens_mean ? statistics::Metric::output_tokens : metric;
}

/// Returns a metric's values of the pairs before those that are held, and of those.
statistics::SideValues joined(statistics::SideValues early, const statistics::SideValues& held) {
  early.a.insert(early.a.end(), held.a.begin(), held.a.end());
  early.b.insert(early.b.end(), held.b.begin(), held.b.end());
  return early;
}

void set_figures(Verdict& verdict, const statistics::Ratio& ratio) {
  const auto known = [](double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; };
  verdict.value_a = known(ratio.a);
  verdict.value_b = known(ratio.b);
  verdict.estimate = statistics::shown_if_known(ratio.log);
}

statistics::BlockValues shown_blocks(const statistics::Ratio& ratio) {
  statistics::BlockValues blocks = ratio.blocks;
  for (double& block : blocks) block = statistics::shown(block);
  return blocks;
}

/// Makes the figures of one comparison.
class Estimating {
 public:
  explicit Estimating(const Basis& basis) : basis_(basis) {}

  Figures run() {
    add_slo();
    const auto values_of = [&](statistics::Metric metric) { return pairs::values_of(metric, basis_.pairing); };
    Times& times = figures_.times = {values_of(statistics::Metric::ttft), values_of(statistics::Metric::tpot)};
    const statistics::SideValues lengths = values_of(statistics::Metric::output_tokens);
    add(statistics::Metric::ttft, times.ttft, median_ratio);
    add(statistics::Metric::tpot, times.tpot, median_ratio);
    add(statistics::Metric::output_tokens, lengths, median_ratio);
    add(statistics::Metric::output_tokens_mean, lengths, statistics::mean_ratio);
    add(statistics::Metric::ttft_tail, times.ttft, tail_ratio);
    add(statistics::Metric::tpot_tail, times.tpot, tail_ratio);
    add(statistics::Metric::longest_gap, values_of(statistics::Metric::longest_gap), median_ratio);
    add(statistics::Metric::freezes, values_of(statistics::Metric::freezes), statistics::share_ratio);
    if (!is_split()) {
      add_minority(statistics::Metric::ttft_minority, times.ttft);
      add_minority(statistics::Metric::tpot_minority, times.tpot);
    }
    return std::move(figures_);
  }

 private:
  bool is_split() const { return basis_.comparison.mode == pairs::Mode::split; }

  /// Returns the objective's place in the past; nothing without a past, or where it did not count this one.
  std::optional<std::size_t> slo_of_past() const {
    return basis_.past ? basis_.past->place_of(*basis_.options.slo) : std::nullopt;
  }

  void add_slo() {
    if (!basis_.options.slo) return;
    const pairs::Attained attainment = pairs::attained(*basis_.options.slo, basis_.pairing);
    figures_.slo = attainment.met;
    if (const auto place = slo_of_past()) figures_.slo.add(basis_.past->met[*place]);
    add(statistics::Metric::slo, attainment.missed, statistics::share_ratio);
  }

  void add_minority(statistics::Metric metric, const statistics::SideValues& held) {
    add(metric, held, [metric](const statistics::SideValues& of, const statistics::Window& window) {
      return statistics::minority(of, window, statistics::minority_factor(metric));
    });
  }

  /// The blocks are those of the window that is described; estimate and interval are those of the last look.
  void add(statistics::Metric metric, const statistics::SideValues& held, const RatioOf& ratio_of) {
    if (basis_.past)
      add(metric, held, values_of_looks(metric, held), ratio_of);
    else
      add(metric, held, held, ratio_of);
  }

  /// `values` are those of the looks, and `held` those whose samples are there: the same without a past.
  void add(statistics::Metric metric, const statistics::SideValues& held, const statistics::SideValues& values,
           const RatioOf& ratio_of) {
    const Comparison& comparison = basis_.comparison;
    const statistics::Ratio described = ratio_of(held, comparison.described());
    const statistics::Ratio whole =
        basis_.past && !basis_.past->has_gap() ? ratio_of(values, comparison.window) : described;
    Verdict verdict;
    verdict.metric = metric;
    verdict.margin = margin_of(metric, basis_.options);
    verdict.worse_margin = worse_margin_of(metric, basis_.options);
    if (metric == statistics::Metric::slo || metric == statistics::Metric::freezes)
      verdict.worse_points = basis_.options.margins.miss_points;
    verdict.count = std::min(held.a.size(), held.b.size()) + count_before(metric);
    verdict.p = std::numeric_limits<double>::quiet_NaN();
    verdict.blocks = verdict.judged_blocks = shown_blocks(described);
    set_figures(verdict, whole);
    if (comparison.apart && verdict.value_a.value_or(0) > 0 && verdict.value_b)
      verdict.estimate = *verdict.value_b / *verdict.value_a - 1;
    if (const auto variance = variance_of(metric)) {
      add_sequence(verdict, held, *variance, whole);
    } else {
      const statistics::Ratio judged = basis_.judged.look ? ratio_of(values, basis_.judged.window) : whole;
      verdict.judged_blocks = shown_blocks(judged);
      add_look(verdict, judged);
    }
    if (const statistics::Effect effect = effect_of(verdict); effect.known())
      verdict.interval = statistics::shown(interval_of(effect));
    figures_.verdicts.push_back(std::move(verdict));
  }

  /// Returns the variance of the metric's minute, if a history tells it.
  std::optional<double> variance_of(statistics::Metric metric) const {
    return basis_.history && !basis_.comparison.apart ? basis_.history->variance(metric) : std::nullopt;
  }

  /// Returns the values that are held, and those that the past has kept for looks.
  statistics::SideValues values_of_looks(statistics::Metric metric, const statistics::SideValues& held) const {
    if (metric != statistics::Metric::slo) return joined(basis_.past->early_values(base_of(metric)), held);
    const auto place = slo_of_past();
    return place ? joined(basis_.past->early_misses(*place), held) : statistics::SideValues{};
  }

  /// Returns how many of the pairs before those that are held have a metric.
  std::uint64_t count_before(statistics::Metric metric) const {
    if (!basis_.past) return 0;
    if (metric == statistics::Metric::slo) {
      const auto place = slo_of_past();
      return place ? basis_.past->met[*place].count() : 0;
    }
    const auto at = std::ranges::find(metrics_of_pairs, base_of(metric)) - metrics_of_pairs.begin();
    return basis_.past->counts[static_cast<std::size_t>(at)];
  }

  void add_look(Verdict& verdict, const statistics::Ratio& ratio) const {
    const Judged& judged = basis_.judged;
    if (judged.look) verdict.looks = static_cast<unsigned>(look_seconds.size());
    if (!judged.too_short) {
      verdict.effect = ratio.estimate;
      if (is_share(verdict.metric)) verdict.difference = ratio.difference;
      set_figures(verdict, ratio);
    } else if ((judged.look || judged.ended) && !basis_.comparison.unfilled && !basis_.comparison.apart) {
      needs(verdict, judged.needed_s);
    }
  }

  /// Sets what the window's whole minutes say that have ended.
  void add_sequence(Verdict& verdict, const statistics::SideValues& held, double variance,
                    const statistics::Ratio& whole) const {
    const statistics::Window& window = basis_.comparison.window;
    statistics::Window ended = window;
    ended.to_us = std::max(ended.from_us, std::min(ended.to_us, basis_.complete_us));
    if (ended.seconds() > longest_s && !(basis_.past && basis_.past->is_over())) return;
    const statistics::Minutes minutes = minutes_of(verdict.metric, held, ended, basis_.past);
    const double shortest_s = std::max(basis_.judged.needed_s, look_seconds.front());
    std::optional<statistics::Estimate> own;
    if (reaches(window.seconds(), shortest_s)) {
      own = statistics::estimate_of(statistics::block_means(minutes));
      verdict.effect = whole.estimate;
    }
    // A side of a split may have few requests a minute, whose medians vary more than those of the history: only its own
    // blocks tell by how much.
    const bool tells = !is_split() || own;
    if (tells) verdict.sequence = statistics::sequence_of(minutes, variance, own);
    if (verdict.sequence) {
      verdict.estimate = statistics::shown(verdict.sequence->mean);
      return;
    }
    verdict.effect.reset();
    if (!tells) return needs(verdict, shortest_s);
    // Five minutes with values, and as much behind them as is not over yet.
    const std::size_t missing = statistics::least_minutes - statistics::known_minutes(minutes);
    needs(verdict, 60 * static_cast<double>(minutes.size() + missing) + (window.seconds() - ended.seconds()));
  }

  /// Says how long a window would do. A window of that length that lacks something else is not too short.
  void needs(Verdict& verdict, double seconds) const {
    if (seconds > basis_.comparison.window.seconds()) verdict.needs_s = seconds;
  }

  const Basis& basis_;
  Figures figures_;
};

}  // namespace

Figures figures_of(const Basis& basis) { return Estimating(basis).run(); }

}  // namespace weir::metrics::compare::comparison
