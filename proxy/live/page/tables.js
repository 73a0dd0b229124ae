// Rows of figures that are kept, not made anew: a row has its elements for as long as it is shown, and only what is in
// view and has changed is touched. So two hundred rows cost as much as a screenful.
import { Sparkline, seconds_shown } from "./charts.js";
import { by_id, element, put, put_class, put_hidden, put_style } from "./dom.js";
import { age, badness, between, clock, findings_of, known, latency, of_limit, percent, short, sorted, times, unknown, words } from "./format.js";

/**
 * A column has title, and cell(place), which returns a function that shows a row in that place. Where it can be sorted by,
 * it has value(row), too, and `descends` if the largest comes first. `kind` is a class: text, number, bar, spark, why.
 */
export class Grid {
  #place;
  #columns;
  #body;
  #heads = new Map();
  #rows = new Map();
  #order = [];
  #by = null;
  #reversed = false;
  #open;
  #seen;
  #chosen = null;

  constructor(place, { label, columns, open, sorts = true }) {
    this.#place = place;
    this.#columns = columns;
    this.#open = open;
    place.setAttribute("role", "grid");
    place.setAttribute("aria-label", label);
    const head = element(element(place, "div", "", "head"), "div", "", "row");
    head.parentElement.setAttribute("role", "rowgroup");
    head.setAttribute("role", "row");
    for (const column of columns) {
      const cell = element(head, "div", "", "cell " + (column.kind || "text"));
      cell.setAttribute("role", "columnheader");
      if (column.hint) cell.title = column.hint;
      if (!sorts || !column.value) {
        cell.textContent = column.title;
        continue;
      }
      const button = element(cell, "button", column.title);
      button.type = "button";
      button.addEventListener("click", () => this.sort(column === this.#by && this.#reversed ? null : column, column === this.#by));
      this.#heads.set(column, cell);
    }
    this.#body = element(place, "div", "", "body");
    this.#body.setAttribute("role", "rowgroup");
    this.#seen = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const row = target.row;
        row.seen = isIntersecting;
        if (isIntersecting) this.#show(row);
      }
    }, { rootMargin: "100px" });
  }

  get element() { return this.#place; }
  get count() { return this.#order.length; }
  get chosen() { return this.#chosen; }
  get sorted_by() { return this.#by ? (this.#reversed ? "reversed " : "") + this.#by.title : "worst first"; }
  /** Returns the rows in view. */
  *in_view() { for (const row of this.#rows.values()) if (row.seen) yield row; }

  /** Sorts by a column; by null, the worst row is first. */
  sort(column, reversed = false) {
    this.#by = column;
    this.#reversed = column !== null && reversed;
    for (const [one, cell] of this.#heads) {
      const falls = one.descends ? !this.#reversed : this.#reversed;
      if (one === column) cell.setAttribute("aria-sort", falls ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    this.#arrange([...this.#rows.values()].map((row) => row.of));
    this.changed?.();
  }

  /** Goes on to the next column, and behind the last one to the worst first. */
  cycle() {
    const all = [...this.#heads.keys()];
    const next = this.#by ? all.indexOf(this.#by) + 1 : 0;
    this.sort(all[next] ?? null);
  }

  /** Takes the rows that are to be shown: {id, bad, state, ...}. */
  update(rows) {
    const present = new Set();
    const at = this.#body.contains(document.activeElement) ? this.#order.indexOf(this.#chosen) : -1;
    for (const of of rows) {
      present.add(of.id);
      let row = this.#rows.get(of.id);
      if (!row) this.#rows.set(of.id, (row = this.#make(of)));
      row.of = of;
      if (row.seen) this.#show(row);
      else row.stale = true;
    }
    for (const [id, row] of this.#rows) {
      if (present.has(id)) continue;
      this.#seen.unobserve(row.element);
      row.element.remove();
      this.#rows.delete(id);
    }
    this.#arrange(rows);
    // The keyboard's focus does not go with a row that is gone: the row in its place has it.
    if (at >= 0 && this.#chosen === null && this.#order.length) this.choose(this.#order[Math.min(at, this.#order.length - 1)]);
  }

  /** Chooses a row and has the keyboard's focus go there. */
  choose(id, focus = true) {
    const row = this.#rows.get(id);
    if (!row) return;
    this.#mark(id);
    if (focus) {
      row.element.focus({ preventScroll: true });
      row.element.scrollIntoView({ block: "nearest" });
    }
  }

  /** Moves by so many rows. Returns false at either end. */
  move(by) {
    const at = this.#order.indexOf(this.#chosen);
    const next = at < 0 ? 0 : at + by;
    if (next < 0 || next >= this.#order.length) return false;
    this.choose(this.#order[next]);
    return true;
  }

  choose_end(last) { if (this.#order.length) this.choose(this.#order[last ? this.#order.length - 1 : 0]); }
  open_chosen() { if (this.#chosen !== null && this.#open) this.#open(this.#chosen); }

  #make(of) {
    const made = element(null, "div", "", "row");
    made.setAttribute("role", "row");
    made.tabIndex = -1;
    const row = { element: made, of, seen: false, stale: true };
    made.row = row;
    row.cells = this.#columns.map((column) => {
      const cell = element(made, "div", "", "cell " + (column.kind || "text"));
      cell.setAttribute("role", "gridcell");
      cell.dataset.label = column.title;
      return column.cell(cell);
    });
    made.addEventListener("focus", () => this.#mark(row.of.id));
    if (this.#open) made.addEventListener("click", () => {
      this.#mark(row.of.id);
      this.#open(row.of.id);
    });
    this.#seen.observe(made);
    return row;
  }

  #show(row) {
    row.stale = false;
    put_class(row.element, "row " + (row.of.state || ""));
    for (const cell of row.cells) cell(row.of);
  }

  #mark(id) {
    if (this.#chosen !== id) {
      const old = this.#rows.get(this.#chosen)?.element;
      if (old) { old.tabIndex = -1; old.removeAttribute("aria-selected"); }
    }
    this.#chosen = id;
    const row = this.#rows.get(id)?.element;
    if (row) { row.tabIndex = 0; row.setAttribute("aria-selected", "true"); }
  }

  #arrange(rows) {
    const order = sorted(rows, this.#by, this.#reversed).map((row) => row.id);
    const active = document.activeElement;
    const focused = this.#body.contains(active) && active.classList.contains("row") ? active : null;
    let at = this.#body.firstElementChild;
    for (const id of order) {
      const made = this.#rows.get(id).element;
      if (made === at) at = at.nextElementSibling;
      else this.#body.insertBefore(made, at);
    }
    this.#order = order;
    if (focused && focused.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
    if (this.#chosen === null || !this.#rows.has(this.#chosen)) {
      this.#chosen = null;
      const first = this.#rows.get(order[0])?.element;
      if (first) first.tabIndex = 0;
    }
  }
}

/** A cell that shows a text. */
export const text_cell = (text, title) => (place) => (row) => {
  put(place, text(row));
  if (title) {
    const says = title(row);
    if (place.title !== says) place.title = says;
  }
};

// A line for each pool.

/** A cell with a number, its peak, and its last minutes. */
export function rate_cell(series, kind, figure, now, peak) {
  return (place) => {
    const spark = new Sparkline(place, short);
    const most = element(place, "small");
    place.spark = spark;
    return (row) => {
      spark.show(series.values(kind, row.id, figure), short(now(row)), series.serial);
      const highest = peak(row) ?? series.peak(kind, row.id, figure, seconds_shown);
      // The window is some seconds behind.
      put(most, known(highest) ? "peak " + short(Math.max(highest, now(row) ?? 0)) : "");
    };
  };
}

/** A bar of shares from 0 to 1, with a text on it. `segments(row)` are [class, share]. */
export function bar_cell(segments, text, title) {
  return (place) => {
    const track = element(place, "span", "", "track");
    const parts = [];
    const says = element(place, "span", "", "says");
    return (row) => {
      const all = segments(row);
      while (parts.length < all.length) parts.push(element(track, "i"));
      parts.forEach((part, i) => {
        put_class(part, all[i]?.[0] ?? "");
        put_style(part, "width", 100 * Math.min(1, Math.max(0, all[i]?.[1] ?? 0)) + "%");
      });
      put(says, text(row));
      if (title) place.title = title(row);
    };
  };
}

export function pool_grid(place, series, open) {
  const columns = [
    { title: "Pool", kind: "name", value: (row) => row.id, cell: (cell) => {
      const sign = element(cell, "span", "", "sign");
      const name = element(cell, "b"), up = element(cell, "small");
      return (row) => {
        put_class(sign, "sign " + row.state);
        put(name, row.id);
        put(up, row.data.up + " of " + row.data.replicas + " up");
      };
    } },
    { title: "Requests/s", kind: "rate", descends: true, value: (row) => row.data.requests_per_s,
      cell: rate_cell(series, "pools", "requests_per_s", (row) => row.data.requests_per_s, (row) => row.data.peak?.requests_per_s) },
    { title: "Tokens out/s", kind: "rate", descends: true, value: (row) => row.data.tokens_out_per_s,
      cell: rate_cell(series, "pools", "tokens_out_per_s", (row) => row.data.tokens_out_per_s, (row) => row.data.peak?.tokens_out_per_s) },
    { title: "Tokens in/s", kind: "number wide", descends: true, value: (row) => row.data.tokens_in_per_s, cell: text_cell((row) => short(row.data.tokens_in_per_s)) },
    { title: "Failed/s", kind: "number", hint: "Requests that the pool failed; the last 60 s by outcome are in the row's title", descends: true,
      value: (row) => row.data.failed_per_s, cell: (cell) => (row) => {
        put_class(cell, "cell number" + (row.data.failed_per_s > 0 ? " bad" : ""));
        put(cell, (row.data.failed_per_s > 0 ? "! " : "") + short(row.data.failed_per_s));
        cell.title = Object.entries(row.data.outcomes_60s || {}).map(([word, count]) => word + " " + count).join(", ");
      } },
    { title: "Refused/s", kind: "number wide", descends: true, value: (row) => row.data.refused_per_s, cell: text_cell((row) => short(row.data.refused_per_s)) },
    { title: "Objective", kind: "number", hint: "The share of good requests in 60 s by the pool's first objective", value: (row) => row.data.slo?.attainment,
      cell: text_cell((row) => (row.data.slo ? percent(row.data.slo.attainment) : unknown),
                      (row) => (row.data.slo ? `${row.data.slo.name}: ${row.data.slo.good_60s} good, ${row.data.slo.bad_60s} bad in 60 s` : "")) },
    { title: "In flight", kind: "number", hint: "now / peak / limit", descends: true, value: (row) => row.data.in_flight,
      cell: text_cell((row) => of_limit(row.data.in_flight, row.data.peak?.in_flight, row.data.max_in_flight)) },
    { title: "Waiting", kind: "number", hint: "now / peak / limit", descends: true, value: (row) => row.data.waiting, cell: (cell) => (row) => {
      put_class(cell, "cell number" + (row.data.waiting > 0 ? " warn" : ""));
      put(cell, of_limit(row.data.waiting, row.data.peak?.waiting, row.data.queue));
    } },
    { title: "Oldest", kind: "number", hint: "The age of the oldest request in the queue", descends: true, value: (row) => row.data.oldest_waiting_s,
      cell: text_cell((row) => latency(row.data.oldest_waiting_s), (row) => "the oldest without a first token on a replica: " + latency(row.data.oldest_unanswered_s)) },
    { title: "TTFT p50 / p95", kind: "number", descends: true, value: (row) => row.data.ttft_s?.p50,
      cell: text_cell((row) => latency(row.data.ttft_s?.p50) + " / " + latency(row.data.ttft_s?.p95)) },
  ];
  return new Grid(place, { label: "Pools", columns, open });
}

export function pool_rows(document) {
  return Object.entries(document.pools || {}).map(([id, data]) => {
    const none = data.replicas > 0 && data.up === 0;
    return { id, data, bad: none ? 0 : 1, state: none ? "down" : data.failed_per_s > 0 || data.waiting > 0 || data.up < data.replicas ? "warn" : "up", text: () => id };
  });
}

// A row for each replica: its state and why, what it has to do, and how fast it is.

const sum = (a, b) => (known(a) || known(b) ? (a ?? 0) + (b ?? 0) : null);

/** Returns how much of its row's scale the requests fill: of its limit, or of the most that a replica of its pool has. */
function flight_segments(row) {
  const { in_prefill, in_decode, in_flight } = row.data;
  if (!known(in_prefill) || !known(in_decode)) return [["decode", in_flight / row.most]];
  return [["prefill", in_prefill / row.most], ["decode", in_decode / row.most]];
}

function flight_text({ data }) {
  const of = known(data.max_in_flight) ? " / " + short(data.max_in_flight) : "";
  if (!known(data.in_prefill) || !known(data.in_decode)) return short(data.in_flight) + of;
  return short(Math.round(data.in_prefill)) + " + " + short(Math.round(data.in_decode)) + of;
}

export function replica_grid(place, series, open) {
  const columns = [
    { title: "Replica", kind: "name", value: (row) => row.id, cell: (cell) => {
      const sign = element(cell, "span", "", "sign"), name = element(cell, "b");
      const pool = element(cell, "small"), tag = element(cell, "em");
      return (row) => {
        put_class(sign, "sign " + row.state);
        put(name, row.id);
        put(pool, row.data.pool);
        put(tag, row.findings.map((finding) => words(finding.what)).join(", "));
        put_hidden(tag, !row.findings.length);
      };
    } },
    { title: "State", kind: "state", hint: "State, and for how long", value: (row) => row.data.state, cell: (cell) => {
      const state = element(cell, "b"), lasts = element(cell, "small");
      return (row) => {
        put(state, row.data.leaving ? row.data.state + ", leaving" : row.data.state);
        put(lasts, age(row.lasts));
        cell.title = "since " + clock(row.data.since);
      };
    } },
    { title: "Prefill + decode", kind: "bar flight", hint: "Requests before and after their first token, and the limit", descends: true,
      value: (row) => row.data.in_flight, cell: bar_cell(flight_segments, flight_text) },
    { title: "Queued tokens", kind: "number", hint: "Prompt tokens without a first token, as weir's books have them", descends: true,
      value: (row) => row.data.queued_prefill_tokens,
      cell: text_cell((row) => short(row.data.queued_prefill_tokens), (row) => "oldest without a first token: " + latency(row.data.oldest_unanswered_s)) },
    { title: "KV cache", kind: "bar kv", hint: "Share in use; * is weir's own reckoning, without it the engine's word", descends: true,
      value: (row) => row.data.kv?.usage,
      cell: bar_cell((row) => [["kv", row.data.kv?.usage ?? 0]],
                     (row) => (known(row.data.kv?.usage) ? percent(row.data.kv.usage) + (row.data.kv.source === "weir" ? " *" : "") : unknown)) },
    { title: "TTFT p50 / p95", kind: "number", descends: true, value: (row) => row.data.ttft_s?.p50,
      cell: text_cell((row) => latency(row.data.ttft_s?.p50) + " / " + latency(row.data.ttft_s?.p95)) },
    { title: "TPOT p50", kind: "number", descends: true, value: (row) => row.data.tpot_s?.p50, cell: text_cell((row) => latency(row.data.tpot_s?.p50)) },
    { title: "Tokens/s", kind: "rate", descends: true, value: (row) => row.data.tokens_out_per_s,
      cell: rate_cell(series, "replicas", "tokens_out_per_s", (row) => row.data.tokens_out_per_s, () => null) },
    { title: "Predicted", kind: "number wide", hint: "Half of weir's predictions of the time to first token were right within this share", value: (row) => row.data.prediction_error,
      cell: text_cell((row) => (known(row.data.prediction_error) ? "± " + percent(row.data.prediction_error) : unknown),
                      (row) => `beside its peers: TTFT ${times(row.data.peers?.ttft)}, gaps between chunks ${times(row.data.peers?.icl)}`) },
    { title: "Failed/min", kind: "number wide", descends: true, hint: "Requests in 60 s that it failed, and those that another replica got then",
      value: (row) => sum(row.data.failed_60s, row.data.retries_60s), cell: (cell) => (row) => {
        const all = sum(row.data.failed_60s, row.data.retries_60s);
        put_class(cell, "cell number wide" + (all > 0 ? " bad" : ""));
        put(cell, (all > 0 ? "! " : "") + short(row.data.failed_60s) + " + " + short(row.data.retries_60s));
      } },
    { title: "Cached", kind: "number wide", hint: "Prompt tokens that its prefix cache held, over 60 s", descends: true,
      value: (row) => row.data.cached_share, cell: text_cell((row) => percent(row.data.cached_share)) },
    { title: "Engine", kind: "text wide", value: (row) => row.data.engine?.version,
      cell: text_cell((row) => [row.data.engine?.name, row.data.engine?.version].filter(Boolean).join(" ") || unknown,
                      (row) => [row.data.engine?.name, row.data.engine?.version, row.data.engine?.model].filter(Boolean).join(" ")) },
    { title: "Why", kind: "why", cell: (cell) => (row) => {
      const well = row.data.state === "up" && !row.data.asleep;
      const why = well ? row.data.idle && "idle: " + row.data.idle : row.data.reason;
      put_hidden(cell, !why);
      put(cell, why || "");
    } },
  ];
  return new Grid(place, { label: "Replicas", columns, open });
}

const about_replicas = new Set(["slow_replica", "empty_answers", "wrong_estimates", "coalescing_upstream", "drain_forgotten", "foreign_load"]);

/** Returns the rows of all replicas, with what is needed to show, sort and filter them. */
export function replica_rows(document) {
  const findings = findings_of(document.findings, (finding) => about_replicas.has(finding.what));
  const entries = Object.entries(document.replicas || {});
  const most = new Map();
  for (const [, data] of entries) most.set(data.pool, Math.max(most.get(data.pool) ?? 1, data.in_flight));
  return entries.map(([id, data]) => {
    const found = findings.get(id) ?? [];
    const state = data.state === "up" && found.length ? "warn" : data.state;
    const text = () => [id, data.pool, data.state, data.role, data.config, data.gpu, data.url, data.reason, data.engine?.model, data.engine?.version,
      ...found.map((finding) => finding.what)].join(" ");
    return { id, data, lasts: between(data.since, document.time), findings: found, bad: badness(data, found), state, text, most: data.max_in_flight ?? most.get(data.pool) };
  });
}

/** Writes a replica's state as a sentence. */
export function sentence_of(id, data, time) {
  const since = `${id} is ${data.state} for ${age(between(data.since, time))}, since ${clock(data.since)}`;
  return data.reason ? since + ": " + data.reason : since;
}

// Clients' keys that have requests.

const number = (title, member, hint, kind = "number") => ({ title, hint, kind, descends: true, value: (row) => row.data[member], cell: text_cell((row) => short(row.data[member])) });

export function key_grid(place) {
  const columns = [
    { title: "Key", kind: "name", value: (row) => row.id, cell: text_cell((row) => row.id) },
    { title: "Open", kind: "number", hint: "Under way or waiting / the limit", descends: true, value: (row) => row.data.open,
      cell: text_cell((row) => of_limit(row.data.open, null, row.data.max_in_flight)) },
    { title: "Waiting", kind: "number", descends: true, value: (row) => row.data.waiting, cell: (cell) => (row) => {
      put_class(cell, "cell number" + (row.data.waiting > 0 ? " warn" : ""));
      put(cell, short(row.data.waiting));
    } },
    { title: "Waited", kind: "number", hint: "Mean of those whose turn came in the last 10 s", descends: true, value: (row) => row.data.wait_s,
      cell: text_cell((row) => latency(row.data.wait_s)) },
    number("Requests/s", "requests_per_s"), number("Tokens out/s", "tokens_out_per_s"), number("Refused/min", "refused_60s", "By the key's own limit, or by a queue"),
    number("Failed/min", "failed_60s", "", "number wide"), number("Tokens in/s", "tokens_in_per_s", "", "number wide"),
  ];
  return new Grid(place, { label: "Clients' keys", columns });
}

export function key_rows(document) {
  const findings = findings_of(document.findings, (finding) => finding.what === "flooding_key");
  return Object.entries(document.keys || {}).map(([id, data]) => ({
    id, data, bad: (findings.has(id) ? -1e9 : 0) - data.waiting, state: findings.has(id) ? "warn" : "", text: () => id,
  }));
}

// The slowest and the failed requests, each with the phases of its time on one line.

/** The phases of a request, in the order in which they are drawn. */
export const phases = [
  { member: "earlier_s", name: "earlier", says: "Earlier attempts, and all else before the replica that answered" },
  { member: "wait_s", name: "wait", says: "In weir's queue" },
  { member: "connect_s", name: "connect", says: "Connecting" },
  { member: "prefill_s", name: "prefill", says: "From the request's first byte on the replica to its first token" },
  { member: "decode_s", name: "decode", says: "From the first token to the last" },
];

/** Returns [phase, begin, length] in seconds; what no phase explains is last. */
export function timeline(request) {
  const parts = [];
  let begin = 0;
  for (const phase of phases) {
    const length = request[phase.member] ?? 0;
    if (length > 0) parts.push([phase, begin, length]);
    begin += length;
  }
  const rest = (request.total_s ?? 0) - begin;
  if (rest > 0.0005) parts.push([{ name: "rest", says: "All else, until the end for the client" }, begin, rest]);
  return parts;
}

export function legend() {
  for (const phase of phases) {
    const item = element(by_id("phases"), "li");
    element(item, "i", "", phase.name);
    item.append(phase.name);
    item.title = phase.says;
  }
}

const id_of = (request) => request.id + "@" + request.time;

export function request_grid(place, label, open) {
  const columns = [
    { title: "Ended ago", kind: "number", value: (row) => row.ago, cell: text_cell((row) => age(row.ago), (row) => clock(row.data.time)) },
    { title: "Request", kind: "id", value: (row) => row.data.id,
      cell: text_cell((row) => row.data.id ?? unknown, (row) => [row.data.id, row.data.client_id].filter(Boolean).join(", the client's ")) },
    { title: "Key", kind: "text wide", value: (row) => row.data.key, cell: text_cell((row) => row.data.key ?? unknown) },
    { title: "Replica", kind: "text", value: (row) => row.data.replica, cell: text_cell((row) => row.data.replica ?? unknown) },
    { title: "Outcome", kind: "text outcome", value: (row) => row.data.outcome, cell: (cell) => (row) => {
      const good = row.data.outcome === "ok";
      put_class(cell, "cell text outcome" + (good ? "" : " bad"));
      put(cell, (good ? "" : "! ") + words(row.data.outcome) + (row.data.status ? " " + row.data.status : "") +
        (row.data.attempts > 1 ? ", " + row.data.attempts + " attempts" : ""));
    } },
    { title: "Phases", kind: "bar phases", cell: bar_cell((row) => timeline(row.data).map(([phase, , length]) => [phase.name, length / row.most]), () => "",
      (row) => timeline(row.data).map(([phase, , length]) => phase.name + " " + latency(length)).join(", ")) },
    { title: "TTFT", kind: "number", descends: true, value: (row) => row.data.ttft_client_s, cell: text_cell((row) => latency(row.data.ttft_client_s)) },
    { title: "Total", kind: "number", descends: true, value: (row) => row.data.total_s, cell: text_cell((row) => latency(row.data.total_s)) },
  ];
  return new Grid(place, { label, columns, open });
}

/** Returns the rows of a list of requests, in its own order. */
export function request_rows(list, time) {
  const most = Math.max(1e-6, ...(list || []).map((one) => one.total_s ?? 0));
  return (list || []).map((data, i) => ({
    id: id_of(data), data, most, bad: i, state: "", ago: between(data.time, time),
    text: () => [data.id, data.client_id, data.key, data.pool, data.replica, data.model, data.outcome, data.status, data.api].join(" "),
  }));
}

/** Returns the request of that row; null if it is in no list. */
export function request_of(document, id) {
  const { slowest = [], failed = [] } = document.requests || {};
  return [...slowest, ...failed].find((one) => id_of(one) === id) ?? null;
}

/** Shows one request: its phases on a line of time, and all that is known of it. */
export function show_request(place, data) {
  const total = Math.max(1e-6, data.total_s ?? 0);
  const list = element(place, "ol", "", "timeline");
  for (const [phase, begin, length] of timeline(data)) {
    const item = element(list, "li");
    element(item, "b", phase.name);
    element(item, "span", latency(length), "length");
    const track = element(item, "span", "", "track");
    const bar = element(track, "i", "", phase.name);
    bar.style.setProperty("left", (100 * begin) / total + "%");
    bar.style.setProperty("width", (100 * length) / total + "%");
    element(item, "small", phase.says);
  }
  if (data.tried?.length) {
    element(place, "h3", "Attempts");
    const attempts = element(place, "ol", "", "timeline");
    for (const one of data.tried) {
      const item = element(attempts, "li");
      element(item, "b", one.replica);
      element(item, "span", latency(one.to_s - one.from_s), "length");
      const track = element(item, "span", "", "track");
      const bar = element(track, "i", "", one.why ? "earlier" : "decode");
      bar.style.setProperty("left", (100 * one.from_s) / total + "%");
      bar.style.setProperty("width", (100 * (one.to_s - one.from_s)) / total + "%");
      element(item, "small", [one.status ? "status " + one.status : "no answer", one.why ? "tried again: " + words(one.why) : "the last one"].join(", "));
    }
  }
  const facts = element(place, "dl", "", "facts");
  const add = (name, value) => {
    if (value === null || value === undefined || value === unknown) return;
    const fact = element(facts, "div");
    element(fact, "dt", name);
    element(fact, "dd", String(value));
  };
  add("id", data.id);
  add("client's id", data.client_id);
  add("ended", clock(data.time));
  add("key", data.key);
  add("pool", data.pool);
  add("replica", data.replica);
  add("API", data.api);
  add("model", data.model);
  add("streamed", data.stream === undefined ? null : data.stream ? "yes" : "no");
  add("outcome", words(data.outcome) + (data.status ? ", status " + data.status : ""));
  add("failed in", data.phase && words(data.phase));
  add("attempts", data.attempts);
  add("TTFT for the client", latency(data.ttft_client_s));
  add("TPOT", latency(data.tpot_s));
  add("total", latency(data.total_s));
  add("prompt tokens", short(data.prompt_tokens));
  add("cached tokens", short(data.cached_tokens));
  add("output tokens", short(data.output_tokens));
  const line = element(place, "p", "Its line in the request log: ", "quiet");
  element(line, "code", `jq 'select(.id == "${data.id}")' requests.jsonl`);
}
