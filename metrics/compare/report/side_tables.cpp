#include "metrics/compare/report/side_tables.hpp"

#include <algorithm>
#include <functional>

#include "metrics/compare/comparison/why.hpp"
#include "metrics/compare/report/cells.hpp"

namespace weir::metrics::compare::report {
namespace {

/// A figure of a side as a row of the table.
struct Row {
  const char* name;
  std::function<std::string(const sides::Side&)> cell;
};

std::string capacity_text(const std::optional<sides::Capacity>& found) {
  if (!found) return unknown_cell;
  const auto& capacity = *found;
  const auto at = [&] {
    return with_interval(capacity.at->output_tokens_per_second) + " output, " +
           short_number(capacity.at->total_tokens_per_second.value) + " total tokens/s, " +
           short_number(capacity.at->requests_per_minute.value) + " rpm at " + short_number(capacity.at->in_flight);
  };
  switch (capacity.state) {
    case sides::Capacity::State::too_few:
      return "too few requests or minutes";
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

/// Rows that come first where tokens do not compare.
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
    {"reasoning tokens", [](const sides::Side& side) { return quantiles(side.reasoning_tokens, 1); }},
    {"output tokens, total",
     [](const sides::Side& side) {
       return side.output_tokens_sum ? std::to_string(side.output_tokens_sum) : unknown_cell;
     }},
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

}  // namespace

void add_sides(Document& document, const Report& report) {
  document.folded("What each side did", "distributions");
  document.paragraph(
      "Times and sizes are p50 / p90 / p95 / p99, with the number of values in parentheses. Fewer than 100 values have "
      "no p99. Rates are for one replica." +
      std::string(report.comparison.apart ? " Each side is described in the time in which it ran." : ""));
  Table table{{""}, {}};
  std::vector<const sides::Side*> shown;
  for (const auto& side : report.sides) {
    if (report.shows(side)) shown.push_back(&side);
  }
  for (const auto* side : shown) table.header.push_back(side->label);
  const auto add = [&](std::span<const Row> these) {
    for (const auto& row : these) {
      std::vector<std::string> cells{row.name};
      bool any = false;
      for (const auto* side : shown) {
        cells.push_back(row.cell(*side));
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

void add_load_points(Document& document, const Report& report) {
  Table table{{"in flight", "side", "minutes", "output tokens/s", "tokens/s per user", "TTFT, ms"}, {}};
  for (const auto& side : report.sides) {
    if (!report.shows(side)) continue;
    for (const auto& point : side.points) {
      table.rows.push_back({short_number(point.in_flight), side.label, std::to_string(point.minutes),
                            with_interval(point.output_tokens_per_second),
                            with_interval(point.tokens_per_second_per_user), with_interval(point.ttft, 1000)});
    }
  }
  if (table.rows.empty()) return;
  document.folded("Latency against throughput", "load_points");
  document.paragraph(
      "Of one replica, by the number of requests in flight. Each minute is one value; a minute's TTFT and TPOT are "
      "medians, and "
      "tokens/s per user are 1 / TPOT. The intervals are too narrow where load drifts slowly.");
  document.table(std::move(table));
}

}  // namespace weir::metrics::compare::report
