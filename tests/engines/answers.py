"""Asks each case twice at the engine and once through weir, and compares the bytes, the head, the outcome, and the tokens that
weir counted with those that the engine counted."""
import time
import uuid

from cases import CASES
from compare import differences, models_differences, with_losses
from exchange import ask
from report import tokens
from weir import Failed, until

TRIES = 3


def told(answer):
    """Returns the last usage of an answer, for engines that count nowhere else."""
    said = {}
    for event in answer.events():
        if isinstance(event, dict):
            said = event.get("usage") or (event.get("response") or {}).get("usage") or said
    return {"prompt": said.get("prompt_tokens", said.get("input_tokens")),
            "output": said.get("completion_tokens", said.get("output_tokens"))}


def steady(engine, server, case, body):
    """Returns the engine's answer, and whether it gave it twice. What it had in its cache may show in the first."""
    last = ask(server.url, case.path, body)
    for _ in range(3):
        answer = ask(server.url, case.path, body)
        if not list(differences(last, answer, engine, case.choices)):
            return answer, True
        last = answer
    return last, False


def line_of(weir, ask_it):
    """Returns what came through weir, and the line of its log about it."""
    logged = len(weir.lines())
    through = ask_it()
    until("the request's line in weir's log", lambda: len(weir.lines()) > logged)
    return through, weir.lines()[logged]


def made(engine, server, before, wanted):
    """Returns what the engine counted since `before`; it counts a moment after it has answered."""
    end = time.monotonic() + 2
    while True:
        grown = engine.own(server.url) - before
        if time.monotonic() > end or (grown.output == wanted and grown.running is not None):
            return grown
        time.sleep(0.02)


def truths(case, engine, direct, grown):
    """Returns the tokens of a request: what the engine counted or, if it does not count, what its answer says."""
    if grown.output is None or case.name in engine.says_less:
        return told(direct)
    # With several choices some engines count the prompt once, some once a choice.
    return {"output": grown.output, "prompt": grown.prompt if case.choices == 1 else None}


def of_bytes(case, engine, direct, through):
    """Returns what the table says, and what is not the same."""
    problems = list(differences(direct, through, engine, case.choices))
    if not problems:
        return "same", []
    shortened, lost = with_losses(direct, engine)
    if lost and not list(differences(shortened, through, engine, case.choices)):
        return f"same, less {' and '.join(lost)}", []
    return "differs", problems


def of_counts(case, engine, direct, line, grown):
    """Returns what the table says, and what is not the same."""
    truth = truths(case, engine, direct, grown)
    problems = [f"{kind} tokens: weir {tokens(line[f'{kind}_tokens'])}, {engine.title} {tokens(truth[kind])}"
                for kind in ("prompt", "output") if truth.get(kind) is not None and (line[f"{kind}_tokens"] or 0) != truth[kind]]
    ours, theirs = line["output_tokens"], truth.get("output")
    said = f"; {tokens(ours)} = {tokens(theirs)}" if (ours or 0) == theirs else f"; **{tokens(ours)} of {tokens(theirs)}**"
    if case.name in engine.says_less:
        # The engine reports one of several choices. weir has to say that it does not know, rather than report too few.
        told = ours and line["tokens_source"] != "counted"
        problems = [f"output tokens: weir {ours}, where {engine.title} tells {tokens(theirs)} of {tokens(grown.output)}"] if told else []
        said = f"; not known: it tells {tokens(theirs)} of {tokens(grown.output)}"
    return said, problems


def of_outcome(case, engine, direct, line):
    # A text at which to stop may be the first that comes.
    good = ("ok", "ok_empty") if case.name.startswith("stop") else ("ok",)
    if engine.gives_one_choice and case.choices > 1 and "streamed" in case.name:
        good = ("truncated",)
    if direct.status == 200 and case.name.endswith("too long, streamed"):
        good = ("client_error",)  # SGLang accepts a stream before it looks at the prompt.
    wanted = good if direct.status == 200 else ("client_error",) if direct.status < 500 else ("upstream_error",)
    if line["outcome"] not in wanted:
        yield f"outcome {line['outcome']} for status {direct.status}"
    if line["attempt"] != 1:
        yield f"sent {line['attempt']} times"


def run_ids(case, engine, weir, body):
    """Returns what the table says, and problems: the log's line must be joined to the request that the client knows."""
    theirs = str(uuid.uuid4())
    through, line = line_of(weir, lambda: ask(weir.url, case.path, body, headers=[("x-request-id", theirs)]))
    problems = []
    if through.header("x-weir-id") != line["id"]:
        problems.append(f"x-weir-id is {through.header('x-weir-id')}, id in the log {line['id']}")
    if line.get("client_id") != theirs:
        problems.append(f"client_id is {line.get('client_id')}, the client's x-request-id {theirs}")
    return "in log and answer" if not problems else "differs", problems


def run_case(case, engine, server, weir, stop):
    """Returns what the table says, and problems. An engine that is short of CPU joins tokens into one event, now here, now
    there, so bytes that differ are asked for again. What weir adds or takes is the same each time."""
    body = case.body(engine, stop)
    if case.ids:
        return run_ids(case, engine, weir, body)
    for left in reversed(range(TRIES)):
        direct, is_steady = steady(engine, server, case, body)
        if body is None:
            problems = list(models_differences(direct, ask(weir.url, case.path)))
            return "same" if not problems else "differs", problems
        before = engine.own(server.url)
        through, line = line_of(weir, lambda: ask(weir.url, case.path, body))
        grown = made(engine, server, before, line["output_tokens"])
        said, problems = of_bytes(case, engine, direct, through) if is_steady else ("differs from itself", [])
        if said == "same" or "less" in said or not left:
            break
    problems += of_outcome(case, engine, direct, line)
    if case.counts and direct.status == 200:
        more, wrong = of_counts(case, engine, direct, line, grown)
        return said + more, problems + wrong
    return said + (f"; {direct.status}" if direct.status != 200 else ""), problems


def stop_text(engine, server):
    """Returns text out of the middle of the engine's answer to the first case."""
    answer = next(ask(server.url, CASES[0].path, CASES[0].body(engine, None)).events(), {})
    try:
        text = answer["choices"][0]["message"]["content"]
    except (LookupError, TypeError):
        raise Failed(f"{engine.title} did not answer: {answer}") from None
    return text[len(text) // 2 :][:3]


def run(engine, weirs, words, report):
    """Runs all cases; returns what the table says of each, by name."""
    server, said = engine.servers[0], {}
    stop = stop_text(engine, server)
    for weir in weirs.values():  # weir learns from the first answers what it knows of a replica.
        for streamed in (False, True):
            ask(weir.url, CASES[0].path, {**CASES[0].body(engine, None), "stream": streamed})
    for case in CASES:
        if words and not any(word in case.name for word in words):
            continue
        if case.only not in ("", engine.name):
            continue
        if case.name in engine.leaves_out:
            said[case.name] = "-"
            continue
        try:
            said[case.name], problems = run_case(case, engine, server, weirs[case.every_chunk], stop)
        except Failed as failed:
            said[case.name], problems = "failed", [str(failed)]
        report.say(f"{'FAILED' if problems else 'passed'}  {engine.name}: {case.name}: {said[case.name]}")
        for problem in problems:
            report.fail(f"{engine.name}, {case.name}", problem)
    return said
