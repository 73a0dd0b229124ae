"""Runs every case twice, with the client at the replica and with the client at weir, and compares what the client saw;
then what weir counted, and whether the replica was left when the client had gone.

Usage: run.py WEIR_PROGRAM DIRECTORY [WORD...]
  DIRECTORY  where settings, logs and what clients saw are left.
  WORD       only cases whose name has one of these."""
import json
import os
import sys
from pathlib import Path

from weir import Failed, Weir, until, without_proxies

without_proxies()
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

import cases_anthropic, cases_curl, cases_huggingface, cases_openai  # noqa: E401, F401: they register themselves.
from cases import CASES
from replica import Replica


def grown(before, after):
    return {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}


def check_counted(counted, weir, before):
    def ended():
        growth = grown(before, weir.counters())
        requests = sum(value for key, value in growth.items() if key[0] == "weir_requests_total")
        return requests >= counted.requests

    until("the request in weir_requests_total", ended)
    growth = grown(before, weir.counters())  # A scrape may fall into the middle of a request's end.
    stream = "true" if counted.stream else "false"
    wanted = {
        ("weir_requests_total", counted.outcome, "", "", counted.phase): counted.requests,
        ("weir_api_requests_total", counted.outcome, counted.api, stream, ""): counted.requests,
    }
    requests = {key: value for key, value in growth.items() if key[0] in ("weir_requests_total", "weir_api_requests_total")}
    if requests != wanted:
        raise Failed(f"weir counted {describe(requests)} and should have counted {describe(wanted)}")
    for kind in ("prompt", "output"):
        expected = getattr(counted, kind)
        tokens = sum(value for key, value in growth.items() if key[0] == f"weir_{kind}_tokens_total")
        if expected is not None and tokens != expected:
            raise Failed(f"weir counted {tokens:g} {kind} tokens, and there were {expected}")


def describe(requests):
    return ", ".join(f"{value:g} x {' '.join(filter(None, key[1:]))}" for key, value in requests.items()) or "nothing"


# A client of each SDK catches these.
SDK_ERRORS = {"APIError", "TextGenerationError", "HTTPError"}


def check_break(case, direct, through):
    """Compares what was seen when the replica broke off. The client must have seen what came before, and must not take it for
    whole. weir may say in the client's dialect what happened, so that the SDK raises its own error where it had only a
    cut connection."""
    if "exit" in direct:  # It is curl.
        if (direct["exit"], direct["head"]) != (through["exit"], through["head"]) or direct["exit"] == 0:
            raise Failed(f"exit {direct['exit']}, {direct['head']} became {through['exit']}, {through['head']}")
        if not through["body"].startswith(direct["body"]):
            raise Failed("what came before the break is not what the replica sent")
        return
    ours, theirs = through["events"], direct["events"]
    if len(ours) > len(theirs) and isinstance(ours[-1], dict) and ours[-1].get("type") == "error":
        ours = ours[:-1]  # To the SDK Responses' error is an event like others.
    known = min(len(ours), len(theirs)) if case.breaks_off == "reset" else len(theirs)  # A reset may overtake bytes.
    if ours[:known] != theirs[:known] or (case.breaks_off != "reset" and len(ours) != known):
        raise Failed("what came before the break is not what the replica sent")
    if "raised" not in direct:
        raise Failed("the client at the replica took the broken answer for whole: the case proves nothing")
    if "raised" not in through:
        raise Failed("the client took the broken answer for whole")
    if through["raised"]["type"] != direct["raised"]["type"] and not SDK_ERRORS & set(through["raised"]["bases"]):
        raise Failed(f"the client got {through['raised']['type']} for {direct['raised']['type']}")


def first_difference(direct, through, path=""):
    if type(direct) is type(through) and isinstance(direct, dict):
        for key in {**direct, **through}:
            if direct.get(key) != through.get(key):
                return first_difference(direct.get(key), through.get(key), f"{path}.{key}")
    if type(direct) is type(through) and isinstance(direct, list):
        for index, (one, other) in enumerate(zip(direct, through)):
            if one != other:
                return first_difference(one, other, f"{path}[{index}]")
        return f"{path} has {len(direct)} parts at the replica, {len(through)} through weir"
    return f"{path}: {direct!r} at the replica, {through!r} through weir"


def run_case(case, replica, weir):
    """Runs a case; raises Failed. What both clients saw goes into `seen` even then."""
    seen = {}
    try:
        seen["direct"] = case.run(replica.url)
        if case.client_left and not replica.left():
            raise Failed("the replica did not see the client leave: the case proves nothing")
        before = weir.counters()
        seen["through"] = case.run(weir.url)
        if case.breaks_off:
            check_break(case, **seen)
        elif seen["direct"] != seen["through"]:
            raise Failed(first_difference(**seen))
        if case.client_left and not replica.left():
            raise Failed("weir did not leave the replica when the client had left")
        if case.counted:
            check_counted(case.counted, weir, before)
        return None, seen
    except (Failed, AssertionError) as error:
        return str(error), seen
    except Exception as error:
        return f"{type(error).__name__}: {error}", seen


def main():
    program, directory, *words = sys.argv[1:]
    directory = Path(directory).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    chosen = [case for case in CASES if not words or any(word in case.name for word in words)]
    if not chosen:
        sys.exit(f"no case has {' or '.join(words)} in its name")
    replica = Replica()
    weir = Weir(Path(program).resolve(), directory, {"replica": replica.url})
    failed = 0
    try:
        with (directory / "seen.jsonl").open("w") as file:
            for case in chosen:
                problem, seen = run_case(case, replica, weir)
                json.dump({"case": case.name, "problem": problem, **seen}, file, ensure_ascii=False, default=str)
                file.write("\n")
                print(f"{'FAILED' if problem else 'passed'}  {case.name}{': ' + problem if problem else ''}", flush=True)
                failed += problem is not None
    finally:
        weir.close()
        replica.close()
    print(f"\n{len(chosen) - failed} of {len(chosen)} cases passed. What the clients saw: {directory}/seen.jsonl")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"clients: {error}")
