// Questions to whoever sits before the page: the token, whether something is really to be done, and help.
import { by_id, element, put, put_class, put_hidden } from "./dom.js";
import { age, bytes, clock, known, latency, of_limit, short, unknown } from "./format.js";

/** Opens the dialog with what `fill(dialog, close)` puts there. Returns what close was called with; null after Esc. */
function ask(title, fill) {
  const dialog = by_id("dialog");
  if (dialog.open) dialog.close();
  dialog.replaceChildren();
  element(dialog, "h2", title).id = "dialog-title";
  return new Promise((answer) => {
    let given = null;
    fill(dialog, (value) => {
      given = value;
      dialog.close();
    });
    // The event comes after the call, so that of a question that this one has replaced is among those that come here.
    const closed = () => {
      if (dialog.open) return;
      dialog.removeEventListener("close", closed);
      answer(given);
    };
    dialog.addEventListener("close", closed);
    dialog.showModal();
  });
}

function button(parent, text, action) {
  const made = element(parent, "button", text);
  made.type = "button";
  made.addEventListener("click", action);
  return made;
}

/** Asks for the admin listener's token. */
export function ask_token(why) {
  return ask("weir's token", (dialog, close) => {
    element(dialog, "p", why);
    const form = element(dialog, "form");
    const label = element(form, "label", "Token ");
    const field = element(label, "input");
    field.type = "password";
    field.autocomplete = "off";
    field.required = true;
    element(form, "p", "This tab keeps it until it is closed, and sends it to this weir alone.", "quiet");
    element(element(form, "div", "", "buttons"), "button", "Show weir").type = "submit";
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      close(field.value.trim());
    });
  });
}

/** Says what is about to be done, and asks whether it is to be. */
export function confirm_act(title, sentences, word) {
  return ask(title, (dialog, close) => {
    for (const sentence of sentences) element(dialog, "p", sentence);
    const row = element(dialog, "div", "", "buttons");
    button(row, word, () => close(true)).classList.add("act");
    button(row, "Leave it as it is", () => close(null)).autofocus = true;
  });
}

export function tell(title, sentences) {
  return ask(title, (dialog, close) => {
    for (const sentence of sentences) element(dialog, "p", sentence);
    button(element(dialog, "div", "", "buttons"), "Close", () => close(null)).autofocus = true;
  });
}

const keys = [
  ["/", "filter the rows: words that must be there, -word that must not"],
  ["s", "sort by the next column; the worst row is first again at the end"],
  ["↓ ↑", "next row, row before"], ["Home End", "first row, last row"], ["Enter", "open the row"], ["Esc", "back, or no filter"],
  ["p r k e", "go to pools, replicas, clients' keys, events"],
  ["w", "weir itself"], ["d", "drain the replica"], ["u", "undrain it"], ["?", "this help"],
];
const signs = [
  ["up", "up: takes requests"], ["warn", "a finding is about it; in a pool, a replica is out, or requests wait or fail"], ["starting", "starting: takes some requests"],
  ["draining", "draining: takes no more"], ["ejected", "ejected for a while, for failing"], ["down", "down: does not answer"],
];

export function show_help() {
  return ask("Keys and signs", (dialog, close) => {
    const list = element(dialog, "dl", "", "keys");
    for (const [key, says] of keys) {
      element(element(list, "dt"), "kbd", key);
      element(list, "dd", says);
    }
    const legend = element(dialog, "ul", "", "signs");
    for (const [state, says] of signs) {
      const item = element(legend, "li");
      element(item, "span", "", "sign " + state);
      item.append(says);
    }
    element(dialog, "p", "“-” is unknown. Small charts are of the last five minutes, and “peak” is the most in them or in weir's window of 15 minutes. Figures fade when they are old.", "quiet");
    element(dialog, "p", "The same as JSON: /api/live, /api/live/window, /api/events.", "quiet");
    button(element(dialog, "div", "", "buttons"), "Close", () => close(null)).autofocus = true;
  });
}

// What this page can change in weir. It does so only with the admin listener's token, and says first what it will do.

export class Actions {
  #live = null;
  #document = () => null;

  /** To be called with each new connection. */
  use(live) {
    this.#live = live;
    this.#document = () => live.document;
  }

  get allowed() { return this.#live?.has_token ?? false; }

  async drain(name) {
    const replica = this.#document()?.replicas?.[name];
    if (!replica) return;
    const others = Object.entries(this.#document().replicas).filter(([id, one]) => id !== name && one.pool === replica.pool && one.state === "up").length;
    await this.#act(`Drain ${name}?`, [
      `No new request goes to ${name}. Its ${replica.in_flight} requests go on to their end; those that have not ended after limits.drain are cut.`,
      others ? `Other replicas of pool ${replica.pool} that are up: ${others}.` : `No other replica of pool ${replica.pool} is up, so weir will refuse to drain this one.`,
      "Undrain (u) takes it back.",
    ], "Drain " + name, `/api/replicas/${name}/drain`);
  }

  async undrain(name) {
    if (!this.#document()?.replicas?.[name]) return;
    await this.#act(`Undrain ${name}?`, [
      `${name} takes requests again, and starts slowly. If it is ejected, it comes back at once, on probation.`,
    ], "Undrain " + name, `/api/replicas/${name}/undrain`);
  }

  async shadow(name, on) {
    await this.#act(`Switch shadow ${name} ${on ? "on" : "off"}?`, on
      ? [`${name} gets copies of requests from now on. Its comparison begins anew, and it is cold for ten minutes.`]
      : [`${name} gets no more copies. Its comparison ends; switched on again, it begins anew.`],
    "Switch " + (on ? "on" : "off"), `/api/shadow/${name}/${on ? "on" : "off"}`);
  }

  async bypass(on) {
    await this.#act(`Switch bypass ${on ? "on" : "off"}?`, on
      ? ["Requests that come from then on are relayed byte by byte: weir still balances and retries, and measures, mirrors and compares nothing.",
         "It lasts until it is switched off, or weir ends."]
      : ["weir reads and measures the requests that come from then on."],
    "Bypass " + (on ? "on" : "off"), "/api/bypass/" + (on ? "on" : "off"));
  }

  async #act(title, sentences, word, path) {
    if (!this.allowed) {
      await tell(title, ["This page only looks. It can change weir where the admin listener has a token ([admin] token), and this tab has been given it.",
        `The command line can: see weir ${path.includes("shadow") ? "status" : path.includes("bypass") ? "bypass" : "drain"} --help.`]);
      return;
    }
    if (!(await confirm_act(title, sentences, word))) return;
    try {
      await this.#live.post(path);
    } catch (error) {
      await tell("weir did not do it", [error.message]);
    }
  }
}

// The keys of the page: those of `weir top`, too.

/** `page` has grids(), filter, sort(), back(), go_to(section), detail, actions, help(), chosen_replica(). */
export function listen(page) {
  const move = (by) => {
    const grids = page.grids().filter((grid) => grid.count > 0);
    if (!grids.length) return;
    const at = grids.findIndex((grid) => grid.element.contains(document.activeElement));
    if (at < 0) {
      const first = grids.find((grid) => grid === page.main_grid) ?? grids[0];
      if (first.chosen === null) first.choose_end(false);
      else first.choose(first.chosen);
      return;
    }
    if (grids[at].move(by)) return;
    grids[at + by]?.choose_end(by < 0);
  };
  const focused = () => page.grids().find((grid) => grid.element.contains(document.activeElement));
  const with_replica = (act) => {
    const name = page.chosen_replica();
    if (name !== null) act(name);
  };
  const acts = {
    "/": () => page.filter.focus(),
    s: () => page.sort(),
    ArrowDown: () => move(1), ArrowUp: () => move(-1),
    Home: () => focused()?.choose_end(false), End: () => focused()?.choose_end(true),
    p: () => page.go_to("pools"), r: () => page.go_to("replicas"), k: () => page.go_to("keys"), e: () => page.go_to("events"),
    w: () => page.open("weir", ""),
    d: () => with_replica((name) => page.actions.drain(name)), u: () => with_replica((name) => page.actions.undrain(name)),
    "?": () => page.help(),
    Escape: () => page.back(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target === page.filter) {
      if (event.key === "Escape") page.clear_filter();
      else if (event.key === "Enter" || event.key === "ArrowDown") page.go_to("replicas");
      else return;
      event.preventDefault();
      return;
    }
    if (event.target.matches("input, select, textarea")) return;
    if (event.key === "Enter") {
      if (event.target.matches("button, a")) return;
      focused()?.open_chosen();
      return;
    }
    if ((event.key === "Home" || event.key === "End") && !focused()) return;
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

// weir itself, in one line: whether it takes requests, and what it costs.

/** As the finding late_loop has it. */
const late_loop_s = 0.05;

function facts(weir) {
  const log = weir.log || {};
  const settings = weir.settings || {};
  return [
    ["version", weir.version ?? unknown],
    ["up", age(weir.uptime_s), "started " + clock(weir.started)],
    ["CPUs", known(weir.cpu) ? weir.cpu.toFixed(2) : unknown, short(weir.threads) + " stream loops"],
    ["loop delay p99", latency(weir.loop_delay_p99_s), "99 % of the loops' ticks were at most so late", weir.loop_delay_p99_s > late_loop_s],
    ["overhead p99", latency(weir.overhead_p99_s), "weir's part in a token's way"],
    ["memory", bytes(weir.memory_bytes), "resident"],
    ["buffers", bytes(weir.buffer_bytes) + " / " + bytes(weir.buffer_limit_bytes), "memory that grows with peers, and its limit",
      weir.buffer_bytes > 0.9 * weir.buffer_limit_bytes],
    ["connections", of_limit(weir.connections, null, weir.connections_limit), "now, and the limit",
      weir.connections > 0.9 * weir.connections_limit],
    ["descriptors", of_limit(weir.descriptors, null, weir.descriptors_limit), "now, and the limit"],
    ["log", log.loses ? "loses lines" : log.waits_for_reader ? "waits for its reader" : short(log.queued) + " queued",
      log.why || short(log.lines_lost) + " lines lost since the start", Boolean(log.loses)],
    ["settings", settings.ok === false ? "reload failed" : "of " + clock(settings.loaded), (settings.errors || []).join("\n"),
      settings.ok === false],
    ...(weir.certificate_ends ? [["certificate ends", weir.certificate_ends.slice(0, 10), weir.certificate_ends]] : []),
    ...Object.entries(weir.limits_60s || {}).map(([limit, hits]) => ["hits of " + limit, short(hits) + " /min", "in the last 60 s", true]),
  ];
}

export function word_of(weir) {
  if (weir.draining) return ["draining", "draining: weir takes no more, and ends when its requests have ended"];
  if (weir.ready === true) return ["up", "ready"];
  if (weir.ready === false) return ["down", "not ready: " + (weir.why_not_ready || "no reason given")];
  return ["unknown", unknown];
}

export class Bar {
  #facts = new Map();

  show(weir) {
    const [state, text] = word_of(weir);
    const ready = by_id("ready");
    put_class(ready, "ready state " + state);
    put(ready, (weir.instance ? weir.instance + ": " : "") + text + (weir.bypass ? "; bypass is on, so nothing is measured" : ""));
    const present = new Set();
    for (const [name, value, title, bad] of facts(weir)) {
      present.add(name);
      let fact = this.#facts.get(name);
      if (!fact) {
        const place = element(by_id("weir"), "div");
        element(place, "dt", name);
        this.#facts.set(name, (fact = { place, value: element(place, "dd") }));
      }
      put(fact.value, (bad ? "! " : "") + value);
      put_class(fact.value, bad ? "bad" : "");
      if (fact.place.title !== title) fact.place.title = title;
      put_hidden(fact.place, false);
    }
    for (const [name, fact] of this.#facts) if (!present.has(name)) put_hidden(fact.place, true);
  }
}
