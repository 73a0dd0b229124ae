// The last seconds of each figure that is drawn, as /api/live/window gives them: one number a second.

export const longest = 900;

export class Series {
  #rows = new Map();
  #serial = null;
  #end = null;

  clear() {
    this.#rows.clear();
    this.#serial = this.#end = null;
  }

  /** Returns the serial of the last number of each list; null before the first answer. */
  get serial() { return this.#serial; }
  /** Returns the moment of the last numbers, in seconds since 1970. */
  get end() { return this.#end; }

  /** Takes an answer of /api/live/window. Its lists go on from those that are here, or replace them. */
  take(answer) {
    if (this.#serial !== null && answer.serial < this.#serial) this.clear();
    const seen = answer.serial;
    for (const kind of ["pools", "replicas", "shadows"])
      for (const [name, figures] of Object.entries(answer[kind] || {})) this.#put(kind + "/" + name, figures, seen);
    if (answer.weir) this.#put("weir/", answer.weir, seen);
    this.#serial = seen;
    this.#end = Math.round(Date.parse(answer.end) / 1000);
    this.#forget(seen);
  }

  #put(row, figures, serial) {
    let known = this.#rows.get(row);
    if (!known) this.#rows.set(row, (known = new Map()));
    for (const [figure, values] of Object.entries(figures)) {
      const list = known.get(figure);
      const fresh = list ? serial - list.serial : Infinity;
      if (fresh > values.length || (fresh >= 0 && values.length > list.values.length)) {
        known.set(figure, { serial, values: values.slice(-longest) });
        continue;
      }
      if (fresh <= 0) continue;
      list.values.push(...values.slice(-fresh));
      if (list.values.length > longest) list.values.splice(0, list.values.length - longest);
      list.serial = serial;
    }
  }

  /** Rows that have left the answers are let go. */
  #forget(serial) {
    for (const [row, figures] of this.#rows)
      for (const [figure, list] of figures) {
        if (serial - list.serial <= longest) continue;
        figures.delete(figure);
        if (!figures.size) this.#rows.delete(row);
      }
  }

  /** Returns the numbers of a figure, the last at the end; an empty list if there are none. */
  values(kind, name, figure) {
    return this.#rows.get(kind + "/" + name)?.get(figure)?.values ?? [];
  }

  /** Returns the most of the last `seconds`; null if nothing is known. */
  peak(kind, name, figure, seconds) {
    let most = null;
    for (const value of this.values(kind, name, figure).slice(-seconds))
      if (value !== null && (most === null || value > most)) most = value;
    return most;
  }
}
