// The report as JSON. Other programs read it: members may be added, and none changes.
#include <array>

#include "metrics/compare/report/json_writer.hpp"
#include "metrics/compare/report/report.hpp"
#include "metrics/compare/samples/rfc3339.hpp"

namespace weir::metrics::compare::report {
namespace {

void write(JsonWriter& json, const std::optional<statistics::Interval>& interval) {
  if (!interval) {
    json.null();
    return;
  }
  json.open('[').decimal(interval->low).decimal(interval->high).close(']');
}

void write(JsonWriter& json, std::string_view name, const statistics::Distribution& distribution) {
  json.key(name).open('{').key("count").count(distribution.count);
  json.key("p50").decimal(distribution.p50).key("p90").decimal(distribution.p90);
  json.key("p95").decimal(distribution.p95).key("p99").decimal(distribution.p99).close('}');
}

void write(JsonWriter& json, std::string_view name, const std::optional<statistics::Measured>& measured) {
  json.key(name);
  if (!measured) {
    json.null();
    return;
  }
  json.open('{').key("value").decimal(measured->value).key("interval");
  write(json, measured->interval);
  json.close('}');
}

void write(JsonWriter& json, const sides::LoadPoint& point) {
  json.open('{').key("in_flight").decimal(point.in_flight).key("minutes").count(point.minutes);
  json.key("requests").count(point.requests);
  write(json, "output_tokens_per_second", point.output_tokens_per_second);
  write(json, "total_tokens_per_second", point.total_tokens_per_second);
  write(json, "requests_per_minute", point.requests_per_minute);
  write(json, "tokens_per_second_per_user", point.tokens_per_second_per_user);
  write(json, "ttft_s", point.ttft);
  json.close('}');
}

constexpr std::array<std::string_view, 4> capacity_states{"too_few", "none", "found", "not_reached"};

void write(JsonWriter& json, const sides::Capacity& capacity) {
  json.open('{').key("state").text(capacity_states[static_cast<std::size_t>(capacity.state)]);
  const auto at = [&](std::string_view name, auto rate) {
    json.key(name).decimal(capacity.at ? std::optional<double>(rate(*capacity.at)) : std::nullopt);
  };
  at("output_tokens_per_second", [](const sides::LoadPoint& point) { return point.output_tokens_per_second.value; });
  at("total_tokens_per_second", [](const sides::LoadPoint& point) { return point.total_tokens_per_second.value; });
  at("requests_per_minute", [](const sides::LoadPoint& point) { return point.requests_per_minute.value; });
  at("in_flight", [](const sides::LoadPoint& point) { return point.in_flight; });
  json.close('}');
}

void write(JsonWriter& json, const sides::Prefill& prefill) {
  json.open('{').key("requests").count(prefill.requests);
  write(json, "ms_per_thousand_tokens", prefill.ms_per_thousand_tokens);
  write(json, "intercept_ms", prefill.intercept_ms);
  json.close('}');
}

void write_counts(JsonWriter& json, std::string_view name, const std::map<std::string, std::uint64_t>& counts) {
  json.key(name).open('{');
  for (const auto& [key, count] : counts) json.key(key).count(count);
  json.close('}');
}

void write_costs(JsonWriter& json, const sides::Side& side) {
  const auto of = [](const std::optional<sides::Cost>& cost, double sides::Cost::*member) {
    return cost ? std::optional((*cost).*member) : std::nullopt;
  };
  json.key("cost_per_hour").decimal(side.cost_per_hour);
  json.key("cost_per_thousand_requests").decimal(of(side.cost, &sides::Cost::per_thousand_requests));
  json.key("cost_per_million_output_tokens").decimal(of(side.cost, &sides::Cost::per_million_output_tokens));
  json.key("cost_per_million_output_chars").decimal(side.cost_per_million_output_chars);
  json.key("cost_per_thousand_requests_at_capacity")
      .decimal(of(side.cost_at_capacity, &sides::Cost::per_thousand_requests));
  json.key("cost_per_million_output_tokens_at_capacity")
      .decimal(of(side.cost_at_capacity, &sides::Cost::per_million_output_tokens));
}

void write(JsonWriter& json, const sides::Side& side) {
  json.open('{').key("name").text(side.name).key("role").text(name_of(side.role));
  json.key("replicas").open('[');
  for (const auto& replica : side.replicas) json.text(replica);
  json.close(']').key("requests").count(side.requests).key("outcomes").open('{');
  for (std::size_t i = 0; i < outcome_names.size(); ++i) {
    if (side.outcomes[i] > 0) json.key(outcome_names[i]).count(side.outcomes[i]);
  }
  json.close('}');
  write_counts(json, "dropped", side.dropped);
  json.key("rpm").decimal(side.rpm).key("error_share").decimal(side.error_share);
  json.key("slo_attainment").decimal(side.slo_attainment);
  json.key("slo_good").count(side.slo_good).key("slo_bad").count(side.slo_bad);
  write(json, "ttft_s", side.ttft);
  write(json, "ttft_client_s", side.ttft_client);
  write(json, "itl_s", side.itl);
  write(json, "tpot_s", side.tpot);
  write(json, "e2e_s", side.e2e);
  write(json, "decode_tokens_per_second", side.decode_speed);
  write(json, "prompt_tokens", side.prompt_tokens);
  write(json, "output_tokens", side.output_tokens);
  json.key("cached_share").decimal(side.cached_share).key("busy_s").decimal(side.busy_s);
  json.key("output_tokens_per_second").decimal(side.output_tokens_per_second);
  json.key("total_tokens_per_second").decimal(side.total_tokens_per_second);
  json.key("output_chars_per_second").decimal(side.output_chars_per_second);
  json.key("in_flight_mean").decimal(side.in_flight_mean);
  json.key("prefill");
  if (side.prefill) {
    write(json, *side.prefill);
  } else {
    json.null();
  }
  json.key("capacity_at_slo");
  if (side.capacity) {
    write(json, *side.capacity);
  } else {
    json.null();
  }
  write_costs(json, side);
  json.key("load_points").open('[');
  for (const auto& point : side.points) write(json, point);
  json.close(']').close('}');
}

void write(JsonWriter& json, const comparison::Verdict& verdict) {
  json.open('{').key("metric").text(name_of(verdict.metric)).key("count").count(verdict.count);
  json.key("estimate").decimal(verdict.estimate).key("interval");
  write(json, verdict.interval);
  json.key("margin").decimal(verdict.margin).key("p").decimal(verdict.p);
  json.key("verdict").text(name_of(verdict.finding)).key("withheld").boolean(verdict.withheld);
  json.key("why").text(verdict.why).key("needs_s").decimal(verdict.needs_s);
  json.key("blocks").open('[');
  for (const double value : verdict.blocks) json.decimal(value);
  json.close(']').close('}');
}

void write(JsonWriter& json, std::string_view name, const statistics::Overlay::Values& values) {
  json.key(name).open('{').key("count").count(values.count()).key("median").decimal(values.median);
  json.key("below").count(values.below).key("above").count(values.above).key("counts").open('[');
  for (const auto count : values.counts) json.count(count);
  json.close(']').close('}');
}

/// What only charts need; the points and the blocks that they show have their places already.
void write_charts(JsonWriter& json, const comparison::Comparison& comparison) {
  json.key("charts").open('{').key("distributions").open('[');
  for (const auto& one : comparison.distributions) {
    json.open('{').key("metric").text(name_of(one.metric)).key("edges_s").open('[');
    for (const double edge : one.edges) json.decimal(edge);
    json.close(']');
    write(json, "a", one.a);
    write(json, "b", one.b);
    json.close('}');
  }
  json.close(']').close('}');
}

void write(JsonWriter& json, std::string_view name, std::span<const comparison::Stratum> strata,
           std::span<const sides::Side> sides) {
  json.key(name).open('[');
  for (const auto& stratum : strata) {
    json.open('{').key("name").text(stratum.name).key("sides").open('[');
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const auto& side = stratum.sides[i];
      json.open('{').key("name").text(sides[i].name).key("role").text(name_of(sides[i].role));
      json.key("requests").count(side.requests).key("cached_share").decimal(side.cached_share);
      write(json, "ttft_s", side.ttft);
      write(json, "tpot_s", side.tpot);
      json.close('}');
    }
    json.close(']').key("effects").open('[');
    for (const auto& effect : stratum.effects) {
      json.open('{').key("metric").text(name_of(effect.metric)).key("count").count(effect.count);
      json.key("estimate").decimal(effect.estimate).key("interval");
      write(json, effect.interval);
      json.close('}');
    }
    json.close(']').close('}');
  }
  json.close(']');
}

void write(JsonWriter& json, std::string_view name, const pairs::TwoByTwo& table) {
  json.key(name).open('{').key("both").count(table.both).key("only_a").count(table.only_a);
  json.key("only_b").count(table.only_b).key("neither").count(table.neither).close('}');
}

void write(JsonWriter& json, std::string_view name, const pairs::Same& same) {
  json.key(name).open('{').key("same").count(same.same).key("compared").count(same.compared).close('}');
}

void write(JsonWriter& json, std::string_view name, const pairs::TextLikeness& likeness) {
  json.key(name).open('{').key("same").count(likeness.text.same).key("compared").count(likeness.text.compared);
  json.key("common_prefix_bytes").decimal(likeness.common_prefix_bytes).close('}');
}

void write(JsonWriter& json, const pairs::Divergence& divergence) {
  json.key("divergence").open('{');
  write(json, "status", divergence.status);
  write(json, "finish_reason", divergence.finish_reason);
  write(json, "prompt_tokens", divergence.prompt_tokens);
  write(json, "same_tools", divergence.tools);
  write(json, "tool_calls", divergence.tool_calls);
  write(json, "valid_tools", divergence.valid_tools);
  json.key("same_text").open('{');
  write(json, "a", divergence.text_a);
  write(json, "b", divergence.text_b);
  json.close('}');
  json.key("prompt_tokens_differ").decimal(divergence.prompt_tokens_differ).close('}');
}

void write(JsonWriter& json, const std::optional<Cheapest>& cheapest) {
  json.key("cheapest");
  if (!cheapest) {
    json.null();
    return;
  }
  json.open('{').key("most_ttft_s").decimal(cheapest->most_ttft);
  json.key("least_tokens_per_second_per_user").decimal(cheapest->least_speed);
  const auto& found = cheapest->found;
  json.key("name");
  if (found) {
    json.text(found->side);
  } else {
    json.null();
  }
  json.key("cost_per_million_output_tokens")
      .decimal(found ? std::optional(found->cost_per_million_output_tokens) : std::nullopt);
  json.key("in_flight").decimal(found ? std::optional(found->point.in_flight) : std::nullopt).close('}');
}

void write_notes(JsonWriter& json, std::span<const comparison::Note> notes) {
  json.key("notes").open('[');
  for (const auto& note : notes) json.text(note.code);
  json.close(']').key("note_sentences").open('[');
  for (const auto& note : notes) json.text(note.sentence);
  json.close(']');
}

/// An empty window has neither beginning nor end.
void write_moment(JsonWriter& json, std::string_view name, const statistics::Window& window, std::int64_t us) {
  json.key(name);
  if (window.to_us > window.from_us) {
    json.text(samples::format_rfc3339(us));
  } else {
    json.null();
  }
}

void write(JsonWriter& json, const Report& report) {
  const auto& comparison = report.comparison;
  json.open('{').key("v").count(1).key("state").text(name_of(comparison.state));
  json.key("mode").text(name_of(comparison.mode)).key("a").text(comparison.a).key("b").text(comparison.b);
  json.key("pairs").count(comparison.pairs).key("window").open('{');
  write_moment(json, "from", comparison.window, comparison.window.from_us);
  write_moment(json, "to", comparison.window, comparison.window.to_us);
  json.key("blocks").count(statistics::block_count);
  json.key("block_s").decimal(comparison.window.block_s()).close('}');
  json.key("needs_s").decimal(comparison.needs_s).key("sides").open('[');
  for (const auto& side : report.sides) write(json, side);
  json.close(']').key("verdicts").open('[');
  for (const auto& verdict : comparison.verdicts) write(json, verdict);
  json.close(']');
  write_notes(json, report.notes);
  json.key("explorations").open('[');
  for (const auto& one : comparison.explorations) {
    json.open('{').key("name").text(one.name).key("estimate").decimal(one.estimate).key("interval");
    write(json, one.interval);
    json.close('}');
  }
  json.close(']');
  write(json, "slo_pairs", comparison.slo);
  write(json, comparison.divergence);
  json.key("sampled").count(comparison.sampled).key("warming").count(comparison.warming);
  write_counts(json, "unfinished", comparison.unfinished);
  json.key("strata").open('{');
  write(json, "prompt_size", report.by_prompt_size, report.sides);
  write(json, "turn", report.by_turn, report.sides);
  json.close('}');
  write(json, report.cheapest);
  write_charts(json, comparison);
  json.close('}');
}

}  // namespace

std::string as_json(const Report& report) {
  JsonWriter json;
  write(json, report);
  return json.written();
}

std::string as_json(const SwappedReport& report) {
  JsonWriter json;
  const auto& first = report.first.comparison;
  const auto& second = report.second.comparison;
  json.open('{').key("v").count(1).key("swapped").boolean(true);
  json.key("state").text(name_of(first.state == comparison::State::final ? second.state : first.state));
  json.key("a").text(first.a).key("b").text(first.b).key("pairs").count(first.pairs + second.pairs);
  json.key("verdicts").open('[');
  for (const auto& verdict : report.verdicts) {
    json.open('{').key("metric").text(name_of(verdict.metric));
    json.key("estimate").decimal(verdict.configuration).key("interval");
    write(json, std::optional(verdict.configuration_interval));
    json.key("gpu_estimate").decimal(verdict.gpu).key("gpu_interval");
    write(json, std::optional(verdict.gpu_interval));
    json.key("margin").decimal(verdict.margin).key("p").decimal(verdict.decision.p);
    json.key("verdict").text(name_of(verdict.decision.finding)).close('}');
  }
  json.close(']').key("windows").open('[');
  write(json, report.first);
  write(json, report.second);
  json.close(']').close('}');
  return json.written();
}

}  // namespace weir::metrics::compare::report
