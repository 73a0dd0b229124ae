// A saved report: what `weir report` has put into this page stands in place of the connection to weir (live.js).
import { Series, cursor, longest, seconds_shown } from "./charts.js";
import { Detail, Events, Findings, address, route_of } from "./detail.js";
import { Actions, Bar, ask_token, listen, show_help, tell } from "./dialogs.js";
import { by_id, element, forget_colours, put, put_hidden } from "./dom.js";
import { Comparisons } from "./forest.js";
import { age, bytes, clock, known, matcher, unknown, zone } from "./format.js";
import { Live } from "./live.js";
import { key_grid, key_rows, legend, pool_grid, pool_rows, replica_grid, replica_rows, request_grid, request_rows } from "./tables.js";

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

// The page: it has the stream of /api/live shown, once a second, and asks for the window that the charts are of. In a
// saved report all of that lies in the page.

/** weir answers no more than so many numbers of the window at once; some are left for rows that have just come. */
const most_numbers = 150000;
const late_ms = 3500, old_ms = 15000;
/** The window is asked for so often. */
const window_every_ms = 2000;

const saved = saved_report(), series = new Series(), actions = new Actions();
let live = null, filter = () => true, drawing = false;
const cost = { last: 0, sum: 0, count: 0, most: 0 };

const page = {
  series, actions,
  get live() { return live; },
  filter: by_id("filter"),
  open(kind, id) { location.hash = address(kind, id); },
  back() {
    if (detail.route) history.length > 1 && came_from_here ? history.back() : (location.hash = "");
    else if (page.filter.value) page.clear_filter();
    else document.activeElement?.blur?.();
  },
  clear_filter() {
    page.filter.value = "";
    page.filter.dispatchEvent(new Event("input"));
    page.filter.blur();
  },
  grids: () => (detail.route ? detail.grids : [pools, replicas, slow, failed, keys]),
  get main_grid() { return replicas; },
  sort() {
    const grid = page.grids().find((one) => one.element.contains(document.activeElement));
    (grid ?? (detail.route ? detail.grids[0] : replicas))?.cycle();
  },
  go_to(section) {
    if (detail.route) {
      location.hash = "";
      detail.go(null);
    }
    draw();  // What was typed into the filter decides which row is the first.
    by_id(section).scrollIntoView({ block: "start" });
    const grid = { pools, replicas, keys }[section];
    if (grid) grid.chosen === null ? grid.choose_end(false) : grid.choose(grid.chosen);
    else show_all_events();
  },
  chosen_replica() {
    if (detail.route) return detail.route.kind === "replica" ? detail.route.id : null;
    return replicas.element.contains(document.activeElement) ? replicas.chosen : null;
  },
  help: show_help,
  runbook: async () => {
    if (saved) return saved.runbook;
    const answer = await fetch("/page/runbook.md");
    if (!answer.ok) throw new Error("status " + answer.status);
    return answer.text();
  },
};

const bar = new Bar(), events = new Events(), findings = new Findings((id) => page.open("finding", id));
const pools = pool_grid(by_id("pool-grid"), series, (id) => page.open("pool", id));
const replicas = replica_grid(by_id("replica-grid"), series, (id) => page.open("replica", id));
const slow = request_grid(by_id("slow-grid"), "Slowest requests", (id) => page.open("request", id));
const failed = request_grid(by_id("failed-grid"), "Failed requests", (id) => page.open("request", id));
const keys = key_grid(by_id("key-grid"));
const comparisons = new Comparisons(actions);
const detail = new Detail(page);
let came_from_here = false;

async function show_all_events() {
  try {
    events.show_all((await live.get("/api/events")).events);
    by_id("more-events").hidden = true;
  } catch { /* The bar says that weir does not answer. */ }
}

/** Saves the report of the last minutes as a file. */
async function save_report() {
  try {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await live.blob("/api/report"));
    link.download = `weir-report-${new Date().toISOString().replace(/[-:]|\.\d+/g, "")}.html`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  } catch (error) {
    await tell("There is no report", [error.message]);
  }
}

function update(grid, rows) {
  const shown = page.filter.value ? rows.filter((row) => filter(row.text())) : rows;
  grid.update(shown);
  return [shown.length, rows.length];
}

function draw() {
  drawing = false;
  const { document: doc } = live;
  if (!doc) return;
  const begin = performance.now();
  bar.show(doc.weir || {});
  put(by_id("bypass"), doc.weir?.bypass ? "Bypass off" : "Bypass on");
  put_hidden(by_id("bypass"), !actions.allowed);
  findings.show(doc);
  events.take(Object.values(doc.events || {}));
  if (detail.route) {
    detail.update();
  } else {
    update(pools, pool_rows(doc));
    const [shown, all] = update(replicas, replica_rows(doc));
    put(by_id("shown"), shown === all ? `${all} replicas` : `${shown} of ${all} replicas`);
    comparisons.show(doc);
    update(slow, request_rows(doc.requests?.slowest, doc.time));
    update(failed, request_rows(doc.requests?.failed, doc.time));
    update(keys, key_rows(doc));
    put(by_id("keys-left-off"), doc.keys_left_off ? `${doc.keys_left_off} more have requests.` : "");
    put_hidden(by_id("keys"), !Object.keys(doc.keys || {}).length);
  }
  const bad = Object.keys(doc.findings || {}).length;
  const title = (bad ? `(${bad}) ` : "") + "weir" + (doc.weir?.instance ? " " + doc.weir.instance : "");
  if (document.title !== title) document.title = title;
  show_age();
  cost.last = performance.now() - begin;
  cost.sum += cost.last;
  cost.most = Math.max(cost.most, cost.last);
  ++cost.count;
  document.documentElement.dataset.drawnMs = cost.last.toFixed(2);
}

/** A tab that nobody sees draws nothing, and all at once when it is seen. */
function draw_soon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(draw);
}

function show_age() {
  const old = live?.received === null || !live ? Infinity : performance.now() - live.received;
  const state = saved ? "fresh" : old === Infinity ? "none" : old > old_ms ? "old" : old > late_ms ? "late" : "fresh";
  if (document.body.dataset.age !== state) document.body.dataset.age = state;
  const of = live?.document ? `as of ${clock(live.document.time)}` + (state === "fresh" ? "" : `, ${age(old / 1000)} ago`) : "";
  const wait = live?.tries_at ? Math.max(0, Math.ceil((live.tries_at - performance.now()) / 1000)) : null;
  const trouble = live?.trouble ? live.trouble + (wait === null ? "" : `; asks again in ${wait} s`) : "";
  put(by_id("age"), saved ? `saved ${of} UTC` : [of, trouble].filter(Boolean).join(": "));
  const seconds = Math.max(1, performance.now() / 1000);
  put(by_id("cost"), saved ? "Times are UTC. What each figure means: docs/reference/api.md" : cost.count ? `This page: ${(cost.sum / cost.count).toFixed(1)} ms to draw a second, at most ${cost.most.toFixed(1)}; ` +
    `${bytes((live?.bytes ?? 0) / seconds)}/s read from weir's stream` : "");
}

let asked = 0, asking = false, asked_row = null;

/** Asks for what the charts lack. */
async function ask_window() {
  if (saved) return detail.draw();
  if (asking || document.hidden || !live?.document || performance.now() - live.received > late_ms) return;
  asking = true;
  asked = performance.now();
  const mine = live;
  try {
    const { serial, pools: some = {}, replicas: all = {} } = mine.document;
    const missing = series.serial === null || serial < series.serial ? seconds_shown : serial - series.serial + 2;
    const rows = Object.keys(some).length + Object.keys(all).length + 1;
    const seconds = Math.max(2, Math.min(missing > seconds_shown ? seconds_shown : missing, Math.floor(most_numbers / (2 * rows))));
    const row = detail.window;
    const figures = "requests_per_s,tokens_out_per_s";
    const before = series.serial;
    const answers = [await mine.get(`/api/live/window?seconds=${seconds}&figures=${figures}`)];
    if (row) {
      const length = row === asked_row && before !== null ? Math.min(longest, answers[0].serial - before + 2) : longest;
      answers.unshift(await mine.get(`/api/live/window?seconds=${length}&${row}`));
    }
    if (mine !== live) return;
    // The serial of the later answer is the series', so that the next question goes on from there.
    for (const answer of answers.sort((a, b) => a.serial - b.serial)) series.take(answer);
    asked_row = row;
    detail.draw();
    if (before === null) draw_soon();  // Otherwise the next second draws it.
  } catch { /* The stream says that weir does not answer. */ } finally {
    asking = false;
  }
}

function changed(restarted) {
  if (restarted) {
    series.clear();
    events.clear();
    asked_row = null;
  }
  draw_soon();
  if (performance.now() - asked >= window_every_ms - 500) ask_window();
}

function kept_token() {
  try { return sessionStorage.getItem("weir-token") ?? ""; } catch { return ""; }
}

async function connect(token) {
  live = new Live(token, {
    changed,
    troubled: show_age,
    refused: async (error) => {
      show_age();
      if (error.status !== 401) return tell("weir refuses this page", [error.message]);
      for (let given = null; ; ) {
        given = await ask_token(token ? "weir refused that token." : "This weir's admin listener has a token.");
        if (!given) continue;
        try { sessionStorage.setItem("weir-token", given); } catch { /* Then it is kept until the page is loaded anew. */ }
        return connect(given);
      }
    },
  });
  actions.use(live);
  if (document.hidden) live.pause();
  live.run();
}

function show_saved() {
  live = saved;
  actions.use(saved);
  by_id("report").hidden = by_id("more-events").hidden = true;
  series.take(saved.window);
  events.show_all(saved.events);
  saved.show();
  draw_soon();
}

function set_theme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  try { theme ? localStorage.setItem("weir-theme", theme) : localStorage.removeItem("weir-theme"); } catch { /* It lasts as long as the page. */ }
  themed();
}

function themed() {
  put(by_id("theme"), "Theme: " + (document.documentElement.dataset.theme ?? "system"));
  forget_colours();
  detail.repaint();
  draw_soon();
}

function begin() {
  legend();
  themed();
  const show_sort = () => put(by_id("sort"), "Sort: " + replicas.sorted_by);
  replicas.changed = show_sort;
  show_sort();
  by_id("sort").addEventListener("click", () => replicas.cycle());
  by_id("help").addEventListener("click", show_help);
  by_id("report").addEventListener("click", save_report);
  by_id("bypass").addEventListener("click", () => actions.bypass(!live.document?.weir?.bypass));
  by_id("more-events").addEventListener("click", show_all_events);
  by_id("weir").addEventListener("click", () => page.open("weir", ""));
  by_id("theme").addEventListener("click", () => set_theme({ dark: "light", light: "" }[document.documentElement.dataset.theme ?? ""] ?? "dark"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
  page.filter.addEventListener("input", () => {
    filter = matcher(page.filter.value);
    events.filter(page.filter.value);
    draw_soon();
  });
  cursor.on(() => {
    for (const grid of [pools, replicas])
      for (const row of grid.in_view()) for (const place of row.element.querySelectorAll(".spark")) place.spark?.point();
    detail.point();
  });
  addEventListener("hashchange", () => {
    came_from_here = true;
    const before = detail.route;
    detail.go(route_of(location.hash));
    if (before && !detail.route)
      for (const grid of page.grids()) if (grid.chosen === before.id) grid.choose(before.id);
    ask_window();
    draw_soon();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return live?.pause();
    live?.resume();
    ask_window();
    draw_soon();
  });
  addEventListener("online", () => live?.retry());
  setInterval(show_age, 500);
  listen(page);
  if (saved) show_saved();
  else connect(kept_token());
  if (route_of(location.hash)) {
    detail.go(route_of(location.hash));
    ask_window();
  }
}

begin();
