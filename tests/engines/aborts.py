"""A client leaves: the engine must stop, and weir must say that the client left."""
import time

from answers import line_of
from cases import chat
from exchange import ask
from report import tokens
from weir import Failed, until

LENGTH = 600  # So many tokens, for which nobody waits, are seconds of work.
PATIENCE = 10.0  # An engine that stops has done so after at most so many seconds.
TO_THE_END = 240.0  # An engine that goes on has done all of it after at most so many seconds.


def idle(engine, server):
    running = engine.own(server.url).running
    # The CPU of its process shows it if the engine does not say what it works on.
    return server.busy() < 0.2 if running is None else running == 0


def idle_after(engine, server):
    """Returns the seconds until the engine has stopped; None if it goes on."""
    begin = time.monotonic()
    try:
        until("the engine's end of its work", lambda: idle(engine, server), PATIENCE)
    except Failed:
        return None
    return time.monotonic() - begin


def leave(engine, server, url, streamed):
    """Returns the seconds until the engine was idle (None if it went on to the end) and the tokens that it made."""
    until("an idle engine", lambda: idle(engine, server), TO_THE_END)
    before = engine.own(server.url)
    body = {**chat()(engine, None), "stream": streamed, "max_tokens": LENGTH}
    answer = ask(url, "/v1/chat/completions", body, leave_after=4 if streamed else 0)
    if not answer.left:
        raise Failed(f"the answer was over before the client left: {answer.status} {answer.body[:200]!r}")
    took, made = idle_after(engine, server), (engine.own(server.url) - before).output
    return None if made is not None and made >= LENGTH else took, made


def run(engine, weirs, report):
    """Returns rows: how it was left, seconds until the engine was idle without and with weir, what weir says."""
    server, weir, rows = engine.servers[0], weirs[False], []
    for how, streamed in (("streamed, after three events", True), ("not streamed, after 0.3 s", False)):
        where = f"{engine.name}, a client that leaves, {how}"
        try:
            alone, _ = leave(engine, server, server.url, streamed)
            before = weir.total("weir_aborted_output_tokens_total")
            (behind, made), line = line_of(weir, lambda: leave(engine, server, weir.url, streamed))
            counted = weir.total("weir_aborted_output_tokens_total") - before
            if behind is None and alone is not None:
                report.fail(where, f"{engine.title} stops without weir after {alone:.2f} s, and goes on with it")
            if line["outcome"] != "client_abort" or line["phase"] != ("decode" if streamed else "prefill"):
                report.fail(where, f"weir says {line['outcome']}, {line['phase']}")
            if made is not None and counted > made:
                report.fail(where, f"weir counted {counted:g} tokens, {engine.title} {made:g}")
            report.say(f"{engine.name}: a client that leaves, {how}: the engine with weir: {seconds(behind)}")
            rows.append([engine.title, how, seconds(alone), seconds(behind), f"{line['outcome']}, {line['phase']}",
                         f"{tokens(counted)} of {tokens(made)}"])
        except Failed as failed:
            report.fail(where, str(failed))
    return rows


def seconds(value):
    return "goes on" if value is None else f"{value:.2f} s"
