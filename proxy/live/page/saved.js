// A saved report: what `weir report` has put into this page stands in place of the connection to weir (live.js).
import { by_id, element } from "./dom.js";
import { age, bytes, clock, known, unknown, zone } from "./format.js";

/** Each number of a thinned window is the mean of `step_s` seconds: it stands for each of them. */
function every_second(rows, step) {
  if (Array.isArray(rows)) return rows.flatMap((value) => new Array(step).fill(value));
  if (rows === null || typeof rows !== "object") return rows;
  return Object.fromEntries(Object.entries(rows).map(([name, part]) => [name, every_second(part, step)]));
}

function fact_list(place, facts) {
  const list = element(place, "dl", "", "facts");
  for (const [name, value] of facts) {
    if (value === null || value === undefined || value === "" || value === unknown) continue;
    const fact = element(list, "div");
    element(fact, "dt", name);
    element(fact, "dd", String(value));
  }
}

function folded(place, title) {
  const made = element(element(place, "section"), "details");
  element(element(made, "summary"), "h2", title);
  return made;
}

export class Saved {
  #report;

  constructor(report) {
    this.#report = report;
    zone.utc = true;
  }

  received = null;
  bytes = 0;
  trouble = "";
  tries_at = null;
  has_token = false;

  get document() { return this.#report.live; }
  get window() {
    const { step_s: step, ...rows } = this.#report.window;
    return every_second(rows, step);
  }
  get events() { return this.#report.events.events; }
  get runbook() { return by_id("runbook").textContent; }

  /** Shows what the live page has not: why there is a report, the machine, and the settings. */
  show() {
    const { because, last_s, live, machine, settings } = this.#report;
    const lists = by_id("lists");
    const why = element(null, "section");
    element(why, "p", `This report was made because ${because}. It holds the ${age(last_s)} to ${clock(live.time)} UTC on ${live.time.slice(0, 10)}` +
      (live.weir.uptime_s < last_s ? `; weir had run for ${age(live.weir.uptime_s)} by then.` : "."));
    lists.prepend(why);
    fact_list(folded(lists, "The machine"), [
      ["host", machine.host], ["kernel", machine.kernel], ["CPU", `${machine.cpus} x ${machine.cpu ?? unknown}`],
      ["memory available", `${bytes(machine.memory_available_bytes)} of ${bytes(machine.memory_bytes)}`],
      ["load of 1, 5, 15 min", (machine.load || []).join(", ")], ["up", known(machine.uptime_s) ? age(machine.uptime_s) : null],
    ]);
    const place = folded(lists, "Settings in use, without secrets");
    if (settings.overridden?.length) element(place, "p", "From the command line: " + settings.overridden.join(", ") + ".");
    for (const one of settings.settings || []) {
      const name = [one.within, one.name].filter(Boolean).join(", ");
      if (name) element(place, "h3", name);
      fact_list(place, Object.entries(one.keys || {}));
    }
  }

  pause() {}
  resume() {}
  retry() {}
}

/** Returns the report that lies in this page; null in the page of a weir. */
export function saved_report() {
  const place = by_id("saved");
  return place ? new Saved(JSON.parse(place.textContent)) : null;
}
