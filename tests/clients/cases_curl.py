"""These cases use curl: they see the bytes themselves, and do what SDKs do not do with HTTP."""
import json
import subprocess
import tempfile

from cases import Counted, case

CHAT = "openai.chat"


def curl(url, path, body, *options):
    """Returns the body of the answer, byte by byte; status and type from its head; and the exit status of curl."""
    with tempfile.NamedTemporaryFile("wb") as file:
        file.write(json.dumps(body).encode())
        file.flush()
        done = subprocess.run(
            ["curl", "-sS", "--max-time", "20", "-H", "content-type: application/json", "--data-binary", f"@{file.name}",
             "-w", r"%{stderr}%{http_code} %{content_type} %{time_total}", *options, url + path],
            capture_output=True, check=False)
    figures = done.stderr.decode().replace(url, "<url>").rsplit(" ", 1)
    return {"exit": done.returncode, "body": done.stdout.decode(), "head": figures[0]}, float(figures[-1])


def chat(model, **options):
    return {"model": model, "messages": [{"role": "user", "content": "What does a weir do?"}], **options}


# What weir injects, it must take out again without a trace, however an engine writes it.
for engine, output in [("vllm", 8), ("sglang", 8), ("tgi", 8), ("llamacpp", 7)]:

    @case(f"curl -N, stream of {engine}", Counted("ok", CHAT, prompt=31, output=output))
    def _(url, engine=engine):
        return curl(url, "/v1/chat/completions", chat(f"{engine}/plain", stream=True), "-N")[0]


@case("curl -N, TGI's generate_stream", Counted("ok", "tgi.generate", prompt=6, output=7))
def _(url):
    return curl(url, "/generate_stream", {"inputs": "plain"}, "-N")[0]


@case("curl -N, Anthropic's messages", Counted("ok", "anthropic.messages", prompt=125, output=15))
def _(url):
    return curl(url, "/v1/messages", {**chat("claude/thinking", stream=True), "max_tokens": 99}, "-N")[0]


@case("curl -N, Ollama's chat", Counted("ok", "ollama.chat", prompt=26, output=8))
def _(url):
    return curl(url, "/api/chat", chat("ollama/plain"), "-N")[0]


@case("curl, Ollama's chat as one document", Counted("ok", "ollama.chat", False, prompt=26, output=8))
def _(url):
    return curl(url, "/api/chat", chat("ollama/plain", stream=False))[0]


@case("curl, 2 MB with Expect: 100-continue", Counted("ok", CHAT, False, output=8))
def _(url):
    body = chat("vllm/size")
    body["messages"][0]["content"] = "word " * 400_000
    seen, seconds = curl(url, "/v1/chat/completions", body, "-H", "Expect: 100-continue", "--expect100-timeout", "10")
    assert seconds < 5, f"curl waited for its 100 Continue: {seconds} s"
    return seen  # Its prompt_tokens are the bytes that the replica got.


@case("curl --http1.0", Counted("ok", CHAT, False, prompt=31, output=8))
def _(url):
    return curl(url, "/v1/chat/completions", chat("vllm/plain"), "--http1.0")[0]


@case("curl --http1.0, stream", Counted("ok", CHAT, prompt=31, output=8))
def _(url):
    return curl(url, "/v1/chat/completions", chat("vllm/plain", stream=True), "--http1.0", "-N")[0]


@case("curl, chunked request", Counted("ok", CHAT, False, prompt=31, output=8))
def _(url):
    return curl(url, "/v1/chat/completions", chat("vllm/plain"), "-H", "Transfer-Encoding: chunked")[0]


@case("curl --compressed, stream", Counted("ok", CHAT, prompt=31, output=8))
def _(url):
    return curl(url, "/v1/chat/completions", chat("vllm/plain", stream=True), "--compressed")[0]


@case("curl, replica killed in mid-stream", Counted("upstream_reset", CHAT), breaks_off="killed")
def _(url):
    return curl(url, "/v1/chat/completions", chat("vllm/killed", stream=True), "-N")[0]
