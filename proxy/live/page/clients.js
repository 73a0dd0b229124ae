// Clients' keys that have requests.
import { put, put_class } from "./dom.js";
import { latency, of_limit, short } from "./format.js";
import { Grid, text_cell } from "./grid.js";
import { findings_of } from "./order.js";

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
