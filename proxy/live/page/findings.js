// What is wrong, the worst first: what, who, since when, and where the runbook says what to do.
import { by_id, element, put, put_class } from "./dom.js";
import { age, between, clock, words } from "./format.js";
import { sorted_findings } from "./order.js";

/** Returns what the rows show to be wrong though no rule names it. */
export function unnamed(document) {
  const replicas = Object.values(document.replicas || {});
  const out = replicas.filter((one) => one.state === "down" || one.state === "ejected").length;
  const failing = Object.entries(document.pools || {}).filter(([, pool]) => pool.failed_per_s > 0).map(([name]) => name);
  const weir = document.weir || {};
  return [...(weir.settings?.ok === false ? ["the last reload failed"] : []), ...(weir.bypass ? ["bypass is on"] : []), ...(out ? [`${out} of ${replicas.length} replicas ${out === 1 ? "is" : "are"} out`] : []), ...failing.map((name) => `requests of ${name} fail`)];
}

export class Findings {
  #rows = new Map();
  #open;

  /** `open(id)` shows the finding's section of the runbook. */
  constructor(open) { this.#open = open; }

  show(document) {
    const list = by_id("finding-list");
    const all = document.findings || {};
    const present = sorted_findings(all);
    const marked = unnamed(document);
    put(by_id("findings-title"), present.length ? "Findings" : ["No findings", marked.join("; ")].filter(Boolean).join(", but "));
    put_class(by_id("findings"), present.length ? "some" : marked.length ? "marked" : "none");
    let at = list.firstElementChild;
    const kept = new Set();
    for (const finding of present) {
      const id = finding.what + ":" + finding.who;
      kept.add(id);
      const row = this.#rows.get(id) ?? this.#make(id);
      if (row.item === at) at = at.nextElementSibling;
      else list.insertBefore(row.item, at);
      put_class(row.item, "finding " + finding.severity);
      put(row.severity, finding.severity);
      put(row.what, words(finding.what));
      put(row.since, "for " + age(between(finding.since, document.time)));
      row.since.title = "since " + clock(finding.since);
      put(row.text, finding.text);
    }
    for (const [id, row] of this.#rows) {
      if (kept.has(id)) continue;
      row.item.remove();
      this.#rows.delete(id);
    }
  }

  #make(id) {
    const item = element(null, "li");
    const row = { item };
    row.severity = element(item, "span", "", "severity");
    row.what = element(item, "b");
    row.since = element(item, "span", "", "quiet");
    row.text = element(item, "span", "", "sentence");
    const button = element(item, "button", "What to do");
    button.type = "button";
    button.addEventListener("click", () => this.#open(id));
    this.#rows.set(id, row);
    return row;
  }
}
