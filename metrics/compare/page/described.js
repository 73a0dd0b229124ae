"use strict";
// Shows a document whose charts come as data: points joined by lines, and bars over logarithmic bins.
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const { number } = plots;

  function points(place, { title, hint, x_label, y_label, series }) {
    const every = series.flatMap((one) => one.points);
    if (!every.length) return;
    const axis = (label, of) => ({ label, range: plots.range(every.map(of), true), ticks: plots.ticks, format: number });
    plots.chart(place, {
      title, hint, legend: series.map((one) => one.name),
      x: axis(x_label, (one) => one.x), y: axis(y_label, (one) => one.y),
      draw: (u) => plots.inside(u, (ctx, x, y) => {
        for (const { name, points } of series) {
          const at = points.map((one) => [x(one.x), y(one.y)]);
          plots.line(ctx, at, plots.colour(name), 1.5);
          for (const [left, top] of at) plots.disc(ctx, left, top, 3.5, plots.colour(name));
        }
        plots.marks(ctx, every.map((one) => [x(one.x), y(one.y), one.mark]));
      }),
      readout: (x, y, u, event) => {
        const away = (one) => Math.hypot(u.valToPos(one.x, "x") - event.offsetX, u.valToPos(one.y, "y") - event.offsetY);
        const nearest = every.reduce((best, one) => (away(one) < away(best) ? one : best));
        return away(nearest) < 40 ? nearest.text : "";
      },
    });
  }

  function bars(place, { title, x_label, edges, series }) {
    const known = series.filter((one) => one.counts.some((count) => count > 0));
    if (!known.length) return;
    const logs = edges.map(Math.log), last = edges.length - 2;
    const totals = known.map((one) => one.counts.reduce((sum, count) => sum + count, 0));
    const heights = known.map((one, i) => edges.map((_, bin) => one.counts[Math.min(bin, last)] / totals[i]));
    plots.chart(place, {
      title, legend: known.map((one) => one.name),
      x: { label: x_label + " (logarithmic)", range: [logs[0], logs[last + 1]], ticks: plots.logTicks, format: (value) => number(Math.exp(value)) },
      y: { label: "share of the values, %", range: [0, 1.08 * Math.max(...heights.flat())], ticks: plots.ticks, format: (value) => number(100 * value) },
      data: [logs, ...heights],
      series: known.map((one) => ({
        paths: uPlot.paths.stepped({ align: 1 }), width: 1.5, points: { show: false },
        stroke: () => plots.colour(one.name), fill: () => plots.colour(one.name) + "40",
      })),
      readout: (x) => {
        const bin = logs.findIndex((edge) => edge > x) - 1;
        if (bin < 0) return "";
        const shares = known.map((one, i) => `${one.name} ${number((100 * one.counts[bin]) / totals[i])} %`);
        return `${number(edges[bin])} to ${number(edges[bin + 1])}: ${shares.join(", ")}`;
      },
    });
  }

  const kinds = { points, bars };
  function draw(place, charts) {
    const grid = plots.element(place, "div", "", "charts");
    for (const one of charts) kinds[one.kind](grid, one);
  }

  document.title = report.title;
  parts.title(report.title);
  parts.show({ parts: report.parts }, (about) => {
    const charts = report.charts[about];
    return charts ? { start: (place) => draw(place, charts) } : {};
  });
})();
