// Rows of figures that are kept, not made anew: a row has its elements for as long as it is shown, and only what is in
// view and has changed is touched. So two hundred rows cost as much as a screenful.
import { element, put, put_class } from "./dom.js";
import { sorted } from "./order.js";

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
