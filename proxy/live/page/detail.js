// What has happened, the latest first.
import { Charts } from "./charts.js";
import { by_id, element, put, put_class } from "./dom.js";
import { age, between, clock, known, latency, matcher, percent, short, sorted_findings, times, unknown, words } from "./format.js";
import { request_grid, request_of, request_rows, sentence_of, show_request } from "./tables.js";

const most = 1000, most_shown = 50;

function line(event) {
  const item = element(null, "li", "", "event " + event.level);
  const time = element(item, "time", clock(event.time));
  time.dateTime = event.time;
  element(item, "b", event.level === "info" ? words(event.what) : event.level + ", " + words(event.what));
  element(item, "span", event.text, "sentence");
  item.filtered = [event.what, event.who, event.level, event.text].join(" ");
  return item;
}

export class Events {
  #known = new Map();
  #filter = () => true;
  #all = false;

  clear() {
    this.#known.clear();
    by_id("event-list").replaceChildren();
  }

  /** Has all events that weir keeps be shown. */
  show_all(events) {
    this.#all = true;
    this.take(events);
  }

  filter(text) {
    this.#filter = matcher(text);
    for (const item of this.#known.values()) item.hidden = !this.#filter(item.filtered);
  }

  /** Takes events that may be known, in any order. */
  take(events) {
    const list = by_id("event-list");
    for (const event of [...events].sort((a, b) => a.seq - b.seq)) {
      if (this.#known.has(event.seq)) continue;
      const item = line(event);
      item.hidden = !this.#filter(item.filtered);
      item.seq = event.seq;
      let before = list.firstElementChild;
      while (before && before.seq > event.seq) before = before.nextElementSibling;
      list.insertBefore(item, before);
      this.#known.set(event.seq, item);
    }
    while (list.childElementCount > (this.#all ? most : most_shown)) {
      this.#known.delete(list.lastElementChild.seq);
      list.lastElementChild.remove();
    }
  }
}

export function event_list(parent, events) {
  const list = element(parent, "ol", "", "events");
  for (const event of [...events].sort((a, b) => b.seq - a.seq)) list.append(line(event));
  return list;
}

// What is wrong, the worst first: what, who, since when, and where the runbook says what to do.

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

// A section of the runbook, which weir serves beside the page.

/** Returns the lines of the section whose heading has this anchor; an empty list if there is none. */
export function section(markdown, anchor) {
  const lines = markdown.split("\n");
  const slug = (heading) => heading.toLowerCase().replace(/[^\w\- ]/g, "").trim().replaceAll(" ", "-");
  const begin = lines.findIndex((line) => /^#+ /.test(line) && slug(line.replace(/^#+ /, "")) === anchor.toLowerCase());
  if (begin < 0) return [];
  const depth = lines[begin].match(/^#+/)[0].length;
  const length = lines.slice(begin + 1).findIndex((line) => /^#+ /.test(line) && line.match(/^#+/)[0].length <= depth);
  return lines.slice(begin, length < 0 ? undefined : begin + 1 + length);
}

/** Adds a line of text, in which `code` is code and a link its words. */
function inline(parent, text) {
  const plain = text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll("**", "");
  plain.split("`").forEach((part, i) => { if (part) i % 2 ? element(parent, "code", part) : parent.append(part); });
}

/** Shows headings, paragraphs, lists and blocks of code. Tables stay as they are written. */
export function show_markdown(parent, lines) {
  let place = null, kind = "";
  for (const line of lines) {
    if (line.startsWith("```")) {
      kind = kind === "code" ? "" : "code";
      place = kind ? element(parent, "pre") : null;
    } else if (kind === "code") {
      place.append(line + "\n");
    } else if (!line.trim()) {
      place = null;
      kind = "";
    } else if (/^#+ /.test(line)) {
      inline(element(parent, "h3"), line.replace(/^#+ /, ""));
    } else if (line.startsWith("|")) {
      if (kind !== "table") place = element(parent, "pre");
      kind = "table";
      place.append(line + "\n");
    } else if (/^(- |\d+\. )/.test(line)) {
      if (kind !== "list") element(parent, "ul", "", "prose");
      kind = "list";
      place = element(parent.lastElementChild, "li");
      inline(place, line.replace(/^(- |\d+\. )/, ""));
    } else {
      if (!place) place = element(parent, "p");
      inline(place, (place.childNodes.length ? " " : "") + line.trim());
    }
  }
}

// One replica, pool, request or finding, in place of the lists.

/** "#replica/gpu0" is where a replica is shown, so that the browser's way back works and a link can be sent. */
export const address = (kind, id) => "#" + kind + "/" + encodeURIComponent(id);

export function route_of(hash) {
  const [, kind, id] = hash.match(/^#(replica|pool|request|finding|weir)(?:\/(.*))?$/) ?? [];
  try {
    return kind ? { kind, id: decodeURIComponent(id ?? "") } : null;
  } catch { return null; /* A link that somebody has cut. */ }
}

function replica_facts(data) {
  const engine = data.engine || {};
  return [
    ["url", data.url], ["config", data.config], ["GPU", data.gpu], ["role", data.role],
    ["requests/s", short(data.requests_per_s)], ["share of its pool", percent(data.share)],
    ["failed in 60 s", short(data.failed_60s)], ["went elsewhere in 60 s", short(data.retries_60s)],
    ["tokens/s while busy", short(data.tokens_per_busy_s)], ["TTFT predicted within", percent(data.prediction_error)],
    ["TTFT beside its peers", times(data.peers?.ttft)], ["gaps beside its peers", times(data.peers?.icl)],
    ["oldest without a token", latency(data.oldest_unanswered_s)], ["queued decode tokens", short(data.queued_decode_tokens)],
    ["resident tokens", short(data.resident_tokens)], ["KV tokens", short(data.kv?.tokens)], ["cached", percent(data.cached_share)],
    ["estimated / true prompt", times(data.estimate_ratio)], ["engine", [engine.name, engine.version].filter(Boolean).join(" ")],
    ["model", engine.model], ["engine runs / queues", known(engine.running) ? short(engine.running) + " / " + short(engine.waiting) : null],
    ["unexplained requests there", short(engine.divergence)],
  ];
}

export class Detail {
  #page;
  #route = null;
  #charts = null;
  #grids = [];
  #update = null;

  /** `page` has live, series, actions, grids and runbook(). */
  constructor(page) { this.#page = page; }

  get route() { return this.#route; }
  /** Returns the grids that the keyboard can move through here. */
  get grids() { return this.#grids; }

  /** Shows what the route names, or nothing. */
  go(route) {
    this.#charts?.end();
    this.#charts = this.#update = null;
    this.#grids = [];
    this.#route = route;
    const place = by_id("detail");
    place.replaceChildren();
    place.hidden = route === null;
    by_id("lists").hidden = route !== null;
    if (!route) return;
    const head = element(place, "div", "", "heading");
    const title = element(head, "h2");
    title.id = "detail-title";
    title.tabIndex = -1;
    const back = element(head, "button", "Back (Esc)");
    back.type = "button";
    back.addEventListener("click", () => this.#page.back());
    put(title, { replica: "Replica ", pool: "Pool ", request: "Request ", finding: "", weir: "weir" }[route.kind] + (route.kind === "request" ? route.id.split("@")[0] : route.kind === "finding" ? words(route.id.split(":")[0]) : route.id));
    ({ replica: () => this.#row(place, head, "replicas"), pool: () => this.#row(place, head, "pools"), weir: () => this.#row(place, head, "weir"),
      request: () => this.#request(place), finding: () => this.#finding(place) })[route.kind]();
    title.focus({ preventScroll: true });
    scrollTo(0, 0);
    this.update();
  }

  update() {
    if (this.#page.live.document) this.#update?.(this.#page.live.document);
  }

  /** Shows what has been read of the window. */
  draw() { this.#charts?.show(this.#page.series); }
  point() { this.#charts?.point(this.#page.series); }
  repaint() { this.#charts?.repaint(); }

  /** Returns the query of /api/live/window for the row that is shown, without its length; null if no row is. */
  get window() {
    if (!this.#charts) return null;
    const { kind, id } = this.#route;
    return kind === "weir" ? "figures=cpu,memory_bytes,connections,loop_delay_p99_s" : kind + "=" + encodeURIComponent(id);
  }

  #row(place, head, kind) {
    const { id } = this.#route, { actions } = this.#page;
    const state = element(place, "p", "", "sentence");
    const buttons = element(head, "span", "", "buttons");
    if (kind === "replicas" && actions.allowed)
      for (const [word, act] of [["Drain (d)", () => actions.drain(id)], ["Undrain (u)", () => actions.undrain(id)]]) {
        const button = element(buttons, "button", word);
        button.type = "button";
        button.addEventListener("click", act);
      }
    const facts = element(place, "dl", "", "facts");
    const cells = new Map();
    this.#charts = new Charts(place, kind, id);
    const lists = [];
    const add_list = (title, member) => {
      element(place, "h2", title);
      const grid = request_grid(element(place, "div", "", "grid requests"), title, (request) => this.#page.open("request", request));
      const none = element(place, "p", "None.", "quiet");
      lists.push({ grid, member, none });
      this.#grids.push(grid);
    };
    let events = null;
    if (kind !== "weir") {
      add_list("Its slowest requests of 15 minutes", "slowest");
      add_list("Its failed requests among the last 20", "failed");
    }
    element(place, "h2", kind === "weir" ? "Events of weir itself" : "Its events");
    const event_place = element(place, "div");
    this.#update = (document) => {
      const data = kind === "weir" ? document.weir : document[kind]?.[id];
      put(state, data ? (kind === "replicas" ? sentence_of(id, data, document.time)
        : kind === "pools" ? `${data.up} of ${data.replicas} replicas are up.` : `Version ${data.version}, up for ${age(data.uptime_s)}, process ${data.pid}.`)
        : "weir's settings name it no longer.");
      for (const [name, value] of kind === "replicas" && data ? replica_facts(data) : []) {
        const shown = value === null || value === undefined || value === "" ? unknown : value;
        if (!cells.has(name)) {
          const fact = element(facts, "div");
          element(fact, "dt", name);
          cells.set(name, element(fact, "dd"));
        }
        put(cells.get(name), shown);
      }
      const mine = (list) => (list || []).filter((one) => (kind === "replicas" ? one.replica : one.pool) === id);
      for (const { grid, member, none } of lists) {
        const rows = request_rows(mine(document.requests?.[member]), document.time);
        grid.update(rows);
        none.hidden = rows.length > 0;
        grid.element.hidden = rows.length === 0;
      }
      const about = Object.values(document.events || {}).filter((event) => (event.who ?? "") === (kind === "weir" ? "" : id));
      const newest = about.map((event) => event.seq).join();
      if (newest !== events) {
        events = newest;
        event_place.replaceChildren();
        if (about.length) event_list(event_place, about);
        else element(event_place, "p", "None among the last 50.", "quiet");
      }
    };
  }

  #request(place) {
    const { id } = this.#route;
    let shown = false;
    this.#update = (document) => {
      if (shown) return;
      shown = true;
      const data = request_of(document, id);
      if (data) show_request(place, data);
      else element(place, "p", "This request is among the slowest and the last failed ones no longer. Its line is in the request log.");
    };
  }

  #finding(place) {
    const { id } = this.#route;
    const text = element(place, "p", "", "sentence"), since = element(place, "p", "", "quiet");
    const book = element(place, "div", "", "runbook");
    const what = id.split(":")[0];
    this.#page.runbook().then((markdown) => {
      const lines = section(markdown, what);
      if (lines.length) show_markdown(book, lines);
      else element(book, "p", `The runbook has no section ${what}.`, "quiet");
    }, (error) => element(book, "p", "The runbook cannot be read: " + error.message, "quiet"));
    this.#update = (document) => {
      const finding = document.findings?.[id];
      put(text, finding ? `${finding.severity}: ${finding.text}` : "This is over.");
      put(since, finding ? `Since ${clock(finding.since)}, for ${age(between(finding.since, document.time))}. ${finding.runbook ?? ""}` : "");
    };
  }
}
