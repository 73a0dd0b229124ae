// Checks of the page's functions that need no document. Runs in the page; returns the names of the checks that failed.
const [format, live, charts, tables, forest, detail, dialogs] = await Promise.all(
  ["format", "live", "charts", "tables", "forest", "detail", "dialogs"].map((name) => import(`/page/${name}.js`)));
const failed = [];
let count = 0;
const same = (name, actual, expected) => {
  ++count;
  if (JSON.stringify(actual) !== JSON.stringify(expected)) failed.push(`${name}: ${JSON.stringify(actual)}, expected ${JSON.stringify(expected)}`);
};

// A generator with a seed, so that a failure comes back.
let state = 7;
const random = (below) => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
};

for (const unknown of [null, undefined, NaN, Infinity, "7"])
  for (const write of ["short", "latency", "age", "percent", "change", "times", "bytes"]) same(`${write}(${unknown})`, format[write](unknown), "-");
for (const [value, text] of [[0, "0"], [7, "7"], [0.4, "0.40"], [1.26, "1.3"], [41.24, "41.2"], [999, "999"], [999.6, "1.0k"], [1900, "1.9k"], [23456, "23k"],
  [999500, "1.0M"], [4.1e6, "4.1M"], [-5, "-5"], [12, "12"]]) same(`short(${value})`, format.short(value), text);
for (const [value, text] of [[0, "0 ms"], [0.0002, "0.20 ms"], [0.071, "71 ms"], [0.9996, "1.00 s"], [1.2, "1.20 s"], [12.34, "12.3 s"], [125, "2m05s"]])
  same(`latency(${value})`, format.latency(value), text);
for (const [value, text] of [[0, "0s"], [7.9, "7s"], [252, "4m12s"], [11040, "3h04m"], [439200, "5d02h"], [-3, "0s"]]) same(`age(${value})`, format.age(value), text);
for (const [value, text] of [[0, "0 %"], [1, "100 %"], [0.41, "41 %"], [0.021, "2.1 %"], [0.9871, "98.7 %"], [0.99995, "99.99 %"]])
  same(`percent(${value})`, format.percent(value), text === "99.99 %" ? (99.995).toFixed(2) + " %" : text);
same("change", [-0.18, 0.07, 1148780, -0.0004, -0, 0.0005].map(format.change), ["-18.0 %", "+7.0 %", "above +999 %", "0.0 %", "0.0 %", "+0.1 %"]);
same("of_limit", [format.of_limit(3, 5, 64), format.of_limit(3, null, null), format.of_limit(null, null, 9)], ["3 / 5 / 64", "3", "- / 9"]);
same("between", [format.between("2026-11-26T10:00:00.000Z", "2026-11-26T10:00:04.500Z"), format.between(null, "x")], [4.5, null]);

// RFC 7396, appendix A.
for (const [target, change, result] of [
  [{ a: "b" }, { a: "c" }, { a: "c" }], [{ a: "b" }, { b: "c" }, { a: "b", b: "c" }], [{ a: "b" }, { a: null }, {}], [{ a: "b", b: "c" }, { a: null }, { b: "c" }],
  [{ a: ["b"] }, { a: "c" }, { a: "c" }], [{ a: "c" }, { a: ["b"] }, { a: ["b"] }], [{ a: { b: "c" } }, { a: { b: "d", c: null } }, { a: { b: "d" } }],
  [{ a: [{ b: "c" }] }, { a: [1] }, { a: [1] }], [["a", "b"], ["c", "d"], ["c", "d"]], [{ a: "b" }, ["c"], ["c"]], [{ a: "foo" }, null, null],
  [{ a: "foo" }, "bar", "bar"], [{ e: null }, { a: 1 }, { e: null, a: 1 }], [[1, 2], { a: "b", c: null }, { a: "b" }], [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }]])
  same("merge " + JSON.stringify([target, change]), live.merge(structuredClone(target), change), result);
// A name that is also a member of every object is a name like others.
same("merge of __proto__", Object.keys(live.merge({}, JSON.parse('{"constructor":{"a":1}}'))), ["constructor"]);

// However a stream is cut, its events are the same.
const stream = 'event: live\ndata: {"a":1}\n\n: still here\n\nevent: change\r\ndata: one\r\ndata:two\r\n\r\ndata: ü\n\nevent: lost\n\n';
const whole = new live.EventReader().push(stream);
same("events", whole, [{ event: "live", data: '{"a":1}' }, { event: "change", data: "one\ntwo" }, { event: "message", data: "ü" }]);
for (let run = 0; run < 200; ++run) {
  const reader = new live.EventReader(), got = [];
  for (let at = 0; at < stream.length; ) {
    const length = 1 + random(9);
    got.push(...reader.push(stream.slice(at, at + length)));
    at += length;
  }
  same("cut events", got, whole);
}

// Series that are asked for bit by bit are the end of what weir has, as one list of it.
for (let run = 0; run < 200; ++run) {
  const truth = [], kept = new charts.Series();
  let asked = 0;
  for (let step = 0; step < 30; ++step) {
    for (let more = random(40); more >= 0; --more) truth.push(random(5) ? random(1000) : null);
    const serial = truth.length, seconds = asked ? Math.min(900, serial - asked + random(4)) : 300;
    if (seconds < 1) continue;
    kept.take({ serial, end: "2026-11-26T10:00:00.000Z", replicas: { r: { f: truth.slice(-seconds) } } });
    asked = serial;
    const values = kept.values("replicas", "r", "f");
    same("series", values, truth.slice(-values.length));
    same("its length", values.length >= Math.min(seconds, serial), true);
  }
  const at = kept.serial;
  kept.take({ serial: 3, end: "2026-11-26T10:00:00.000Z", replicas: { r: { f: [1, 2, 3] } } });
  same("a weir that began anew", kept.values("replicas", "r", "f"), at > 3 ? [1, 2, 3] : kept.values("replicas", "r", "f"));
}
const grown = new charts.Series();
grown.take({ serial: 100, end: "", replicas: { r: { f: [1, 2] } } });
grown.take({ serial: 100, end: "", replicas: { r: { f: [8, 9, 1, 2] } } });
same("a longer list of the same second", grown.values("replicas", "r", "f"), [8, 9, 1, 2]);
same("peak", [grown.peak("replicas", "r", "f", 2), grown.peak("replicas", "r", "f", 900), grown.peak("replicas", "x", "f", 9)], [2, 9, null]);

// Any order of the same rows is sorted alike, unknown values are last, and equal ones go by name.
const column = { value: (row) => row.value, descends: true };
for (let run = 0; run < 200; ++run) {
  const rows = Array.from({ length: 12 }, (unused, i) => ({ id: "r" + i, bad: random(4), value: random(4) ? random(5) : null }));
  const mixed = [...rows].sort(() => random(3) - 1);
  for (const by of [null, column]) for (const reversed of [false, true]) {
    const result = format.sorted(mixed, by, reversed);
    same("one order", result.map((row) => row.id), format.sorted(rows, by, reversed).map((row) => row.id));
    if (!by) continue;
    const known = result.filter((row) => row.value !== null);
    same("unknown last", result.slice(0, known.length), known);
    for (let i = 1; i < known.length; ++i) same("descends", reversed ? known[i - 1].value <= known[i].value : known[i - 1].value >= known[i].value, true);
  }
}
same("natural names", ["gpu10", "gpu9", "gpu1"].sort(format.by_name), ["gpu1", "gpu9", "gpu10"]);
const states = ["down", "ejected", "draining", "starting", "up"].map((state) => format.badness({ state }));
same("badness", [...states].sort((a, b) => a - b), states);
same("a finding is worse than a drain", format.badness({ state: "up" }, [{}]) < format.badness({ state: "draining" }), true);
same("an unknown state is the worst", format.badness({ state: "new" }), 0);
same("findings", format.sorted_findings({ a: { who: "a", severity: "warning", since: "2" }, b: { who: "b", severity: "critical", since: "1" }, c: { who: "c", severity: "warning", since: "3" } })
  .map((one) => one.who), ["b", "c", "a"]);
const fits = format.matcher("GPU -gpu1");
same("matcher", [fits("gpu0 up"), fits("gpu1 up"), fits("cpu"), format.matcher("")("x"), format.matcher("-")("a-b")], [true, false, false, true, true]);

same("parts", charts.parts([1, 2, null, 4], 8, 4), [null, null, 2, 4]);
same("parts of more", charts.parts([9, 1, 2, 3, 4], 4, 2), [2, 4]);

same("standing", forest.standing({ finding: "inconclusive", needs_s: 1800 }, 600), "no verdict yet, about 20m00s more");
same("standing of a lean", forest.standing({ finding: "worse", needs_s: null }, 600), "leans worse; no verdict yet");
same("values", [forest.value_text("stalls", 12), forest.value_text("tpot", 0.014), forest.value_text("output_tokens", 250), forest.value_text("stalls", null)], ["12 s", "14 ms", "250", "-"]);
same("changes", [forest.change_text("stalls", -12), forest.change_text("ttft", 0.07), forest.change_text("stalls", null)], ["-12 s", "+7.0 %", "-"]);
same("reach", [forest.reach([]) > 0, forest.reach([{ margin: 0.1, estimate: 40 }]) <= 1], [true, true]);

const request = { wait_s: 1, connect_s: 0, earlier_s: 2, prefill_s: 3, decode_s: 4, total_s: 11 };
const line = tables.timeline(request);
same("timeline", line.map(([phase, begin, length]) => [phase.name, begin, length]), [["earlier", 0, 2], ["wait", 2, 1], ["prefill", 3, 3], ["decode", 6, 4], ["rest", 10, 1]]);
same("timeline of nothing", tables.timeline({}), []);

const book = "# Runbook\n\n## slow_replica\n\nLook.\n\n### deeper\n\ntext\n\n## flooding_key\n\nother";
same("section", detail.section(book, "slow_replica"), ["## slow_replica", "", "Look.", "", "### deeper", "", "text", ""]);
same("no section", detail.section(book, "nothing"), []);

for (const [kind, id] of [["replica", "gpu0"], ["request", "a/b?c#d %2F@2026"], ["finding", "x:y (leaving)"]])
  same("address of " + id, detail.route_of(detail.address(kind, id)), { kind, id });
same("no route", [detail.route_of(""), detail.route_of("#nothing/x")], [null, null]);
same("no address of this page", detail.route_of("#replica/%"), null);

// A question that takes the place of another waits for its own answer, and the other one has none.
const dialog = document.getElementById("dialog"), answers = {};
const turn = () => new Promise((resume) => setTimeout(resume, 50));
for (const name of ["first", "second"]) dialogs.confirm_act(name, [], "do it").then((answer) => { answers[name] = answer; });
await turn();
same("the second question is open", [dialog.open, dialog.querySelector("h2").textContent, "second" in answers], [true, "second", false]);
dialog.querySelector(".act").click();
await turn();
same("its answer", [dialog.open, answers.first, answers.second], [false, null, true]);

const up = { state: "up" };
same("all is well", detail.unnamed({ replicas: { a: up, b: { state: "draining" } }, pools: { chat: { failed_per_s: 0 } } }), []);
same("what no rule names", detail.unnamed({ weir: { settings: { ok: false }, bypass: true }, replicas: { a: up, b: { state: "down" }, c: { state: "ejected" } }, pools: { chat: { failed_per_s: 0.1 } } }),
  ["the last reload failed", "bypass is on", "2 of 3 replicas are out", "requests of chat fail"]);

return { failed, count };
