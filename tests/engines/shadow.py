"""Puts one of two servers behind the other as its twin: every request must be mirrored, counted as the engine counts it, and
paired, and equal greedy requests have equal answers."""
import concurrent.futures

from cases import CHAT, COMPLETIONS, TEXT, TOOL, chat, completion
from exchange import ask
from report import tokens
from weir import until

REQUESTS, AT_ONCE = 40, 4
SETTINGS = """[[shadow]]
name = "twin"
of = "clients"
twin = "replica0"
control = true
[[shadow.replica]]
name = "shadow0"
url = "{url}"
"""


def bodies(engine):
    """Runs chat, tools and completions by turns; every second one is greedy, and every third is not streamed."""
    for number in range(REQUESTS):
        more = {"stream": number % 3 != 0, "max_tokens": 8 + number, **({"temperature": 0} if number % 2 == 0 else {})}
        text = f"{TEXT} {' '.join(['and the land'] * number)}"
        if number % 4 == 3:
            yield COMPLETIONS, completion(text, **more)(engine, None)
        elif number % 4 == 2:
            yield CHAT, chat(text, tools=[TOOL], tool_choice="auto", **more)(engine, None)
        else:
            yield CHAT, chat(text, **more)(engine, None)


def run(engine, make_weir, report):
    """`make_weir` takes a name, a number of servers and further settings. Returns a row of what was counted."""
    where = f"{engine.name}, a twin"
    weir = make_weir("twin", 1, SETTINGS.format(url=engine.servers[1].url))
    servers = engine.servers[:2]
    tells = engine.own(servers[0].url).running is not None
    before = [engine.own(server.url) for server in servers]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda job: ask(weir.url, *job), bodies(engine)))
    until("a line of each request and of each copy", lambda: len(weir.lines()) >= 2 * REQUESTS, 60)
    if tells:
        until("an idle engine", lambda: engine.own_of_all(servers).running == 0)
    own = [engine.own(server.url) - was for server, was in zip(servers, before)]
    lines = {role: [line for line in weir.lines() if line["role"] == role] for role in ("primary", "shadow")}
    copies = {line["pair"]: line for line in lines["shadow"]}
    wrong = len(report.failures)

    def must(true, what):
        if not true:
            report.fail(where, what)

    must(all(answer.status == 200 and not answer.broken and answer.header("x-weir-replica") == "replica0" for answer in answers),
         "a client was not answered well, or not by the primary")
    sent = weir.total("weir_shadow_requests_total")
    must(sent == REQUESTS, f"{sent:g} of {REQUESTS} requests were sampled, by weir_shadow_requests_total")
    must(sorted(copies) == sorted(line["id"] for line in lines["primary"]), "the copies' lines do not name the requests' ids")
    dropped = [line["drop_reason"] for line in lines["shadow"] if line["drop_reason"]]
    finished = [line for line in lines["shadow"] if not line["drop_reason"]]
    must(all(line["outcome"] == "ok" and line["pair_status"] == "joined" for line in finished), "a copy failed, or has no pair")
    greedy, equal = 0, 0
    for line in lines["primary"]:
        copy = copies.get(line["id"])
        if not copy or copy["drop_reason"]:
            continue
        must(copy["prompt_tokens"] == line["prompt_tokens"],
             f"prompt tokens of a pair: {line['prompt_tokens']} and {copy['prompt_tokens']}")
        if line["greedy"]:
            greedy, equal = greedy + 1, equal + (copy["same_text"] is True)
    must(greedy > 0, "no greedy request was mirrored: the case proves nothing")
    must(equal == greedy, f"{greedy - equal} of {greedy} equal greedy requests have other answers")
    for role, theirs in zip(("primary", "shadow"), own):
        counted = sum(line["output_tokens"] or 0 for line in lines[role])
        must(theirs.output is None or theirs.output == counted,
             f"output tokens of the {role}: weir {counted}, {engine.title} {tokens(theirs.output)}")
    counted = [sum(line["output_tokens"] or 0 for line in lines[role]) for role in ("primary", "shadow")]
    if len(report.failures) == wrong:
        report.say(f"passed  {where}: {len(finished)} of {REQUESTS} mirrored, all pairs joined")
    return [engine.title, f"{REQUESTS}", f"{len(finished)}", ", ".join(sorted(set(dropped))) or "none",
            f"{equal} of {greedy}", f"{counted[0]} / {tokens(own[0].output)}", f"{counted[1]} / {tokens(own[1].output)}"]
