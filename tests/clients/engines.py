"""Makes the answers of engines, event by event, in the shapes that each of them writes on the wire.

Each API has a function: (maker, play, request, size of its body, stream) -> a document, or the pieces of a stream."""
import json

WORDS = ["A", " weir", " lets", " the", " rîver", " through", " 🌊"]
REASONS = ["Water", " goes", " down"]
ARGUMENTS = ['{"ri', 'ver": "A', 'are"}']
CREATED = 1779866853

STREAM_HEADERS = {
    "tgi": [("content-type", "text/event-stream"), ("cache-control", "no-cache"), ("x-accel-buffering", "no"),
            ("x-compute-type", "1-gpu")],
    "llamacpp": [("server", "llama.cpp"), ("content-type", "text/event-stream"), ("access-control-allow-origin", "")],
    "ollama": [("content-type", "application/x-ndjson")],
}


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def data(value, space=" "):
    return f"data:{space}{compact(value)}\n\n".encode()


def named(value):
    return f"event: {value['type']}\ndata: {compact(value)}\n\n".encode()


def refusal(path, maker, status, name):
    """Returns the body of an error that comes instead of an answer."""
    kinds = {400: "BadRequestError", 401: "AuthenticationError", 404: "NotFoundError", 422: "validation",
             429: "RateLimitError", 500: "InternalServerError", 503: "ServiceUnavailable", 529: "overloaded_error"}
    text = f"The model `{name}` does not exist." if status == 404 else f"status {status} it is"
    if path == "/v1/messages":
        kind = {400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error"}.get(status, kinds[status])
        return {"type": "error", "error": {"type": kind, "message": text}}
    if maker == "tgi":
        return {"error": text, "error_type": {422: "validation", 429: "overloaded"}.get(status, "generation")}
    return {"error": {"message": text, "type": kinds[status], "param": None, "code": status}}


def usage(output, prompt=31):
    return {"prompt_tokens": prompt, "total_tokens": prompt + output, "completion_tokens": output}


def deltas(play):
    """Returns the deltas of one choice, and why it finishes."""
    if play == "tools":
        call = {"id": "call-1", "type": "function", "index": 0, "function": {"name": "look", "arguments": ""}}
        return [{"tool_calls": [call]}] + [
            {"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in ARGUMENTS
        ], "tool_calls"
    if play == "reasoning":
        return [{"reasoning_content": word} for word in REASONS] + [{"content": word} for word in WORDS], "stop"
    words = WORDS * 40 if play == "long" else WORDS
    return [{"content": word} for word in words], "stop"


def message(play):
    parts, finish = deltas(play)
    said = {"role": "assistant", "content": "".join(part.get("content", "") for part in parts)}
    if play == "reasoning":
        said["reasoning_content"] = "".join(REASONS)
    if play == "tools":
        call = {"id": "call-1", "type": "function", "function": {"name": "look", "arguments": "".join(ARGUMENTS)}}
        said.update(content=None, tool_calls=[call])
    return said, finish, len(parts) + 1  # The end of sequence is a token, too.


def chat(maker, play, request, size, stream):
    if stream:
        return CHAT_STREAMS[maker](play, request)
    said, finish, output = message(play)
    n = request.get("n", 1)
    choices = [{"index": i, "message": said, "logprobs": None, "finish_reason": finish, "stop_reason": None} for i in range(n)]
    prompt = size if play == "size" else 31
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": CREATED, "model": request["model"],
            "choices": choices, "usage": usage(n * output, prompt)}


def asked(request, what):
    return bool((request.get("stream_options") or {}).get(what))


def vllm_chat(play, request):
    n = request.get("n", 1)
    parts, finish = deltas(play)
    counts = [0] * n

    def chunk(index, delta, reason=None, **rest):
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason, **rest}
        event = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": CREATED, "model": request["model"],
                 "choices": [choice]}
        if asked(request, "continuous_usage_stats"):
            event["usage"] = usage(counts[index])
        return data(event)

    for index in range(n):
        yield chunk(index, {"role": "assistant", "content": ""})
    for number, part in enumerate(parts):
        if play == "error" and number == 3:
            error = {"error": {"message": "the GPU fell over", "type": "InternalServerError", "param": None, "code": 500}}
            yield f"data: {json.dumps(error)}\n\n".encode()
            yield b"data: [DONE]\n\n"
            return
        for index in range(n):
            counts[index] += 1
            yield chunk(index, part, token_ids=None)
    for index in range(n):
        counts[index] += 1
        yield chunk(index, {"content": ""}, finish, stop_reason=None, token_ids=None)
    if asked(request, "include_usage"):
        yield data({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": CREATED, "model": request["model"],
                    "choices": [], "usage": usage(sum(counts))})
    yield b"data: [DONE]\n\n"


def sglang_chat(play, request):
    def chunk(delta, reason=None, matched=None):
        return data({"id": "5f1e", "object": "chat.completion.chunk", "created": CREATED, "model": request["model"],
                     "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason,
                                  "matched_stop": matched}]})

    parts, finish = deltas(play)
    yield chunk({"reasoning_content": None, "role": "assistant", "content": ""})
    for part in parts:
        yield chunk({"reasoning_content": None, **part})
    yield chunk({"reasoning_content": None}, finish, 151645)
    if asked(request, "include_usage"):
        yield data({"id": "5f1e", "object": "chat.completion.chunk", "created": CREATED, "model": request["model"],
                    "choices": [], "usage": {**usage(len(parts) + 1), "reasoning_tokens": 0}})
    yield b"data: [DONE]\n\n"


def tgi_chat(play, request):
    def event(choices, counted=None):
        return data({"object": "chat.completion.chunk", "id": "", "created": CREATED, "model": request["model"],
                     "system_fingerprint": "3.3.4-native", "choices": choices, "usage": counted}, space="")

    parts, finish = deltas(play)
    yield b":\n\n"
    for number, part in enumerate(parts):
        if play == "error" and number == 3:
            yield data({"error": {"message": "the GPU fell over", "http_status_code": 424}}, space="")
            return
        yield event([{"index": 0, "delta": {"role": "assistant", **part}, "logprobs": None, "finish_reason": None}])
    yield event([{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": finish}])
    if asked(request, "include_usage"):
        yield event([], usage(len(parts) + 1))
    yield b"data:[DONE]\n\n"


def llamacpp_chat(play, request):
    def chunk(choices, **rest):
        return data({"choices": choices, "created": CREATED, "id": "chatcmpl-1", "model": request["model"],
                     "system_fingerprint": "b6710-1", "object": "chat.completion.chunk", **rest})

    def choice(delta, reason=None):
        return [{"finish_reason": reason, "index": 0, "delta": delta}]

    parts, finish = deltas(play)
    # The role and the first token leave in one write.
    yield chunk(choice({"role": "assistant", "content": None})) + chunk(choice(parts[0]))
    for part in parts[1:]:
        yield chunk(choice(part))
    yield chunk(choice({}, finish))
    if asked(request, "include_usage"):
        yield chunk([], usage=usage(len(parts)))
    yield b"data: [DONE]\n\n"


CHAT_STREAMS = {"vllm": vllm_chat, "sglang": sglang_chat, "tgi": tgi_chat, "llamacpp": llamacpp_chat}


def completions(_maker, _play, request, _size, stream):
    def document(text, reason, **rest):
        return {"id": "cmpl-1", "object": "text_completion", "created": CREATED, "model": request["model"],
                "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": reason, "stop_reason": None}],
                **rest}

    def events():
        for number, word in enumerate(WORDS):
            yield data(document(word, "length" if number == len(WORDS) - 1 else None))
        if asked(request, "include_usage"):
            yield data({**document("", None), "choices": [], "usage": usage(len(WORDS))})
        yield b"data: [DONE]\n\n"

    return events() if stream else document("".join(WORDS), "length", usage=usage(len(WORDS)))


def embeddings(_maker, _play, request, _size, stream):
    vector = [0.25, -0.5, 1.0]
    return {"object": "list", "model": request["model"], "usage": {"prompt_tokens": 4, "total_tokens": 4},
            "data": [{"object": "embedding", "index": 0, "embedding": vector}]}


def tgi_generate(_maker, play, request, _size, stream):
    counts = {"finish_reason": "eos_token", "generated_tokens": len(WORDS), "seed": None}
    tokens = [{"id": 100 + i, "text": word, "logprob": -0.5, "special": False} for i, word in enumerate(WORDS)]

    def events():
        if play == "overloaded":
            yield data({"error": "Model is overloaded", "error_type": "overloaded"}, space="")
            return
        repeat = 40 if play == "long" else 1
        for number, token in enumerate(tokens * repeat):
            if play == "error" and number == 3:
                yield data({"error": "the GPU fell over", "error_type": "generation"}, space="")
                return
            last = number == repeat * len(tokens) - 1
            yield data({"index": number + 1, "token": token, "generated_text": "".join(WORDS * repeat) if last else None,
                        "details": {**counts, "input_length": 6} if last else None}, space="")

    if stream:
        return events()
    answer = {"generated_text": "".join(WORDS)}
    if request.get("parameters", {}).get("details"):
        answer["details"] = {**counts, "prefill": [], "tokens": tokens}
    return answer


def response(request, play, status, output=(), counted=None):
    return {"id": "resp_1", "object": "response", "created_at": CREATED, "status": status, "model": request["model"],
            "output": list(output), "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": counted,
            "error": {"code": "server_error", "message": "the GPU fell over"} if status == "failed" else None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None}


def responses(_maker, play, request, _size, stream):
    counted = {"input_tokens": 37, "input_tokens_details": {"cached_tokens": 16}, "output_tokens": 11,
               "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 48}
    if play == "tools":
        item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "look", "arguments": "".join(ARGUMENTS),
                "status": "completed"}
        begun, path = {**item, "arguments": "", "status": "in_progress"}, {"item_id": "fc_1", "output_index": 0}
        middle = [{"type": "response.function_call_arguments.delta", **path, "delta": part} for part in ARGUMENTS]
        middle += [{"type": "response.function_call_arguments.done", **path, "name": "look", "arguments": "".join(ARGUMENTS)}]
    else:
        text = {"type": "output_text", "text": "".join(WORDS), "annotations": []}
        item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [text]}
        begun, path = {**item, "content": [], "status": "in_progress"}, {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        middle = [{"type": "response.content_part.added", **path, "part": {**text, "text": ""}}]
        words = WORDS * 40 if play == "long" else WORDS
        middle += [{"type": "response.output_text.delta", **path, "delta": word, "logprobs": []} for word in words]
        middle += [{"type": "response.output_text.done", **path, "text": text["text"], "logprobs": []},
                   {"type": "response.content_part.done", **path, "part": text}]
    if not stream:
        return response(request, play, "completed", [item], counted)
    end = {"failed": "failed", "incomplete": "incomplete"}.get(play, "completed")
    events = [
        {"type": "response.created", "response": response(request, play, "in_progress")},
        {"type": "response.in_progress", "response": response(request, play, "in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        *middle,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": f"response.{end}", "response": response(request, play, end, [item], counted)},
    ]
    if play == "error":
        events[5:] = [{"type": "error", "code": "server_error", "message": "the GPU fell over", "param": None}]
    return [named({**event, "sequence_number": number}) for number, event in enumerate(events)]


def blocks(play):
    """Returns the content blocks of a message: what begins each, what each delta brings, and the whole of it."""
    if play == "thinking":
        yield ({"type": "thinking", "thinking": "", "signature": ""},
               [{"type": "thinking_delta", "thinking": word} for word in REASONS] + [{"type": "signature_delta", "signature": "c2ln"}],
               {"type": "thinking", "thinking": "".join(REASONS), "signature": "c2ln"})
    words = WORDS * 40 if play == "long" else WORDS
    yield ({"type": "text", "text": ""}, [{"type": "text_delta", "text": word} for word in words],
           {"type": "text", "text": "".join(words)})
    if play in ("tools", "thinking"):
        call = {"type": "tool_use", "id": "toolu_1", "name": "look"}
        yield ({**call, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in ["", *ARGUMENTS]],
               {**call, "input": json.loads("".join(ARGUMENTS))})


def messages(_maker, play, request, _size, stream):
    reason = "tool_use" if play in ("tools", "thinking") else "end_turn"
    counted = {"input_tokens": 25, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 100}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "model": request["model"], "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {**counted, "output_tokens": 1}}
    if not stream:
        return {**said, "content": [block for _, _, block in blocks(play)], "stop_reason": reason,
                "usage": {**counted, "output_tokens": 15}}

    def events():
        yield {"type": "message_start", "message": said}
        for index, (begun, parts, _) in enumerate(blocks(play)):
            yield {"type": "content_block_start", "index": index, "content_block": begun}
            yield {"type": "ping"}
            for number, part in enumerate(parts):
                if play == "error" and number == 3:
                    yield {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
                    return
                yield {"type": "content_block_delta", "index": index, "delta": part}
            yield {"type": "content_block_stop", "index": index}
        yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 15}}
        yield {"type": "message_stop"}

    return map(named, events())


def ollama_chat(_maker, _play, request, _size, stream):
    figures = {"done": True, "done_reason": "stop", "total_duration": 400000000, "load_duration": 1000000,
               "prompt_eval_count": 26, "prompt_eval_duration": 130000000, "eval_count": len(WORDS) + 1,
               "eval_duration": 260000000}

    def document(text, **rest):
        return {"model": request["model"], "created_at": "2026-11-21T07:00:00Z",
                "message": {"role": "assistant", "content": text}, **rest}

    if not stream:
        return document("".join(WORDS), **figures)
    lines = [document(word, done=False) for word in WORDS] + [document("", **figures)]
    return [(compact(line) + "\n").encode() for line in lines]
