// One replica, pool, request or finding, in place of the lists.
import { Charts } from "./charts.js";
import { by_id, element, put } from "./dom.js";
import { age, between, clock, known, latency, percent, short, times, unknown, words } from "./format.js";
import { event_list } from "./events.js";
import { sentence_of } from "./replicas.js";
import { request_grid, request_of, request_rows, show_request } from "./requests.js";
import { section, show_markdown } from "./runbook.js";

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
