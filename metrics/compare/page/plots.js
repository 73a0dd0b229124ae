"use strict";
// Axes, ticks and colours that all charts share. Whatever comes from the report is shown as text alone.
const plots = (() => {
  const all = [];
  const names = [];

  /** Makes an element with text in it. */
  function element(parent, tag, text, name) {
    const made = document.createElement(tag);
    if (text) made.textContent = text;
    if (name) made.className = name;
    parent.append(made);
    return made;
  }

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  /** A side has one colour in all charts. */
  function colour(label) {
    if (!names.includes(label)) names.push(label);
    return css("side" + (names.indexOf(label) % 6));
  }

  /** Writes three digits that count, as the tables do. */
  function number(value) {
    if (Math.abs(value) >= 100) return value.toFixed(0);
    return String(Number(value.toPrecision(3)));
  }

  /** Writes a relative change with its sign, and without one where all its digits are 0. */
  function percent(share, digits = 1) {
    const size = Math.abs(100 * share).toFixed(digits);
    return (Number(size) === 0 ? "" : share > 0 ? "+" : "-") + size + " %";
  }

  /** Returns about `count` round numbers from low to high. */
  function ticks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((one) => one * power >= rough * 0.999);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) found.push(i * step);
    return found;
  }

  /** Returns round numbers for an axis of logarithms, as logarithms. */
  function logTicks(low, high, count) {
    const from = Math.exp(low), to = Math.exp(high);
    if (to / from < 6) return ticks(from, to, count).filter((value) => value > 0).map(Math.log);
    const found = [];
    const of_decade = Math.log10(to / from) > count / 2 ? [1] : [1, 2, 5];
    for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); ++power) {
      for (const one of of_decade) {
        const value = one * 10 ** power;
        if (value >= from && value <= to) found.push(Math.log(value));
      }
    }
    return found;
  }

  const clock = (seconds, digits) => new Date(seconds * 1000).toISOString().slice(11, digits);

  /** Returns whole minutes, hours or days from low to high, in seconds since 1970. */
  function timeTicks(low, high, count) {
    const steps = [1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];
    const step = steps.find((one) => (high - low) / one <= count) || 2592000;
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
    return found;
  }

  /** Writes a tick of the axis of times: the hour, or the day where one begins. */
  function timeText(seconds, low, high) {
    if (high - low > 86400 && seconds % 86400 === 0) return new Date(seconds * 1000).toISOString().slice(5, 10);
    return clock(seconds, high - low < 300 ? 19 : 16);
  }

  /** Returns [low, high] with some room; from 0 where no value is below it and `from_zero` says so, so that noise looks small. */
  function range(values, from_zero) {
    const known = values.filter(Number.isFinite);
    let low = Math.min(...known), high = Math.max(...known);
    if (from_zero && low >= 0) low = 0;
    const room = 0.06 * (high - low) || 0.1 * Math.abs(high) || 1;
    return [low === 0 && from_zero ? 0 : low - room, high + room];
  }

  const ratio = () => window.devicePixelRatio;

  /** Calls `draw(ctx, x, y)` inside the plot, where x and y turn values into pixels of the canvas. */
  function inside(u, draw) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    draw(ctx, (value) => u.valToPos(value, "x", true), (value) => u.valToPos(value, "y", true));
    ctx.restore();
  }

  /** Draws a line through points of the canvas; `dash` in pixels of the screen. */
  function line(ctx, points, stroke, width, dash = []) {
    ctx.beginPath();
    points.forEach(([x, y], i) => (i ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
    ctx.strokeStyle = stroke;
    ctx.lineWidth = width * ratio();
    ctx.setLineDash(dash.map((length) => length * ratio()));
    ctx.stroke();
    ctx.setLineDash([]);
  }

  function disc(ctx, x, y, radius, fill) {
    ctx.beginPath();
    ctx.arc(x, y, radius * ratio(), 0, 2 * Math.PI);
    ctx.fillStyle = fill;
    ctx.fill();
  }

  /** Writes texts beside points of the canvas, [x, y, text] each. One that would lie on another is left out. */
  function marks(ctx, all_marks) {
    const size = 11 * ratio(), drawn = [];
    ctx.font = `${size}px system-ui, sans-serif`;
    ctx.fillStyle = css("faint");
    for (const [left, top, text] of all_marks) {
      if (drawn.some(([x, y]) => Math.abs(x - left) < 1.8 * size && Math.abs(y - top) < 1.1 * size)) continue;
      drawn.push([left, top]);
      ctx.fillText(text, left + 0.5 * size, top - 0.5 * size);
    }
  }

  function axis(side, { label, ticks, format }, space) {
    const count = (u) => Math.max(2, Math.floor((side ? u.height - 60 : u.width - 70) / space));
    return {
      scale: side ? "y" : "x", side: side ? 3 : 2, label, labelSize: 22, labelGap: 2, size: side ? 58 : 30, gap: 4,
      font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
      stroke: () => css("faint"), grid: { stroke: () => css("grid"), width: 1 }, ticks: { stroke: () => css("line"), width: 1, size: 5 },
      splits: (u, i, low, high) => ticks(low, high, count(u)),
      values: (u, splits) => splits.map((value) => format(value, u.scales.x.min, u.scales.x.max)),
    };
  }

  /**
   * Adds a chart to `parent`. `x` and `y` have label, range, ticks(low, high, count) and format(value). `behind(u)` draws
   * below the series and `draw(u)` above; `readout(x, y, u)` says what is under the pointer.
   */
  function chart(parent, { title, hint, legend, x, y, series = [], data = [], behind, draw, readout }) {
    const figure = element(parent, "figure");
    element(figure, "figcaption", title);
    const keys = legend && element(figure, "ul", "", "legend");
    const marks = (legend || []).map((name) => {
      const item = element(keys, "li");
      const mark = element(item, "i");
      item.append(name);
      return () => { mark.style.background = colour(name); };
    });
    const place = element(figure, "div", "", "plot");
    if (hint) element(figure, "p", hint, "hint");
    const says = element(figure, "p", "", "readout");
    const options = {
      width: place.clientWidth || 480, height: 260, padding: [10, 12, 0, 0],
      legend: { show: false }, cursor: { show: false },
      scales: { x: { time: false, range: () => x.range }, y: { range: () => y.range } },
      axes: [axis(0, x, 70), axis(1, y, 38)],
      series: [{}, ...(series.length ? series : [{ show: false }])],
      hooks: { drawClear: behind ? [behind] : [], draw: draw ? [draw] : [] },
    };
    const u = new uPlot(options, data.length ? data : [x.range, [null, null]], place);
    u.root.setAttribute("role", "img");
    u.root.setAttribute("aria-label", title);
    if (readout) {
      u.over.addEventListener("pointermove", (event) => {
        says.textContent = readout(u.posToVal(event.offsetX, "x"), u.posToVal(event.offsetY, "y"), u, event) || "";
      });
      u.over.addEventListener("pointerleave", () => { says.textContent = ""; });
    }
    const paint = (width, height) => {
      for (const mark of marks) mark();
      if (width > 0) u.setSize({ width, height });
      u.redraw(false, true);
    };
    paint(0);
    all.push({ place, paint });
    new ResizeObserver(() => {
      if (!document.documentElement.classList.contains("printing")) paint(place.clientWidth, 260);
    }).observe(place);
  }

  const repaint = () => { for (const { place, paint } of all) paint(place.clientWidth, 260); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  addEventListener("beforeprint", () => {
    for (const one of document.querySelectorAll("details")) one.open = true;
    document.documentElement.classList.add("printing");
    for (const { paint } of all) paint(335, 220);  // Two of them are as wide as A4.
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    repaint();
  });

  return { element, css, colour, number, percent, ticks, logTicks, timeTicks, timeText, clock, range, inside, line, disc, marks, chart };
})();
