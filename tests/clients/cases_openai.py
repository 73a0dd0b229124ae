"""These cases use OpenAI's SDK: chat, completions, Responses, embeddings."""
import asyncio

import openai

from cases import Counted, attempt, case, events, plain

HELLO = [{"role": "user", "content": "What does a weir do?"}]
LOOK = {"type": "object", "properties": {"river": {"type": "string"}}}
CHAT_TOOLS = [{"type": "function", "function": {"name": "look", "parameters": LOOK}}]
CHAT, COMPLETIONS, RESPONSES = "openai.chat", "openai.completions", "openai.responses"


def client(url, **options):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", **{"max_retries": 0, **options})


def chat(url, model, **options):
    return lambda: client(url).chat.completions.create(model=model, messages=HELLO, **options)


def chat_events(url, model, **options):
    return events(chat(url, model, stream=True, **options), url)


# Four engines stream, without and with usage asked for. n counts the end of sequence if the engine does.
for engine, output in [("vllm", 8), ("sglang", 8), ("tgi", 8), ("llamacpp", 7)]:
    counted = Counted("ok", CHAT, prompt=31, output=output)

    @case(f"openai chat, stream of {engine}", counted)
    def _(url, engine=engine):
        seen = chat_events(url, f"{engine}/plain")
        assert not any(event.get("usage") for event in seen["events"]), "usage that nobody asked for"
        return seen

    @case(f"openai chat, stream of {engine} with usage", counted)
    def _(url, engine=engine):
        seen = chat_events(url, f"{engine}/plain", stream_options={"include_usage": True})
        assert seen["events"][-1]["usage"]["completion_tokens"], "no usage at the end"
        return seen


@case("openai chat, stream with continuous usage", Counted("ok", CHAT, prompt=31, output=8))
def _(url):
    return chat_events(url, "vllm/plain", stream_options={"include_usage": True, "continuous_usage_stats": True})


@case("openai chat, stream with options, but without usage", Counted("ok", CHAT))
def _(url):
    return chat_events(url, "vllm/plain", stream_options={"include_usage": False})


@case("openai chat, stream with reasoning", Counted("ok", CHAT, prompt=31, output=11))
def _(url):
    return chat_events(url, "vllm/reasoning")


@case("openai chat, stream with a tool call", Counted("ok", CHAT, prompt=31, output=5))
def _(url):
    return chat_events(url, "vllm/tools", tools=CHAT_TOOLS)


@case("openai chat, stream of two choices", Counted("ok", CHAT, prompt=31, output=16))
def _(url):
    return chat_events(url, "vllm/plain", n=2)


@case("openai chat, stream helper", Counted("ok", CHAT, prompt=31, output=8))
def _(url):
    with client(url).chat.completions.stream(model="vllm/plain", messages=HELLO) as stream:
        kinds = [event.type for event in stream]
        return {"kinds": kinds, "final": plain(stream.get_final_completion())}


@case("openai chat, asynchronous stream", Counted("ok", CHAT, prompt=31, output=8))
def _(url):
    async def read():
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as one:
            stream = await one.chat.completions.create(model="vllm/plain", messages=HELLO, stream=True)
            return [plain(event) async for event in stream]

    return asyncio.run(read())


@case("openai chat, eight streams at once", Counted("ok", CHAT, requests=8, prompt=8 * 31, output=8 * 8))
def _(url):
    async def read(one):
        stream = await one.chat.completions.create(model="vllm/plain", messages=HELLO, stream=True)
        return [plain(event) async for event in stream]

    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as one:
            return await asyncio.gather(*(read(one) for _ in range(8)))

    return asyncio.run(all_of_them())


@case("openai chat, one answer after another", Counted("ok", CHAT, False, requests=3, prompt=93, output=24))
def _(url):
    one = client(url)
    return [plain(one.chat.completions.create(model="vllm/plain", messages=HELLO)) for _ in range(3)]


@case("openai chat", Counted("ok", CHAT, False, prompt=31, output=8))
def _(url):
    return attempt(chat(url, "vllm/plain"), url)


@case("openai chat, a tool call", Counted("ok", CHAT, False, prompt=31, output=5))
def _(url):
    return attempt(chat(url, "vllm/tools", tools=CHAT_TOOLS), url)


@case("openai completions, stream", Counted("ok", COMPLETIONS, prompt=31, output=7))
def _(url):
    return events(lambda: client(url).completions.create(model="vllm/plain", prompt="A weir", stream=True), url)


@case("openai completions", Counted("ok", COMPLETIONS, False, prompt=31, output=7))
def _(url):
    return attempt(lambda: client(url).completions.create(model="vllm/plain", prompt="A weir"), url)


@case("openai embeddings", Counted("ok", "openai.embeddings", False, prompt=4))
def _(url):
    return attempt(lambda: client(url).embeddings.create(model="vllm/plain", input="A weir", encoding_format="float"), url)


@case("openai models", None)
def _(url):
    return [model.id for model in client(url).models.list()]


REFUSED = {400: "client_error", 401: "client_error", 404: "client_error", 422: "client_error", 429: "replica_refused",
           500: "upstream_error", 503: "replica_refused"}

for status, outcome in REFUSED.items():

    @case(f"openai chat, status {status}", Counted(outcome, CHAT, False))
    def _(url, status=status):
        return attempt(chat(url, f"vllm/status-{status}"), url)

    @case(f"openai chat, status {status} instead of a stream", Counted(outcome, CHAT))
    def _(url, status=status):
        return chat_events(url, f"vllm/status-{status}")


@case("openai chat, error in mid-stream", Counted("upstream_error", CHAT, output=3))
def _(url):
    return chat_events(url, "vllm/error")


@case("openai chat, error in mid-stream of TGI", Counted("upstream_error", CHAT, output=3))
def _(url):
    return chat_events(url, "tgi/error")


for how in ("killed", "reset"):

    @case(f"openai chat, replica {how} in mid-stream", Counted("upstream_reset", CHAT), breaks_off=how)
    def _(url, how=how):
        return chat_events(url, f"vllm/{how}")


@case("openai chat, client leaves in mid-stream", Counted("client_abort", CHAT, phase="decode"), client_left=True)
def _(url):
    return events(chat(url, "vllm/long", stream=True), url, leave_after=4)


@case("openai chat, client gives up before the first token", Counted("client_abort", CHAT, phase="prefill"), client_left=True)
def _(url):
    return events(chat(url, "vllm/mute", stream=True, timeout=0.5), url)


def responses(url, model, **options):
    return lambda: client(url).responses.create(model=model, input="What does a weir do?", store=False, **options)


def response_events(url, model, **options):
    return events(responses(url, model, stream=True, **options), url)


RESPONSE_TOOLS = [{"type": "function", "name": "look", "parameters": LOOK, "strict": False}]


@case("openai responses, stream", Counted("ok", RESPONSES, prompt=37, output=11))
def _(url):
    return response_events(url, "vllm/plain")


@case("openai responses, stream with a function call", Counted("ok", RESPONSES, prompt=37, output=11))
def _(url):
    return response_events(url, "vllm/tools", tools=RESPONSE_TOOLS)


@case("openai responses, stream helper", Counted("ok", RESPONSES, prompt=37, output=11))
def _(url):
    with client(url).responses.stream(model="vllm/plain", input="What does a weir do?") as stream:
        kinds = [event.type for event in stream]
        return {"kinds": kinds, "final": plain(stream.get_final_response())}


@case("openai responses, incomplete stream", Counted("ok", RESPONSES, prompt=37, output=11))
def _(url):
    return response_events(url, "vllm/incomplete")


@case("openai responses, failed stream", Counted("upstream_error", RESPONSES))
def _(url):
    return response_events(url, "vllm/failed")


@case("openai responses, error in mid-stream", Counted("upstream_error", RESPONSES))
def _(url):
    return response_events(url, "vllm/error")


@case("openai responses", Counted("ok", RESPONSES, False, prompt=37, output=11))
def _(url):
    return attempt(responses(url, "vllm/plain"), url)


@case("openai responses, status 429", Counted("replica_refused", RESPONSES, False))
def _(url):
    return attempt(responses(url, "vllm/status-429"), url)


@case("openai responses, replica killed in mid-stream", Counted("upstream_reset", RESPONSES), breaks_off="killed")
def _(url):
    return response_events(url, "vllm/killed")


@case("openai responses, client leaves in mid-stream", Counted("client_abort", RESPONSES, phase="decode"), client_left=True)
def _(url):
    return events(responses(url, "vllm/long", stream=True), url, leave_after=8)
