"use strict";
// Shows the comparison: its words and tables as they come, and the charts where they belong.
(() => {
  const sections = JSON.parse(document.getElementById("report").textContent);

  /** What is drawn before a heading, before and behind the first table under it, and at the end. */
  const drawings = {
    verdicts: { table: forest },
    distributions: { before: charts.blocks, end: charts.distributions },
    load_points: { start: charts.load_points },
  };

  /** Which of the sides the comparison was about, so that they have the same colours everywhere. */
  function name_sides(report) {
    for (const side of report.sides) plots.colour(plots.label(side));
    const label_of = (name, role) => plots.label(report.sides.find((side) => side.name === name && side.role === role) || report.sides.find((side) => side.name === name) || { name });
    report.label_a = label_of(report.a, report.a_role);
    report.label_b = label_of(report.b, report.b_role);
  }

  const reports = sections.map((section) => section.report).filter(Boolean);
  for (const report of reports) name_sides(report);
  const title = `${reports[0].label_b} against ${reports[0].label_a}`;
  document.title = `${title}: weir compare`;
  parts.title(title);
  for (const section of sections) {
    parts.show(section, (about) => (section.report && drawings[about]) || {}, section.report);
  }
})();
