"""Runs streams over all of an engine's servers, and puts weir's figures of them beside the engine's own."""
import concurrent.futures
import random

from answers import told
from cases import TEXT, chat, completion
from exchange import ask
from report import milliseconds, tokens
from weir import samples, until

REQUESTS, AT_ONCE = 40, 4


def bodies(engine):
    """Runs chat and completions by turns, of different lengths, none of which asks for usage."""
    chance = random.Random(5)
    text = " ".join([TEXT] * 20)  # It is longer than the block of tokens that vLLM's prefix cache keeps as one.
    for number in range(REQUESTS):
        make, path = ((chat, "/v1/chat/completions"), (completion, "/v1/completions"))[number % 2]
        body = make(text, stream=True, max_tokens=chance.randrange(16, 64))(engine, None)
        yield path, {**body, "seed": number, **({"cache_prompt": True} if "cache_prompt" in body else {})}


def mean(values):
    values = [value for value in values if value is not None]
    return sum(values) / len(values) if values else None


def ratio(sum_and_count):
    return sum_and_count[0] / sum_and_count[1] if sum_and_count and sum_and_count[1] else None


def metrics(weir):
    """Returns weir's counters and histograms, all replicas together."""
    read = {}
    for name, _, value in samples(weir.page(), "weir_[a-z_]+"):
        read[name] = read.get(name, 0) + value
    return read


def run(engine, weir, report):
    """Returns rows: what, weir's, the engine's, the difference."""
    tells = engine.own(engine.servers[0].url).running is not None
    if tells:
        until("an idle engine", lambda: engine.own_of_all().running == 0, 60)
    before, metrics_before, logged = engine.own_of_all(), metrics(weir), len(weir.lines())
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda job: ask(weir.url, *job), bodies(engine)))
    until("all lines of weir's log", lambda: len(weir.lines()) >= logged + REQUESTS)
    lines = weir.lines()[logged:]
    if tells:
        until("an idle engine", lambda: engine.own_of_all().running == 0)
    own = engine.own_of_all() - before
    after = metrics(weir)
    grown = {name: value - metrics_before.get(name, 0) for name, value in after.items()}
    where = f"{engine.name}, figures"
    served = [line for line in lines if line["outcome"] == "ok"]
    if len(served) != REQUESTS:
        report.fail(where, f"{len(served)} of {REQUESTS} were served: {[line['outcome'] for line in lines]}")
    rows = []

    def count(what, ours, in_metrics, theirs):
        rows.append([engine.title, what, tokens(ours), tokens(theirs), "-" if theirs is None else "equal" if ours == theirs else "**differs**"])
        if theirs is not None and ours != theirs:
            report.fail(where, f"{what}: weir {tokens(ours)}, {engine.title} {tokens(theirs)}")
        if in_metrics != ours:
            report.fail(where, f"{what}: {tokens(ours)} in weir's log, {tokens(in_metrics)} in /metrics")

    def total(field):
        values = [line[field] for line in lines if line[field] is not None]
        return sum(values) if values else None

    usage = [told(answer) for answer in answers]
    by_usage = {kind: sum(one[kind] for one in usage) if all(one[kind] for one in usage) else None
                for kind in ("prompt", "output")}
    counted = grown["weir_output_tokens_total"] - grown["weir_output_tokens_overcounted_total"]
    count("output tokens", total("output_tokens") or 0, counted, own.output if own.output is not None else by_usage["output"])
    count("prompt tokens", total("prompt_tokens") or 0, grown["weir_prompt_tokens_total"],
          own.prompt if own.prompt is not None else by_usage["prompt"])
    if own.cached is not None:
        count("cached tokens", total("cached_tokens") or 0, grown.get("weir_cached_prompt_tokens_total", 0), own.cached)

    def time(what, name, field, theirs):
        ours = ratio((grown.get(f"{name}_sum", 0), grown.get(f"{name}_count", 0)))
        by_lines = mean(line[field] for line in served) if field else ours
        if ours is None or by_lines is None or abs(ours - by_lines) > 1e-6:
            report.fail(where, f"{what}: the mean of the log is {milliseconds(by_lines)}, of /metrics {milliseconds(ours)}")
        off = "-" if None in (ours, theirs) else f"{(ours - theirs) * 1e3:+.3f} ms"
        rows.append([engine.title, what, milliseconds(ours), milliseconds(theirs), off])

    # llama.cpp reports its times with each answer, and weir's log has them.
    decode = [line["engine_decode_s"] / (line["output_tokens"] - 1) for line in served
              if line.get("engine_decode_s") and (line["output_tokens"] or 0) > 1]
    time("TTFT, mean", "weir_time_to_first_token_seconds", "ttft_s",
         ratio(own.ttft) or mean(line.get("engine_prefill_s") for line in served))
    time("TPOT, mean", "weir_time_per_output_token_seconds", "tpot_s", ratio(own.tpot) or mean(decode))
    if own.itl:
        time("ITL, mean", "weir_inter_token_latency_seconds", None, ratio(own.itl))
    unknown = grown.get("weir_itl_unknown_requests_total", 0)
    rows.append([engine.title, "streams without ITL", tokens(unknown), "", ""])
    report.say(f"{'passed' if len(served) == REQUESTS else 'FAILED'}  {engine.name}: {REQUESTS} streams, {AT_ONCE} at a time")
    return rows
