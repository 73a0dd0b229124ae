// The report as headings, sentences and tables.
#include <algorithm>
#include <array>
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
  if (const auto& apart = comparison.apart)
    return format("Side by side: %llu requests of ", static_cast<unsigned long long>(comparison.requests_a)) +
           comparison.a + ' ' + comparison::stretch(apart->a) +
           format(", and %llu of ", static_cast<unsigned long long>(comparison.requests_b)) + comparison.b + ' ' +
           comparison::stretch(apart->b) + '.';
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
  if (!window.is_moment()) {
    text += ' ' + comparison::stretch(window) +
            (comparison.held ? ""
                             : format(", in %zu blocks of %s", statistics::block_count,
                                      short_number(window.block_s()).c_str()) +
                                   " s");
  } else if (window.to_us > window.from_us) {
    text += " at " + samples::format_rfc3339(window.from_us);  // The window of one pair is a microsecond long.
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
  Table table{{"", "verdict", comparison.a, comparison.b, "change", "95 % interval"}, {}};
  for (const auto& verdict : comparison.verdicts) {
    table.rows.push_back({std::string(comparison::word_for(verdict.metric)),
                          std::string(verdict.withheld ? "none" : name_of(verdict.finding)),
                          figure(verdict.metric, verdict.value_a), figure(verdict.metric, verdict.value_b),
                          change(verdict.estimate), change(verdict.interval)});
  }
  document.table(std::move(table));
  document.item("gate: " + std::string(name_of(gate.word)));
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
}

/// "20 %, or 0.2 points"; "-" of a figure that is not asked.
std::string worse_by(const comparison::Verdict& verdict) {
  const std::string margin = verdict.worse_margin ? format("%.3g %%", 100 * *verdict.worse_margin) : "";
  const std::string points = verdict.worse_points ? format("%.3g points", 100 * *verdict.worse_points) : "";
  if (margin.empty() && points.empty()) return unknown_cell;
  return margin + (margin.empty() || points.empty() ? "" : ", or ") + points;
}

/// Adds the sentence of each verdict.
void add_reasons(Document& document, const Report& report) {
  const auto& comparison = report.comparison;
  document.folded("Why each verdict is what it is");
  Table table{{"", "in JSON", "margin", "not worse by", "values"}, {}};
  for (const auto& verdict : comparison.verdicts) {
    table.rows.push_back({std::string(comparison::word_for(verdict.metric)), std::string(name_of(verdict.metric)),
                          format("%.3g %%", 100 * verdict.margin),
                          worse_by(verdict),
                          std::to_string(verdict.count)});
  }
  document.table(std::move(table));
  for (const auto& verdict : comparison.verdicts)
    document.item(std::string(name_of(verdict.metric)) + ": " + verdict.why);
  if (comparison.mode == pairs::Mode::split) return;
  for (const auto& fault : comparison.faults) {
    if (fault.pairs.pairs() > 0) document.item(std::string(name_of(fault.fault)) + ": " + why(fault, comparison));
  }
  document.item("answers: " + why(comparison.sameness, comparison));
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
  document.folded("Without verdict");
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
  add_reasons(document, report);
  add_sides(document, report);
  add_strata(document, report, report.by_prompt_size, "By prompt size");
  add_strata(document, report, report.by_turn, "By turn");
  add_load_points(document, report);
  add_cheapest(document, report);
  add_explorations(document, report);
}

std::string written(const Document& document, Style style, Detail detail) {
  // In brief the text says what it leaves out.
  Document hint;
  if (const auto folded = document.folded_headings(); detail == Detail::brief && !folded.empty()) {
    std::string more;
    for (const auto& heading : folded) {
      if (more.find(heading) == std::string::npos) more += (more.empty() ? "" : "; ") + heading;
    }
    hint.paragraph("More with --details: " + more + '.');
  }
  const auto both = [&](auto write) { return write(document) + (hint.empty() ? "" : '\n' + write(hint)); };
  switch (style) {
    case Style::plain:
      return both([&](const Document& one) { return one.plain(detail); });
    case Style::colour:
      return both([&](const Document& one) { return one.coloured(detail); });
    case Style::markdown:
      return both([&](const Document& one) { return one.markdown(detail); });
  }
  return {};
}

/// "+14.1 % worse", "none", or unknown_cell where the candidate has no such metric.
std::string candidate_cell(const CandidatesReport& all, std::size_t candidate, statistics::Metric metric) {
  const auto& row = all.rows[candidate];
  const auto found = std::ranges::find(row.metrics, metric);
  if (found == row.metrics.end()) return unknown_cell;
  const auto& verdicts = all.reports[candidate].comparison.verdicts;
  const auto verdict = std::ranges::find(verdicts, metric, &comparison::Verdict::metric);
  const auto& decision = row.decisions[static_cast<std::size_t>(found - row.metrics.begin())];
  return change(verdict->estimate) + ' ' + std::string(verdict->withheld ? "none" : name_of(decision.finding));
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

std::string as_text(const SwappedReport& report, Style style, Detail detail) {
  auto document = summary_of(report);
  document.heading("First window");
  add(document, report.first);
  document.heading("Second window");
  add(document, report.second);
  return written(document, style, detail);
}

Document summary_of(const CandidatesReport& all) {
  using statistics::Metric;
  Document document;
  const auto& first = all.reports.front().comparison;
  std::size_t figures = 0;
  for (const auto& row : all.rows) figures += row.metrics.size();
  document.heading(std::to_string(all.reports.size()) + " candidates against " + first.a);
  document.paragraph("The verdicts of this table hold for all candidates together: Holm's method over " +
                     std::to_string(figures) +
                     " figures, and for faults evidence for each candidate. Those of one candidate by itself (--b "
                     "NAME) may say more.");
  static constexpr std::array columns{Metric::tpot, Metric::ttft, Metric::slo, Metric::output_tokens_mean};
  Table table{{"candidate", "gate"}, {}};
  for (const auto metric : columns) table.header.emplace_back(comparison::word_for(metric));
  table.header.insert(table.header.end(), {"failed", "answers"});
  for (std::size_t i = 0; i < all.reports.size(); ++i) {
    const auto& comparison = all.reports[i].comparison;
    std::vector<std::string> row{comparison.b, std::string(name_of(all.rows[i].gate.word))};
    for (const auto metric : columns) row.push_back(candidate_cell(all, i, metric));
    const auto& failed = comparison.faults[static_cast<std::size_t>(pairs::Fault::failed)];
    const auto comparisons = static_cast<unsigned>(all.reports.size());
    row.emplace_back(failed.pairs.pairs() > 0 ? name_of(failed.judge(comparisons)) : unknown_cell);
    row.emplace_back(comparison.mode == pairs::Mode::split ? unknown_cell : name_of(comparison.sameness.word));
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
  for (const auto& report : all.reports) document.item(conclusion_of(report.comparison, gate_of(report.comparison)));
  document.paragraph("More of one candidate with --b NAME, and of all with --details.");
  return written(document, style, detail);
}

}  // namespace weir::metrics::compare::report
