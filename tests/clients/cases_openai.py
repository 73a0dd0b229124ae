"""These cases use OpenAI's SDK: chat, completions, Responses, embeddings."""
import asyncio

import openai

from cases import Counted, add, attempt, events, plain

HELLO = [{"role": "user", "content": "What does a weir do?"}]
LOOK = {"type": "object", "properties": {"river": {"type": "string"}}}
CHAT_TOOLS = [{"type": "function", "function": {"name": "look", "parameters": LOOK}}]
RESPONSE_TOOLS = [{"type": "function", "name": "look", "parameters": LOOK, "strict": False}]
CHAT, COMPLETIONS, RESPONSES = "openai.chat", "openai.completions", "openai.responses"
STREAM, DOCUMENT = Counted("ok", CHAT, prompt=31, output=8), Counted("ok", CHAT, False, prompt=31, output=8)
RESPONSE = Counted("ok", RESPONSES, prompt=37, output=11)


def client(url, **options):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", **{"max_retries": 0, **options})


def asynchronous(url):
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def chat(url, model, **options):
    return lambda: client(url).chat.completions.create(model=model, messages=HELLO, **options)


def chat_events(url, model, **options):
    return events(chat(url, model, stream=True, **options), url)


def responses(url, model, **options):
    return lambda: client(url).responses.create(model=model, input="What does a weir do?", store=False, **options)


def response_events(url, model, **options):
    return events(responses(url, model, stream=True, **options), url)


def without_usage(url, model):
    seen = chat_events(url, model)
    assert not any(event.get("usage") for event in seen["events"]), "usage that nobody asked for"
    return seen


def with_usage(url, model):
    seen = chat_events(url, model, stream_options={"include_usage": True})
    assert seen["events"][-1]["usage"]["completion_tokens"], "no usage at the end"
    return seen


def chat_helper(url):
    with client(url).chat.completions.stream(model="vllm/plain", messages=HELLO) as stream:
        kinds = [event.type for event in stream]
        return {"kinds": kinds, "final": plain(stream.get_final_completion())}


def response_helper(url):
    with client(url).responses.stream(model="vllm/plain", input="What does a weir do?") as stream:
        kinds = [event.type for event in stream]
        return {"kinds": kinds, "final": plain(stream.get_final_response())}


def several_at_once(url, number):
    async def read(one):
        stream = await one.chat.completions.create(model="vllm/plain", messages=HELLO, stream=True)
        return [plain(event) async for event in stream]

    async def all_of_them():
        async with asynchronous(url) as one:
            return await asyncio.gather(*(read(one) for _ in range(number)))

    return asyncio.run(all_of_them())


def one_after_another(url):
    one = client(url)
    return [plain(one.chat.completions.create(model="vllm/plain", messages=HELLO)) for _ in range(3)]


# Four engines stream, without and with usage asked for. n counts the end of sequence if the engine does.
for engine, output in [("vllm", 8), ("sglang", 8), ("tgi", 8), ("llamacpp", 7)]:
    counted, model = Counted("ok", CHAT, prompt=31, output=output), f"{engine}/plain"
    add(f"openai chat, stream of {engine}", counted, lambda url, model=model: without_usage(url, model))
    add(f"openai chat, stream of {engine} with usage", counted, lambda url, model=model: with_usage(url, model))

add("openai chat, stream with continuous usage", STREAM,
    lambda url: chat_events(url, "vllm/plain", stream_options={"include_usage": True, "continuous_usage_stats": True}))
add("openai chat, stream with options, but without usage", Counted("ok", CHAT),
    lambda url: chat_events(url, "vllm/plain", stream_options={"include_usage": False}))
add("openai chat, stream with reasoning", Counted("ok", CHAT, prompt=31, output=11),
    lambda url: chat_events(url, "vllm/reasoning"))
add("openai chat, stream with a tool call", Counted("ok", CHAT, prompt=31, output=5),
    lambda url: chat_events(url, "vllm/tools", tools=CHAT_TOOLS))
add("openai chat, stream of two choices", Counted("ok", CHAT, prompt=31, output=16),
    lambda url: chat_events(url, "vllm/plain", n=2))
add("openai chat, stream helper", STREAM, chat_helper)
add("openai chat, asynchronous stream", STREAM, lambda url: several_at_once(url, 1))
add("openai chat, eight streams at once", Counted("ok", CHAT, requests=8, prompt=8 * 31, output=8 * 8),
    lambda url: several_at_once(url, 8))
add("openai chat, one answer after another", Counted("ok", CHAT, False, requests=3, prompt=93, output=24), one_after_another)
add("openai chat", DOCUMENT, lambda url: attempt(chat(url, "vllm/plain"), url))
add("openai chat, a tool call", Counted("ok", CHAT, False, prompt=31, output=5),
    lambda url: attempt(chat(url, "vllm/tools", tools=CHAT_TOOLS), url))
add("openai completions, stream", Counted("ok", COMPLETIONS, prompt=31, output=7),
    lambda url: events(lambda: client(url).completions.create(model="vllm/plain", prompt="A weir", stream=True), url))
add("openai completions", Counted("ok", COMPLETIONS, False, prompt=31, output=7),
    lambda url: attempt(lambda: client(url).completions.create(model="vllm/plain", prompt="A weir"), url))
add("openai embeddings", Counted("ok", "openai.embeddings", False, prompt=4),
    lambda url: attempt(
        lambda: client(url).embeddings.create(model="vllm/plain", input="A weir", encoding_format="float"), url))
add("openai models", None, lambda url: [model.id for model in client(url).models.list()])

for status, outcome in {400: "client_error", 401: "client_error", 404: "client_error", 422: "client_error",
                        429: "replica_refused", 500: "upstream_error", 503: "replica_refused"}.items():
    model = f"vllm/status-{status}"
    add(f"openai chat, status {status}", Counted(outcome, CHAT, False),
        lambda url, model=model: attempt(chat(url, model), url))
    add(f"openai chat, status {status} instead of a stream", Counted(outcome, CHAT),
        lambda url, model=model: chat_events(url, model))

add("openai chat, error in mid-stream", Counted("upstream_error", CHAT, output=3), lambda url: chat_events(url, "vllm/error"))
add("openai chat, error in mid-stream of TGI", Counted("upstream_error", CHAT, output=3),
    lambda url: chat_events(url, "tgi/error"))
for how in ("killed", "reset"):
    add(f"openai chat, replica {how} in mid-stream", Counted("upstream_reset", CHAT),
        lambda url, how=how: chat_events(url, f"vllm/{how}"), breaks_off=how)
add("openai chat, client leaves in mid-stream", Counted("client_abort", CHAT, phase="decode"),
    lambda url: events(chat(url, "vllm/long", stream=True), url, leave_after=4), client_left=True)
add("openai chat, client gives up before the first token", Counted("client_abort", CHAT, phase="prefill"),
    lambda url: events(chat(url, "vllm/mute", stream=True, timeout=0.5), url), client_left=True)

add("openai responses, stream", RESPONSE, lambda url: response_events(url, "vllm/plain"))
add("openai responses, stream with a function call", RESPONSE,
    lambda url: response_events(url, "vllm/tools", tools=RESPONSE_TOOLS))
add("openai responses, stream helper", RESPONSE, response_helper)
add("openai responses, incomplete stream", RESPONSE, lambda url: response_events(url, "vllm/incomplete"))
add("openai responses, failed stream", Counted("upstream_error", RESPONSES), lambda url: response_events(url, "vllm/failed"))
add("openai responses, error in mid-stream", Counted("upstream_error", RESPONSES),
    lambda url: response_events(url, "vllm/error"))
add("openai responses", Counted("ok", RESPONSES, False, prompt=37, output=11),
    lambda url: attempt(responses(url, "vllm/plain"), url))
add("openai responses, status 429", Counted("replica_refused", RESPONSES, False),
    lambda url: attempt(responses(url, "vllm/status-429"), url))
add("openai responses, replica killed in mid-stream", Counted("upstream_reset", RESPONSES),
    lambda url: response_events(url, "vllm/killed"), breaks_off="killed")
add("openai responses, client leaves in mid-stream", Counted("client_abort", RESPONSES, phase="decode"),
    lambda url: events(responses(url, "vllm/long", stream=True), url, leave_after=8), client_left=True)
