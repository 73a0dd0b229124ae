// Running comparisons: each metric's change with its interval, on the band of its margin. A comparison that runs has no
// verdict, and says when there will be enough for one.
import { by_id, element, put, put_class, put_hidden, svg } from "./dom.js";
import { age, between, change, clock, known, latency, percent, short, words } from "./format.js";

const widest = 1;  // A change beyond this is drawn at the edge.

/** Stalls differ by seconds per 1000 requests, all others by a share; so they have a scale of their own. */
const is_seconds = (metric) => metric === "stalls";

/** Returns the half width of the scale on which these metrics of a comparison are drawn. */
export function reach(metrics) {
  const ends = metrics.flatMap((one) => [2 * one.margin, one.low, one.high, one.estimate]).filter(known).map(Math.abs);
  return Math.min(metrics.some((one) => is_seconds(one.metric)) ? Infinity : widest, Math.max(0.05, ...ends) * 1.05);
}

/** Writes a change of a metric, with its sign. */
export const change_text = (metric, value) => (!is_seconds(metric) || !known(value) ? change(value) : (value > 0 ? "+" : value < 0 ? "-" : "") + short(Math.abs(value)) + " s");

/** Writes what may be said of a metric now. */
export function standing(metric, elapsed_s) {
  const leans = { better: "leans better", worse: "leans worse", longer: "longer so far", shorter: "shorter so far", equivalent: "within the margin so far", not_worse: "not worse so far" }[metric.finding];
  const rest = known(metric.needs_s) && known(elapsed_s) ? metric.needs_s - elapsed_s : null;
  const when = rest === null ? "" : rest > 0 ? ", about " + age(rest) + " more" : "";
  return (leans ? leans + "; " : "") + "no verdict yet" + when;
}

const times = new Set(["ttft", "tpot", "ttft_geomean", "tpot_geomean", "e2e"]);
/** Writes a value of one side: a time, seconds per 1000 requests, or a count. */
export const value_text = (metric, value) => (times.has(metric) ? latency(value) : short(value) + (is_seconds(metric) && known(value) ? " s" : ""));
const says_what = { ttft_geomean: "geometric mean TTFT", tpot_geomean: "geometric mean TPOT", output_tokens: "tokens per answer", stalls: "stalls, per 1000 requests" };

function draw(place, one, half) {
  const text = (value) => change_text(one.metric, value);
  const at = (value) => (50 * (1 + Math.max(-half, Math.min(half, value)) / half)).toFixed(2) + "%";
  const made = svg(null, "svg", { class: "forest " + (one.finding || ""), role: "img", height: 34 });
  made.append(svg(null, "title", {}, `The scale goes from ${text(-half)} to ${text(half)}.`));
  const between_text = known(one.low) && known(one.high) ? `${text(one.low)} to ${text(one.high)}` : "no interval yet";
  made.setAttribute("aria-label", `${words(one.metric)}: ${text(one.estimate)}, ${between_text}, margin ${text(one.margin)}`);
  svg(made, "rect", { class: "band", x: at(-one.margin), width: ((50 * 2 * Math.min(half, one.margin)) / half).toFixed(2) + "%", y: 1, height: 20 });
  svg(made, "line", { class: "zero", x1: "50%", x2: "50%", y1: 0, y2: 22 });
  if (known(one.low) && known(one.high)) {
    svg(made, "line", { class: "interval", x1: at(one.low), x2: at(one.high), y1: 11, y2: 11 });
    for (const end of [one.low, one.high]) svg(made, "line", { class: "end", x1: at(end), x2: at(end), y1: 6, y2: 16 });
  }
  svg(made, "text", { class: "scale", x: 0, y: 33 }, text(-half).replace(".0", ""));
  svg(made, "text", { class: "scale", x: "100%", y: 33, "text-anchor": "end" }, text(half).replace(".0", ""));
  if (known(one.estimate)) svg(made, "circle", { class: known(one.low) ? "point" : "point hollow", cx: at(one.estimate), cy: 11, r: 4.5 });
  place.replaceChildren(made);
}

class Comparison {
  #rows = new Map();

  constructor(parent, name, actions) {
    this.element = element(parent, "article", "", "comparison");
    const head = element(this.element, "div", "", "heading");
    element(head, "h3", name);
    this.state = element(head, "span", "", "quiet");
    this.button = element(head, "button");
    this.button.type = "button";
    this.button.addEventListener("click", () => actions.shadow(name, !this.on));
    this.facts = element(this.element, "p", "", "quiet");
    this.says = element(this.element, "p");
    const table = element(element(this.element, "div", "", "scroll"), "table");
    this.table = table;
    const head_row = element(element(table, "thead"), "tr");
    for (const title of ["Metric", "a", "b", "Change of b, on its margin", "95 %", "So far"]) element(head_row, "th", title).scope = "col";
    this.heads = head_row.children;
    this.body = element(table, "tbody");
  }

  show(data, time, may_act) {
    this.on = data.on;
    const dropped = Object.entries(data.dropped_60s || {}).map(([why, count]) => `${short(count)} ${words(why)}`).join(", ");
    put(this.state, (data.on ? "on" : "off") + (data.twin ? ", copies what " + data.twin + " gets" : known(data.sample) ? `, a sample of ${(100 * data.sample).toFixed(0)} %` : "")
      + (data.control ? ", control" : ""));
    put(this.button, data.on ? "Switch off" : "Switch on");
    put_hidden(this.button, !may_act);
    const found = data.comparison;
    const silent = known(data.silent_s) ? `; no token for ${age(data.silent_s)}` : "";
    put(this.facts, `${short(data.in_flight)} / ${short(data.max_in_flight)} in flight${silent}; ${short(data.sent_60s)} sent in 60 s` +
      (dropped ? `, dropped: ${dropped}` : "") + `; ${short(data.pairs)} pairs` + (found ? `, ${short(found.warming)} of them while cold; answers: ${words(found.answers)}` : "") +
      (found?.lost ? `; ${short(found.lost)} lost to the comparison` : "") +
      (data.began ? "; began " + clock(data.began) : ""));
    const metrics = (found?.metrics ?? []).filter((one) => known(one.estimate));
    put_hidden(this.table, !metrics.length);
    if (!metrics.length) {
      const least = Math.min(...(found?.metrics ?? []).map((one) => one.needs_s).filter(known));
      put(this.says, data.on ? standing({ needs_s: least }, between(data.began, time)) + ": nothing can be compared so far" : "");
      return;
    }
    put(this.says, "");
    put(this.heads[1], found.a);
    put(this.heads[2], found.b);
    const scales = [false, true].map((seconds) => reach(metrics.filter((one) => is_seconds(one.metric) === seconds)));
    put(this.heads[3], `Change of ${found.b}; shaded: the margin`);
    const elapsed = between(data.began, time);
    const kept = new Set();
    for (const one of [...metrics].sort((a, b) => is_seconds(a.metric) - is_seconds(b.metric))) {
      kept.add(one.metric);
      const half = scales[Number(is_seconds(one.metric))], text = (value) => change_text(one.metric, value);
      const row = this.#rows.get(one.metric) ?? this.#make(one.metric);
      put(row.a, value_text(one.metric, one.value_a));
      put(row.b, value_text(one.metric, one.value_b));
      put(row.change, known(one.low) && known(one.high) ? `${text(one.estimate)} (${text(one.low)} to ${text(one.high)})` : text(one.estimate));
      put(row.says, standing(one, elapsed));
      put_class(row.says, "says finding-" + one.finding);
      const key = JSON.stringify([half, one.estimate, one.low, one.high, one.margin, one.finding]);
      if (row.drawn !== key) draw(row.chart, one, half);
      row.drawn = key;
    }
    for (const [metric, row] of this.#rows) {
      if (kept.has(metric)) continue;
      row.element.remove();
      this.#rows.delete(metric);
    }
  }

  #make(metric) {
    const made = element(this.body, "tr");
    element(made, "th", says_what[metric] ?? words(metric)).scope = "row";
    const row = { element: made };
    for (const part of ["a", "b", "chart", "change", "says"]) row[part] = element(made, "td", "", part);
    this.#rows.set(metric, row);
    return row;
  }
}

export class Comparisons {
  #shown = new Map();
  #actions;
  #rollouts = "";

  constructor(actions) { this.#actions = actions; }

  show(document) {
    const shadows = document.shadows || {}, rollouts = Object.entries(document.rollouts || {});
    put_hidden(by_id("comparisons"), !Object.keys(shadows).length && !rollouts.length);
    const lines = rollouts.map(([name, data]) => `Rollout ${name}: ${words(data.state)}, ${percent(data.share)} of the requests`);
    if (lines.join("\n") !== this.#rollouts) {
      this.#rollouts = lines.join("\n");
      by_id("rollouts").replaceChildren();
      for (const line of lines) element(by_id("rollouts"), "li", line);
    }
    for (const [name, data] of Object.entries(shadows)) {
      if (!this.#shown.has(name)) this.#shown.set(name, new Comparison(by_id("comparison-list"), name, this.#actions));
      this.#shown.get(name).show(data, document.time, this.#actions.allowed);
    }
    for (const [name, one] of this.#shown) {
      if (shadows[name]) continue;
      one.element.remove();
      this.#shown.delete(name);
    }
  }
}
