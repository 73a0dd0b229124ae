// The stream of /api/live: server-sent events, and the merge patches in them.

const is_object = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Applies a JSON merge patch (RFC 7396) in place, and returns what is then the document. */
export function merge(target, patch) {
  if (!is_object(patch)) return patch;
  const result = is_object(target) ? target : {};
  for (const [name, value] of Object.entries(patch)) {
    if (name === "__proto__") continue;
    if (value === null) delete result[name];
    else result[name] = merge(result[name], value);
  }
  return result;
}

/** Takes the text of an event stream apart as it comes, however it is cut. */
export class EventReader {
  #rest = "";
  #event = "";
  #data = [];

  /** Returns the events that are whole now, as {event, data}. */
  push(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    const events = [];
    for (const ended of lines) {
      const line = ended.endsWith("\r") ? ended.slice(0, -1) : ended;
      if (line === "") {
        if (this.#data.length) events.push({ event: this.#event || "message", data: this.#data.join("\n") });
        this.#event = "";
        this.#data = [];
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
      if (field === "event") this.#event = value;
      if (field === "data") this.#data.push(value);
    }
    return events;
  }
}

// The connection to weir: the document of /api/live as its stream keeps it, and requests to other paths. It outlives
// weir's restarts, and the times at which weir has no place for one more stream. It reads the stream by fetch(),
// because an EventSource cannot send the token.

/** A stream brings something each second. One that is silent for so long has broken without a word. */
const silence_ms = 5000;
const first_wait_ms = 500, longest_wait_ms = 8000;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class Live {
  #token;
  #on;
  #wake = null;
  #stream = null;
  #paused = false;

  document = null;
  /** The moment of the last event, by performance.now(). */
  received = null;
  /** Bytes of the stream so far. */
  bytes = 0;
  /** "" while the stream flows; otherwise why it does not. */
  trouble = "connecting";
  /** The stream is tried again then, by performance.now(); null while it flows. */
  tries_at = null;

  /** `token` is that of the admin listener, or "". `on` has changed(restarted), refused(message) and troubled(). */
  constructor(token, on) {
    this.#token = token;
    this.#on = on;
  }

  get has_token() { return this.#token !== ""; }

  /** Runs until weir refuses the token. */
  async run() {
    for (let wait = first_wait_ms; ; ) {
      while (this.#paused) await new Promise((resume) => { this.#wake = resume; });
      try {
        await this.#follow(() => { wait = first_wait_ms; });
        this.trouble = "weir has ended the stream";
      } catch (error) {
        if (error.status === 401 || error.status === 403) return this.#on.refused(error);
        this.trouble = error.status === 503 ? "all of weir's streams are taken" : error.status ? error.message : "weir does not answer";
        if (error.status === 503) wait = await this.#ask_once(wait);
      }
      if (this.#paused) {
        this.trouble = "";
        continue;
      }
      this.tries_at = performance.now() + wait;
      this.#on.troubled();
      await new Promise((resume) => { this.#wake = resume; setTimeout(resume, wait * (0.8 + 0.4 * Math.random())); });
      wait = Math.min(longest_wait_ms, 2 * wait);
    }
  }

  /** Tries again at once, if it waits. */
  retry() { this.#wake?.(); }

  /**
   * Ends the stream until resume(). A tab that nobody sees, or that the browser keeps for the way back, would hold one of
   * weir's 16 streams, and one of the six connections that a browser has to a host: the seventh tab would wait for ever.
   */
  pause() {
    this.#paused = true;
    this.#stream?.abort();
  }

  resume() {
    this.#paused = false;
    this.retry();
  }

  /** Returns the JSON of a path. Throws Refused with weir's own words. */
  async get(path, signal) {
    const answer = await fetch(path, { headers: this.#headers(), signal, cache: "no-store" });
    return this.#json_of(answer);
  }

  /** Returns what a path answers, to be saved in a file. */
  async blob(path) {
    const answer = await fetch(path, { headers: this.#headers(), cache: "no-store" });
    if (!answer.ok) await this.#json_of(answer);
    return answer.blob();
  }

  /** Has weir change something. Returns what it answers. */
  async post(path, body = {}) {
    const headers = { ...this.#headers(), "Content-Type": "application/json" };
    return this.#json_of(await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
  }

  #headers() { return this.#token ? { Authorization: "Bearer " + this.#token } : {}; }

  async #json_of(answer) {
    const text = await answer.text();
    let json = null;
    try { json = JSON.parse(text); } catch { /* weir answers some paths in plain words. */ }
    if (!answer.ok) throw new Refused(answer.status, json?.error?.message || text.trim() || "status " + answer.status);
    return json;
  }

  async #follow(flows) {
    const stop = (this.#stream = new AbortController());
    let watch = setTimeout(() => stop.abort(), 2 * silence_ms);
    try {
      const answer = await fetch("/api/live/stream", { headers: this.#headers(), signal: stop.signal, cache: "no-store" });
      if (!answer.ok) await this.#json_of(answer);
      const reader = answer.body.getReader(), text = new TextDecoder(), events = new EventReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(watch);
        watch = setTimeout(() => stop.abort(), silence_ms);
        this.bytes += value.length;
        for (const { event, data } of events.push(text.decode(value, { stream: true }))) {
          if (event === "live") this.#begin(JSON.parse(data));
          else if (event === "change" && this.document) this.#changed(merge(this.document, JSON.parse(data)), false);
          flows();
        }
      }
    } finally {
      clearTimeout(watch);
      stop.abort();
    }
  }

  #begin(document) {
    const restarted = this.document !== null && this.document.weir?.started !== document.weir?.started;
    this.#changed(document, restarted);
  }

  #changed(document, restarted) {
    this.document = document;
    this.received = performance.now();
    this.trouble = "";
    this.tries_at = null;
    this.#on.changed(restarted);
  }

  /** Without a place for a stream, the page still has what it asks for once in two seconds. */
  async #ask_once(wait) {
    try {
      const trouble = this.trouble;
      this.#begin(await this.get("/api/live"));
      this.trouble = trouble;
      return 2000;
    } catch { return wait; }
  }
}
