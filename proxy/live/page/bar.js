// weir itself, in one line: whether it takes requests, and what it costs.
import { by_id, element, put, put_class, put_hidden } from "./dom.js";
import { age, bytes, clock, known, latency, of_limit, short, unknown } from "./format.js";

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
