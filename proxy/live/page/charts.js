// The last fifteen minutes of one row, a chart for each figure, all on one cursor.
import { colour, element, put } from "./dom.js";
import { cursor } from "./cursor.js";
import { bytes, clock, latency, percent, short } from "./format.js";
import { longest } from "./series.js";

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
