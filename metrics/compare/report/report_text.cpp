// The report as headings, sentences and tables.
#include <algorithm>
#include <array>
#include <cmath>

#include "metrics/compare/comparison/conclusion.hpp"
#include "metrics/compare/comparison/why.hpp"
#include "metrics/compare/report/document.hpp"
#include "metrics/compare/report/side_report.hpp"
#include "metrics/compare/samples/log_reading.hpp"
#include "metrics/text.hpp"

namespace weir::metrics::compare::report {
namespace {

/// Says what the variance is that verdicts are by.
std::string basis_sentence(const comparison::Comparison& comparison) {
  if (const auto& history = comparison.history)
    return fmt::format(" No error is taken to be less than {:.1f} h of one configuration showed (", history->hours) +
           history->source + ").";
  return " There is no history of one configuration (eight hours of a control or of replicas, or --floor).";
}

std::string state_sentence(const comparison::Comparison& comparison) {
  const auto& window = comparison.window;
  if (const auto& apart = comparison.apart)
    return fmt::format("Side by side: {} requests of ", comparison.requests_a) + comparison.a + ' ' +
           comparison::stretch(apart->a) + fmt::format(", and {} of ", comparison.requests_b) + comparison.b + ' ' +
           comparison::stretch(apart->b) + '.';
  const auto what = comparison.mode == pairs::Mode::split
                        ? fmt::format("{} and {} requests", comparison.requests_a, comparison.requests_b)
                        : fmt::format("{} pairs", comparison.pairs);
  static constexpr std::array states{"Final: ", "Running: ", "Too few: "};
  std::string text = states[static_cast<std::size_t>(comparison.state)] + what;
  if (!window.is_moment()) {
    text +=
        ' ' + comparison::stretch(window) + fmt::format(", {:.0f} minutes with requests of both", comparison.minutes);
  } else if (window.to_us > window.from_us) {
    text += " at " + samples::format_rfc3339(window.from_us);  // The window of one pair is a microsecond long.
  }
  return text + '.' + basis_sentence(comparison);
}

/// Says by how much b may be worse: "+8.0 %", or of the length of answers "+-10.0 %".
std::string limit_of(const comparison::Verdict& verdict) {
  const auto& effect = verdict.effect;
  const double most = statistics::shown(verdict.figure, effect.worse_margin.value_or(effect.margin.high));
  return (effect.worse_margin ? "" : "+-") +
         change(verdict.figure, std::optional(most)).substr(effect.worse_margin ? 0 : 1);
}

void add_verdicts(Document& document, const Report& report) {
  const auto& comparison = report.comparison;
  const auto gate = gate_of(comparison);
  document.paragraph(conclusion_of(comparison, gate));
  document.heading("Verdicts: " + comparison.b + " against " + comparison.a, "verdicts");
  document.paragraph(state_sentence(comparison));
  Table table{{"", "verdict", comparison.a, comparison.b, "change", "95 % interval", "limit"}, {}};
  for (const auto& verdict : comparison.verdicts) {
    const bool stalls = verdict.figure == statistics::Figure::stalls;
    table.rows.push_back({std::string(comparison::word_for(verdict.figure)) + (stalls ? ", s/1000 requests" : ""),
                          std::string(verdict.withheld() ? "none" : name_of(verdict.finding)),
                          figure(verdict.figure, verdict.value_a), figure(verdict.figure, verdict.value_b),
                          change(verdict.figure, verdict.estimate), change(verdict.figure, verdict.interval),
                          limit_of(verdict)});
  }
  document.table(std::move(table));
  document.item("gate: " + std::string(name_of(gate.word)));
}

/// Adds what a request has or has not: faults, and who leaves the primary's text first.
void add_answers(Document& document, const Report& report) {
  const auto& comparison = report.comparison;
  const bool split = comparison.mode == pairs::Mode::split;
  document.heading("Faults and answers: " + comparison.b + " against " + comparison.a);
  Table table{{"", "verdict", split ? "conversations" : "pairs", "only " + comparison.a, "only " + comparison.b,
               split ? "" : "both", "points", "95 % interval", "limit"},
              {}};
  const auto points = [](double share) { return with_sign(100 * share, 2); };
  for (const auto& fault : comparison.faults) {
    if (fault.pairs.pairs == 0) continue;
    table.rows.push_back({std::string(comparison::word_for(fault.fault)), std::string(name_of(fault.finding)),
                          std::to_string(fault.pairs.pairs), std::to_string(fault.pairs.only_a),
                          std::to_string(fault.pairs.only_b), split ? "" : std::to_string(fault.pairs.both),
                          points(fault.share_b() - fault.share_a()),
                          points(fault.difference.low) + " to " + points(fault.difference.high), points(fault.margin)});
  }
  const auto& same = comparison.sameness;
  if (!split && same.compared > 0)
    table.rows.push_back({"first to leave the primary's text", std::string(name_of(comparison.answers.word)),
                          std::to_string(same.compared), std::to_string(same.first_a), std::to_string(same.first_b), "",
                          "", "", ""});
  document.table(std::move(table));
}

/// Adds the sentence of each verdict.
void add_reasons(Document& document, const Report& report) {
  const auto& comparison = report.comparison;
  document.folded("Why each verdict is what it is");
  for (const auto& verdict : comparison.verdicts)
    document.item(std::string(name_of(verdict.figure)) + ": " + why(verdict, comparison));
  for (const auto& fault : comparison.faults) {
    if (fault.pairs.pairs > 0) document.item(std::string(name_of(fault.fault)) + ": " + why(fault, comparison));
  }
  if (comparison.mode != pairs::Mode::split) document.item("answers: " + why(comparison.answers, comparison));
}

void add_notes(Document& document, const Report& report) {
  if (report.notes.empty()) return;
  document.heading("Notes");
  for (const auto& note : report.notes) document.item(note.sentence);
}

std::string of_compared(const pairs::Same& same) { return fmt::format("{} of {}", same.same, same.compared); }

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
void add_divergence(Document& document, const Report& report) {
  const auto& comparison = report.comparison;
  const auto& divergence = comparison.divergence;
  if (comparison.mode == pairs::Mode::split) return;
  document.folded("Without verdict");
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
  add_reasons(document, report);
  add_sides(document, report);
  add_load_points(document, report);
  add_divergence(document, report);
}

std::string written(const Document& document, Style style, Detail detail) {
  const auto folded = document.folded_headings();
  if (detail == Detail::full || folded.empty()) return document.written(style, detail);
  // In brief the text says what it leaves out.
  std::string more;
  for (const auto& heading : folded) {
    if (more.find(heading) == std::string::npos) more += (more.empty() ? "" : "; ") + heading;
  }
  Document hint;
  hint.paragraph("More with --details: " + more + '.');
  return document.written(style, detail) + '\n' + hint.written(style);
}

/// "+14.1 % worse", "none", or unknown_cell where the candidate has no such figure.
std::string candidate_cell(const comparison::Comparison& comparison, statistics::Figure figure) {
  const auto* const verdict = comparison.verdict_of(figure);
  if (verdict == nullptr) return unknown_cell;
  return change(figure, verdict->estimate) + ' ' +
         std::string(verdict->withheld() ? "none" : name_of(verdict->finding));
}

std::string candidate_cell(const comparison::Comparison& comparison, pairs::Fault fault) {
  const auto* const verdict = comparison.fault_of(fault);
  return verdict == nullptr || verdict->pairs.pairs == 0 ? unknown_cell : std::string(name_of(verdict->finding));
}

/// Adds a report's parts with its candidate's name before them.
void add_each(Document& document, const CandidatesReport& all) {
  for (const auto& report : all.reports) {
    document.heading("Candidate " + report.comparison.b);
    add(document, report);
  }
}

}  // namespace

Document document_of(const Report& report) {
  Document document;
  add(document, report);
  return document;
}

std::string as_text(const Report& report, Style style, Detail detail) {
  return written(document_of(report), style, detail);
}

Document summary_of(const CandidatesReport& all) {
  using statistics::Figure;
  Document document;
  const auto& first = all.reports.front().comparison;
  document.heading(std::to_string(all.reports.size()) + " candidates against " + first.a);
  document.paragraph(
      "The verdicts of this table hold for all candidates together: Holm's method over the figures of all, and for "
      "faults evidence for each candidate. Those of one candidate by itself (--b NAME) may say more.");
  static constexpr std::array columns{Figure::tpot, Figure::ttft, Figure::output_tokens};
  static constexpr std::array faults{pairs::Fault::slo, pairs::Fault::failed};
  Table table{{"candidate", "gate"}, {}};
  for (const auto figure : columns) table.header.emplace_back(comparison::word_for(figure));
  for (const auto fault : faults) table.header.emplace_back(comparison::word_for(fault));
  table.header.emplace_back("answers");
  for (const auto& [comparison, gate] : all.rows) {
    std::vector<std::string> row{comparison.b, std::string(name_of(gate.word))};
    for (const auto figure : columns) row.push_back(candidate_cell(comparison, figure));
    for (const auto fault : faults) row.push_back(candidate_cell(comparison, fault));
    row.emplace_back(comparison.mode == pairs::Mode::split ? unknown_cell : name_of(comparison.answers.word));
    table.rows.push_back(std::move(row));
  }
  document.table(std::move(table));
  return document;
}

std::string as_text(const CandidatesReport& all, Style style, Detail detail) {
  auto document = summary_of(all);
  if (detail == Detail::full) {
    add_each(document, all);
    return written(document, style, detail);
  }
  for (const auto& [comparison, gate] : all.rows) document.item(conclusion_of(comparison, gate));
  document.paragraph("More of one candidate with --b NAME, and of all with --details.");
  return written(document, style, detail);
}

}  // namespace weir::metrics::compare::report
