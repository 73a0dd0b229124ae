#include "metrics/compare/comparison/why.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "metrics/format.hpp"

namespace weir::metrics::compare::comparison {
namespace {

std::string_view figure_of(statistics::Metric metric) {
  switch (metric) {
    case statistics::Metric::slo:
      return "SLO attainment";
    case statistics::Metric::ttft:
    case statistics::Metric::ttft_tail:
      return "TTFT";
    case statistics::Metric::tpot:
    case statistics::Metric::tpot_tail:
      return "TPOT";
    case statistics::Metric::output_tokens:
      return "Output length";
  }
  return {};
}

/// "blocks 3 (07:30:00, +11.0 %) and 7 (07:42:00, +4.9 %) moved it most": those that lie farthest from the mean.
std::string movers(const Verdict& verdict, const statistics::Window& window) {
  const double mean = statistics::mean_of(verdict.blocks);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < statistics::block_count; ++i) {
    if (std::isfinite(verdict.blocks[i])) order.push_back(i);
  }
  const auto far = [&](std::size_t i) { return std::abs(verdict.blocks[i] - mean); };
  std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) { return far(x) > far(y); });
  if (order.size() < 2 || far(order.front()) == 0) return "all blocks say the same";
  const auto name = [&](std::size_t i) {
    return format("%zu (%s, %s)", i + 1, time_of_day(window.begin_of(i)).c_str(), percent(verdict.blocks[i]).c_str());
  };
  if (far(order[1]) == 0) return "block " + name(order[0]) + " moved it most";
  return "blocks " + name(order[0]) + " and " + name(order[1]) + " moved it most";
}

/// "TPOT of fp8 is 8.1 % above that of fp16", or "fp8 has 8.1 % more requests than fp16 above the p95 TPOT of fp16".
std::string statement(const Verdict& verdict, const Comparison& comparison) {
  const std::string figure(figure_of(verdict.metric)), &a = comparison.a, &b = comparison.b;
  const std::string share = format("%.1f %%", 100 * std::abs(verdict.estimate.value_or(0)));
  const bool same = share == "0.0 %", less = verdict.estimate < 0.0;
  if (is_tail(verdict.metric)) {
    const std::string end = "above the p95 " + figure + " of " + a;
    if (!verdict.estimate) return "Requests of " + b + " " + end + " cannot be set against those of " + a;
    if (same) return b + " has as many requests as " + a + " " + end;
    return b + " has " + share + (less ? " fewer" : " more") + " requests than " + a + " " + end;
  }
  if (!verdict.estimate) return figure + " of " + b + " cannot be set against that of " + a;
  if (same) return figure + " of " + b + " is that of " + a;
  return figure + " of " + b + " is " + share + (less ? " below" : " above") + " that of " + a;
}

/// " (95 % interval +7.0 % to +9.2 %, ten blocks of 180 s)"
std::string extent(const Verdict& verdict, const Comparison& comparison) {
  std::string basis = format("ten blocks of %.0f s", comparison.window.block_s());
  if (verdict.sequence) {
    basis = format("%.0f minutes, by a history of %.1f h", verdict.sequence->minutes, comparison.history->hours);
  } else if (comparison.look && comparison.look->number > 0) {
    basis = format("ten blocks of %.0f s, look %u of %zu", comparison.look->at_s / statistics::block_count,
                   comparison.look->number, look_seconds.size());
  }
  if (!verdict.interval) return verdict.estimate ? " (" + basis + ")" : "";
  return " (95 % interval " + percent(verdict.interval->low) + " to " + percent(verdict.interval->high) + ", " + basis +
         ")";
}

std::string conclusion(const Verdict& verdict, bool held_back) {
  const std::string margin = format("the margin of %.1f %%", 100 * verdict.margin);
  if (verdict.finding == statistics::Finding::equivalent) return "inside " + margin;
  if (verdict.finding == statistics::Finding::not_worse)
    return format("not worse by %.1f %% or more", 100 * verdict.worse_margin.value_or(0));
  if (verdict.finding != statistics::Finding::inconclusive) return "beyond " + margin;
  if (held_back) {
    return "beyond " + margin +
           format(" if it stood alone (p = %.3f), but not among the metrics tested together (Holm)", verdict.p);
  }
  return "neither inside nor clearly beyond " + margin;
}

std::string obstacle(const Verdict& verdict, Bar bar, const Comparison& comparison) {
  switch (bar) {
    case Bar::none:
      return {};
    case Bar::no_values: {
      const auto empty = std::find_if(verdict.blocks.begin(), verdict.blocks.end(),
                                      [](double value) { return !std::isfinite(value); });
      if (!verdict.estimate && verdict.count == 0) return "no request has a figure that can be compared";
      if (!verdict.estimate) return "the share of " + comparison.a + " is 0, so nothing can be set against it";
      const auto block = static_cast<std::size_t>(empty - verdict.blocks.begin());
      return format("block %zu (%s) has no value, so there is no interval", block + 1,
                    time_of_day(comparison.window.begin_of(block)).c_str());
    }
    case Bar::running:
      return "the declared window has not ended";
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

std::string percent(double share) { return format("%+.1f %%", 100 * share); }

std::string time_of_day(std::int64_t us) {
  constexpr std::int64_t day = 86400;
  const auto second = static_cast<int>(((us / 1'000'000) % day + day) % day);
  return format("%02d:%02d:%02d", second / 3600, second / 60 % 60, second % 60);
}

std::string why(const Verdict& verdict, Bar bar, bool held_back, const Comparison& comparison) {
  std::string text = statement(verdict, comparison) + extent(verdict, comparison);
  if (bar != Bar::none) return text + ", but no verdict: " + obstacle(verdict, bar, comparison) + ".";
  return text + ", " + conclusion(verdict, held_back) + "; " + movers(verdict, comparison.window) + ".";
}

}  // namespace weir::metrics::compare::comparison
