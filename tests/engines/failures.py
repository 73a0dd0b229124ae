"""Kills one of two servers with `kill -9`: what streams from it must break and show it, and nothing else may be lost."""
import concurrent.futures
import threading

from cases import chat
from exchange import ask
from weir import until

STREAMS, REQUESTS, AT_ONCE = 8, 100, 8
LENGTH = 1000
PATH = "/v1/chat/completions"


def whole(engine, answer):
    return answer.status == 200 and not answer.broken and (b"[DONE]" in answer.body or not engine.marker)


def streams(weir, body, begun, patience=120.0):
    """Returns what sends the stream of that number, and waits at `begun` once three events have come."""
    def stream(number):
        waited = []

        def on_event(answer):
            if not waited and answer.body.count(b"\n\n") >= 3:
                waited.append(True)
                begun.wait()

        return ask(weir.url, PATH, {**body, "stream": True, "seed": number}, on_event=on_event, patience=patience)

    return stream


def run(engine, weir, report):
    """Kills the last server. Returns a row: how the streams of each server ended, and the requests that came then."""
    doomed, name = engine.servers[-1], f"replica{len(engine.servers) - 1}"
    begun = threading.Barrier(STREAMS + 1, timeout=60)
    body = {**chat()(engine, None), "max_tokens": LENGTH}

    stream = streams(weir, body, begun)

    def request(number):
        return ask(weir.url, PATH, {**chat()(engine, None), "seed": number, "stream": number % 2 == 0})

    logged = len(weir.lines())
    with concurrent.futures.ThreadPoolExecutor(STREAMS + AT_ONCE) as pool:
        running = [pool.submit(stream, number) for number in range(STREAMS)]
        begun.wait()
        doomed.kill()
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as later:
            answers = list(later.map(request, range(REQUESTS)))
        ended = [future.result() for future in running]

    on_doomed = [answer for answer in ended if answer.header("x-weir-replica") == name]
    others = [answer for answer in ended if answer.header("x-weir-replica") != name]
    lost = [answer for answer in answers if answer.status != 200 or answer.broken]
    taken_for_whole = [answer for answer in on_doomed if whole(engine, answer)]
    broken = [answer for answer in others if not whole(engine, answer)]
    where = f"{engine.name}, kill -9 of one of two"
    if not on_doomed or not others:
        report.fail(where, "all streams were at one server: the case proves nothing")
    if lost:
        report.fail(where, f"{len(lost)} of {REQUESTS} requests were lost: {lost[0].status} {lost[0].broken} {lost[0].body[:200]!r}")
    if taken_for_whole:
        report.fail(where, f"{len(taken_for_whole)} streams of the killed server look whole")
    if broken:
        report.fail(where, f"{len(broken)} streams of the other server were lost: {broken[0].broken} {broken[0].body[-200:]!r}")
    until("all lines of weir's log", lambda: len(weir.lines()) >= logged + STREAMS + REQUESTS)
    outcomes = {}
    for line in weir.lines()[logged:]:
        outcomes[line["outcome"]] = outcomes.get(line["outcome"], 0) + 1
    if not (lost or taken_for_whole or broken):
        report.say(f"passed  {where}: {REQUESTS} of {REQUESTS} requests answered")
    counted = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    return [engine.title, f"{len(on_doomed)}, {len(on_doomed) - len(taken_for_whole)} broke and showed it",
            f"{len(others)}, {len(others) - len(broken)} whole", f"{REQUESTS - len(lost)} of {REQUESTS}", counted]
