#include "metrics/compare/report/side_report.hpp"

#include <algorithm>
#include <array>
#include <variant>

#include "metrics/compare/report/document.hpp"

namespace weir::metrics::compare::report {
namespace {

using sides::Side;
using Counts = std::map<std::string, std::uint64_t>;

Counts outcomes_of(const Side& side) {
  Counts counts;
  for (std::size_t i = 0; i < outcome_names.size(); ++i) {
    if (side.outcomes[i] > 0) counts.emplace(outcome_names[i], side.outcomes[i]);
  }
  return counts;
}

std::string counts_text(const Counts& counts) {
  std::string text;
  for (const auto& [name, count] : counts) text += (text.empty() ? "" : ", ") + name + ' ' + std::to_string(count);
  return text.empty() ? unknown_cell : text;
}

void write(JsonWriter& json, std::uint64_t count) { json.count(count); }
void write(JsonWriter& json, double number) { json.decimal(number); }
void write(JsonWriter& json, const std::optional<double>& number) { json.decimal(number); }

void write(JsonWriter& json, const std::optional<statistics::Measured>& measured) {
  if (!measured) return void(json.null());
  json.open('{').key("value").decimal(measured->value).key("interval");
  report::write(json, measured->interval);
  json.close('}');
}

void write(JsonWriter& json, const statistics::Distribution& distribution) {
  json.open('{').key("count").count(distribution.count);
  json.key("p50").decimal(distribution.p50).key("p90").decimal(distribution.p90);
  json.key("p95").decimal(distribution.p95).key("p99").decimal(distribution.p99).close('}');
}

void write(JsonWriter& json, const sides::LoadPoint& point) {
  json.open('{').key("in_flight").decimal(point.in_flight).key("minutes").count(point.minutes);
  json.key("requests").count(point.requests);
  write(json.key("output_tokens_per_second"), point.output_tokens_per_second);
  write(json.key("total_tokens_per_second"), point.total_tokens_per_second);
  write(json.key("requests_per_minute"), point.requests_per_minute);
  write(json.key("tokens_per_second_per_user"), point.tokens_per_second_per_user);
  write(json.key("ttft_s"), point.ttft);
  json.close('}');
}

constexpr std::array<std::string_view, 4> capacity_states{"too_few", "none", "found", "not_reached"};

void write_capacity(JsonWriter& json, const Side& side) {
  if (!side.capacity) return void(json.null());
  const auto& at = side.capacity->at;
  json.open('{').key("state").text(capacity_states[static_cast<std::size_t>(side.capacity->state)]);
  const auto value = [&](std::string_view name, const statistics::Measured sides::LoadPoint::* rate) {
    json.key(name).decimal(at ? std::optional(((*at).*rate).value) : std::nullopt);
  };
  value("output_tokens_per_second", &sides::LoadPoint::output_tokens_per_second);
  value("total_tokens_per_second", &sides::LoadPoint::total_tokens_per_second);
  value("requests_per_minute", &sides::LoadPoint::requests_per_minute);
  json.key("in_flight").decimal(at ? std::optional(at->in_flight) : std::nullopt);
  report::write(json.key("output_tokens_per_second_interval"),
                at ? at->output_tokens_per_second.interval : std::nullopt);
  json.close('}');
}

std::string capacity_text(const Side& side) {
  using enum sides::Capacity::State;
  if (!side.capacity) return unknown_cell;
  const auto& [state, at] = *side.capacity;
  if (state == too_few) return "too few requests or minutes";
  if (state == none) return "missed at the lowest load";
  return (state == found ? "" : "not reached: at least ") + with_interval(at->output_tokens_per_second) + " output, " +
         short_number(at->total_tokens_per_second.value) + " total tokens/s, " +
         short_number(at->requests_per_minute.value) + " rpm at " + short_number(at->in_flight);
}

void write_prefill(JsonWriter& json, const Side& side) {
  if (!side.prefill) return void(json.null());
  json.open('{').key("requests").count(side.prefill->requests);
  write(json.key("ms_per_thousand_tokens"), side.prefill->ms_per_thousand_tokens);
  write(json.key("intercept_ms"), side.prefill->intercept_ms);
  json.close('}');
}

std::string prefill_text(const Side& side) {
  if (!side.prefill) return unknown_cell;
  return with_interval(side.prefill->ms_per_thousand_tokens) + ", and " + with_interval(side.prefill->intercept_ms) +
         " at once";
}

template <std::optional<sides::Cost> sides::Costs::* cost, double sides::Cost::* member>
void write_cost(JsonWriter& json, const Side& side) {
  json.decimal(side.*cost ? std::optional((*(side.*cost)).*member) : std::nullopt);
}

template <std::optional<sides::Cost> sides::Costs::* cost>
std::string cost_text(const Side& side) {
  if (!(side.*cost)) return unknown_cell;
  return short_number((side.*cost)->per_thousand_requests) + " / " +
         short_number((side.*cost)->per_million_output_tokens);
}

/// A figure: a count, a number, a share, a distribution, or one that writes itself.
struct Field {
  std::string_view key;    ///< In JSON, whose members have the order of the table; "" is not in it.
  std::string_view label;  ///< The row of the report's table; "" has none.
  std::variant<std::uint64_t Side::*, double Side::*, std::optional<double> Side::*, statistics::Distribution Side::*,
               void (*)(JsonWriter&, const Side&)>
      value{};
  double factor = 1;                           ///< The cell has the value times this; 0 is a share in percent.
  std::string (*cell)(const Side&) = nullptr;  ///< Another cell than the value's.
};

constexpr double as_share = 0;
using sides::Cost;

const Field fields[]{
    {"requests", "requests", &Side::requests},
    {"outcomes", "outcomes",
     [](JsonWriter& json, const Side& side) {
       json.open('{');  // In the order of the outcomes, and not of their names.
       for (std::size_t i = 0; i < outcome_names.size(); ++i) {
         if (side.outcomes[i] > 0) json.key(outcome_names[i]).count(side.outcomes[i]);
       }
       json.close('}');
     },
     1, [](const Side& side) { return counts_text(outcomes_of(side)); }},
    {"dropped", "spared the shadow", [](JsonWriter& json, const Side& side) { write_counts(json, side.dropped); }, 1,
     [](const Side& side) { return counts_text(side.dropped); }},
    {"rpm", "requests a minute", &Side::rpm},
    {"error_share", "errors", &Side::error_share, as_share},
    {"slo_attainment", "SLO attainment", &Side::slo_attainment, as_share},
    {"slo_good", "", &Side::slo_good},
    {"slo_bad", "", &Side::slo_bad},
    {"ttft_s", "TTFT, ms", &Side::ttft, 1000},
    {"ttft_client_s", "TTFT of the client, ms", &Side::ttft_client, 1000},
    {"itl_s", "ITL, ms", &Side::itl, 1000},
    {"tpot_s", "TPOT, ms", &Side::tpot, 1000},
    {"e2e_s", "E2E, s", &Side::e2e},
    {"decode_tokens_per_second", "decode speed, tokens/s", &Side::decode_speed},
    {"prompt_tokens", "prompt tokens", &Side::prompt_tokens},
    {"output_tokens", "output tokens", &Side::output_tokens},
    {"reasoning_tokens", "reasoning tokens", &Side::reasoning_tokens},
    {"output_tokens_total", "output tokens, total", &Side::output_tokens_sum, 1,
     [](const Side& side) {
       return side.output_tokens_sum > 0 ? std::to_string(side.output_tokens_sum) : unknown_cell;
     }},
    {"cached_share", "cached share of prompts", &Side::cached_share, as_share},
    {"busy_s", "", &Side::busy_s},
    {"output_tokens_per_second", "output tokens/s while busy", &Side::output_tokens_per_second},
    {"total_tokens_per_second", "total tokens/s while busy", &Side::total_tokens_per_second},
    {"output_chars_per_second", "", &Side::output_chars_per_second},
    {"in_flight_mean", "mean number in flight", &Side::in_flight_mean},
    {"prefill", "prefill, ms per 1000 tokens", write_prefill, 1, prefill_text},
    {"capacity_at_slo", "capacity at SLO, one replica", write_capacity, 1, capacity_text},
    {"cost_per_hour", "cost per hour", &Side::cost_per_hour},
    {"cost_per_thousand_requests", "cost: 1000 requests / 1M output tokens",
     write_cost<&Side::cost, &Cost::per_thousand_requests>, 1, cost_text<&Side::cost>},
    {"cost_per_million_output_tokens", "", write_cost<&Side::cost, &Cost::per_million_output_tokens>},
    {"cost_per_million_output_chars", "", &Side::cost_per_million_output_chars},
    {"cost_per_thousand_requests_at_capacity", "the same at capacity",
     write_cost<&Side::cost_at_capacity, &Cost::per_thousand_requests>, 1, cost_text<&Side::cost_at_capacity>},
    {"cost_per_million_output_tokens_at_capacity", "",
     write_cost<&Side::cost_at_capacity, &Cost::per_million_output_tokens>},
};

/// Rows that stand first in the table where tokens do not compare, and last elsewhere.
const Field fields_of_characters[]{
    {"", "output characters/s while busy", &Side::output_chars_per_second},
    {"", "cost: 1M output characters", &Side::cost_per_million_output_chars},
};

void write(JsonWriter& json, const Field& field, const Side& side) {
  json.key(field.key);
  std::visit(
      [&](const auto& value) {
        if constexpr (requires { value(json, side); }) {
          value(json, side);
        } else {
          write(json, side.*value);
        }
      },
      field.value);
}

std::string cell_of(const Field& field, const Side& side) {
  if (field.cell) return field.cell(side);
  if (const auto* count = std::get_if<std::uint64_t Side::*>(&field.value)) return std::to_string(side.**count);
  if (const auto* times = std::get_if<statistics::Distribution Side::*>(&field.value))
    return quantiles(side.**times, field.factor);
  const auto& number = side.*std::get<std::optional<double> Side::*>(field.value);
  return field.factor == as_share ? share(number) : short_number(number, field.factor);
}

}  // namespace

void write(JsonWriter& json, const std::optional<statistics::Interval>& interval) {
  if (!interval) return void(json.null());
  json.open('[').decimal(interval->low).decimal(interval->high).close(']');
}

void write_counts(JsonWriter& json, const Counts& counts) {
  json.open('{');
  for (const auto& [key, count] : counts) json.key(key).count(count);
  json.close('}');
}

void write(JsonWriter& json, const Side& side) {
  json.open('{').key("name").text(side.name).key("role").text(name_of(side.role));
  json.key("label").text(side.label).key("compared").boolean(side.compared);
  json.key("replicas").texts(side.replicas);
  for (const Field& field : fields) write(json, field, side);
  json.key("load_points").open('[');
  for (const auto& point : side.points) write(json, point);
  json.close(']').close('}');
}

void add_sides(Document& document, const Report& report) {
  document.folded("What each side did", "distributions");
  document.paragraph(
      "Times and sizes are p50 / p90 / p95 / p99, with the number of values in parentheses. Fewer than 100 values have "
      "no p99. Rates are for one replica." +
      std::string(report.comparison.apart ? " Each side is described in the time in which it ran." : ""));
  Table table{{""}, {}};
  std::vector<const Side*> shown;
  for (const auto& side : report.sides) {
    if (report.shows(side)) shown.push_back(&side);
  }
  for (const auto* side : shown) table.header.push_back(side->label);
  const auto add = [&](std::span<const Field> these) {
    for (const Field& field : these) {
      if (field.label.empty()) continue;
      std::vector<std::string> cells{std::string(field.label)};
      bool any = false;
      for (const auto* side : shown) {
        cells.push_back(cell_of(field, *side));
        any |= cells.back() != unknown_cell;
      }
      if (any) table.rows.push_back(std::move(cells));
    }
  };
  const bool characters_first =
      std::ranges::find(report.notes, "different_tokenizer", &comparison::Note::code) != report.notes.end();
  if (characters_first) add(fields_of_characters);
  add(fields);
  if (!characters_first) add(fields_of_characters);
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
