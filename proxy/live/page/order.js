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
