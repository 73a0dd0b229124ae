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

// The charts of one report: blocks over time, latency against throughput.
const charts = (() => {
  const { number, percent } = plots;

  function grid(parent) {
    return plots.element(parent, "div", "", "charts");
  }

  /** A figure's values in the tenths of the window, with its estimate, interval and margins. */
  function block_chart(parent, report, verdict) {
    const from = Date.parse(report.window.from) / 1000, to = Date.parse(report.window.to) / 1000;
    const length = (to - from) / verdict.blocks.length;
    const blocks = verdict.blocks.map((value, i) => ({ x: from + (i + 0.5) * length, y: value, number: i + 1 })).filter((one) => one.y !== null);
    const span = [from - 0.02 * (to - from), to + 0.02 * (to - from)];
    const ends = [...blocks.map((one) => one.y), verdict.margin, -verdict.margin, ...(verdict.interval || [])];
    const [low, high] = plots.range(ends, false);
    plots.chart(parent, {
      title: `${verdict.word}: the change in each part`,
      x: { label: "time (UTC), from " + report.window.from.slice(0, 10), range: span, ticks: plots.timeTicks, format: plots.timeText },
      y: { label: "change, %", range: [low, high], ticks: plots.ticks, format: (value) => number(100 * value) },
      behind: (u) => plots.inside(u, (ctx, x, y) => {
        if (!verdict.interval) return;
        const [bottom, top] = verdict.interval.map(y);
        ctx.fillStyle = plots.css("band");
        ctx.fillRect(x(from), top, x(to) - x(from), bottom - top);
      }),
      draw: (u) => plots.inside(u, (ctx, x, y) => {
        const across = (value, colour, width, dash) => plots.line(ctx, [[x(span[0]), y(value)], [x(span[1]), y(value)]], colour, width, dash);
        across(0, plots.css("faint"), 1);
        for (const margin of [verdict.margin, -verdict.margin]) across(margin, plots.css("faint"), 1, [5, 4]);
        if (verdict.estimate !== null) across(verdict.estimate, plots.css("ink"), 1.5);
        const colour = plots.colour(report.label_b);
        for (const one of blocks) {
          plots.line(ctx, [[x(one.x - 0.42 * length), y(one.y)], [x(one.x + 0.42 * length), y(one.y)]], colour, 2);
          plots.disc(ctx, x(one.x), y(one.y), 3, colour);
        }
      }),
      readout: (x) => {
        const one = blocks.find((block) => Math.abs(block.x - x) <= length / 2);
        return one && `part ${one.number}, from ${plots.clock(one.x - length / 2, 19)}: ${percent(one.y)}`;
      },
    });
  }

  function blocks(parent, report) {
    const known = report.verdicts.filter((verdict) => verdict.scale === "ratio" && verdict.blocks.some((value) => value !== null));
    if (!report.window.from || !known.length) return;
    const section = plots.element(parent, "section");
    plots.element(section, "h2", "The change over time");
    const interval = known.some((verdict) => verdict.interval) ? " with its 95 % interval (shaded)" : "";
    plots.element(section, "p", `The value of each tenth of the window (points), the estimate (thick line)${interval}, 0 (thin line) and the margins (dashed).`);
    const place = grid(section);
    for (const verdict of known) block_chart(place, report, verdict);
  }

  function with_interval(measured, factor, unit) {
    const range = measured.interval ? ` (${measured.interval.map((end) => number(factor * end)).join(" to ")})` : "";
    return number(factor * measured.value) + range + unit;
  }

  function point_sentence(label, point) {
    let text = `${label}, ${number(point.in_flight)} in flight, ${point.minutes} min: ` + with_interval(point.output_tokens_per_second, 1, " tokens/s");
    if (point.tokens_per_second_per_user) text += ", " + with_interval(point.tokens_per_second_per_user, 1, " per user");
    if (point.ttft_s) text += ", TTFT " + with_interval(point.ttft_s, 1000, " ms");
    return text;
  }

  /** Intervals of two or three minutes are long. They may not make the chart so wide that its points lie on a heap. */
  function axis_range(measured) {
    const [low, high] = plots.range(measured.map((one) => one.value), true);
    const room = 0.15 * (high - low);
    const ends = measured.flatMap((one) => one.interval || []).map((end) => Math.min(high + room, Math.max(low - room, end)));
    const wide = [Math.min(low, ...ends), Math.max(high, ...ends)];
    return measured.every((one) => one.value >= 0) ? [Math.max(0, wide[0]), wide[1]] : wide;
  }

  /** Points with intervals both ways; `path(points)` chooses those that a line joins, in its order. */
  function point_chart(parent, { title, hint, x_label, y_label, sides, x_of, y_of, y_factor = 1, path }) {
    const groups = sides.map((side) => {
      const label = side.label;
      return { label, points: side.load_points.filter((point) => x_of(point) && y_of(point)).map((point) => ({ x: x_of(point), y: y_of(point), point, text: point_sentence(label, point) })) };
    }).filter((group) => group.points.length);
    if (!groups.length) return;
    const every = groups.flatMap((group) => group.points);
    const x_range = axis_range(every.map((one) => one.x)), y_range = axis_range(every.map((one) => one.y));
    plots.chart(parent, {
      title, hint, legend: groups.map((group) => group.label),
      x: { label: x_label, range: x_range, ticks: plots.ticks, format: number },
      y: { label: y_label, range: y_range, ticks: (low, high, count) => plots.ticks(low * y_factor, high * y_factor, count).map((value) => value / y_factor), format: (value) => number(y_factor * value) },
      draw: (u) => plots.inside(u, (ctx, x, y) => {
        const labels = [];
        for (const { label, points } of groups) {
          const colour = plots.colour(label);
          for (const one of points) {
            const at = [x(one.x.value), y(one.y.value)];
            if (one.x.interval) plots.line(ctx, one.x.interval.map((end) => [x(end), at[1]]), colour + "80", 1);
            if (one.y.interval) plots.line(ctx, one.y.interval.map((end) => [at[0], y(end)]), colour + "80", 1);
          }
          plots.line(ctx, path(points).map((one) => [x(one.x.value), y(one.y.value)]), colour, 1.5);
          for (const one of points) {
            plots.disc(ctx, x(one.x.value), y(one.y.value), 3.5, colour);
            labels.push([x(one.x.value), y(one.y.value), number(Math.round(one.point.in_flight))]);
          }
        }
        plots.marks(ctx, labels);
      }),
      readout: (x, y, u, event) => {
        const away = (one) => Math.hypot(u.valToPos(one.x.value, "x") - event.offsetX, u.valToPos(one.y.value, "y") - event.offsetY);
        const nearest = every.reduce((best, one) => (away(one) < away(best) ? one : best));
        return away(nearest) < 40 ? nearest.text : "";
      },
    });
  }

  /** Returns the points that no other beats in both directions, by x. */
  function frontier(points) {
    const beaten = (one) => points.some((other) => other.x.value >= one.x.value && other.y.value >= one.y.value && (other.x.value > one.x.value || other.y.value > one.y.value));
    return points.filter((one) => !beaten(one)).sort((one, other) => one.x.value - other.x.value);
  }

  function load_points(parent, report) {
    const place = grid(parent);
    const output = (point) => point.output_tokens_per_second;
    const common = "A point for each number in flight, which stands beside it; the bars are 95 % intervals and may leave the chart. ";
    point_chart(place, {
      title: "Throughput of one GPU against the speed each user sees", sides: report.shown,
      hint: common + "The line is each side's frontier: points that no other beats in both directions.",
      x_label: "output tokens/s per user (1 / TPOT)", y_label: "output tokens/s per GPU",
      x_of: (point) => point.tokens_per_second_per_user, y_of: output, path: frontier,
    });
    point_chart(place, {
      title: "TTFT against throughput", sides: report.shown, hint: common + "The line goes from low load to high.",
      x_label: "output tokens/s per GPU", y_label: "TTFT, ms", x_of: output, y_of: (point) => point.ttft_s, y_factor: 1000,
      path: (points) => points,
    });
  }

  return { blocks, load_points };
})();

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
