#include "metrics/compare/comparison/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using pairs::Fault;
using statistics::Figure;
using statistics::Finding;
using statistics::RatioSums;
using table::Table;

constexpr double none = std::numeric_limits<double>::quiet_NaN();
constexpr std::array times{Figure::ttft, Figure::tpot, Figure::ttft_geomean, Figure::tpot_geomean, Figure::e2e};

/// Returns the rows in which both sides have the figure.
std::vector<std::size_t> rows_with(const Table& table, Figure figure) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    if (table.rows[i].of(figure).count_a > 0) rows.push_back(i);
  return rows;
}

/// Returns the sums of equal parts of these rows: ten, or one of each if they are fewer.
std::vector<RatioSums> parts_of(const Table& table, Figure figure, const std::vector<std::size_t>& rows) {
  std::vector<RatioSums> parts(std::min(rows.size(), statistics::tenths));
  for (std::size_t i = 0; i < rows.size(); ++i) parts[i * parts.size() / rows.size()] += table.rows[rows[i]].of(figure);
  return parts;
}

/// The least effect that is a verdict without a history. A short window shows less of a drift, and a strong drift takes
/// equal GPUs further apart.
double allowance(double minutes, double autocorrelation) {
  constexpr double strong = 0.7, most_minutes = 24;
  return drift_allowance * std::max(1.0, most_minutes / minutes) * (autocorrelation > strong ? 2 : 1);
}

/// Stalls up to these do not matter: seconds per 1000 requests, and a share of a's.
constexpr double least_stalls = 10, share_of_stalls = 0.2;

/// Gives a figure its margins, on its scale.
void set_margins(statistics::Effect& effect, const Options& options, bool paired, double stalls_of_a) {
  const auto both = [](double margin) { return statistics::Interval{std::log1p(-margin), std::log1p(margin)}; };
  effect.margin = both(std::min(options.margin, 0.99));
  const auto& margins = options.margins;
  switch (effect.figure) {
    case Figure::ttft:
    case Figure::ttft_geomean:
      effect.worse_margin = std::log1p(margins.ttft);
      break;
    case Figure::tpot:
    case Figure::tpot_geomean:
      effect.worse_margin = std::log1p(margins.tpot);
      break;
    case Figure::e2e:
      effect.worse_margin = std::log1p(margins.e2e);
      break;
    case Figure::output_tokens:
      effect.margin = both(std::min(margins.output_tokens, 0.99));
      effect.by_estimate = !paired;  // Of unlike requests hours would not tell.
      break;
    case Figure::stalls: {
      const double most = least_stalls + share_of_stalls * stalls_of_a;
      effect.margin = {-most, most};
      effect.worse_margin = most;
      effect.by_estimate = true;
      break;
    }
  }
}

/// Makes the verdicts of one comparison.
class Judging {
 public:
  Judging(Comparison& comparison, const Table& table, const Options& options, const History* history)
      : comparison_(comparison), table_(table), options_(options), history_(history) {}

  void run(bool ended) {
    for (std::size_t i = 0; i < statistics::figure_count; ++i) add(static_cast<Figure>(i));
    autocorrelation_ = has_history_of_all() ? 0 : autocorrelation();
    comparison_.drifts = autocorrelation_ > most_autocorrelation;
    find_changes();
    decide_figures();
    for (std::size_t i = 0; i < pairs::judged_faults; ++i) add(static_cast<Fault>(i));
    judge_answers();
    find_state(ended);
  }

 private:
  void add(Figure figure) {
    const auto rows = rows_with(table_, figure);
    const auto parts = parts_of(table_, figure, rows);
    RatioSums whole;
    for (const RatioSums& part : parts) whole += part;
    if (comparison_.apart)  // Then no minute has requests of both.
      for (const table::Row& row : table_.rows) whole += row.unweighted(figure);
    if (figure == Figure::e2e && whole.count_a <= 0) return;
    Verdict verdict;
    verdict.figure = verdict.effect.figure = figure;
    verdict.p = none;
    verdict.count = count_of(figure);
    verdict.minutes = rows.size();
    const auto scale = table::scale_of(figure);
    const auto all = statistics::figure_of(whole, scale);
    if (all) {
      verdict.value_a = table::is_geomean(figure) ? std::exp(whole.mean_a()) : whole.mean_a();
      verdict.value_b = table::is_geomean(figure) ? std::exp(whole.mean_b()) : whole.mean_b();
      verdict.estimate = shown(figure, *all);
    }
    for (const RatioSums& part : parts) {
      const auto one = statistics::figure_of(part, scale);
      verdict.parts.push_back(one ? shown(figure, *one) : none);
    }
    set_margins(verdict.effect, options_, table_.paired(), whole.mean_a());
    if (parts.size() == statistics::tenths) {
      RatioSums end = parts[7];
      const auto last = statistics::figure_of((end += parts[8]) += parts[9], scale);
      if (last && verdict.effect.worse_margin && *last > *verdict.effect.worse_margin) verdict.lately = last;
    }
    RatioSums squares;
    for (const table::Row& row : table_.rows) squares += row.squares(figure);
    if (const auto tail = statistics::figure_of(squares, statistics::Scale::ratio);
        tail && verdict.effect.worse_margin && *tail / 2 > *verdict.effect.worse_margin)
      verdict.tail = *tail / 2;
    if (rows.size() >= statistics::least_minutes) verdict.effect.sequence = sequence_of(figure, parts, rows.size());
    if (verdict.effect.sequence) {
      verdict.interval = statistics::shown(figure, interval_of(*verdict.effect.sequence));
    } else if (all && rows.size() < statistics::least_minutes) {
      verdict.needs_s = window_of(static_cast<double>(statistics::least_minutes) / static_cast<double>(rows.size()));
    }
    comparison_.verdicts.push_back(std::move(verdict));
  }

  std::uint64_t count_of(Figure figure) const {
    std::uint64_t a = 0, b = 0;
    for (const table::Row& row : table_.rows) {
      const auto& sums = row.sums[static_cast<std::size_t>(table::quantity_of(figure))];
      a += figure == Figure::stalls ? row.requests_a : sums.count_a;
      b += figure == Figure::stalls ? row.requests_b : sums.count_b;
    }
    return std::min(a, b);
  }

  std::optional<statistics::Sequence> sequence_of(Figure figure, const std::vector<RatioSums>& parts,
                                                  std::size_t rows) const {
    const auto scale = table::scale_of(figure);
    const auto by_time = statistics::jackknife(parts, scale);
    if (!by_time) return std::nullopt;
    statistics::Sequence sequence{by_time->mean, static_cast<double>(rows), by_time->standard_error, by_time->degrees,
                                  0};
    if (!table_.paired()) {
      // Whole conversations are drawn, so their differences do not shrink as minutes pass.
      std::vector<RatioSums> folds;
      for (const auto& fold : table_.by_conversation) folds.push_back(fold[static_cast<std::size_t>(figure)]);
      const auto by_conversation = statistics::jackknife(folds, scale);
      if (!by_conversation) return std::nullopt;
      if (by_conversation->standard_error > sequence.standard_error) {
        sequence.standard_error = by_conversation->standard_error;
        sequence.degrees = by_conversation->degrees;
      }
    }
    if (history_ != nullptr) sequence.history_variance = history_->variance(figure).value_or(0);
    return sequence;
  }

  /// True if the history tells how far two equal sides drift apart in this figure.
  bool has_history(Figure figure) const { return history_ != nullptr && history_->variance(figure); }

  /// The same of all times that are compared.
  bool has_history_of_all() const {
    return std::ranges::all_of(comparison_.verdicts, [&](const Verdict& one) {
      return std::ranges::find(times, one.figure) == times.end() || one.minutes == 0 || has_history(one.figure);
    });
  }

  /// Returns the greatest autocorrelation of a time's minutes: the figures of one GPU drift together, so one tells of
  /// all. A few minutes tell nothing.
  double autocorrelation() const {
    constexpr double least = 15;
    double most = 0;
    for (const Figure figure : times) {
      const auto minutes = table_.minutes(figure);
      if (static_cast<double>(statistics::known_minutes(minutes)) >= least)
        most = std::fmax(most, statistics::lag_one_autocorrelation(minutes));
    }
    return most;
  }

  void find_changes() {
    if (comparison_.apart || !table_.load.same || table_.rows.empty() || lacks_conversations()) return;
    for (const auto& [figure, by] :
         {std::pair(Figure::ttft, Figure::ttft_geomean), std::pair(Figure::tpot, Figure::tpot_geomean),
          std::pair(Figure::e2e, Figure::e2e)}) {
      if (is_of_tokens(figure) && comparison_.counts_tokens_differently()) continue;
      const auto change = statistics::change_in(table_.minutes(by), std::log1p(options_.margin));
      if (!change) continue;
      const auto since = table_.rows.front().minute + static_cast<std::int64_t>(change->at);
      comparison_.changes.push_back({figure, since * statistics::minute_us, std::expm1(change->after - change->before),
                                     std::expm1(change->after)});
    }
  }

  /// Returns the length of a window that has so many times the minutes of this one.
  double window_of(double times_as_long) const { return times_as_long * length_in_minutes_s(comparison_); }

  void decide_figures() {
    std::vector<statistics::Effect> family;
    for (Verdict& verdict : comparison_.verdicts) {
      const bool is_time = is_latency(verdict.figure) && verdict.figure != Figure::stalls;
      const auto& sequence = verdict.effect.sequence;
      if (sequence && is_time && !has_history(verdict.figure) &&
          (comparison_.drifts || sequence->minutes < drift_minutes))
        verdict.effect.least_claim = std::log1p(allowance(sequence->minutes, autocorrelation_));
      family.push_back(verdict.effect);
    }
    const auto decisions = statistics::decide(family);
    for (std::size_t i = 0; i < decisions.size(); ++i) {
      Verdict& verdict = comparison_.verdicts[i];
      verdict.p = decisions[i].p;
      verdict.held_back = decisions[i].held_back;
      verdict.too_near = decisions[i].too_near;
      verdict.finding = is_latency(verdict.figure) ? without_the_crowd(decisions[i].finding) : decisions[i].finding;
      const bool by_load = verdict.finding != decisions[i].finding && verdict.finding == Finding::inconclusive;
      verdict.bar = bar_of(verdict);
      if (verdict.bar != Bar::too_few) verdict.needs_s.reset();
      // A figure that is not known of the whole window needs no other reason.
      if (verdict.finding == Finding::worse || verdict.finding == Finding::inconclusive) {
        verdict.lately.reset();
        verdict.tail.reset();
      }
      if (verdict.withheld() || verdict.lately || verdict.tail) verdict.finding = Finding::inconclusive;
      if (verdict.bar == Bar::none && verdict.finding == Finding::inconclusive && !verdict.lately && !verdict.tail &&
          !by_load)
        verdict.needs_s = needs(verdict);
    }
  }

  std::optional<double> needs(const Verdict& verdict) const {
    const auto known = statistics::times_until_known(verdict.effect, statistics::figure_count, drift_minutes);
    return known ? std::optional(window_of(*known)) : std::nullopt;
  }

  Bar bar_of(const Verdict& verdict) const {
    if (comparison_.apart) return Bar::apart;
    if (comparison_.unfilled) return Bar::cold;
    if (!verdict.estimate) return Bar::no_values;
    if (is_latency(verdict.figure)) {
      if (!table_.load.same) return Bar::load_differs;
      if (lacks_conversations()) return Bar::conversations;
    }
    if (is_of_tokens(verdict.figure) && comparison_.counts_tokens_differently()) return Bar::other_tokens;
    const Had& had = comparison_.had_of(verdict.figure);
    if (verdict.figure != Figure::stalls && (had.a_lacks() || had.b_lacks())) return Bar::lacking;
    if (!verdict.effect.sequence) return Bar::too_few;
    if (!is_latency(verdict.figure)) return Bar::none;
    // Where nothing is sure, the estimate's own direction may mislead as well.
    const Finding shown = verdict.finding != Finding::inconclusive ? verdict.finding
                          : *verdict.estimate > 0.001              ? Finding::worse
                                                                   : Finding::better;
    return misleads(shown) ? Bar::spared_load : Bar::none;
  }

  /// Returns a finding of a split without what its load explains: the replicas of one side had more requests.
  Finding without_the_crowd(Finding finding) const {
    if (table_.paired()) return finding;
    if (finding == Finding::worse && table_.crowd > crowded) return Finding::inconclusive;
    return finding == Finding::better && table_.crowd < 1 / crowded ? Finding::not_worse : finding;
  }

  bool lacks_conversations() const {
    return !table_.paired() && std::min(table_.conversations_a, table_.conversations_b) < least_conversations;
  }

  /// A finding against the side that was spared load holds, and no other.
  bool misleads(Finding finding) const {
    const auto& load = table_.load;
    if (finding == Finding::inconclusive) return false;
    const bool for_a = finding == Finding::worse;
    const bool for_b = finding == Finding::better || finding == Finding::not_worse;
    return !load.same || (load.helped_a() && !for_b) || (load.helped_b() && !for_a);
  }

  void add(Fault fault) {
    if (fault == Fault::slo && !options_.slo) return;
    FaultVerdict verdict;
    verdict.fault = fault;
    verdict.pairs = table_.faults(fault);
    verdict.causes = table_.causes(fault);
    verdict.margin = margin_of(fault, verdict.share_a());
    const auto cases = table_.cases(fault);
    const auto evidence = [](const statistics::Events& one, const statistics::Events& other) {
      return std::exp(std::clamp(std::min(log_evidence_of_more(one), log_evidence_of_more(other)), 0.0, 687.0));
    };
    // Where all conversations have had it none is left to have it first, and those that did came together. And of a few
    // minutes nobody knows how much they vary.
    const bool varies = table_.paired() && comparison_.minutes >= statistics::least_minutes_to_pass;
    const auto& others = varies ? cases : verdict.causes;
    verdict.more_in_b = evidence(verdict.causes, others);
    verdict.more_in_a = evidence(verdict.causes.exchanged(), others.exchanged());
    if (verdict.pairs.pairs > 0) {
      verdict.difference = difference_of(cases);
      // Pairs that share a cause are fewer than they seem, so what the causes do not show is not shown.
      if (verdict.more_in_b < evidence_needed) verdict.difference.low = std::min(verdict.difference.low, 0.0);
      if (verdict.more_in_a < evidence_needed) verdict.difference.high = std::max(verdict.difference.high, 0.0);
    }
    const bool below = verdict.share_b() - verdict.share_a() <= verdict.margin;
    const auto shows = [&](double more) {
      auto events = cases;
      for (double* const one : {&events.a, &events.b, &events.units}) *one *= more;
      return below && log_evidence_below(events, 1, verdict.margin) >= std::log(20);
    };
    // Conversations tell a rare fault after hours. Their gate is that there is no evidence of more.
    const bool not_worse =
        comparison_.minutes >= statistics::least_minutes_to_pass && (table_.paired() ? shows(1) : below);
    verdict.finding = verdict.more_in_b >= evidence_needed   ? Finding::worse
                      : verdict.more_in_a >= evidence_needed ? Finding::better
                      : not_worse                            ? Finding::not_worse
                                                             : Finding::inconclusive;
    if (comparison_.apart) verdict.finding = Finding::inconclusive;
    if (fault == Fault::slo) verdict.finding = without_the_crowd(verdict.finding);
    if (fault == Fault::slo && (misleads(verdict.finding) || may_be_drift(verdict) || lacks_conversations()))
      verdict.finding = Finding::inconclusive;
    if (verdict.finding == Finding::inconclusive && verdict.pairs.pairs > 0 && comparison_.minutes > 0) {
      const double least = statistics::least_minutes_to_pass / comparison_.minutes;
      const auto tells = [&](double more) {
        auto causes = verdict.causes;
        for (double* const one : {&causes.a, &causes.b, &causes.units}) *one *= more;
        return log_evidence_of_more(causes) >= std::log(evidence_needed) || (more >= least && shows(more));
      };
      for (double more = 1; more < 300 && !verdict.needs_s; more *= 1.05)
        if (tells(more)) verdict.needs_s = window_of(more);
    }
    comparison_.faults.push_back(verdict);
  }

  /// Without a history two equal GPUs may drift apart, and the slower misses more: not twice as often.
  bool may_be_drift(const FaultVerdict& verdict) const {
    if (verdict.finding != Finding::worse && verdict.finding != Finding::better) return false;
    const double a = verdict.share_a(), b = verdict.share_b();
    return !has_history_of_all() && (comparison_.drifts || comparison_.minutes < drift_minutes) &&
           std::max(a, b) < 2 * std::min(a, b);
  }

  /// A frequent fault cannot be told as exactly as a rare one: 0.2 points where a has none, and 1.2 points more at 1 %,
  /// as its chance does; misses come in waves, and have 1.5.
  double margin_of(Fault fault, double share_of_a) const {
    const double widened = (fault == Fault::slo ? 0.15 : 0.12) * std::sqrt(share_of_a * (1 - share_of_a));
    switch (fault) {
      case Fault::slo:
        return options_.margins.misses + widened;
      case Fault::length:
        return 0.01 + widened;
      case Fault::tools:
        return 0.02 + widened;
      default:
        return options_.margins.failed + widened;
    }
  }

  void judge_answers() {
    auto& answers = comparison_.answers;
    if (!table_.paired()) return;
    const pairs::Sameness& found = table_.sameness;
    constexpr double needed_alone = 20, needed_of_text = 40, needed_of_others = 400;
    const auto differ = [&](std::string why) {
      if (answers.word == pairs::Alike::differs) return;
      answers = {pairs::Alike::differs, std::move(why)};
    };
    const auto* const length = comparison_.verdict_of(Figure::output_tokens);
    if (length && (length->finding == Finding::longer || length->finding == Finding::shorter))
      differ(length->finding == Finding::longer ? "they are longer" : "they are shorter");
    for (const auto& [fault, why] :
         {std::pair(Fault::empty, "empty answers"), std::pair(Fault::length, "truncated answers"),
          std::pair(Fault::tools, "calls of tools that are not valid"),
          std::pair(Fault::calls, "how often they call tools"),
          std::pair(Fault::other_calls, "what they call tools with")}) {
      const auto causes = table_.causes(fault);
      const double most = std::max(log_evidence_of_more(causes), log_evidence_of_more(causes.exchanged()));
      if (most >= std::log(needed_of_others)) differ(why);
    }
    if (found.differs() >= needed_of_text) differ("their text");
    if (answers.word == pairs::Alike::unknown && found.alike() >= needed_alone) answers.word = pairs::Alike::same;
  }

  void find_state(bool ended) {
    const auto& verdicts = comparison_.verdicts;
    const bool any = std::ranges::any_of(verdicts, [](const Verdict& one) { return one.interval.has_value(); });
    comparison_.state = comparison_.declared && !ended ? State::running
                        : !any                         ? State::too_few
                        : ended                        ? State::final
                                                       : State::running;
    if (comparison_.state != State::too_few) return;
    for (const Verdict& one : verdicts)
      if (one.needs_s && !comparison_.unfilled && !comparison_.apart)
        comparison_.needs_s = std::min(comparison_.needs_s.value_or(*one.needs_s), *one.needs_s);
  }

  Comparison& comparison_;
  const Table& table_;
  const Options& options_;
  const History* const history_;
  double autocorrelation_ = 0;
};

}  // namespace

double length_in_minutes_s(const Comparison& comparison) {
  return std::max(comparison.window.seconds(), 60 * comparison.minutes);
}

double FaultVerdict::share_a() const {
  const auto all = static_cast<double>(causes.share ? pairs.of_a : pairs.pairs);
  return all > 0 ? static_cast<double>(pairs.only_a + pairs.both) / all : 0;
}

double FaultVerdict::share_b() const {
  const auto all = static_cast<double>(causes.share ? pairs.of_b : pairs.pairs);
  return all > 0 ? static_cast<double>(pairs.only_b + pairs.both) / all : 0;
}

Finding finding_among(const FaultVerdict& fault, unsigned candidates) {
  const double evidence = fault.finding == Finding::worse ? fault.more_in_b : fault.more_in_a;
  const bool told = fault.finding == Finding::worse || fault.finding == Finding::better;
  return told && evidence < evidence_needed * candidates ? Finding::inconclusive : fault.finding;
}

Finding finding_among(const Verdict& verdict, const statistics::Decision& decision) {
  // Whoever is better by himself is not worse among others, too, if Holm's method forbids no more.
  if (verdict.finding == Finding::better) return decision.finding;
  const bool told =
      verdict.finding == Finding::worse || verdict.finding == Finding::longer || verdict.finding == Finding::shorter;
  return told && decision.finding != verdict.finding ? Finding::inconclusive : verdict.finding;
}

void judge(Comparison& comparison, const Table& table, const Options& options, const History* history, bool ended) {
  Judging(comparison, table, options, history).run(ended);
}

}  // namespace weir::metrics::compare::comparison
