"""Stops one of two servers with SIGSTOP: weir must find it hung, lose no request that has sent its client nothing, and take the
server back only when it goes on."""
import concurrent.futures
import signal
import threading
import time

from cases import chat
from exchange import ask
from failures import LENGTH, PATH, STREAMS, streams, whole
from weir import Failed, samples, until

WHOLE, STOPPED, BETWEEN = 16, 30.0, 0.3
OUT_WITHIN, BACK_WITHIN = 90.0, 60.0


def run(engine, weir, report):
    """Stops the last server. Returns a row: when weir found it, what was asked meanwhile, and when it was back."""
    stopped, name = engine.servers[-1], f"replica{len(engine.servers) - 1}"
    where = f"{engine.name}, SIGSTOP of one of two"
    begun = threading.Barrier(STREAMS + 1, timeout=60)
    body = {**chat()(engine, None), "max_tokens": LENGTH}

    def is_in():
        states = {labels["state"] for _, labels, value in samples(weir.page(), "weir_replica_state")
                  if labels["replica"] == name and value}
        return bool(states & {"up", "starting"})

    stream = streams(weir, body, begun, patience=300)

    def request(number):
        return ask(weir.url, PATH, {**chat()(engine, None), "seed": number, "stream": number % 2 == 0}, patience=180)

    with concurrent.futures.ThreadPoolExecutor(STREAMS + WHOLE) as pool:
        running = [pool.submit(stream, number) for number in range(STREAMS)]
        begun.wait()
        try:
            stopped.signal(signal.SIGSTOP)
            begin = time.monotonic()
            asked = [pool.submit(request, number) for number in range(WHOLE)]
            try:
                until(f"{name}'s ejection", lambda: not is_in(), OUT_WITHIN)
                out_after = f"{time.monotonic() - begin:.1f} s"
            except Failed as failed:
                report.fail(where, str(failed))
                out_after = "never"
            answers = [future.result() for future in asked]
            slowest = time.monotonic() - begin
            returned, later, end = False, [], time.monotonic() + STOPPED
            while time.monotonic() < end:
                later.append(request(len(later)))
                returned |= is_in()
                time.sleep(BETWEEN)
        finally:
            stopped.signal(signal.SIGCONT)
        begin = time.monotonic()
        until(f"{name}'s return", is_in, BACK_WITHIN)
        back_after = f"{time.monotonic() - begin:.1f} s"
        ended = [future.result() for future in running]

    on_stopped = [answer for answer in ended if answer.header("x-weir-replica") == name]
    others = [answer for answer in ended if answer.header("x-weir-replica") != name]
    lost = [answer for answer in answers + later if answer.status != 200 or answer.broken]
    at_stopped = [answer for answer in later if answer.header("x-weir-replica") == name]
    cut_short = [answer for answer in others if not whole(engine, answer)]
    if not on_stopped or not others:
        report.fail(where, "all streams were at one server: the case proves nothing")
    if lost:
        report.fail(where, f"{len(lost)} of {len(answers + later)} requests were lost: {lost[0].status} {lost[0].broken} {lost[0].body[:200]!r}")
    if at_stopped or returned:
        report.fail(where, f"the stopped server was taken back; {len(at_stopped)} requests went to it")
    if cut_short:
        report.fail(where, f"{len(cut_short)} streams of the other server were lost: {cut_short[0].broken}")
    if not (lost or at_stopped or returned or cut_short):
        report.say(f"passed  {where}: out after {out_after}, {len(answers + later)} requests answered, back {back_after} after SIGCONT")
    return [engine.title, out_after, f"{len(answers) - len([a for a in answers if a in lost])} of {len(answers)} within {slowest:.1f} s",
            f"{len(later)}, {len(at_stopped)} by the stopped", f"{len(on_stopped)}, {len([a for a in on_stopped if whole(engine, a)])} whole", back_after]
