// What this page can change in weir. It does so only with the admin listener's token, and says first what it will do.
import { confirm_act, tell } from "./dialogs.js";

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
