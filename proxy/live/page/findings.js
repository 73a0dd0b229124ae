// What is wrong, the worst first: what, who, since when, and where the runbook says what to do.
import { by_id, element, put, put_class } from "./dom.js";
import { age, between, clock, words } from "./format.js";
import { sorted_findings } from "./order.js";

export class Findings {
  #rows = new Map();
  #open;

  /** `open(id)` shows the finding's section of the runbook. */
  constructor(open) { this.#open = open; }

  show(document) {
    const list = by_id("finding-list");
    const all = document.findings || {};
    const present = sorted_findings(all);
    put(by_id("findings-title"), present.length ? "Findings" : "No findings");
    put_class(by_id("findings"), present.length ? "some" : "none");
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
