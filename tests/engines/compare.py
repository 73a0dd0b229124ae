"""Compares an answer through weir with the engine's own, byte for byte, once ids, times and the like are made equal."""
import dataclasses
import json
import re

# These belong to one hop or to one moment.
OF_THE_HOP = {"connection", "keep-alive", "transfer-encoding", "date", "content-length"}
# weir adds these to answers, or may replace them.
WEIRS = {"x-request-id", "x-weir-id", "x-weir-replica"}
WEIRS_OF_STREAMS = {"cache-control", "x-accel-buffering"}


def masked(body, masks):
    for pattern, replacement, *_ in masks:
        body = re.sub(pattern, replacement, body)
    return body


def in_order(body):
    """Returns the events of several choices, choice by choice, because chance decides which comes first."""
    def choice(event):
        found = re.search(rb'"index":\s?(\d+)', event)
        # Events without a choice (usage, [DONE]) stay at the end. llama.cpp's usage comes once a choice.
        return int(found[1]) if found and b'"choices":[]' not in event else 99

    return b"\n\n".join(sorted(body.split(b"\n\n"), key=choice))


def headers(answer):
    # LiteLLM puts times and ids of calls, and what it got from behind it, into headers.
    return {name.lower(): value for name, value in answer.headers if not name.lower().startswith(("x-litellm", "llm_provider"))}


def of_headers(direct, through):
    theirs, ours = headers(direct), headers(through)
    streamed = (theirs.get("content-type") or "").startswith("text/event-stream")
    for name, value in theirs.items():
        if name not in OF_THE_HOP | WEIRS and ours.get(name) != value:
            yield f"header {name}: {value!r} became {ours.get(name)!r}"
    for name in ours:
        if name not in theirs and name not in OF_THE_HOP | WEIRS | (WEIRS_OF_STREAMS if streamed else set()):
            yield f"header {name}: {ours[name]!r} was added"


def first_difference(theirs, ours):
    at = next((i for i, (a, b) in enumerate(zip(theirs, ours)) if a != b), min(len(theirs), len(ours)))
    begin = max(0, at - 60)
    return f"{theirs[begin : at + 120]!r} became {ours[begin : at + 120]!r}"


def differences(direct, through, engine, choices):
    """Yields what is not the same; nothing if all is."""
    if direct.status != through.status:
        yield f"status {direct.status} became {through.status} {through.body[:200]!r}"
        return
    if direct.broken != through.broken:
        yield f"the end {direct.broken or 'whole'!r} became {through.broken or 'whole'!r}"
    yield from of_headers(direct, through)
    theirs, ours = masked(direct.body, engine.masks), masked(through.body, engine.masks)
    if choices > 1:
        theirs, ours = in_order(theirs), in_order(ours)
    if theirs != ours:
        yield first_difference(theirs, ours)


def models_differences(direct, through):
    """Checks that weir's own list holds each of the engine's entries whole."""
    ours = [json.dumps(entry, sort_keys=True) for entry in next(through.events(), {}).get("data", [])]
    for entry in next(direct.events(), {}).get("data", []):
        if not any(alike(json.loads(other), entry) for other in ours):
            yield f"{json.dumps(entry)[:160]} is not in {through.body[:200]!r}"


def alike(one, other):
    def timeless(entry):
        # vLLM gives permissions a new id, and all engines give the time of the question.
        text = json.dumps({**entry, "created": 0}, sort_keys=True)
        return re.sub(r'"modelperm-[0-9a-f]+"|"created": [0-9]+', '"-"', text)

    return timeless(one) == timeless(other)


def with_losses(direct, engine):
    """Returns the answer without what weir's question for usage is known to take, and what that is."""
    body, lost = direct.body, []
    for pattern, replacement, what in engine.losses:
        shorter = re.sub(pattern, replacement, body)
        if shorter != body:
            body, lost = shorter, [*lost, what]
    return dataclasses.replace(direct, body=body), lost
