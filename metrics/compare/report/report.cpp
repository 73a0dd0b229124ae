#include "metrics/compare/report/report.hpp"

#include <algorithm>
#include <limits>

#include "metrics/compare/comparison/conclusion.hpp"
#include "metrics/compare/comparison/why.hpp"
#include "metrics/compare/report/side_report.hpp"
#include "metrics/compare/samples/log_reading.hpp"
#include "metrics/compare/sides/side_choice.hpp"

namespace weir::metrics::compare::report {
namespace {

/// Returns the window of the comparison; all that there is if the comparison has none.
statistics::Window window_of(const comparison::Comparison& comparison, std::span<const samples::Sample> samples) {
  if (comparison.window.to_us > comparison.window.from_us || samples.empty()) return comparison.described();
  const auto [first, last] = std::ranges::minmax_element(samples, {}, &samples::Sample::dispatched_us);
  return {first->dispatched_us, last->dispatched_us + 1};
}

/// Sides of the two selections come first, a's before b's, and primaries before shadows.
std::vector<sides::SideKey> in_order(std::vector<sides::SideKey> sides, const comparison::Options& options) {
  const auto place = [&](const sides::SideKey& side) {
    const auto is = [&](const sides::Selection& selection) {
      return selection.by == sides::By::role ? selection.role == side.role : selection.name == side.name;
    };
    return is(options.a) ? 0 : is(options.b) ? 1 : 2;
  };
  std::ranges::stable_sort(sides, {}, place);
  return sides;
}

/// True if the comparison is about this side.
bool is_compared(const sides::SideKey& side, std::span<const samples::Sample* const> held,
                 const comparison::Options& options, const comparison::Comparison& comparison) {
  const auto is = [&](const sides::Selection& selection, Role role) {
    if (side.role != role) return false;
    return std::ranges::any_of(held, [&](const samples::Sample* sample) { return selection.holds(*sample); });
  };
  return is(options.a, comparison.side_a.role) || is(options.b, comparison.side_b.role);
}

/// Returns the name of the [[shadow]] that the samples are of; "" if there are several.
std::string_view shadow_of(std::span<const samples::Sample* const> held, const samples::Names& names) {
  samples::Names::Name found = 0;
  for (const auto* sample : held) {
    if (found != 0 && sample->shadow != found) return {};
    found = sample->shadow;
  }
  return names.text(found);
}

/// Returns the window in which a side is described. One that did not run beside the other has its own.
statistics::Window window_of(const comparison::Comparison& comparison, const statistics::Window& common,
                             std::span<const samples::Sample* const> held) {
  if (!comparison.apart || held.empty()) return common;
  const auto [first, last] = std::ranges::minmax(held, {}, &samples::Sample::dispatched_us);
  return {std::max(common.from_us, first->dispatched_us), std::min(common.to_us, last->dispatched_us + 1)};
}

}  // namespace

Report make_report(std::span<const samples::Sample> samples, const samples::Names& names,
                   const ReportOptions& options) {
  Report report;
  report.by = options.by;
  report.slo = options.comparison.slo;
  report.comparison = comparison::compare(samples, names, options.comparison);
  sides::SideOptions described;
  described.window = window_of(report.comparison, samples);
  described.objective.slo = report.slo;
  // A shadow has no client, so what is mirrored is judged from the moment it was sent.
  described.objective.since =
      report.comparison.mode == pairs::Mode::split ? samples::Since::arrival : samples::Since::dispatch;
  described.cost_per_hour = options.cost_per_hour;

  report.all_sides = options.all_sides;
  const statistics::Window common = described.window;
  const auto sides = in_order(sides_of(samples, names, options.by), options.comparison);
  auto held = samples_of(sides, samples, options.by);
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const auto shadow = shadow_of(held[i], names);
    const bool compared = is_compared(sides[i], held[i], options.comparison, report.comparison);
    std::erase_if(held[i], [&](const samples::Sample* sample) { return !common.holds(sample->dispatched_us); });
    described.window = window_of(report.comparison, common, held[i]);
    auto side = describe(sides[i].text(names, options.by), sides[i].role, held[i], names, described);
    side.compared = compared;
    const bool alone = std::ranges::count(sides, sides[i].name, &sides::SideKey::name) == 1;
    const bool named = sides[i].role == Role::shadow && !alone && options.by != sides::By::role;
    side.label = named ? comparison::shadow_label(side.name, shadow) : side.name;
    report.sides.push_back(std::move(side));
  }
  report.notes = report.comparison.notes;
  return report;
}

CandidatesReport together(std::vector<Report> reports) {
  CandidatesReport all{std::move(reports), {}};
  std::vector<statistics::Effect> family;
  for (const Report& report : all.reports)
    for (const auto& verdict : report.comparison.verdicts) family.push_back(verdict.effect);
  const auto decisions = statistics::decide(family);
  std::size_t next = 0;
  for (const Report& report : all.reports) {
    CandidatesReport::Row row{report.comparison, {}};
    for (auto& verdict : row.comparison.verdicts) {
      const auto& decision = decisions[next++];
      verdict.p = decision.p;
      verdict.held_back = decision.held_back;
      verdict.finding = finding_among(verdict, decision);
    }
    for (auto& fault : row.comparison.faults)
      fault.finding = finding_among(fault, static_cast<unsigned>(all.reports.size()));
    row.gate = gate_of(row.comparison);
    all.rows.push_back(std::move(row));
  }
  return all;
}

// The report as JSON. Other programs read it: members may be added, and none changes.

namespace {

using report::write;

/// Returns a figure's margin as its estimate is written.
std::optional<double> shown_margin(const comparison::Verdict& verdict, std::optional<double> margin) {
  return margin ? std::optional(statistics::shown(verdict.figure, *margin)) : std::nullopt;
}

void write(JsonWriter& json, const comparison::Verdict& verdict, const comparison::Comparison& comparison) {
  json.open('{').key("metric").text(name_of(verdict.figure)).key("word").text(comparison::word_for(verdict.figure));
  json.key("scale").text(verdict.figure == statistics::Figure::stalls ? "difference" : "ratio");
  json.key("count").count(verdict.count);
  json.key("value_a").decimal(verdict.value_a).key("value_b").decimal(verdict.value_b);
  json.key("estimate").decimal(verdict.estimate).key("interval");
  write(json, verdict.interval);
  json.key("margin").decimal(shown_margin(verdict, verdict.effect.margin.high));
  json.key("worse_margin").decimal(shown_margin(verdict, verdict.effect.worse_margin));
  json.key("p").decimal(verdict.p);
  json.key("verdict").text(name_of(verdict.finding)).key("withheld").boolean(verdict.withheld());
  json.key("why").text(why(verdict, comparison)).key("needs_s").decimal(verdict.needs_s);
  json.key("blocks").open('[');
  for (const double value : verdict.parts) json.decimal(value);
  json.close(']').close('}');
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

void write(JsonWriter& json, const comparison::FaultVerdict& fault, const comparison::Comparison& comparison) {
  json.open('{').key("fault").text(name_of(fault.fault)).key("word").text(comparison::word_for(fault.fault));
  json.key("verdict").text(name_of(fault.finding));
  json.key("pairs").count(fault.pairs.pairs).key("both").count(fault.pairs.both);
  json.key("only_a").count(fault.pairs.only_a).key("only_b").count(fault.pairs.only_b);
  json.key("share_a").decimal(fault.share_a()).key("share_b").decimal(fault.share_b());
  json.key("causes_a").decimal(fault.causes.a).key("causes_b").decimal(fault.causes.b).key("difference");
  write(json, std::optional(fault.difference));
  json.key("evidence_more_in_a").decimal(fault.more_in_a).key("evidence_more_in_b").decimal(fault.more_in_b);
  json.key("margin").decimal(fault.margin).key("why").text(why(fault, comparison));
  json.key("needs_s").decimal(fault.needs_s).close('}');
}

void write(JsonWriter& json, std::string_view name, const pairs::Leaving& leaving) {
  json.key(name).open('{').key("differ").count(leaving.requests).key("from_start").count(leaving.at_start);
  json.key("per_thousand_tokens").decimal(leaving.per_thousand_tokens()).close('}');
}

void write_sameness(JsonWriter& json, const comparison::Comparison& comparison) {
  const auto& found = comparison.sameness;
  json.key("sameness").open('{').key("answers").text(name_of(comparison.answers.word));
  json.key("why").text(why(comparison.answers, comparison));
  json.key("control").boolean(found.control).key("compared").count(found.compared);
  json.key("repeated").count(found.repeated);
  json.key("first_a").count(found.first_a).key("first_b").count(found.first_b);
  json.key("hazard_ratio").decimal(found.hazard_ratio());
  json.key("evidence_differs").decimal(found.differs()).key("evidence_same").decimal(found.alike());
  json.key("evidence_from_start").decimal(found.from_start());
  write(json, "a", found.a);
  write(json, "b", found.b);
  json.close('}');
}

void write(JsonWriter& json, const std::optional<comparison::HistoryUsed>& history) {
  if (!history) return void(json.key("history").null());
  json.key("history").open('{').key("hours").decimal(history->hours).key("source").text(history->source).close('}');
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

void write_window(JsonWriter& json, std::string_view name, const std::optional<statistics::Window>& known) {
  if (!known) return void(json.key(name).null());
  const statistics::Window& window = *known;
  json.key(name).open('{').key("from").text(samples::format_rfc3339(window.from_us));
  json.key("to").text(samples::format_rfc3339(window.to_us)).close('}');
}

/// When each side ran, if not at the same time.
void write(JsonWriter& json, const std::optional<comparison::Apart>& apart) {
  if (!apart) return void(json.key("apart").null());
  json.key("apart").open('{');
  write_window(json, "a", apart->a);
  write_window(json, "b", apart->b);
  json.close('}');
}

void write_changes(JsonWriter& json, std::span<const comparison::Changed> changes) {
  json.key("changes").open('[');
  for (const auto& one : changes) {
    json.open('{').key("metric").text(name_of(one.figure)).key("since").text(samples::format_rfc3339(one.since_us));
    json.key("by").decimal(one.by).close('}');
  }
  json.close(']');
}

void write(JsonWriter& json, const Report& report) {
  const auto& comparison = report.comparison;
  json.open('{').key("v").count(1).key("state").text(name_of(comparison.state));
  json.key("mode").text(name_of(comparison.mode));
  json.key("a").text(comparison.side_a.name).key("a_role").text(name_of(comparison.side_a.role));
  json.key("b").text(comparison.side_b.name).key("b_role").text(name_of(comparison.side_b.role));
  json.key("pairs").count(comparison.pairs);
  json.key("conversations_a").count(comparison.conversations_a);
  json.key("conversations_b").count(comparison.conversations_b).key("window").open('{');
  // An empty window has neither beginning nor end.
  const auto& window = comparison.window;
  const bool any = window.to_us > window.from_us;
  json.key("from").known_text(any ? samples::format_rfc3339(window.from_us) : std::string());
  json.key("to").known_text(any ? samples::format_rfc3339(window.to_us) : std::string());
  json.key("minutes").decimal(comparison.minutes).close('}');
  write_window(json, "held", comparison.held);
  json.key("needs_s").decimal(comparison.needs_s).key("declared").boolean(comparison.declared);
  write(json, comparison.history);
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
  for (const auto& verdict : comparison.verdicts) write(json, verdict, comparison);
  json.close(']');
  json.key("faults").open('[');
  for (const auto& fault : comparison.faults) write(json, fault, comparison);
  json.close(']');
  write_sameness(json, comparison);
  write_notes(json, report.notes);
  write(json, comparison.divergence);
  json.key("sampled").count(comparison.sampled).key("warming").count(comparison.warming);
  json.key("lost").count(comparison.lost);
  write_counts(json.key("unfinished"), comparison.unfinished);
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
    for (const auto& verdict : row.comparison.verdicts) {
      json.open('{').key("metric").text(name_of(verdict.figure)).key("p").decimal(verdict.p);
      json.key("verdict").text(name_of(verdict.finding)).close('}');
    }
    json.close(']').key("report");
    write(json, all.reports[i]);
    json.close('}');
  }
  json.close(']').close('}');
  return std::move(json).written();
}

}  // namespace weir::metrics::compare::report
