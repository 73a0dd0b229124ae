"use strict";
// Shows the report: its words and tables as they come, and the charts where they belong.
(() => {
  const page = document.getElementById("page");
  const sections = JSON.parse(document.getElementById("report").textContent);
  const { element } = plots;

  const words = new Set(["better", "worse", "longer", "shorter", "equivalent"]);

  function table(parent, { header, rows }) {
    const made = element(element(parent, "div", "", "scroll"), "table");
    const line = (place, cells, tag) => {
      const row = element(place, "tr");
      for (const text of cells) {
        const word = text.split(" ")[0];
        element(row, tag, text.replaceAll(" %", "\u00a0%"), words.has(word) ? word : "");
      }
    };
    line(element(made, "thead"), header, "th");
    const body = element(made, "tbody");
    for (const row of rows) line(body, row, "td");
  }

  /** What is drawn before a heading, before and behind the first table under it, and at the end. */
  const drawings = {
    verdicts: { table: forest },
    distributions: { before: charts.blocks, end: charts.distributions },
    load_points: { start: charts.load_points },
  };

  function show(section) {
    if (section.title) element(page, "h2", section.title, "window");
    const report = section.report;
    let place = page, list = null, todo = {};
    const draw = (when) => {
      const drawing = todo[when];
      delete todo[when];
      if (!drawing || !report) return;
      try {
        drawing(place, report);
      } catch (error) {  // The words are worth more than a chart.
        element(place, "p", "A chart is missing here: " + error.message, "hint");
        console.error(error);
      }
    };
    for (const part of section.parts) {
      if (part.item === undefined) list = null;
      if (part.heading !== undefined) {
        draw("end");
        todo = { ...drawings[part.about] };
        place = page;
        draw("before");
        place = element(page, "section");
        element(place, "h2", part.heading);
      } else if (part.paragraph !== undefined) {
        element(place, "p", part.paragraph);
      } else if (part.item !== undefined) {
        list = list || element(place, "ul");
        element(list, "li", part.item);
      } else {
        draw("start");
        table(place, part.table);
        draw("table");
      }
    }
    draw("end");
  }

  /** Which of the sides the comparison was about, so that they have the same colours everywhere. */
  function name_sides(report) {
    for (const side of report.sides) plots.colour(plots.label(side));
    const role_a = report.mode === "control" ? "shadow" : "primary";
    const role_b = report.mode === "split" ? "primary" : "shadow";
    const label_of = (name, role) => plots.label(report.sides.find((side) => side.name === name && side.role === role) || report.sides.find((side) => side.name === name) || { name });
    report.label_a = label_of(report.a, role_a);
    report.label_b = label_of(report.b, role_b);
  }

  const reports = sections.map((section) => section.report).filter(Boolean);
  for (const report of reports) name_sides(report);
  document.title = `${reports[0].b} against ${reports[0].a}: weir compare`;
  element(page, "h1", `${reports[0].b} against ${reports[0].a}`);
  for (const section of sections) show(section);
})();
