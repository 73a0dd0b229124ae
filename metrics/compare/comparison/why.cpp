#include "metrics/compare/comparison/why.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "metrics/compare/samples/rfc3339.hpp"
#include "metrics/compare/statistics/minority.hpp"
#include "metrics/format.hpp"

namespace weir::metrics::compare::comparison {
namespace {

std::string_view figure_of(statistics::Metric metric) {
  switch (metric) {
    case statistics::Metric::slo:
      return "SLO misses";
    case statistics::Metric::ttft:
    case statistics::Metric::ttft_tail:
    case statistics::Metric::ttft_minority:
      return "TTFT";
    case statistics::Metric::tpot:
    case statistics::Metric::tpot_tail:
    case statistics::Metric::tpot_minority:
      return "TPOT";
    case statistics::Metric::output_tokens:
      return "Output length";
    case statistics::Metric::output_tokens_mean:
      return "Mean output length";
    case statistics::Metric::longest_gap:
      return "Longest gap";
    case statistics::Metric::freezes:
      return "Freezes";
  }
  return {};
}

/// Says of which requests a share is: "missed the objective".
std::string predicate(statistics::Metric metric, const std::string& a) {
  if (metric == statistics::Metric::slo) return "missed the objective";
  if (metric == statistics::Metric::freezes) return "froze";
  return "was above the p95 " + std::string(figure_of(metric)) + " of " + a;
}

/// "blocks 3 (07:30:00, +11.0 %) and 7 (07:42:00, +4.9 %) moved it most": those that lie farthest from the mean.
std::string movers(const Verdict& verdict, const statistics::Window& window) {
  const auto& blocks = verdict.judged_blocks;
  const double mean = statistics::mean_of(blocks);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < statistics::block_count; ++i) {
    if (std::isfinite(blocks[i])) order.push_back(i);
  }
  const auto far = [&](std::size_t i) { return std::abs(blocks[i] - mean); };
  std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) { return far(x) > far(y); });
  if (order.size() < 2 || far(order.front()) == 0) return "all blocks say the same";
  const auto name = [&](std::size_t i) {
    return format("%zu (%s, %s)", i + 1, time_of_day(window.begin_of(i)).c_str(), percent(blocks[i]).c_str());
  };
  if (far(order[1]) == 0) return "block " + name(order[0]) + " moved it most";
  return "blocks " + name(order[0]) + " and " + name(order[1]) + " moved it most";
}

std::string points_text(double share) { return with_sign(100 * share, 2); }

/// "TPOT of fp8 is 8.1 % above that of fp16", or "fp8 missed the objective in 4.30 % of requests, fp16 in 2.40 %: 79.2
/// % more".
std::string statement(const Verdict& verdict, const Comparison& comparison) {
  const std::string figure(figure_of(verdict.metric)), &a = comparison.a, &b = comparison.b;
  const std::string share = format("%.1f %%", 100 * std::abs(verdict.estimate.value_or(0)));
  const bool same = share == "0.0 %", less = verdict.estimate < 0.0;
  if (!verdict.estimate) return figure + " of " + b + " cannot be set against that of " + a;
  if (is_share(verdict.metric)) {
    const auto of = [](const std::optional<double>& value) { return format("%.2f %%", 100 * value.value_or(0)); };
    const std::string points = verdict.worse_points && verdict.difference
                                   ? ", " + points_text(verdict.difference->mean()) + " points"
                                   : std::string();
    return b + " " + predicate(verdict.metric, a) + " in " + of(verdict.value_b) + " of requests, " + a + " in " +
           of(verdict.value_a) + ": " + (same ? "as often" : share + (less ? " less" : " more")) + points;
  }
  if (is_minority(verdict.metric)) {
    return format("%.2f", 100 * verdict.value_b.value_or(0)) + " % of the pairs have a " + figure + " of " + b +
           format(" more than %.1f times as long as usual beside ", statistics::minority_factor(verdict.metric)) + a +
           format(", %.2f %%", 100 * verdict.value_a.value_or(0)) + " the other way round: these add " +
           percent(*verdict.estimate) + " to its mean";
  }
  if (same) return figure + " of " + b + " is that of " + a;
  return figure + " of " + b + " is " + share + (less ? " below" : " above") + " that of " + a;
}

/// True if the verdict's figures are those of a look; without one, and with a history, they are of the whole window.
bool is_of_look(const Verdict& verdict, const Comparison& comparison) {
  return verdict.looks > 1 && comparison.look && comparison.look->number > 0;
}

/// " (95 % interval +7.0 % to +9.2 %, ten blocks of 180 s)"
std::string extent(const Verdict& verdict, const Comparison& comparison) {
  std::string basis = format("ten blocks of %.0f s", comparison.described().block_s());
  if (comparison.apart && !comparison.apart->control.empty()) {
    basis = "by " + comparison.apart->control + ", ten blocks beside each";
  } else if (verdict.sequence) {
    basis = format("%.0f minutes, by a history of %.1f h", verdict.sequence->minutes, comparison.history->hours);
  } else if (is_of_look(verdict, comparison)) {
    basis = format("ten blocks of %.0f s, look %u of %zu", comparison.look->at_s / statistics::block_count,
                   comparison.look->number, look_seconds.size());
  }
  if (!verdict.interval) return verdict.estimate && !comparison.described().is_moment() ? " (" + basis + ")" : "";
  std::string points;
  if (verdict.worse_points && verdict.difference) {
    const auto interval = statistics::interval_of(*verdict.difference, verdict.looks);
    points = points_text(interval.low) + " to " + points_text(interval.high) + " points, ";
  }
  return " (95 % interval " + percent(verdict.interval->low) + " to " + percent(verdict.interval->high) + ", " +
         points + basis + ")";
}

std::string conclusion(const Verdict& verdict, bool held_back) {
  const std::string margin = format("the margin of %.1f %%", 100 * verdict.margin);
  if (verdict.finding == statistics::Finding::equivalent) return "inside " + margin;
  if (verdict.finding == statistics::Finding::not_worse) {
    const auto effect = effect_of(verdict);
    std::string most = format("%.1f %%", 100 * verdict.worse_margin.value_or(0));
    if (is_below_worse_points(effect)) {
      const std::string points = format("%.2f points", 100 * *verdict.worse_points);
      most = is_below_worse_margin(effect) ? most + ", nor by " + points : points;
    }
    return "not worse by " + most + " or more";
  }
  if (verdict.finding != statistics::Finding::inconclusive) return "beyond " + margin;
  if (held_back) {
    return "beyond " + margin +
           format(" if it stood alone (p = %.3f), but not among the metrics tested together (Holm)", verdict.p);
  }
  return "neither inside nor clearly beyond " + margin +
         (verdict.worse_points && verdict.difference
              ? format(", nor clearly below %.2f points", 100 * *verdict.worse_points)
              : "");
}

std::string obstacle(const Verdict& verdict, Bar bar, const Comparison& comparison) {
  switch (bar) {
    case Bar::none:
      return {};
    case Bar::no_values: {
      const auto& blocks = verdict.judged_blocks;
      const auto empty = std::ranges::find_if(blocks, [](double value) { return !std::isfinite(value); });
      if (!verdict.estimate) return "no request has a figure that can be compared";
      const bool has_looks = verdict.looks > 1 && comparison.look;
      if (has_looks && comparison.look->number == 0 && !comparison.look->next_s)
        return "its blocks must be longer than those of any look that is left; declare a window";
      const auto window = comparison.judged(verdict);
      if (empty == blocks.end() || !window) return "its spread is not known, so there is no interval";
      const auto block = static_cast<std::size_t>(empty - blocks.begin());
      return format("block %zu (%s) has no value, so there is no interval", block + 1,
                    time_of_day(window->begin_of(block)).c_str());
    }
    case Bar::apart:
      return "the sides did not run at the same time";
    case Bar::running:
      return "the declared window has not ended";
    case Bar::not_counted:
      return "misses of this objective were not counted since the beginning; give the window a beginning or an end, or "
             "ask the log";
    case Bar::cold:
      return "no pair counts before the shadow is warm, and " + shortfall(*comparison.unfilled);
    case Bar::too_few:
      return format("the window of %.0f s is too short, it would take %.0f s", comparison.window.seconds(),
                    verdict.needs_s.value_or(0));
    case Bar::load_differs:
      return "the two sides did not have the same load";
    case Bar::spared_load:
      return "more than 1 % of the requests have a finished answer on one side alone, and the other was spared their "
             "load";
  }
  return {};
}

}  // namespace

std::string shortfall(const Unfilled& unfilled) {
  return unfilled.side + format(" has prefilled %llu of the %llu tokens that its KV cache holds",
                                static_cast<unsigned long long>(unfilled.prefilled),
                                static_cast<unsigned long long>(unfilled.kv_tokens));
}

std::string_view word_for(statistics::Metric metric) {
  static constexpr std::array<std::string_view, statistics::metric_count> words{
      "SLO misses", "TTFT",      "TPOT",        "answer length", "mean answer length",
      "TTFT tail",  "TPOT tail", "longest gap", "freezes",       "TTFT minority",      "TPOT minority"};
  return words[static_cast<std::size_t>(metric)];
}

std::string stretch(const statistics::Window& window) {
  return "from " + samples::format_rfc3339(window.from_us) + " to " + samples::format_rfc3339(window.to_us);
}

std::string percent(double share) { return with_sign(100 * share, 1) + " %"; }

std::string time_of_day(std::int64_t us) {
  constexpr std::int64_t day = 86400;
  const auto second = static_cast<int>(((us / 1'000'000) % day + day) % day);
  return format("%02d:%02d:%02d", second / 3600, second / 60 % 60, second % 60);
}

std::string why(const pairs::FaultPairs& fault, const Comparison& comparison) {
  const auto& pairs = fault.pairs;
  const auto count = [](std::uint64_t number) { return std::to_string(number); };
  if (pairs.pairs() == 0) return "no pair of answers tells it.";
  const auto interval = pairs.difference();
  const double difference =
      (static_cast<double>(pairs.only_b()) - static_cast<double>(pairs.only_a())) / static_cast<double>(pairs.pairs());
  std::string text = "of " + count(pairs.pairs()) + " pairs, " + count(pairs.only_b()) + " of " + comparison.b +
                     " alone, " + count(pairs.only_a()) + " of " + comparison.a + " alone, " + count(pairs.both()) +
                     " of both: " + points_text(difference) + " points (" + points_text(interval.low) + " to " +
                     points_text(interval.high) + " at all looks together)";
  if (fault.finding == statistics::Finding::worse || fault.finding == statistics::Finding::better) {
    const bool worse = fault.finding == statistics::Finding::worse;
    const double evidence = worse ? pairs.more_in_b() : pairs.more_in_a();
    return text + format(", evidence %.3g that ", evidence) + (worse ? comparison.b : comparison.a) +
           " has more; 80 is enough.";
  }
  const std::string margin = format(" the margin of %.2f points.", 100 * fault.margin);
  return text + (fault.finding == statistics::Finding::not_worse ? ", below" : ", not clearly below") + margin;
}

std::string why(const pairs::Sameness& found, const Comparison& comparison) {
  const std::string &a = comparison.a, &b = comparison.b;
  const auto count = [](std::uint64_t number) { return std::to_string(number); };
  if (comparison.mode == pairs::Mode::split) return "The sides had different requests.";
  if (found.compared == 0) {
    if (found.word == pairs::Alike::differs)
      return "No greedy request tells, but how answers end or call tools differs.";
    return "No greedy request was answered by both and compared with the primary's answer; answers that are drawn at "
           "random differ by themselves.";
  }
  std::string text = "Of " + count(found.compared) + " greedy requests, " + b + " left the primary's text first in " +
                     count(found.first_b);
  if (found.control) {
    text += " and " + a + " in " + count(found.first_a);
    if (const auto ratio = found.hazard_ratio()) text += format(", %.2f times as often", *ratio);
  }
  const auto per_thousand = [&](const std::string& side, const pairs::Leaving& leaving) {
    const auto events = leaving.per_thousand_tokens();
    return events ? format("%.3g", *events) + " of " + side : "unknown of " + side;
  };
  text += "; divergences per 1000 tokens: " + per_thousand(b, found.b);
  if (found.control) text += ", " + per_thousand(a, found.a);
  text += ".";
  if (found.b.at_start > 0) {
    const auto share = [&](std::uint64_t requests) {
      return format("%.1f %%", 100 * static_cast<double>(requests) / static_cast<double>(found.compared));
    };
    text += " Different within the first 64 bytes: " + share(found.b.at_start) + " of " + b;
    if (found.control) text += ", " + share(found.a.at_start) + " of " + a;
    if (found.from_start >= 20) text += " (look at the template, the tokenizer and the model)";
    text += '.';
  }
  if (found.word == pairs::Alike::unknown && !found.control)
    text += " That cannot tell noise from change: start a control.";
  return text;
}

std::string why(const Verdict& verdict, Bar bar, bool held_back, const Comparison& comparison) {
  std::string text = statement(verdict, comparison) + extent(verdict, comparison);
  if (bar != Bar::none)
    return text + (verdict.estimate ? ", but no verdict: " : ": ") + obstacle(verdict, bar, comparison) + ".";
  text += ", " + conclusion(verdict, held_back);
  const auto window = comparison.apart ? std::nullopt : comparison.judged(verdict);
  return window ? text + "; " + movers(verdict, *window) + "." : text + ".";
}

}  // namespace weir::metrics::compare::comparison
