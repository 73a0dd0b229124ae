// The report as JSON. Other programs read it: members may be added, and none changes.
#include "metrics/compare/comparison/conclusion.hpp"
#include "metrics/compare/comparison/gate.hpp"
#include "metrics/compare/comparison/why.hpp"
#include "metrics/compare/report/json_writer.hpp"
#include "metrics/compare/report/report.hpp"
#include "metrics/compare/report/side_json.hpp"
#include "metrics/compare/samples/rfc3339.hpp"

namespace weir::metrics::compare::report {
namespace {

using report::write;

void write(JsonWriter& json, const comparison::Verdict& verdict) {
  json.open('{').key("metric").text(name_of(verdict.metric)).key("word").text(comparison::word_for(verdict.metric));
  json.key("count").count(verdict.count);
  json.key("value_a").decimal(verdict.value_a).key("value_b").decimal(verdict.value_b);
  json.key("estimate").decimal(verdict.estimate).key("interval");
  write(json, verdict.interval);
  json.key("margin").decimal(verdict.margin).key("worse_margin").decimal(verdict.worse_margin);
  json.key("worse_points").decimal(verdict.worse_points).key("difference");
  write(json, verdict.difference ? std::optional(statistics::interval_of(*verdict.difference, verdict.looks))
                                 : std::nullopt);
  json.key("p").decimal(verdict.p).key("looks");
  if (verdict.sequence) {
    json.null();
  } else {
    json.count(verdict.looks);
  }
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

/// Figures for charts alone; the points and the blocks that they show have their places already.
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

/// Writes the members of an object that is open.
void write_members(JsonWriter& json, const statistics::Discordance& pairs) {
  json.key("pairs").count(pairs.pairs()).key("both").count(pairs.both());
  json.key("only_a").count(pairs.only_a()).key("only_b").count(pairs.only_b()).key("difference");
  write(json, std::optional(pairs.difference()));
  json.key("evidence_more_in_a").decimal(pairs.more_in_a()).key("evidence_more_in_b").decimal(pairs.more_in_b());
}

void write(JsonWriter& json, const comparison::Comparison& comparison, const pairs::FaultPairs& fault) {
  json.open('{').key("fault").text(name_of(fault.fault)).key("verdict").text(name_of(fault.finding));
  write_members(json, fault.pairs);
  json.key("margin").decimal(fault.margin).key("why").text(why(fault, comparison)).close('}');
}

void write(JsonWriter& json, std::string_view name, const statistics::Discordance& pairs) {
  json.key(name).open('{');
  write_members(json, pairs);
  json.close('}');
}

void write(JsonWriter& json, std::string_view name, const pairs::Leaving& leaving) {
  json.key(name).open('{').key("differ").count(leaving.requests).key("from_start").count(leaving.at_start);
  json.key("per_thousand_tokens").decimal(leaving.per_thousand_tokens()).close('}');
}

void write_sameness(JsonWriter& json, const comparison::Comparison& comparison) {
  const auto& found = comparison.sameness;
  json.key("sameness").open('{').key("answers").text(name_of(found.word)).key("why").text(why(found, comparison));
  json.key("control").boolean(found.control).key("compared").count(found.compared);
  json.key("first_a").count(found.first_a).key("first_b").count(found.first_b);
  json.key("hazard_ratio").decimal(found.hazard_ratio());
  json.key("evidence_differs").decimal(found.differs).key("evidence_same").decimal(found.alike);
  json.key("evidence_from_start").decimal(found.from_start);
  write(json, "a", found.a);
  write(json, "b", found.b);
  write(json, "calls", found.calls);
  write(json, "same_calls", found.same_calls);
  json.close('}');
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

void write(JsonWriter& json, const std::optional<comparison::HistoryUsed>& history) {
  json.key("history");
  if (!history) {
    json.null();
    return;
  }
  json.open('{').key("hours").decimal(history->hours).key("source").text(history->source).close('}');
}

void write(JsonWriter& json, const std::optional<comparison::Look>& look) {
  json.key("look");
  if (!look) {
    json.null();
    return;
  }
  json.open('{').key("number").count(look->number).key("of").count(comparison::look_seconds.size());
  json.key("at_s").decimal(look->at_s).key("next_s").decimal(look->next_s).close('}');
}

void write(JsonWriter& json, const comparison::GateResult& gate) {
  json.key("gate").open('{').key("word").text(name_of(gate.word));
  json.key("worse").texts(gate.worse).key("unknown").texts(gate.unknown).close('}');
}

void write_notes(JsonWriter& json, std::span<const comparison::Note> notes) {
  json.key("notes").open('[');
  for (const auto& note : notes) json.text(note.code);
  json.close(']').key("note_sentences").open('[');
  for (const auto& note : notes) json.text(note.sentence);
  json.close(']');
}

void write_window(JsonWriter& json, std::string_view name, const statistics::Window& window) {
  json.key(name).open('{').key("from").text(samples::format_rfc3339(window.from_us));
  json.key("to").text(samples::format_rfc3339(window.to_us)).close('}');
}

/// When each side ran, if not at the same time.
void write(JsonWriter& json, const std::optional<comparison::Apart>& apart) {
  json.key("apart");
  if (!apart) {
    json.null();
    return;
  }
  json.open('{');
  write_window(json, "a", apart->a);
  write_window(json, "b", apart->b);
  json.key("control");
  if (apart->control.empty()) {
    json.null();
  } else {
    json.text(apart->control);
  }
  json.close('}');
}

void write_changes(JsonWriter& json, std::span<const comparison::Changed> changes) {
  json.key("changes").open('[');
  for (const auto& one : changes) {
    json.open('{').key("metric").text(name_of(one.metric)).key("since").text(samples::format_rfc3339(one.since_us));
    json.key("by").decimal(one.by).close('}');
  }
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
  json.key("mode").text(name_of(comparison.mode));
  json.key("a").text(comparison.side_a.name).key("a_role").text(name_of(comparison.side_a.role));
  json.key("b").text(comparison.side_b.name).key("b_role").text(name_of(comparison.side_b.role));
  json.key("pairs").count(comparison.pairs).key("window").open('{');
  write_moment(json, "from", comparison.window, comparison.window.from_us);
  write_moment(json, "to", comparison.window, comparison.window.to_us);
  json.key("blocks").count(statistics::block_count);
  json.key("block_s").decimal(comparison.described().block_s()).close('}');
  if (comparison.held) {
    write_window(json, "held", *comparison.held);
  } else {
    json.key("held").null();
  }
  json.key("needs_s").decimal(comparison.needs_s).key("declared").boolean(comparison.declared);
  write(json, comparison.history);
  write(json, comparison.look);
  write(json, comparison.apart);
  write_changes(json, comparison.changes);
  json.key("label_a").text(comparison.a).key("label_b").text(comparison.b);
  json.key("all_sides").boolean(report.all_sides);
  const auto gate = gate_of(comparison);
  json.key("conclusion").text(conclusion_of(comparison, gate));
  write(json, gate);
  json.key("sides").open('[');
  for (const auto& side : report.sides) write(json, side);
  json.close(']').key("verdicts").open('[');
  for (const auto& verdict : comparison.verdicts) write(json, verdict);
  json.close(']');
  json.key("faults").open('[');
  for (const auto& fault : comparison.faults) write(json, comparison, fault);
  json.close(']');
  write_sameness(json, comparison);
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
  json.key("lost").count(comparison.lost);
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
  return std::move(json).written();
}

std::string as_json(const CandidatesReport& all) {
  JsonWriter json;
  json.open('{').key("v").count(1).key("a").text(all.reports.front().comparison.side_a.name);
  json.key("candidates").open('[');
  for (std::size_t i = 0; i < all.reports.size(); ++i) {
    const auto& row = all.rows[i];
    const auto& comparison = all.reports[i].comparison;
    json.open('{').key("b").text(comparison.side_b.name).key("b_role").text(name_of(comparison.side_b.role));
    json.key("label").text(comparison.b);
    write(json, row.gate);
    json.key("verdicts").open('[');
    for (std::size_t j = 0; j < row.metrics.size(); ++j) {
      json.open('{').key("metric").text(name_of(row.metrics[j])).key("p").decimal(row.decisions[j].p);
      json.key("verdict").text(name_of(row.decisions[j].finding)).close('}');
    }
    json.close(']').key("report");
    write(json, all.reports[i]);
    json.close('}');
  }
  json.close(']').close('}');
  return std::move(json).written();
}

std::string as_json(const SwappedReport& report) {
  JsonWriter json;
  const auto& first = report.first.comparison;
  const auto& second = report.second.comparison;
  json.open('{').key("v").count(1).key("swapped").boolean(true);
  json.key("state").text(name_of(state_of(first, second)));
  json.key("a").text(first.side_a.name).key("b").text(first.side_b.name).key("pairs").count(first.pairs + second.pairs);
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
  return std::move(json).written();
}

}  // namespace weir::metrics::compare::report
