// The slowest and the failed requests, each with the phases of its time on one line.
import { by_id, element, put, put_class } from "./dom.js";
import { age, between, clock, latency, short, unknown, words } from "./format.js";
import { Grid, text_cell } from "./grid.js";
import { bar_cell } from "./pools.js";

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
