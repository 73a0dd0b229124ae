#include "lab/commands/run_table.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>

#include "lab/load/ended_early.hpp"
#include "lab/load/request_lines.hpp"

namespace weir::lab::commands {
namespace {

/// True if standard output may have colours (https://no-color.org).
bool coloured() { return ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr; }

}  // namespace

int run_table(const TableRun& asked, const std::function<std::unique_ptr<experiment::Table>()>& table) {
  refuse_mixed({{"--markdown", asked.files.markdown},
                {"--csv", asked.files.csv},
                {"--html", asked.files.html},
                {"--json", asked.files.json},
                {"--log", asked.files.log}},
               asked.inputs);
  Sink markdown(asked.files.markdown), csv(asked.files.csv), html(asked.files.html), json(asked.files.json),
      log(asked.files.log);
  const auto run = table();
  const load::Interrupt interrupt;
  const auto configs = asked.rows.empty() ? std::vector{asked.label} : asked.rows;
  std::vector<load::RequestLines> lines(configs.begin(), configs.end());
  std::vector<load::EndedEarly> early(configs.size());
  const auto on_begin = [&](const experiment::Point& point) { asked.tell(point.begins); };
  const auto on_result = [&](const experiment::Point& point, const load::Result& result) {
    const std::size_t config = asked.rows.empty() ? 0 : point.row;
    if (log) log.stream() << lines[config].line(result) << '\n';
    if (asked.ignore_eos) early[config].add(result);
  };
  const bool cut = !experiment::run(*run, interrupt, on_begin, on_result);
  const experiment::Report report = run->report(cut);

  if (markdown) markdown.stream() << report.page.markdown();
  if (csv) csv.stream() << report.csv;
  if (html) html.stream() << chart::as_html(report.title, report.page, report.charts);
  if (json) json.stream() << report.json << '\n';
  const std::array files{&markdown, &csv, &html, &json, &log};
  if (std::ranges::none_of(files, &Sink::to_stdout)) std::cout << experiment::as_text(report, coloured());
  const bool flushed = std::ranges::all_of(files, &Sink::flush) && std::cout.flush();
  const bool written = said_unless(flushed, asked.command);
  for (std::size_t i = 0; i < early.size(); ++i) {
    const auto warning = early[i].warning();
    if (!warning) continue;
    std::cerr << asked.command << ": warning: " << (!asked.rows.empty() ? asked.rows[i] + ": " : "") << *warning
              << '\n';
  }
  for (const std::string& note : report.notes) std::cerr << asked.command << ": " << note << '\n';
  return written && report.whole ? 0 : 1;
}

}  // namespace weir::lab::commands
