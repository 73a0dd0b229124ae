"""Every engine is asked these cases, with and without weir. A body is made for the engine, because engines differ in the name
of the model, and in how their answers are made the same every time."""
import dataclasses
from typing import Callable

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "look at a place",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string", "enum": ["river", "house"]}},
            "required": ["place"],
            "additionalProperties": False,
        },
    },
}
LENGTH = 8  # Most cases have so many output tokens.


@dataclasses.dataclass
class Case:
    name: str
    path: str
    body: Callable  # It takes the engine and a stop text, and returns the request's body, or None for a GET.
    choices: int = 1
    every_chunk: bool = False  # It needs inject_continuous_usage.
    counts: bool = True  # It makes tokens, which must be counted.
    only: str = ""  # Only the engine of this name has such a route, or such an answer.
    ids: bool = False  # It has an x-request-id, which the log must have, as the answer must have weir's own.


def asked(engine, **more):
    return {"model": engine.model, "max_tokens": LENGTH, **engine.sampling, **engine.more, **more}


TEXT = "the old river and a house by the land"


def chat(text=TEXT, **more):
    def body(engine, _):
        return asked(engine, messages=[{"role": "user", "content": text}], **more)

    return body


def completion(text=TEXT, **more):
    def body(engine, _):
        return asked(engine, prompt=text, **more)

    return body


def stopped(make, **more):
    """`stop` is text out of the middle of what the engine answers without it."""
    return lambda engine, stop: {**make(**more)(engine, stop), "stop": [stop]}


def unsampled(**body):
    return lambda engine, _: {"model": engine.model, **body}


def wrong(**body):
    return lambda engine, _: {"model": engine.model, "messages": "not a list", **body}


def unknown(**body):
    return lambda engine, _: {**chat(**body)(engine, _), "model": "no-such-model"}


def generate(text=TEXT, **more):
    """Makes a request to SGLang's own route."""
    sampling = {"max_new_tokens": LENGTH, "temperature": 0}
    return lambda engine, _: {"text": text, "sampling_params": sampling, **more}


def page(engine, _):
    return None


OPTIONS = {
    "absent": {},
    "null": {"stream_options": None},
    "{}": {"stream_options": {}},
    "include_usage false": {"stream_options": {"include_usage": False}},
    "include_usage true": {"stream_options": {"include_usage": True}},
    "include_usage and continuous_usage_stats": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    "include_usage false, continuous_usage_stats": {"stream_options": {"include_usage": False, "continuous_usage_stats": True}},
}
TOOLS = {"tools": [TOOL], "tool_choice": "required", "max_tokens": 64}
STREAM = {"stream": True}
MESSAGE = {"max_tokens": LENGTH, "messages": [{"role": "user", "content": "the old river"}], "temperature": 0}
TOO_LONG = "the old river " * 1500
RESPONSE = {"max_output_tokens": LENGTH, "input": "the old river", "temperature": 0}

CASES = [
    Case("chat", CHAT, chat()),
    Case("chat, streamed", CHAT, chat(**STREAM)),
    Case("completions", COMPLETIONS, completion()),
    Case("completions, streamed", COMPLETIONS, completion(**STREAM)),
    # Engines differ in what continuous_usage_stats means without usage. weir leaves it, and may not know the counts.
    *(Case(f"{label}stream_options {name}", path, ask(**STREAM, **options), counts=not name.endswith("false, continuous_usage_stats"))
      for label, path, ask in (("", CHAT, chat), ("completions, ", COMPLETIONS, completion))
      for name, options in OPTIONS.items() if options),
    Case("stream_options without stream", CHAT, chat(stream_options={"include_usage": True})),
    Case("n = 2", CHAT, chat(n=2), choices=2),
    Case("n = 2, streamed", CHAT, chat(n=2, **STREAM), choices=2),
    Case("n = 2, completions, streamed", COMPLETIONS, completion(n=2, **STREAM), choices=2),
    Case("n = 2, streamed, usage asked for", CHAT, chat(n=2, stream_options={"include_usage": True}, **STREAM), choices=2),
    Case("two prompts, streamed", COMPLETIONS,
         lambda engine, _: asked(engine, prompt=["the old river", "a house by"], **STREAM), choices=2),
    Case("stop", CHAT, stopped(chat)),
    Case("stop, streamed", CHAT, stopped(chat, **STREAM)),
    Case("stop, completions, streamed", COMPLETIONS, stopped(completion, **STREAM)),
    Case("length 1, streamed", CHAT, chat(**{**STREAM, "max_tokens": 1})),
    Case("length 200, streamed", CHAT, chat(**{**STREAM, "max_tokens": 200})),
    Case("logprobs, streamed", CHAT, chat(logprobs=True, top_logprobs=2, **STREAM)),
    Case("tools", CHAT, chat(**TOOLS)),
    Case("tools, streamed", CHAT, chat(**TOOLS, **STREAM)),
    Case("chat, streamed, usage on every chunk", CHAT, chat(**STREAM), every_chunk=True),
    Case("completions, streamed, usage on every chunk", COMPLETIONS, completion(**STREAM), every_chunk=True),
    Case("n = 2, streamed, usage on every chunk", CHAT, chat(n=2, **STREAM), choices=2, every_chunk=True),
    Case("tools, streamed, usage on every chunk", CHAT, chat(**TOOLS, **STREAM), every_chunk=True),
    Case("messages", "/v1/messages", unsampled(**MESSAGE)),
    Case("messages, streamed", "/v1/messages", unsampled(**MESSAGE, **STREAM)),
    Case("count_tokens", "/v1/messages/count_tokens", unsampled(messages=MESSAGE["messages"]), counts=False),
    Case("responses", "/v1/responses", unsampled(**RESPONSE)),
    Case("responses, streamed", "/v1/responses", unsampled(**RESPONSE, **STREAM)),
    Case("generate", "/generate", generate(), only="sglang"),
    Case("generate, streamed", "/generate", generate(**STREAM), only="sglang"),
    Case("generate, a prompt too long", "/generate", generate(TOO_LONG), counts=False, only="sglang"),
    Case("generate, a prompt too long, streamed", "/generate", generate(TOO_LONG, **STREAM), counts=False, only="sglang"),
    Case("messages, a prompt too long, streamed", "/v1/messages",
         unsampled(**{**MESSAGE, "messages": [{"role": "user", "content": TOO_LONG}]}, **STREAM), counts=False, only="sglang"),
    Case("error 400", CHAT, wrong(), counts=False),
    Case("error 400, streamed", CHAT, wrong(**STREAM), counts=False),
    Case("unknown model", CHAT, unknown(), counts=False),
    Case("unknown model, streamed", CHAT, unknown(**STREAM), counts=False),
    Case("models", "/v1/models", page, counts=False),
    Case("ids of the client's and of weir's", CHAT, chat(**STREAM), ids=True),
]
