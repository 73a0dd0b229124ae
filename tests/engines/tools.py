"""Runs guidellm, AIPerf and weir's own `weir-lab load` once each through weir at a vLLM, under the same load, and puts their figures
beside weir's of the same requests. Names differ, so a table says which of theirs is which of weir's (docs/reference/metrics.md)."""
import json
import os
import subprocess

from engine import QUIET
from figures import mean
from report import milliseconds, tokens
from weir import Failed, until

REQUESTS, AT_ONCE, PROMPT, OUTPUT = 20, 2, 64, 32
PATIENCE = 400


def ran(command, directory, environment):
    with (directory / "tool.out").open("w") as output:
        try:
            status = subprocess.run([str(part) for part in command], cwd=directory, stdin=subprocess.DEVNULL, stdout=output,
                                    stderr=subprocess.STDOUT, timeout=PATIENCE, env={**os.environ, **QUIET, **environment})
        except subprocess.TimeoutExpired:
            raise Failed(f"{command[0]} did not end within {PATIENCE} s: {directory}/tool.out") from None
    if status.returncode:
        raise Failed(f"{command[0]} ended with status {status.returncode}: {directory}/tool.out")


def guidellm(engine, url, directory):
    """Returns what it says: seconds, and tokens of all requests."""
    written = directory / "guidellm.json"
    ran([
        engine.python("guidellm").with_name("guidellm"), "run", "--disable-console",
        "--backend", f"kind=openai_http,target={url},model={engine.model}",
        "--profile", f"kind=concurrent,streams={AT_ONCE}", "--constraint", f"kind=max_requests,count={REQUESTS}",
        "--data", f"kind=synthetic_text,prompt_tokens={PROMPT},output_tokens={OUTPUT}",
        "--tokenizer", f"kind=hf_auto,model={engine.make('tiny_hf.py', 'vllm', 'tiny-hf')}",
        "--output", f"kind=json,path={written}",
    ], directory, {})
    requests = json.loads(written.read_text())["benchmarks"][0]["requests"]["successful"]

    def ms(field):
        return mean(request[field] / 1e3 for request in requests)

    return len(requests), [
        ("time_to_first_token_ms", ms("time_to_first_token_ms"), "ttft_client_s"),
        ("inter_token_latency_ms", ms("inter_token_latency_ms"), "tpot_s"),
        ("time_per_output_token_ms", ms("time_per_output_token_ms"), "ntpot_s"),
        ("request_latency", mean(request["request_latency"] for request in requests), "e2e_s"),
        ("output_token_count", sum(request["output_tokens"] for request in requests), "output_tokens"),
        ("prompt_token_count", sum(request["prompt_tokens"] for request in requests), "prompt_tokens"),
    ]


def aiperf(engine, url, directory):
    # It takes no folder for a tokenizer while it is told that there is no hub.
    ran([
        engine.python("aiperf").with_name("aiperf"), "profile", "--model", engine.model, "--url", url, "--endpoint-type", "chat",
        "--streaming", "--tokenizer", engine.make("tiny_hf.py", "vllm", "tiny-hf"), "--use-server-token-count",
        "--request-count", REQUESTS, "--concurrency", AT_ONCE, "--synthetic-input-tokens-mean", PROMPT,
        "--output-tokens-mean", OUTPUT, "--extra-inputs", "ignore_eos:true", "--artifact-dir", directory / "aiperf", "--ui", "none",
        "--no-gpu-telemetry", "--no-server-metrics",
    ], directory, {"HF_HUB_OFFLINE": ""})
    said = json.loads((directory / "aiperf" / "profile_export_aiperf.json").read_text())

    def average(name):
        return said[name]["avg"] / 1e3

    return int(said["request_count"]["avg"]), [
        ("time_to_first_token", average("time_to_first_token"), "ttft_client_s"),
        ("inter_token_latency", average("inter_token_latency"), "tpot_s"),
        ("request_latency", average("request_latency"), "e2e_s"),
        ("total_output_tokens", said["total_output_tokens"]["avg"], "output_tokens"),
    ]


def weir_lab(engine, url, directory):
    written = directory / "load.json"
    ran([
        engine.lab, "load", "--url", url, "--model", engine.model, "--concurrency", AT_ONCE, "--requests", REQUESTS, "--input-tokens", PROMPT,
        "--input-stddev", 0, "--output-tokens", OUTPUT, "--output-stddev", 0, "--usage", "--json", written,
    ], directory, {})
    said = json.loads(written.read_text())
    return said["requests_ok"], [
        ("ttft_s", said["ttft_s"]["mean"], "ttft_client_s"),
        ("tpot_s", said["tpot_s"]["mean"], "tpot_s"),
        ("e2e_s", said["e2e_s"]["mean"], "e2e_s"),
        ("output_tokens", said["output_tokens"], "output_tokens"),
        ("prompt_tokens", said["prompt_tokens"], "prompt_tokens"),
    ]


def beside(tool, engine, weir, directory, report):
    """Returns rows: the tool's name of a figure and its value, weir's, the difference."""
    name, rows = tool.__name__, []
    directory.mkdir(parents=True, exist_ok=True)
    logged = len(weir.lines())
    requests, figures = tool(engine, weir.url, directory)
    until("all lines of weir's log", lambda: len(weir.lines()) >= logged + requests)
    # A tool may ask before it begins to measure: its requests are the last ones.
    lines = [line for line in weir.lines()[logged:] if line["outcome"] == "ok" and line["stream"]][-requests:]
    if not requests == len(lines) == REQUESTS:
        report.fail(name, f"{REQUESTS} requests wanted, {requests} by its own count, {len(lines)} in weir's log")
    for theirs, value, field in figures:
        values = [line[field] for line in lines]
        if field.endswith("_s"):
            ours = mean(values)
            rows.append([f"`{theirs}` {milliseconds(value)}", f"`{field}` {milliseconds(ours)}", f"{(value - ours) * 1e3:+.3f} ms"])
            continue
        ours = sum(values)
        rows.append([f"`{theirs}` {tokens(value)}", f"`{field}` {tokens(ours)}", "equal" if ours == value else "**differs**"])
        if ours != value:
            report.fail(name, f"{theirs}: {tokens(value)}, weir's {field} {tokens(ours)}")
    report.say(f"passed  {name}: {requests} requests")
    return rows


def run(engine, weir, directory, seen, report):
    for tool in (guidellm, aiperf, weir_lab):
        name = "weir-lab load" if tool is weir_lab else f"{tool.__name__} {engine.package(tool.__name__, tool.__name__)}"
        title = f"{name}, {AT_ONCE} streams at a time, means"
        try:
            seen.tools.append((title, beside(tool, engine, weir, directory / tool.__name__, report)))
        except Failed as failed:
            report.fail(tool.__name__, str(failed))
