"use strict";
// Shows what a document is made of, headings, sentences and tables, and calls for the charts where they belong.
const parts = (() => {
  const page = document.getElementById("page");
  const { element } = plots;

  const words = new Set(["better", "worse", "longer", "shorter", "equivalent", "not_worse", "same", "differs"]);

  function table(parent, { header, rows }) {
    const made = element(element(parent, "div", "", "scroll"), "table");
    const line = (place, cells, tag) => {
      const row = element(place, "tr");
      cells.forEach((text, i) => {
        const word = i > 0 && text.split(" ").find((one) => words.has(one));
        const cell = element(row, tag, text.replaceAll(" %", "\u00a0%"), word);
        cell.dataset.column = header[i];  // What it is called where a narrow page has no head.
      });
    };
    line(element(made, "thead"), header, "th");
    const body = element(made, "tbody");
    for (const row of rows) line(body, row, "td");
  }

  /**
   * Shows a section. `drawings(about)` says what is drawn under the heading about that: a function for each of the places
   * before (the heading), start (before the first table), table (behind it) and end, which gets the place and `subject`.
   */
  function show(section, drawings, subject) {
    if (section.title) element(page, "h2", section.title, "window");
    let place = page, list = null, todo = {};
    const draw = (when) => {
      const drawing = todo[when];
      delete todo[when];
      if (!drawing) return;
      try {
        drawing(place, subject);
      } catch (error) {  // The words are worth more than a chart.
        element(place, "p", "A chart is missing here: " + error.message, "hint");
        console.error(error);
      }
    };
    for (const part of section.parts) {
      if (part.item === undefined) list = null;
      if (part.heading !== undefined) {
        draw("end");
        todo = { ...drawings(part.about) };
        place = page;
        draw("before");
        place = element(page, part.folded ? "details" : "section");
        element(part.folded ? element(place, "summary") : place, "h2", part.heading);
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

  const title = (text) => element(page, "h1", text);

  return { title, show };
})();
