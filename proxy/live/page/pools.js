// A line for each pool.
import { put, put_class, element, put_style } from "./dom.js";
import { known, latency, of_limit, percent, short, unknown } from "./format.js";
import { Grid, text_cell } from "./grid.js";
import { seconds_shown, Sparkline } from "./sparkline.js";

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
