"""Says what the replica plays: answers in the shape of each engine, with words of our own.

A model is "<engine>/<play>". TGI's native routes have no model: there the first word of `inputs` is the play."""
import dataclasses
import json

import engines


@dataclasses.dataclass
class Play:
    status: int
    headers: list
    pieces: list  # Each one is the bytes of one write.
    streamed: bool = False
    pace: float = 0.005  # It is the seconds before each piece of a stream.
    end: str = "whole"  # It may also be killed, reset or mute.


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def whole(value, status=200, headers=()):
    return Play(status, [("server", "uvicorn"), ("content-type", "application/json"), *headers], [compact(value)])


EVENT_STREAM = [("server", "uvicorn"), ("content-type", "text/event-stream; charset=utf-8")]


def get(path):
    if path == "/v1/models":
        return whole({"object": "list", "data": [{"id": "vllm/plain", "object": "model", "created": 1, "owned_by": "vllm"}]})
    if path == "/health":
        return Play(200, [], [b""])
    return whole({"detail": "Not Found"}, 404)


ROUTES = {
    "/v1/chat/completions": engines.chat,
    "/v1/completions": engines.completions,
    "/v1/responses": engines.responses,
    "/v1/messages": engines.messages,
    "/v1/embeddings": engines.embeddings,
    "/": engines.tgi_generate,
    "/generate": engines.tgi_generate,
    "/generate_stream": engines.tgi_generate,
    "/api/chat": engines.ollama_chat,
}


def post(path, body, size):
    engine = ROUTES[path]
    stream = body.get("stream", False) or path == "/generate_stream" or (path == "/api/chat" and "stream" not in body)
    name = body["model"] if "model" in body else "tgi/" + body["inputs"].split()[0]
    maker, play = name.split("/", 1)
    if play.startswith("status-"):
        status = int(play.removeprefix("status-"))
        headers = [("retry-after", "7")] if status in (429, 503) else []
        return whole(engines.refusal(path, maker, status, name), status, headers)
    if not stream:
        return whole(engine(maker, play, body, size, stream=False))
    headers = engines.STREAM_HEADERS.get(maker, EVENT_STREAM)
    if play == "mute":
        return Play(200, headers, [], streamed=True, end="mute")
    pieces = list(engine(maker, play, body, size, stream=True))
    if play in ("killed", "reset"):
        return Play(200, headers, pieces[: len(pieces) // 2], streamed=True, end=play)
    return Play(200, headers, pieces, streamed=True, pace=0.02 if play == "long" else 0.005)
