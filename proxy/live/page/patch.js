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
