"use strict";
// Shows the comparison: its words and tables as they come, and the charts where they belong.
(() => {
  const sections = JSON.parse(document.getElementById("report").textContent);

  /** What is drawn before a heading, before and behind the first table under it, and at the end. */
  const drawings = {
    verdicts: { table: forest },
    distributions: { before: charts.blocks },
    load_points: { start: charts.load_points },
  };

  /** The sides that are shown, and the compared ones first, so that they have the same colours everywhere. */
  function choose_sides(report) {
    report.shown = report.sides.filter((side) => side.compared || report.all_sides);
    for (const label of [report.label_a, report.label_b]) plots.colour(label);
  }

  const reports = sections.map((section) => section.report).filter(Boolean);
  for (const report of reports) choose_sides(report);
  const candidates = new Set(reports.map((report) => report.label_b));
  const title = `${[...candidates].join(", ")} against ${reports[0].label_a}`;
  document.title = `${title}: weir compare`;
  parts.title(title);
  for (const section of sections) {
    parts.show(section, (about) => (section.report && drawings[about]) || {}, section.report);
  }
})();
