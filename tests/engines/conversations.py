"""Holds conversations with two servers at once, with and without prefix-aware balancing: what weir believed a server to hold
of each prompt stands beside what the server reported, and what the belief saved beside the same without it."""
import concurrent.futures
import random

from cases import CHAT, chat
from exchange import ask
from report import tokens
from vocabulary import WORDS
from weir import until

CONVERSATIONS, TURNS, AT_ONCE = 12, 4, 4
SYSTEM, TURN, ANSWER = 900, 120, 24  # Tokens, about.
APART = 0.05  # Predicted and reported tokens may differ by so much of all prompt tokens.


def held(engine, url, seed):
    """Holds one conversation: a system prompt of its own, and an answer to each turn. Returns whether all was
    answered."""
    chance = random.Random(seed)
    messages = [{"role": "system", "content": " ".join(chance.choices(WORDS, k=round(SYSTEM / engine.tokens_a_word)))}]
    for _ in range(TURNS):
        messages.append({"role": "user", "content": " ".join(chance.choices(WORDS, k=round(TURN / engine.tokens_a_word)))})
        body = {**chat("", max_tokens=ANSWER)(engine, None), "messages": messages, "seed": seed}
        if "cache_prompt" in body:
            body["cache_prompt"] = True
        answer = ask(url, CHAT, body)
        if answer.status != 200 or answer.broken:
            return False
        messages.append({"role": "assistant", "content": next(answer.events())["choices"][0]["message"]["content"] or ""})
    return True


def run(engine, make_weir, report):
    """`make_weir` takes a name, a number of servers, further settings and further keys of the pool. Returns rows."""
    where, rows = f"{engine.name}, conversations", []
    for aware, first_seed in (("true", 1000), ("false", 2000)):
        weir = make_weir(f"conversations-{aware}", 2, "", f"prefix_aware = {aware}\n")
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            answered = list(pool.map(lambda seed: held(engine, weir.url, seed), range(first_seed, first_seed + CONVERSATIONS)))
        if not all(answered):
            report.fail(where, "a turn was not answered")
            continue
        until("a line of each turn", lambda: len(weir.lines()) >= CONVERSATIONS * TURNS, 60)
        lines = weir.lines()
        prompt, cached, predicted = (sum(line[name] or 0 for line in lines) for name in ("prompt_tokens", "cached_tokens", "prefix_predicted"))
        wrong = len(report.failures)
        if not cached:
            report.fail(where, "the engine reported no cached token: the case proves nothing")
        apart = "-"
        if aware == "true":
            apart = sum(abs((line["prefix_predicted"] or 0) - (line["cached_tokens"] or 0)) for line in lines) / prompt
            if apart > APART:
                report.fail(where, f"predicted and reported tokens differ by {apart:.1%} of all prompt tokens")
            apart = f"{apart:.1%}"
        if len(report.failures) == wrong:
            report.say(f"passed  {where}, prefix_aware = {aware}: {cached:g} of {prompt:g} prompt tokens cached, {predicted:g} predicted")
        rows.append([engine.title, aware, tokens(prompt), tokens(predicted) if aware == "true" else "-", tokens(cached), apart, tokens(prompt - cached)])
    return rows
