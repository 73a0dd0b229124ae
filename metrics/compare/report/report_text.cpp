// The report as headings, sentences and tables.
#include <algorithm>
#include <cmath>
#include <functional>

#include "metrics/compare/comparison/why.hpp"
#include "metrics/compare/report/report_document.hpp"
#include "metrics/compare/samples/rfc3339.hpp"
#include "metrics/format.hpp"

namespace weir::metrics::compare::report {
namespace {

constexpr auto unknown_cell = "-";

/// Writes three digits that count: 0.0123, 4.56, 789, 12345.
std::string short_number(double value) {
  if (!std::isfinite(value)) return unknown_cell;
  return std::abs(value) >= 100 ? format("%.0f", value) : format("%.3g", value);
}

std::string short_number(const std::optional<double>& value, double factor = 1) {
  return value ? short_number(*value * factor) : unknown_cell;
}

std::string share(const std::optional<double>& value) { return value ? format("%.2f %%", 100 * *value) : unknown_cell; }

std::string change(const std::optional<double>& value) { return value ? comparison::percent(*value) : unknown_cell; }

std::string change(const std::optional<statistics::Interval>& interval) {
  return interval ? comparison::percent(interval->low) + " to " + comparison::percent(interval->high) : unknown_cell;
}

std::string with_interval(const std::optional<statistics::Measured>& measured, double factor = 1) {
  if (!measured) return unknown_cell;
  std::string text = short_number(measured->value * factor);
  if (const auto& interval = measured->interval)
    text += " (" + short_number(interval->low * factor) + " to " + short_number(interval->high * factor) + ')';
  return text;
}

/// Writes the quantiles, and how many values they are of.
std::string quantiles(const statistics::Distribution& distribution, double factor) {
  if (distribution.count == 0) return unknown_cell;
  std::string text;
  for (const auto& one : {distribution.p50, distribution.p90, distribution.p95, distribution.p99})
    text += (text.empty() ? "" : " / ") + short_number(one, factor);
  return text + " (" + std::to_string(distribution.count) + ')';
}

std::string label(const sides::Side& side, sides::By by) {
  return by != sides::By::role && side.role == Role::shadow ? side.name + " (shadow)" : side.name;
}

std::string seconds_text(double seconds) {
  if (seconds < 120) return format("%.0f s", seconds);
  if (seconds < 7200) return format("%.0f min", seconds / 60);
  return format("%.1f h", seconds / 3600);
}

std::string state_sentence(const comparison::Comparison& comparison) {
  const auto& window = comparison.window;
  const auto pairs = format("%llu pairs", static_cast<unsigned long long>(comparison.pairs));
  const auto what = comparison.mode == pairs::Mode::split
                        ? format("%llu and %llu requests", static_cast<unsigned long long>(comparison.requests_a),
                                 static_cast<unsigned long long>(comparison.requests_b))
                        : pairs;
  std::string text;
  switch (comparison.state) {
    case comparison::State::final:
      text = "Final: " + what;
      break;
    case comparison::State::running:
      text = "Running, so there are no verdicts yet: " + what;
      break;
    case comparison::State::too_few:
      text = "Too few: " + what;
      break;
  }
  if (window.to_us > window.from_us) {
    text += " from " + samples::format_rfc3339(window.from_us) + " to " + samples::format_rfc3339(window.to_us) +
            format(", in %zu blocks of %s", statistics::block_count, short_number(window.block_s()).c_str()) + " s";
  }
  text += '.';
  if (comparison.needs_s) text += " A window of " + seconds_text(*comparison.needs_s) + " would do.";
  return text;
}

/// The tails are a family of their own, and exploratory.
std::string word(statistics::Metric metric, std::string_view finding) {
  return std::string(finding) + (is_tail(metric) ? " (exploratory)" : "");
}

void add_verdicts(Document& document, const Report& report) {
  const auto& comparison = report.comparison;
  document.heading("Verdicts: " + comparison.b + " against " + comparison.a, "verdicts");
  document.paragraph(state_sentence(comparison));
  Table table{{"metric", "verdict", "change", "95 % interval", "margin", "values"}, {}};
  for (const auto& verdict : comparison.verdicts) {
    table.rows.push_back({std::string(name_of(verdict.metric)),
                          word(verdict.metric, verdict.withheld ? "none" : name_of(verdict.finding)),
                          change(verdict.estimate), change(verdict.interval), format("%.3g %%", 100 * verdict.margin),
                          std::to_string(verdict.count)});
  }
  document.table(std::move(table));
  for (const auto& verdict : comparison.verdicts)
    document.item(std::string(name_of(verdict.metric)) + ": " + verdict.why);
}

void add_notes(Document& document, const Report& report) {
  if (report.notes.empty()) return;
  document.heading("Notes");
  for (const auto& note : report.notes) document.item(note.sentence);
}

/// A figure of a side as a row of the table.
struct Row {
  const char* name;
  std::function<std::string(const sides::Side&)> cell;
};

std::string capacity_text(const std::optional<sides::Capacity>& found) {
  if (!found) return unknown_cell;
  const auto& capacity = *found;
  const auto at = [&] {
    return short_number(capacity.at->output_tokens_per_second.value) + " output, " +
           short_number(capacity.at->total_tokens_per_second.value) + " total tokens/s, " +
           short_number(capacity.at->requests_per_minute.value) + " rpm at " + short_number(capacity.at->in_flight);
  };
  switch (capacity.state) {
    case sides::Capacity::State::too_few:
      return "too few requests";
    case sides::Capacity::State::none:
      return "missed at the lowest load";
    case sides::Capacity::State::found:
      return at();
    case sides::Capacity::State::not_reached:
      return "not reached: at least " + at();
  }
  return unknown_cell;
}

std::string cost_text(const std::optional<sides::Cost>& cost) {
  if (!cost) return unknown_cell;
  return short_number(cost->per_thousand_requests) + " / " + short_number(cost->per_million_output_tokens);
}

std::string counts_text(const std::map<std::string, std::uint64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) text += (text.empty() ? "" : ", ") + name + ' ' + std::to_string(count);
  return text.empty() ? unknown_cell : text;
}

std::string outcomes_text(const sides::Side& side) {
  std::map<std::string, std::uint64_t> counts;
  for (std::size_t i = 0; i < outcome_names.size(); ++i) {
    if (side.outcomes[i] > 0) counts.emplace(outcome_names[i], side.outcomes[i]);
  }
  return counts_text(counts);
}

std::string prefill_text(const std::optional<sides::Prefill>& prefill) {
  if (!prefill) return unknown_cell;
  return with_interval(prefill->ms_per_thousand_tokens) + ", and " + with_interval(prefill->intercept_ms) + " at once";
}

/// They come first where tokens do not compare.
const Row rows_of_characters[]{
    {"output characters/s while busy",
     [](const sides::Side& side) { return short_number(side.output_chars_per_second); }},
    {"cost: 1M output characters",
     [](const sides::Side& side) { return short_number(side.cost_per_million_output_chars); }},
};

const Row rows[]{
    {"requests", [](const sides::Side& side) { return std::to_string(side.requests); }},
    {"outcomes", outcomes_text},
    {"spared the shadow", [](const sides::Side& side) { return counts_text(side.dropped); }},
    {"requests a minute", [](const sides::Side& side) { return short_number(side.rpm); }},
    {"errors", [](const sides::Side& side) { return share(side.error_share); }},
    {"SLO attainment", [](const sides::Side& side) { return share(side.slo_attainment); }},
    {"TTFT, ms", [](const sides::Side& side) { return quantiles(side.ttft, 1000); }},
    {"TTFT of the client, ms", [](const sides::Side& side) { return quantiles(side.ttft_client, 1000); }},
    {"ITL, ms", [](const sides::Side& side) { return quantiles(side.itl, 1000); }},
    {"TPOT, ms", [](const sides::Side& side) { return quantiles(side.tpot, 1000); }},
    {"E2E, s", [](const sides::Side& side) { return quantiles(side.e2e, 1); }},
    {"decode speed, tokens/s", [](const sides::Side& side) { return quantiles(side.decode_speed, 1); }},
    {"prompt tokens", [](const sides::Side& side) { return quantiles(side.prompt_tokens, 1); }},
    {"output tokens", [](const sides::Side& side) { return quantiles(side.output_tokens, 1); }},
    {"cached share of prompts", [](const sides::Side& side) { return share(side.cached_share); }},
    {"output tokens/s while busy", [](const sides::Side& side) { return short_number(side.output_tokens_per_second); }},
    {"total tokens/s while busy", [](const sides::Side& side) { return short_number(side.total_tokens_per_second); }},
    {"mean number in flight", [](const sides::Side& side) { return short_number(side.in_flight_mean); }},
    {"prefill, ms per 1000 tokens", [](const sides::Side& side) { return prefill_text(side.prefill); }},
    {"capacity at SLO, one replica", [](const sides::Side& side) { return capacity_text(side.capacity); }},
    {"cost per hour", [](const sides::Side& side) { return short_number(side.cost_per_hour); }},
    {"cost: 1000 requests / 1M output tokens", [](const sides::Side& side) { return cost_text(side.cost); }},
    {"the same at capacity", [](const sides::Side& side) { return cost_text(side.cost_at_capacity); }},
};

/// A row that no side knows is left out.
void add_sides(Document& document, const Report& report) {
  document.heading("What each side did", "distributions");
  document.paragraph(
      "Times and sizes are p50 / p90 / p95 / p99, with the number of values in parentheses. Fewer than 100 values have "
      "no "
      "p99. Rates are for one replica.");
  Table table{{""}, {}};
  for (const auto& side : report.sides) table.header.push_back(label(side, report.by));
  const auto add = [&](std::span<const Row> these) {
    for (const auto& row : these) {
      std::vector<std::string> cells{row.name};
      bool any = false;
      for (const auto& side : report.sides) {
        cells.push_back(row.cell(side));
        any |= cells.back() != unknown_cell;
      }
      if (any) table.rows.push_back(std::move(cells));
    }
  };
  const bool characters_first =
      std::ranges::find(report.notes, "different_tokenizer", &comparison::Note::code) != report.notes.end();
  if (characters_first) add(rows_of_characters);
  add(rows);
  if (!characters_first) add(rows_of_characters);
  document.table(std::move(table));
}

std::string effect_text(const comparison::Stratum& stratum, statistics::Metric metric) {
  for (const auto& effect : stratum.effects) {
    if (effect.metric != metric || !effect.estimate) continue;
    return comparison::percent(*effect.estimate) + (effect.interval ? " (" + change(effect.interval) + ')' : "");
  }
  return unknown_cell;
}

/// The change of b against a stands in the first row of each stratum.
void add_strata(Document& document, const Report& report, std::span<const comparison::Stratum> strata,
                std::string_view heading) {
  if (strata.size() < 2) return;
  document.heading(heading);
  Table table{{"", "side", "requests", "cached", "TTFT p50, ms", "TPOT p50, ms", "TTFT changes", "TPOT changes"}, {}};
  for (const auto& stratum : strata) {
    for (std::size_t i = 0; i < report.sides.size(); ++i) {
      const auto& side = stratum.sides[i];
      const bool first = i == 0;
      table.rows.push_back({first ? stratum.name : "", label(report.sides[i], report.by), std::to_string(side.requests),
                            share(side.cached_share), short_number(side.ttft.p50, 1000),
                            short_number(side.tpot.p50, 1000),
                            first ? effect_text(stratum, statistics::Metric::ttft) : "",
                            first ? effect_text(stratum, statistics::Metric::tpot) : ""});
    }
  }
  document.table(std::move(table));
}

void add_load_points(Document& document, const Report& report) {
  Table table{{"in flight", "side", "minutes", "output tokens/s", "tokens/s per user", "TTFT, ms"}, {}};
  for (const auto& side : report.sides) {
    for (const auto& point : side.points) {
      table.rows.push_back({short_number(point.in_flight), label(side, report.by), std::to_string(point.minutes),
                            with_interval(point.output_tokens_per_second),
                            with_interval(point.tokens_per_second_per_user), with_interval(point.ttft, 1000)});
    }
  }
  if (table.rows.empty()) return;
  document.heading("Latency against throughput", "load_points");
  document.paragraph(
      "Of one replica, by the number of requests in flight. Each minute is one value; a minute's TTFT and TPOT are "
      "medians, and "
      "tokens/s per user are 1 / TPOT. The intervals are too narrow where load drifts slowly.");
  document.table(std::move(table));
}

void add_cheapest(Document& document, const Report& report) {
  if (!report.cheapest) return;
  const auto& asked = *report.cheapest;
  const auto limits = "TTFT up to " + short_number(asked.most_ttft) + " s and at least " +
                      short_number(asked.least_speed) + " tokens/s per user";
  if (!asked.found) {
    document.paragraph("No measured load has " + limits + '.');
    return;
  }
  const auto& found = *asked.found;
  document.paragraph("The cheapest measured load with " + limits + ": " + found.side + " at " +
                     short_number(found.point.in_flight) + " in flight, " +
                     short_number(found.cost_per_million_output_tokens) + " per million output tokens.");
}

std::string exploration_text(const comparison::Exploration& one) {
  return one.name + ' ' + comparison::percent(one.estimate) + (one.interval ? " (" + change(one.interval) + ')' : "");
}

std::string of_compared(const pairs::Same& same) {
  return format("%llu of %llu", static_cast<unsigned long long>(same.same),
                static_cast<unsigned long long>(same.compared));
}

void add_table(Document& document, const char* what, const pairs::TwoByTwo& table,
               const comparison::Comparison& comparison) {
  if (table.count() == 0) return;
  document.item(std::string(what) + ": both " + std::to_string(table.both) + ", only " + comparison.a + ' ' +
                std::to_string(table.only_a) + ", only " + comparison.b + ' ' + std::to_string(table.only_b) +
                ", neither " + std::to_string(table.neither));
}

void add_likeness(Document& document, const pairs::TextLikeness& likeness, const std::string& side) {
  if (likeness.text.compared == 0) return;
  std::string text = side + ": same text as the primary's, of greedy requests: " + of_compared(likeness.text);
  if (likeness.common_prefix_bytes)
    text += "; the first " + short_number(*likeness.common_prefix_bytes) + " bytes are the same (median)";
  document.item(text);
}

/// What is shown beside the verdicts and carries none.
void add_explorations(Document& document, const Report& report) {
  const auto& comparison = report.comparison;
  const auto& divergence = comparison.divergence;
  if (comparison.explorations.empty() && comparison.mode == pairs::Mode::split) return;
  document.heading("Without verdict");
  for (const auto& one : comparison.explorations) document.item(exploration_text(one));
  if (comparison.mode == pairs::Mode::split) return;
  add_table(document, "pairs that met the objective", comparison.slo, comparison);
  document.item("same status " + of_compared(divergence.status) + ", finish reason " +
                of_compared(divergence.finish_reason) + ", prompt tokens " + of_compared(divergence.prompt_tokens));
  add_likeness(document, divergence.text_a, comparison.a);
  add_likeness(document, divergence.text_b, comparison.b);
  if (divergence.tools.compared > 0)
    document.item("same tools with the same arguments: " + of_compared(divergence.tools));
  add_table(document, "answers that call tools", divergence.tool_calls, comparison);
  add_table(document, "answers whose calls all have valid arguments", divergence.valid_tools, comparison);
}

void add(Document& document, const Report& report) {
  add_verdicts(document, report);
  add_notes(document, report);
  add_sides(document, report);
  add_strata(document, report, report.by_prompt_size, "By prompt size");
  add_strata(document, report, report.by_turn, "By turn");
  add_load_points(document, report);
  add_cheapest(document, report);
  add_explorations(document, report);
}

std::string written(const Document& document, Style style) {
  switch (style) {
    case Style::plain:
      return document.plain();
    case Style::colour:
      return document.coloured();
    case Style::markdown:
      return document.markdown();
  }
  return {};
}

}  // namespace

Document document_of(const Report& report) {
  Document document;
  add(document, report);
  return document;
}

std::string as_text(const Report& report, Style style) { return written(document_of(report), style); }

Document summary_of(const SwappedReport& report) {
  Document document;
  const auto& comparison = report.first.comparison;
  document.heading("Swapped: " + comparison.b + " against " + comparison.a);
  if (report.verdicts.empty()) {
    document.paragraph("There are no verdicts, because not both windows are final.");
  } else {
    Table table{{"metric", "verdict", "configuration", "95 % interval", "GPU", "95 % interval", "margin"}, {}};
    for (const auto& verdict : report.verdicts) {
      table.rows.push_back(
          {std::string(name_of(verdict.metric)), word(verdict.metric, name_of(verdict.decision.finding)),
           comparison::percent(verdict.configuration), change(verdict.configuration_interval),
           comparison::percent(verdict.gpu), change(verdict.gpu_interval), format("%.3g %%", 100 * verdict.margin)});
    }
    document.table(std::move(table));
  }
  return document;
}

std::string as_text(const SwappedReport& report, Style style) {
  auto document = summary_of(report);
  document.heading("First window");
  add(document, report.first);
  document.heading("Second window");
  add(document, report.second);
  return written(document, style);
}

}  // namespace weir::metrics::compare::report
