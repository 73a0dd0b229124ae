// What has happened, the latest first.
import { by_id, element } from "./dom.js";
import { clock, words } from "./format.js";
import { matcher } from "./order.js";

const most = 1000, most_shown = 50;

function line(event) {
  const item = element(null, "li", "", "event " + event.level);
  const time = element(item, "time", clock(event.time));
  time.dateTime = event.time;
  element(item, "b", event.level === "info" ? words(event.what) : event.level + ", " + words(event.what));
  element(item, "span", event.text, "sentence");
  item.filtered = [event.what, event.who, event.level, event.text].join(" ");
  return item;
}

export class Events {
  #known = new Map();
  #filter = () => true;
  #all = false;

  clear() {
    this.#known.clear();
    by_id("event-list").replaceChildren();
  }

  /** Has all events that weir keeps be shown. */
  show_all(events) {
    this.#all = true;
    this.take(events);
  }

  filter(text) {
    this.#filter = matcher(text);
    for (const item of this.#known.values()) item.hidden = !this.#filter(item.filtered);
  }

  /** Takes events that may be known, in any order. */
  take(events) {
    const list = by_id("event-list");
    for (const event of [...events].sort((a, b) => a.seq - b.seq)) {
      if (this.#known.has(event.seq)) continue;
      const item = line(event);
      item.hidden = !this.#filter(item.filtered);
      item.seq = event.seq;
      let before = list.firstElementChild;
      while (before && before.seq > event.seq) before = before.nextElementSibling;
      list.insertBefore(item, before);
      this.#known.set(event.seq, item);
    }
    while (list.childElementCount > (this.#all ? most : most_shown)) {
      this.#known.delete(list.lastElementChild.seq);
      list.lastElementChild.remove();
    }
  }
}

export function event_list(parent, events) {
  const list = element(parent, "ol", "", "events");
  for (const event of [...events].sort((a, b) => b.seq - a.seq)) list.append(line(event));
  return list;
}
