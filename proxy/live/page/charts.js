// The moment that the pointer is on, shared by everything that is drawn over time.
import { colour, element, put, put_style } from "./dom.js";
import { bytes, clock, latency, percent, short } from "./format.js";

const listeners = new Set();

export const cursor = {
  /** So many seconds before the last one; null if the pointer is on no chart. */
  ago: null,
  set(ago) {
    if (ago === cursor.ago) return;
    cursor.ago = ago;
    for (const listener of listeners) listener(ago);
  },
  on(listener) { listeners.add(listener); },
};

// The last seconds of each figure that is drawn, as /api/live/window gives them: one number a second.

export const longest = 900;

export class Series {
  #rows = new Map();
  #serial = null;
  #end = null;

  clear() {
    this.#rows.clear();
    this.#serial = this.#end = null;
  }

  /** Returns the serial of the last number of each list; null before the first answer. */
  get serial() { return this.#serial; }
  /** Returns the moment of the last numbers, in seconds since 1970. */
  get end() { return this.#end; }

  /** Takes an answer of /api/live/window. Its lists go on from those that are here, or replace them. */
  take(answer) {
    if (this.#serial !== null && answer.serial < this.#serial) this.clear();
    const seen = answer.serial;
    for (const kind of ["pools", "replicas", "shadows"])
      for (const [name, figures] of Object.entries(answer[kind] || {})) this.#put(kind + "/" + name, figures, seen);
    if (answer.weir) this.#put("weir/", answer.weir, seen);
    this.#serial = seen;
    this.#end = Math.round(Date.parse(answer.end) / 1000);
    this.#forget(seen);
  }

  #put(row, figures, serial) {
    let known = this.#rows.get(row);
    if (!known) this.#rows.set(row, (known = new Map()));
    for (const [figure, values] of Object.entries(figures)) {
      const list = known.get(figure);
      const fresh = list ? serial - list.serial : Infinity;
      if (fresh > values.length || (fresh >= 0 && values.length > list.values.length)) {
        known.set(figure, { serial, values: values.slice(-longest) });
        continue;
      }
      if (fresh <= 0) continue;
      list.values.push(...values.slice(-fresh));
      if (list.values.length > longest) list.values.splice(0, list.values.length - longest);
      list.serial = serial;
    }
  }

  /** Rows that have left the answers are let go. */
  #forget(serial) {
    for (const [row, figures] of this.#rows)
      for (const [figure, list] of figures) {
        if (serial - list.serial <= longest) continue;
        figures.delete(figure);
        if (!figures.size) this.#rows.delete(row);
      }
  }

  /** Returns the numbers of a figure, the last at the end; an empty list if there are none. */
  values(kind, name, figure) {
    return this.#rows.get(kind + "/" + name)?.get(figure)?.values ?? [];
  }

  /** Returns the most of the last `seconds`; null if nothing is known. */
  peak(kind, name, figure, seconds) {
    let most = null;
    for (const value of this.values(kind, name, figure).slice(-seconds))
      if (value !== null && (most === null || value > most)) most = value;
    return most;
  }
}

// Small charts beside a number: the last minutes of it, one pixel for some seconds, and the value under the cursor.

export const seconds_shown = 300;

let resized = 0;
addEventListener("resize", () => { ++resized; });

/** Returns the most of each of `count` equal parts of the last `seconds`; null where nothing is known. */
export function parts(values, seconds, count) {
  const result = new Array(count).fill(null);
  const missing = seconds - values.length;
  for (let i = Math.max(0, -missing); i < values.length; ++i) {
    const value = values[i];
    if (value === null) continue;
    const part = Math.min(count - 1, Math.floor(((i + missing) * count) / seconds));
    if (result[part] === null || value > result[part]) result[part] = value;
  }
  return result;
}

export class Sparkline {
  #canvas;
  #line;
  #number;
  #values = [];
  #now = "";
  #format;
  #drawn = "";
  #measured = -1;
  #size = [0, 0];

  constructor(parent, format) {
    this.#format = format;
    parent.classList.add("spark");
    this.#number = element(parent, "b");
    const place = element(parent, "span", "", "chart");
    this.#canvas = element(place, "canvas");
    this.#canvas.setAttribute("aria-hidden", "true");
    this.#line = element(place, "i");
    place.addEventListener("pointermove", (event) => {
      const at = event.offsetX / Math.max(1, place.clientWidth);
      cursor.set(Math.min(seconds_shown - 1, Math.max(0, Math.round((1 - at) * (seconds_shown - 1)))));
    });
    place.addEventListener("pointerleave", () => cursor.set(null));
  }

  /** Shows the number `now`, and draws the values behind it. */
  show(values, now, serial) {
    this.#values = values;
    this.#now = now;
    this.point();
    const key = [serial, values.length, resized, colour("spark")].join();
    if (key !== this.#drawn && this.#draw()) this.#drawn = key;
  }

  /** Shows the value under the cursor, or that of now. */
  point() {
    const ago = cursor.ago;
    this.#number.classList.toggle("past", ago !== null);
    put(this.#number, ago === null ? this.#now : this.#format(this.#values[this.#values.length - 1 - ago] ?? null));
    put_style(this.#line, "display", ago === null ? "none" : "block");
    if (ago !== null) put_style(this.#line, "left", 100 * (1 - ago / (seconds_shown - 1)) + "%");
  }

  /** Returns false if the chart has no size yet. To read a size in each second would cost a layout for each row. */
  #draw() {
    const canvas = this.#canvas, scale = window.devicePixelRatio || 1;
    if (this.#measured !== resized) this.#size = [Math.round(canvas.clientWidth * scale), Math.round(canvas.clientHeight * scale)];
    const [width, height] = this.#size;
    if (!width || !height) return false;
    this.#measured = resized;
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    const columns = parts(this.#values, seconds_shown, Math.min(seconds_shown, Math.floor(width / scale)));
    const most = Math.max(1e-9, ...columns.map((value) => value ?? 0));
    const step = width / columns.length, foot = height - scale;
    context.beginPath();
    columns.forEach((value, i) => {
      if (value === null) return;
      const high = (value / most) * (height - 2 * scale);
      context.rect(i * step, foot - high, step + 0.5, high);
    });
    context.fillStyle = colour("spark");
    context.fill();
    context.fillStyle = colour("line");
    context.fillRect(0, foot, width, scale);
    return true;
  }
}

// The last fifteen minutes of one row, a chart for each figure, all on one cursor.

const height = 150;

/** [title, format, [figure, name, colour]...] for each kind of row. */
const charts_of = {
  replicas: [
    ["Requests/s", short, ["requests_per_s", "ended", "side0"], ["failed_per_s", "failed", "worse"]],
    ["Tokens out/s", short, ["tokens_out_per_s", "tokens", "side0"]],
    ["In flight", short, ["in_prefill", "in prefill", "prefill"], ["in_decode", "in decode", "decode"]],
    ["Queued tokens", short, ["queued_tokens", "tokens", "side0"]],
    ["KV cache in use", percent, ["kv_usage", "share", "side0"]],
    ["TTFT, median of 10 s", latency, ["ttft_p50_s", "TTFT", "side0"]],
    ["TPOT, median of 10 s", latency, ["tpot_p50_s", "TPOT", "side0"]],
  ],
  pools: [
    ["Requests/s", short, ["requests_per_s", "ended", "side0"], ["failed_per_s", "failed", "worse"]],
    ["Tokens/s", short, ["tokens_in_per_s", "in", "side1"], ["tokens_out_per_s", "out", "side0"]],
    ["In flight and waiting", short, ["in_flight", "in flight", "decode"], ["waiting", "waiting", "worse"]],
    ["TTFT, median of 10 s", latency, ["ttft_p50_s", "TTFT", "side0"]],
  ],
  weir: [
    ["CPUs", (value) => short(value), ["cpu", "CPUs", "side0"]],
    ["Memory", bytes, ["memory_bytes", "resident", "side0"]],
    ["Connections", short, ["connections", "connections", "side0"]],
    ["Loop delay p99", latency, ["loop_delay_p99_s", "delay", "side0"]],
  ],
};

class Chart {
  #plot;
  #figures;
  #format;
  #says;
  #data = [[]];

  constructor(parent, [title, format, ...figures]) {
    this.#figures = figures;
    this.#format = format;
    const figure = element(parent, "figure");
    const caption = element(figure, "figcaption");
    element(caption, "b", title);
    this.#says = figures.map(([, name, tint]) => {
      const item = element(caption, "span", "", "key");
      element(item, "i", "", tint);
      item.append(name + " ");
      return element(item, "output");
    });
    const place = element(figure, "div", "", "plot");
    const axis = { stroke: () => colour("faint"), grid: { stroke: () => colour("grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    this.#plot = new uPlot({
      width: place.clientWidth || 320, height, padding: [8, 22, 0, 0], legend: { show: false },
      cursor: { sync: { key: "weir" }, drag: { x: false, y: false }, y: false, points: { size: 6 } },
      scales: { x: { time: true, range: () => this.#range() }, y: { range: (u, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [{ ...axis, size: 24, values: (u, splits) => splits.map((at) => clock(1000 * at).slice(0, 5)) }, { ...axis, size: 56, values: (u, splits) => splits.map(format) }],
      series: [{}, ...figures.map(([, name, tint]) => ({ label: name, stroke: () => colour(tint), width: 1.5, spanGaps: false, points: { show: false } }))],
      hooks: { setCursor: [(u) => this.#point(u.cursor.idx)] },
    }, [[], ...figures.map(() => [])], place);
    this.#plot.root.setAttribute("role", "img");
    this.#plot.root.setAttribute("aria-label", title + " over 15 minutes");
    this.resizing = new ResizeObserver(() => { if (place.clientWidth) this.#plot.setSize({ width: place.clientWidth, height }); });
    this.resizing.observe(place);
  }

  #range() {
    const end = this.#data[0][this.#data[0].length - 1] ?? Date.now() / 1000;
    return [end - longest + 1, end];
  }

  #point(index) {
    const times = this.#data[0], at = index ?? times.length - 1;
    this.#says.forEach((place, i) => put(place, this.#format(this.#data[i + 1]?.[at] ?? null)));
    cursor.set(index === null || index === undefined ? null : times.length - 1 - index);
  }

  show(series, kind, name) {
    const lists = this.#figures.map(([figure]) => series.values(kind, name, figure));
    const count = Math.max(0, ...lists.map((list) => list.length));
    const end = series.end ?? 0;
    const times = Array.from({ length: count }, (unused, i) => end - count + 1 + i);
    this.#data = [times, ...lists.map((list) => [...new Array(count - list.length).fill(null), ...list])];
    this.#plot.setData(this.#data);
    if (cursor.ago === null) this.#point(null);
  }

  repaint() { this.#plot.redraw(false, true); }

  end() {
    this.resizing.disconnect();
    this.#plot.destroy();
  }
}

export class Charts {
  #kind;
  #name;
  #charts;
  #moment;

  constructor(parent, kind, name) {
    this.#kind = kind;
    this.#name = name;
    this.#moment = element(parent, "p", "", "quiet moment");
    const place = element(parent, "div", "", "charts");
    this.#charts = charts_of[kind].map((about) => new Chart(place, about));
  }

  show(series) {
    for (const chart of this.#charts) chart.show(series, this.#kind, this.#name);
    this.point(series);
  }

  point(series) {
    const ago = cursor.ago;
    put(this.#moment, ago === null || series.end === null ? "The last 15 minutes; the numbers are those of now."
      : `The numbers are those of ${clock((series.end - ago) * 1000)}, ${ago} s ago.`);
  }

  repaint() { for (const chart of this.#charts) chart.repaint(); }

  end() {
    for (const chart of this.#charts) chart.end();
    cursor.set(null);
  }
}
