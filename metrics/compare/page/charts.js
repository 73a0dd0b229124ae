"use strict";
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
