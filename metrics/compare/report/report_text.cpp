// The report as headings, sentences and tables.
#include <algorithm>
#include <cmath>

#include "metrics/compare/comparison/conclusion.hpp"
#include "metrics/compare/comparison/gate.hpp"
#include "metrics/compare/comparison/why.hpp"
#include "metrics/compare/report/cells.hpp"
#include "metrics/compare/report/report_document.hpp"
#include "metrics/compare/report/side_tables.hpp"
#include "metrics/compare/samples/rfc3339.hpp"
#include "metrics/format.hpp"

namespace weir::metrics::compare::report {
namespace {

std::string seconds_text(double seconds) {
  if (seconds < 120) return format("%.0f s", seconds);
  if (seconds < 7200) return format("%.0f min", seconds / 60);
  return format("%.1f h", seconds / 3600);
}

/// Says when one may look.
std::string basis_sentence(const comparison::Comparison& comparison) {
  std::string text;
  if (const auto& history = comparison.history) {
    text += format(" Medians may be looked at at any time: their variance is that of %.1f h of one configuration (",
                   history->hours) +
            history->source + ").";
  } else {
    text += " There is no history of one configuration (eight hours of a control or of replicas, or --floor).";
  }
  if (const auto& look = comparison.look; look && look->number > 0) {
    const std::string of = format(" of %zu", comparison::look_seconds.size());
    text += (comparison.history ? " The other verdicts are" : " The verdicts are") +
            format(" those of look %u", look->number) + of + ", after " + seconds_text(look->at_s);
    text += look->next_s ? "; the next is after " + seconds_text(*look->next_s) + '.' : ", the last one.";
  } else if (look && look->next_s) {
    text += " The first look is after " + seconds_text(*look->next_s) + '.';
  } else if (comparison.declared && comparison.state == comparison::State::running) {
    text += " The declared window has not ended" +
            std::string(comparison.history ? "." : ", so there are no verdicts yet.");
  }
  return text;
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
      text = "Running: " + what;
      break;
    case comparison::State::too_few:
      text = "Too few: " + what;
      break;
  }
  if (window.to_us > window.from_us) {
    text += " from " + samples::format_rfc3339(window.from_us) + " to " + samples::format_rfc3339(window.to_us) +
            format(", in %zu blocks of %s", statistics::block_count, short_number(window.block_s()).c_str()) + " s";
  }
  text += '.' + basis_sentence(comparison);
  if (!comparison.needs_s) return text;
  text += " A window of " + seconds_text(*comparison.needs_s) + " would do";
  const bool latency_barred = std::ranges::any_of(comparison.verdicts, [](const comparison::Verdict& verdict) {
    return verdict.metric == statistics::Metric::ttft && verdict.load_forbids;
  });
  if (latency_barred)
    text += " for the length of answers, and none for latency, because the sides' loads differ (see the notes)";
  return text + '.';
}

void add_verdicts(Document& document, const Report& report) {
  const auto& comparison = report.comparison;
  const auto gate = gate_of(comparison);
  document.paragraph(conclusion_of(comparison, gate));
  document.heading("Verdicts: " + comparison.b + " against " + comparison.a, "verdicts");
  document.paragraph(state_sentence(comparison));
  Table table{{"metric", "verdict", "change", "95 % interval", "margin", "values"}, {}};
  for (const auto& verdict : comparison.verdicts) {
    table.rows.push_back({std::string(name_of(verdict.metric)),
                          std::string(verdict.withheld ? "none" : name_of(verdict.finding)), change(verdict.estimate),
                          change(verdict.interval), format("%.3g %%", 100 * verdict.margin),
                          std::to_string(verdict.count)});
  }
  document.table(std::move(table));
  document.item("gate: " + std::string(name_of(gate.word)));
  for (const auto& verdict : comparison.verdicts)
    document.item(std::string(name_of(verdict.metric)) + ": " + verdict.why);
}

/// Adds what needs no time to judge: faults and likeness, pair by pair.
void add_answers(Document& document, const Report& report) {
  const auto& comparison = report.comparison;
  if (comparison.mode == pairs::Mode::split) return;
  document.heading("Answers: " + comparison.b + " against " + comparison.a);
  Table table{{"answers", "verdict", "pairs", "only " + comparison.a, "only " + comparison.b, "both"}, {}};
  const auto add = [&](std::string_view name, std::string_view verdict, const statistics::Discordance& pairs) {
    table.rows.push_back({std::string(name), std::string(verdict), std::to_string(pairs.pairs()),
                          std::to_string(pairs.only_a()), std::to_string(pairs.only_b()),
                          std::to_string(pairs.both())});
  };
  for (const auto& fault : comparison.faults) {
    if (fault.pairs.pairs() > 0) add(name_of(fault.fault), name_of(fault.finding), fault.pairs);
  }
  const auto& same = comparison.sameness;
  table.rows.push_back({"leave the primary's text first", std::string(name_of(same.word)),
                        std::to_string(same.compared), std::to_string(same.first_a), std::to_string(same.first_b), ""});
  document.table(std::move(table));
  for (const auto& fault : comparison.faults) {
    if (fault.pairs.pairs() > 0) document.item(std::string(name_of(fault.fault)) + ": " + why(fault, comparison));
  }
  document.item("answers: " + why(same, comparison));
}

void add_notes(Document& document, const Report& report) {
  if (report.notes.empty()) return;
  document.heading("Notes");
  for (const auto& note : report.notes) document.item(note.sentence);
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

/// Adds the figures that are shown beside the verdicts and carry none.
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
  add_answers(document, report);
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
    document.paragraph("There are no verdicts, because a window has none.");
  } else {
    Table table{{"metric", "verdict", "configuration", "95 % interval", "GPU", "95 % interval", "margin"}, {}};
    for (const auto& verdict : report.verdicts) {
      table.rows.push_back({std::string(name_of(verdict.metric)), std::string(name_of(verdict.decision.finding)),
                            comparison::percent(verdict.configuration), change(verdict.configuration_interval),
                            comparison::percent(verdict.gpu), change(verdict.gpu_interval),
                            format("%.3g %%", 100 * verdict.margin)});
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
