// Numbers and times as the page shows them. A figure that is unknown is a dash, never 0.

export const unknown = "-";

export const known = (value) => typeof value === "number" && Number.isFinite(value);

function digits(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(Number.isInteger(value) ? 0 : 1);
  return Number.isInteger(value) ? String(value) : value.toFixed(size >= 1 ? 1 : 2);
}

/** Writes a count or a rate with at most three digits that count: 7, 0.40, 41.2, 1.9k, 23k, 4.1M. */
export function short(value) {
  if (!known(value)) return unknown;
  let scaled = value, unit = "";
  for (const next of ["k", "M", "G"]) {
    if (Math.abs(scaled) < 999.5) break;
    scaled /= 1000;
    unit = next;
  }
  if (!unit) return digits(value);
  return (Math.abs(scaled) >= 9.95 ? scaled.toFixed(0) : scaled.toFixed(1)) + unit;
}

/** Writes a latency in seconds: 0.20 ms, 71 ms, 1.20 s, 12.3 s, 2m05s. */
export function latency(seconds) {
  if (!known(seconds)) return unknown;
  if (seconds === 0) return "0 ms";
  if (seconds < 0.00995) return (1000 * seconds).toFixed(2) + " ms";
  if (seconds < 0.9995) return (1000 * seconds).toFixed(0) + " ms";
  if (seconds < 9.995) return seconds.toFixed(2) + " s";
  return seconds < 99.95 ? seconds.toFixed(1) + " s" : age(seconds);
}

/** Writes how long something has lasted: 7s, 4m12s, 3h04m, 5d02h. */
export function age(seconds) {
  if (!known(seconds)) return unknown;
  const whole = Math.max(0, Math.floor(seconds));
  const two = (number) => String(number).padStart(2, "0");
  if (whole < 60) return whole + "s";
  if (whole < 3600) return Math.floor(whole / 60) + "m" + two(whole % 60) + "s";
  if (whole < 86400) return Math.floor(whole / 3600) + "h" + two(Math.floor(whole / 60) % 60) + "m";
  return Math.floor(whole / 86400) + "d" + two(Math.floor(whole / 3600) % 24) + "h";
}

/** Writes a share from 0 to 1 in percent. Shares near 1 keep the digits that tell them from 1. */
export function percent(share) {
  if (!known(share)) return unknown;
  const value = 100 * share;
  if (value === 0 || value === 100) return value.toFixed(0) + " %";
  return (value < 9.95 || value > 95 ? value.toFixed(value > 99.9 ? 2 : 1) : value.toFixed(0)) + " %";
}

/** Writes a relative change with its sign, and without one where all its digits are 0: +7.0 %, -18.0 %, 0.0 %. */
export function change(share) {
  if (!known(share)) return unknown;
  if (share >= 9.995) return "above +999 %";
  const size = Math.abs(100 * share).toFixed(1);
  return (Number(size) === 0 ? "" : share > 0 ? "+" : "-") + size + " %";
}

/** Writes how many times as large a figure is. */
export const times = (ratio) => (known(ratio) ? ratio.toFixed(2) + "×" : unknown);

export function bytes(count) {
  if (!known(count)) return unknown;
  if (count === 0) return "0";
  const mebi = count / 1048576;
  if (mebi < 1) return (count / 1024).toFixed(count < 10240 ? 1 : 0) + " KiB";
  return mebi < 1024 ? (mebi < 10 ? mebi.toFixed(1) : mebi.toFixed(0)) + " MiB" : (mebi / 1024).toFixed(1) + " GiB";
}

/** A saved report is read elsewhere: its times are UTC. */
export const zone = { utc: false };

/** Writes an RFC 3339 time as the clock of this browser shows it. */
export function clock(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? unknown : zone.utc ? date.toISOString().slice(11, 19) : date.toTimeString().slice(0, 8);
}

/** Returns the seconds between two RFC 3339 times; null if one is unknown. */
export function between(from, to) {
  const seconds = (Date.parse(to) - Date.parse(from)) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : null;
}

/** Writes now, the peak and the limit side by side. */
export const of_limit = (now, peak, limit) =>
  [short(now), ...(known(peak) ? [short(peak)] : []), ...(known(limit) ? [short(limit)] : [])].join(" / ");

/** Writes a name of the API as words. */
export const words = (name) => String(name ?? unknown).replaceAll("_", " ");

// Which row comes first, and which rows a filter leaves.

const collator = new Intl.Collator("en", { numeric: true });
export const by_name = (a, b) => collator.compare(a, b);

const of_state = { down: 0, ejected: 1, draining: 3, starting: 4, up: 5 };
const of_severity = { critical: 0, warning: 1 };

/** Returns the findings about a row by its name, the worst first. */
export function findings_of(findings, kinds) {
  const about = new Map();
  for (const finding of sorted_findings(findings)) {
    if (kinds && !kinds(finding)) continue;
    if (!about.has(finding.who)) about.set(finding.who, []);
    about.get(finding.who).push(finding);
  }
  return about;
}

/** Returns the findings, the worst first, and among equals the latest. */
export function sorted_findings(findings) {
  return Object.values(findings || {}).sort((a, b) =>
    (of_severity[a.severity] ?? 2) - (of_severity[b.severity] ?? 2) || (a.since < b.since ? 1 : a.since > b.since ? -1 : 0) ||
    by_name(String(a.who), String(b.who)));
}

/** Returns how bad a replica's row is: the lower, the worse. Rows that are equally bad do not change places. */
export function badness(replica, findings = []) {
  const state = of_state[replica.state] ?? 0;
  const shadow = replica.role === "shadow" ? 0.5 : 0;
  if (state < 2) return state + shadow;
  return (findings.length ? 2 : state) + shadow;
}

/**
 * Returns the rows in order. `column` has value(row), and `descends` where the largest is to be first; without a column
 * the worst are. Unknown values are last, either way round.
 */
export function sorted(rows, column, reversed = false) {
  const sign = reversed ? -1 : 1;
  return [...rows].sort((a, b) => {
    if (column) {
      const x = column.value(a), y = column.value(b);
      const no_x = x === null || x === undefined, no_y = y === null || y === undefined;
      if (no_x !== no_y) return no_x ? 1 : -1;
      const order = no_x ? 0 : typeof x === "string" ? by_name(x, y) : x - y;
      if (order) return sign * (column.descends ? -order : order);
    } else if (a.bad !== b.bad) {
      return sign * (a.bad - b.bad);
    }
    return by_name(a.id, b.id);
  });
}

/** Returns a function that says whether a row's text has every word of the filter. A word after "-" must be absent. */
export function matcher(filter) {
  const all = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return (text) => {
    const lower = text.toLowerCase();
    return all.every((word) => (word.length > 1 && word.startsWith("-") ? !lower.includes(word.slice(1)) : lower.includes(word)));
  };
}
