"""These cases use curl: they see the bytes themselves, and do what SDKs do not do with HTTP."""
import json
import subprocess
import tempfile

from cases import Counted, add

CHAT, COMPLETIONS = "openai.chat", "/v1/chat/completions"


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


def stream(model, **options):
    return chat(model, stream=True, **options)


def get_of(path, body, *options):
    return lambda url: curl(url, path, body, *options)[0]


# What weir injects, it must take out again without a trace, however an engine writes it.
for engine, output in [("vllm", 8), ("sglang", 8), ("tgi", 8), ("llamacpp", 7)]:
    add(f"curl -N, stream of {engine}", Counted("ok", CHAT, prompt=31, output=output),
        get_of(COMPLETIONS, stream(f"{engine}/plain"), "-N"))
add("curl -N, TGI's generate_stream", Counted("ok", "tgi.generate", prompt=6, output=7),
    get_of("/generate_stream", {"inputs": "plain"}, "-N"))
add("curl -N, Anthropic's messages", Counted("ok", "anthropic.messages", prompt=125, output=15),
    get_of("/v1/messages", {**stream("claude/thinking"), "max_tokens": 99}, "-N"))
add("curl -N, Ollama's chat", Counted("ok", "ollama.chat", prompt=26, output=8), get_of("/api/chat", chat("ollama/plain"), "-N"))
add("curl, Ollama's chat as one document", Counted("ok", "ollama.chat", False, prompt=26, output=8),
    get_of("/api/chat", chat("ollama/plain", stream=False)))


def waits_for_continue(url):
    body = chat("vllm/size")
    body["messages"][0]["content"] = "word " * 400_000
    seen, seconds = curl(url, COMPLETIONS, body, "-H", "Expect: 100-continue", "--expect100-timeout", "10")
    assert seconds < 5, f"curl waited for its 100 Continue: {seconds} s"
    return seen  # Its prompt_tokens are the bytes that the replica got.


DOCUMENT, STREAM = Counted("ok", CHAT, False, prompt=31, output=8), Counted("ok", CHAT, prompt=31, output=8)
add("curl, 2 MB with Expect: 100-continue", Counted("ok", CHAT, False, output=8), waits_for_continue)
add("curl --http1.0", DOCUMENT, get_of(COMPLETIONS, chat("vllm/plain"), "--http1.0"))
add("curl --http1.0, stream", STREAM, get_of(COMPLETIONS, stream("vllm/plain"), "--http1.0", "-N"))
add("curl, chunked request", DOCUMENT, get_of(COMPLETIONS, chat("vllm/plain"), "-H", "Transfer-Encoding: chunked"))
add("curl --compressed, stream", STREAM, get_of(COMPLETIONS, stream("vllm/plain"), "--compressed"))
add("curl, replica killed in mid-stream", Counted("upstream_reset", CHAT), get_of(COMPLETIONS, stream("vllm/killed"), "-N"),
    breaks_off="killed")
