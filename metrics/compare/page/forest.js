"use strict";
// The verdicts as a forest plot: each metric's estimate with its interval, on the band of its margins.
const forest = (() => {
  /** Where the plot lies, in percent of the width. On a narrow page a metric's name stands above its row. */
  const wide = { row_height: 30, left: 22, width: 76, label: 5 }, narrow = { row_height: 46, left: 3, width: 94, label: -14 };

  function shape(parent, tag, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text) made.textContent = text;
    parent.append(made);
    return made;
  }

  function sentence(verdict) {
    const between = verdict.interval ? ` (${verdict.interval.map((end) => plots.percent(end)).join(" to ")})` : ", no interval";
    return `${verdict.word}: ${plots.percent(verdict.estimate)}${between}, margin ${plots.number(100 * verdict.margin)} %`;
  }

  function rows(parent, title, verdicts) {
    const known = verdicts.filter((verdict) => verdict.estimate !== null);
    if (!known.length) return;
    const { row_height, left, width, label } = parent.clientWidth < 560 ? narrow : wide;
    const ends = known.flatMap((verdict) => [verdict.estimate, verdict.margin, -verdict.margin, ...(verdict.interval || [])]);
    const [low, high] = plots.range(ends, false);
    const at = (value) => left + (width * (value - low)) / (high - low) + "%";
    const bottom = known.length * row_height;
    const figure = plots.element(parent, "figure", "", "forest");
    plots.element(figure, "figcaption", title);
    const svg = shape(figure, "svg", { height: bottom + 24, role: "img", "aria-label": title });

    const axis = shape(svg, "g", { class: "axis" });
    for (const tick of plots.ticks(low, high, label < 0 ? 3 : 6)) {
      const zero = Math.abs(tick) < 1e-12;
      shape(axis, "line", { x1: at(tick), x2: at(tick), y1: 0, y2: bottom, class: zero ? "zero" : "grid" });
      const digits = high - low < 0.06 ? 1 : 0;
      shape(axis, "text", { x: at(tick), y: bottom + 17, "text-anchor": "middle" }, zero ? "0" : plots.percent(tick, digits));
    }
    known.forEach((verdict, i) => {
      const middle = (i + 0.5) * row_height + (label < 0 ? 8 : 0);
      const row = shape(svg, "g", {});
      shape(row, "title", {}, sentence(verdict));
      const band = (2 * width * verdict.margin) / (high - low) + "%";
      row.append(shape(svg, "text", { x: 0, y: middle + label }, verdict.word));
      shape(row, "rect", { x: at(-verdict.margin), y: middle - 11, width: band, height: 22, class: "band" });
      shape(row, "line", { x1: at(0), x2: at(0), y1: middle - 11, y2: middle + 11, class: "zero" });
      const mark = shape(row, "g", { class: "row " + (verdict.withheld ? "none" : verdict.verdict) });
      if (verdict.interval) {
        const [from, to] = verdict.interval.map(at);
        shape(mark, "line", { x1: from, x2: to, y1: middle, y2: middle, class: "interval" });
        for (const end of [from, to]) shape(mark, "line", { x1: end, x2: end, y1: middle - 5, y2: middle + 5 });
      }
      shape(mark, "circle", { cx: at(verdict.estimate), cy: middle, r: 5, "stroke-width": 2, class: verdict.interval ? "" : "hollow" });
    });
    plots.element(figure, "p", "Left of 0 is better, right of it worse; for the length of answers shorter and longer.", "hint");
    if (known.some((verdict) => !verdict.interval)) plots.element(figure, "p", "A hollow point has no interval.", "hint");
  }

  return (parent, report) => {
    const of = ` of ${report.label_b} against ${report.label_a}`;
    rows(parent, "Change" + of + ", 95 % interval; shaded: the margin", report.verdicts.filter((one) => one.scale === "ratio"));
  };
})();
