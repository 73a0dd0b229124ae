"use strict";
// Shows a report of weir's last minutes to somebody who was not there: what was wrong, when, and what each replica did.
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const { live, window: series, machine } = report;
  const page = document.getElementById("page");
  const { element, number } = plots;
  const unknown = "-";
  const known = (value) => typeof value === "number" && Number.isFinite(value);
  const seconds_of = (time) => Date.parse(time) / 1000;
  const end = Math.round(seconds_of(series ? series.end : live.time));
  /** The charts do not begin before weir did. */
  const begin = end - Math.min(report.last_s, Math.max(30, live.weir.uptime_s));

  // How figures are written.

  const short = (value) => (known(value) ? (Math.abs(value) >= 1e6 ? number(value / 1e6) + "M" : Math.abs(value) >= 1e4 ? number(value / 1e3) + "k" : number(value)) : unknown);
  const latency = (value) => (!known(value) ? unknown : value < 0.9995 ? number(1000 * value) + " ms" : number(value) + " s");
  const percent = (share) => (known(share) ? number(100 * share) + " %" : unknown);
  const mebibytes = (value) => (known(value) ? number(value / 1048576) + " MiB" : unknown);
  const clock = (time) => new Date(time).toISOString().slice(11, 19);
  const day = (time) => new Date(time).toISOString().slice(0, 10);
  const words = (name) => String(name ?? unknown).replaceAll("_", " ");
  const entries = (object) => Object.entries(object || {});

  function lasting(seconds) {
    const whole = Math.max(0, Math.round(seconds));
    if (whole < 120) return whole + " s";
    if (whole < 7200) return Math.round(whole / 60) + " min";
    return whole < 172800 ? Math.round(whole / 3600) + " h" : Math.round(whole / 86400) + " days";
  }

  // Parts of the page.

  function section(title, folded = false) {
    const place = element(page, folded ? "details" : "section");
    element(folded ? element(place, "summary") : place, "h2", title);
    return place;
  }

  /** Adds a table; a cell is a text, or {text, kind} or a function that fills the cell. Rows may have `bad`. */
  function table(place, header, rows) {
    const made = element(element(place, "div", "", "scroll"), "table");
    const head = element(element(made, "thead"), "tr");
    for (const text of header) element(head, "th", text);
    const body = element(made, "tbody");
    for (const { cells, bad } of rows) {
      const row = element(body, "tr");
      cells.forEach((cell, i) => {
        const place = element(row, "td", typeof cell === "function" ? "" : String(cell ?? unknown), bad && i === 0 ? "worse" : "");
        place.dataset.column = header[i];
        if (typeof cell === "function") cell(place);
      });
    }
    return made;
  }

  const facts = (place, list) => table(place, ["", ""], list.filter(([, value]) => value !== unknown && value !== undefined && value !== null && value !== "").map((cells) => ({ cells })));

  // Charts: the seconds before the report, with a mark for each event that warns.

  const events = (report.events?.events || []).filter((event) => seconds_of(event.time) >= begin);
  const warns = (event) => event.level === "warning" || event.level === "error" || event.level === "critical";

  function chart(place, title, format, figures, marked) {
    const step = series.step_s, count = Math.max(0, ...figures.map(([, values]) => values.length));
    if (!figures.some(([, values]) => values.some(known))) return;
    const times = Array.from({ length: count }, (unused, i) => end - (count - 1 - i) * step);
    const lists = figures.map(([, values]) => [...new Array(count - values.length).fill(null), ...values]);
    const most = Math.max(...lists.flat().filter(known));
    plots.chart(place, {
      title, legend: figures.length > 1 ? figures.map(([name]) => name) : undefined,
      x: { label: "", range: [begin, end], ticks: plots.timeTicks, format: plots.timeText },
      y: { label: "", range: [0, most > 0 ? 1.08 * most : 1], ticks: plots.ticks, format },
      data: [times, ...lists],
      series: figures.map(([name]) => ({ width: 1.5, points: { show: false }, spanGaps: false, stroke: () => plots.colour(name) })),
      behind: (u) => plots.inside(u, (ctx, x) => {
        for (const event of events) {
          if (!warns(event) || (marked && event.who !== marked)) continue;
          const at = x(seconds_of(event.time));
          plots.line(ctx, [[at, u.bbox.top], [at, u.bbox.top + u.bbox.height]], plots.css("worse"), 1, [3, 3]);
        }
      }),
      readout: (x) => {
        const i = Math.round((x - end) / step) + count - 1;
        if (i < 0 || i >= count) return "";
        const told = lists.map((list, one) => `${figures[one][0]} ${known(list[i]) ? format(list[i]) : unknown}`);
        const near = events.filter((event) => warns(event) && Math.abs(seconds_of(event.time) - x) < report.last_s / 60 && (!marked || event.who === marked));
        return `${plots.clock(times[i], 19)}: ${told.join(", ")}` + (near.length ? ". " + near[near.length - 1].text : "");
      },
    });
  }

  /** [title, format, [figure, name]...] for each kind of row. */
  const of_pools = [
    ["Requests per second", short, ["requests_per_s", "ended"], ["failed_per_s", "failed"]],
    ["Tokens per second", short, ["tokens_in_per_s", "in"], ["tokens_out_per_s", "out"]],
    ["Requests in flight and waiting", short, ["in_flight", "in flight"], ["waiting", "waiting"]],
    ["TTFT, median of 10 s", latency, ["ttft_p50_s", "TTFT"]],
  ];
  const of_replicas = [
    ["Requests per second", short, ["requests_per_s", "ended"], ["failed_per_s", "failed"]],
    ["Requests in prefill and in decode", short, ["in_prefill", "in prefill"], ["in_decode", "in decode"]],
    ["Queued tokens", short, ["queued_tokens", "queued tokens"]],
    ["KV cache in use", percent, ["kv_usage", "KV cache"]],
    ["TTFT, median of 10 s", latency, ["ttft_p50_s", "TTFT"]],
    ["TPOT, median of 10 s", latency, ["tpot_p50_s", "TPOT"]],
  ];
  const of_weir = [
    ["CPUs", short, ["cpu", "CPUs"]], ["Memory", mebibytes, ["memory_bytes", "memory"]],
    ["Connections", short, ["connections", "connections"]], ["Delay of the loops, p99", latency, ["loop_delay_p99_s", "delay"]],
  ];

  function charts(place, row, kinds, marked) {
    if (!row) return;
    const grid = element(place, "div", "", "charts");
    for (const [title, format, ...figures] of kinds) chart(grid, title, format, figures.map(([figure, name]) => [name, row[figure] || []]), marked);
    if (!grid.childElementCount) grid.remove();
  }

  // What was wrong.

  const weir = live.weir || {};
  const replicas = entries(live.replicas), pools = entries(live.pools);
  const findings = Object.values(live.findings || {});
  const failed = live.requests?.failed || [], slowest = live.requests?.slowest || [];
  const order = { down: 0, ejected: 1, draining: 2, starting: 3, up: 4 };
  const is_suspect = ([name, one]) => one.state !== "up" || one.failed_60s > 0 || findings.some((finding) => finding.who === name);

  function begin_page() {
    const name = weir.instance ? "weir " + weir.instance : "weir";
    const title = `${name}: the ${lasting(report.last_s)} to ${clock(live.time)} UTC on ${day(live.time)}`;
    document.title = title;
    parts.title(title);
    const up = replicas.filter(([, one]) => one.state === "up" && !one.shadow).length, all = replicas.filter(([, one]) => !one.shadow).length;
    element(page, "p", `This report was made because ${report.because}. weir was ${weir.ready ? "ready" : "not ready: " + weir.why_not_ready}` +
      `, and ${up} of ${all} replicas were up. Version ${weir.version}, running for ${lasting(weir.uptime_s)}` +
      (weir.uptime_s < report.last_s ? ", so there is nothing from before its start." : "."));
    if (series && series.step_s > 1) element(page, "p", `There are many rows, so each point of a chart is the mean of ${series.step_s} s.`, "hint");
    if (!series) element(page, "p", "weir had kept no figures for charts: nobody had looked for an hour.", "hint");
  }

  function show_findings() {
    const place = section("What stands out");
    const lines = findings.map((one) => [one.severity, `${one.text}. Since ${clock(one.since)}; see ${one.runbook}.`]);
    for (const [name, one] of replicas)
      if (one.state !== "up") lines.push([one.state, `${name} is ${one.state}: ${one.reason}. Since ${clock(one.since)}.`]);
    const begun = events.filter((event) => event.what === "finding" && /^finding .* is over/.test(event.text));
    for (const event of begun) lines.push(["over", `${clock(event.time)}: ${event.text}.`]);
    if (!weir.settings?.ok) lines.push(["reload", "The last reload failed: " + (weir.settings?.errors || []).join("; ")]);
    if (weir.bypass) lines.push(["bypass", "Bypass was on: nothing was measured."]);
    if (weir.log?.loses) lines.push(["log", "The request log lost lines: " + weir.log.why]);
    const outcomes = pools.flatMap(([name, pool]) => entries(pool.outcomes_60s).filter(([outcome]) => outcome !== "ok").map(([outcome, count]) => `${count} ${words(outcome)} in pool ${name}`));
    if (outcomes.length) lines.push(["last minute", "Requests that did not end well in the last minute: " + outcomes.join(", ") + "."]);
    if (!lines.length) element(place, "p", "Nothing: weir named no finding, every replica was up, and no request failed in the last minute.");
    const list = lines.length ? element(place, "ul") : null;
    for (const [what, text] of lines) {
      const item = element(list, "li");
      element(item, "b", what + ": ", what === "over" ? "" : "worse");
      item.append(text);
    }
  }

  function show_events() {
    const rows = (list) => list.map((event) => ({ bad: warns(event), cells: [event.level, clock(event.time), event.what, event.who ?? "weir", event.text] }));
    const header = ["level", "time", "what", "who", "text"];
    const loud = events.filter(warns);
    const place = section("Events that warn");
    if (loud.length) table(place, header, rows(loud)).className = "events";
    else element(place, "p", `None in these ${lasting(report.last_s)}.`);
    if (report.events?.missed > 0) element(place, "p", `${report.events.missed} older events are no longer known.`, "hint");
    if (events.length > loud.length) table(section(`All ${events.length} events`, true), header, rows(events)).className = "events";
  }

  function show_pools() {
    for (const [name, pool] of pools) {
      const place = section("Pool " + name);
      const slo = pool.slo && known(pool.slo.attainment) ? ` Objective ${pool.slo.name} was met by ${percent(pool.slo.attainment)} in the last minute.` : "";
      element(place, "p", `${pool.up} of ${pool.replicas} replicas up, ${pool.in_flight} requests in flight, ${pool.waiting} waiting` +
        (known(pool.oldest_waiting_s) ? ` (the oldest for ${latency(pool.oldest_waiting_s)})` : "") +
        `; TTFT p50 ${latency(pool.ttft_s?.p50)}, p95 ${latency(pool.ttft_s?.p95)}, TPOT p50 ${latency(pool.tpot_s?.p50)}.` + slo);
      charts(place, series?.pools?.[name], of_pools);
    }
  }

  function show_replicas() {
    const place = section("Replicas");
    const sorted = [...replicas].sort(([a, x], [b, y]) => is_suspect([b, y]) - is_suspect([a, x]) || order[x.state] - order[y.state] || a.localeCompare(b, "en", { numeric: true }));
    const header = ["replica", "state", "since", "why", "in flight", "queued tokens", "KV", "TTFT p50", "p95", "TPOT p50", "tokens/s", "failed in 60 s", "engine"];
    table(place, header, sorted.map(([name, one]) => ({
      bad: is_suspect([name, one]),
      cells: [name, one.state, clock(one.since), one.reason || "", one.in_flight, short(one.queued_prefill_tokens), percent(one.kv?.usage), latency(one.ttft_s?.p50), latency(one.ttft_s?.p95),
        latency(one.tpot_s?.p50), short(one.tokens_out_per_s), short(one.failed_60s), [one.engine?.name, one.engine?.version].filter(Boolean).join(" ") || unknown],
    })));
    element(place, "p", "The figures are those of the last minute before the report.", "hint");
    const suspects = sorted.filter(is_suspect).length;
    sorted.forEach(([name, one], i) => {
      const row = series?.replicas?.[name];
      if (!row) return;
      const charts_of = section(`Replica ${name}, ${one.state}` + (one.shadow ? `, shadow ${one.shadow}` : ""), true);
      // A report of two hundred replicas draws what is looked at.
      const draw = () => charts(charts_of, row, of_replicas, name);
      charts_of.addEventListener("toggle", draw, { once: true });
      if (i < Math.min(suspects, 4)) charts_of.open = true;
    });
  }

  const phases = [["earlier_s", "earlier attempts"], ["wait_s", "waiting"], ["connect_s", "connecting"], ["prefill_s", "prefill"], ["decode_s", "decode"]];

  function show_requests(title, list, none) {
    const place = section(title);
    if (!list.length) return void element(place, "p", none);
    const most = Math.max(1e-6, ...list.map((one) => one.total_s ?? 0));
    const bar = (one) => (cell) => {
      const track = element(cell, "span", "", "track");
      for (const [member, name] of phases) {
        if (!(one[member] > 0)) continue;
        const part = element(track, "i");
        part.style.width = (100 * one[member]) / most + "%";
        part.style.background = plots.colour(name);
        part.title = `${name}: ${latency(one[member])}`;
      }
    };
    const keys = element(place, "ul", "", "legend");
    for (const [, name] of phases) {
      const item = element(keys, "li");
      element(item, "i").style.background = plots.colour(name);
      item.append(name);
    }
    const header = ["request", "ended", "client's id", "key", "replica", "outcome", "attempts", "phases", "TTFT", "total", "tokens in", "out"];
    table(place, header, list.map((one) => ({
      bad: one.outcome !== "ok",
      cells: [one.id, clock(one.time), one.client_id ?? "", one.key ?? "", one.replica ?? unknown, words(one.outcome) + (one.status ? " " + one.status : "") + (one.phase ? ", " + words(one.phase) : ""),
        one.tried?.length ? one.tried.map((attempt) => attempt.replica + (attempt.why ? ` (${words(attempt.why)}${attempt.status ? " " + attempt.status : ""}, ${latency(attempt.to_s - attempt.from_s)})` : "")).join(", ") : one.attempts, bar(one), latency(one.ttft_client_s), latency(one.total_s), short(one.prompt_tokens), short(one.output_tokens)],
    })));
  }

  function show_shadows() {
    const shadows = entries(live.shadows), rollouts = entries(live.rollouts);
    if (!shadows.length && !rollouts.length) return;
    const place = section("Shadows and rollouts");
    for (const [name, one] of shadows) {
      const dropped = entries(one.dropped_60s).map(([why, count]) => `${count} ${words(why)}`).join(", ");
      element(place, "p", `Shadow ${name} of ${one.of}, ${one.on ? "on" : "off"}: ${one.pairs} pairs, ${one.sent_60s} copies in the last minute` + (dropped ? `, not sent: ${dropped}` : "") +
        (one.comparison ? `. Comparison of ${one.comparison.a} with ${one.comparison.b}: ${words(one.comparison.state)}.` : "."));
    }
    for (const [name, one] of rollouts) element(place, "p", `Rollout ${name}: ${words(one.state)}, ${percent(one.share)} of requests.`);
  }

  function show_keys() {
    const keys = entries(live.keys);
    if (!keys.length) return;
    table(section("Clients' keys", true), ["key", "open", "waiting", "wait", "requests in 60 s", "failed", "refused", "tokens/s in", "out"], keys.map(([name, one]) => ({
      cells: [name, one.open, one.waiting, latency(one.wait_s), short(one.requests_60s), short(one.failed_60s), short(one.refused_60s), short(one.tokens_in_per_s), short(one.tokens_out_per_s)],
    })));
  }

  function show_weir() {
    const place = section("weir and its machine");
    const limits = entries(weir.limits_60s).map(([name, count]) => `${words(name)} ${count}`).join(", ");
    facts(place, [
      ["version", weir.version], ["process", weir.pid], ["started", `${day(weir.started)} ${clock(weir.started)}`], ["threads", weir.threads], ["CPUs used", short(weir.cpu)],
      ["memory", mebibytes(weir.memory_bytes)], ["descriptors", `${short(weir.descriptors)} of ${short(weir.descriptors_limit)}`],
      ["connections", `${short(weir.connections)} of ${short(weir.connections_limit)}`], ["delay of the loops, p99", latency(weir.loop_delay_p99_s)],
      ["weir's own time a request, p99", latency(weir.overhead_p99_s)], ["buffers", `${mebibytes(weir.buffer_bytes)} of ${mebibytes(weir.buffer_limit_bytes)}`],
      ["log lines lost", short(weir.log?.lines_lost)], ["limits hit in 60 s", limits], ["settings loaded", weir.settings ? `${day(weir.settings.loaded)} ${clock(weir.settings.loaded)}` : unknown],
      ["certificate ends", weir.certificate_ends], ["host", machine.host], ["kernel", machine.kernel], ["CPU", `${machine.cpus} x ${machine.cpu ?? unknown}`],
      ["memory of the machine", `${mebibytes(machine.memory_available_bytes)} of ${mebibytes(machine.memory_bytes)} available`],
      ["load of the machine, 1, 5, 15 min", (machine.load || []).join(", ")], ["machine up for", known(machine.uptime_s) ? lasting(machine.uptime_s) : unknown],
    ]);
    charts(place, series?.weir, of_weir);
  }

  function show_settings() {
    const place = section("Settings in use, without secrets", true);
    const overridden = report.settings.overridden || [];
    if (overridden.length) element(place, "p", "From the command line: " + overridden.join(", ") + ".");
    for (const one of report.settings.settings || []) {
      const name = [one.within, one.name].filter(Boolean).join(", ");
      if (name) element(place, "h3", name);
      table(place, ["key", "value"], entries(one.keys).map((cells) => ({ cells })));
    }
  }

  begin_page();
  show_findings();
  show_events();
  show_pools();
  show_replicas();
  show_requests("Slowest requests", slowest, "No request has ended in these minutes.");
  show_requests("Failed requests, the latest first", failed, "None.");
  show_shadows();
  show_keys();
  show_weir();
  show_settings();
})();
