// A row for each replica: its state and why, what it has to do, and how fast it is.
import { element, put, put_class, put_hidden } from "./dom.js";
import { age, between, clock, known, latency, percent, short, times, unknown, words } from "./format.js";
import { Grid, text_cell } from "./grid.js";
import { badness, findings_of } from "./order.js";
import { bar_cell, rate_cell } from "./pools.js";

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
