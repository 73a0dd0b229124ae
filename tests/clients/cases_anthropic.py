"""These cases use Anthropic's SDK: Messages."""
import anthropic

from cases import Counted, add, attempt, events, plain

HELLO = [{"role": "user", "content": "What does a weir do?"}]
TOOLS = [{"name": "look", "input_schema": {"type": "object", "properties": {"river": {"type": "string"}}}}]
THINKING = {"type": "enabled", "budget_tokens": 1024}
API = "anthropic.messages"
STREAM, DOCUMENT = Counted("ok", API, prompt=125, output=15), Counted("ok", API, False, prompt=125, output=15)


def client(url):
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)


def messages(url, model, **options):
    return lambda: client(url).messages.create(model=model, max_tokens=2048, messages=HELLO, **options)


def message_events(url, model, **options):
    return events(messages(url, model, stream=True, **options), url)


def stream_helper(url):
    with client(url).messages.stream(model="claude/thinking", max_tokens=2048, messages=HELLO, tools=TOOLS) as stream:
        kinds = [event.type for event in stream]
        return {"kinds": kinds, "final": plain(stream.get_final_message())}


add("anthropic messages, stream", STREAM, lambda url: message_events(url, "claude/plain"))
add("anthropic messages, stream with thinking and a tool", STREAM,
    lambda url: message_events(url, "claude/thinking", thinking=THINKING, tools=TOOLS))
add("anthropic messages, stream helper", STREAM, stream_helper)
add("anthropic messages", DOCUMENT, lambda url: attempt(messages(url, "claude/plain"), url))
add("anthropic messages, a tool", DOCUMENT, lambda url: attempt(messages(url, "claude/tools", tools=TOOLS), url))

for status, outcome in {400: "client_error", 404: "client_error", 429: "replica_refused", 500: "upstream_error",
                        529: "upstream_error"}.items():
    model = f"claude/status-{status}"
    add(f"anthropic messages, status {status}", Counted(outcome, API, False),
        lambda url, model=model: attempt(messages(url, model), url))
    add(f"anthropic messages, status {status} instead of a stream", Counted(outcome, API),
        lambda url, model=model: message_events(url, model))

add("anthropic messages, error in mid-stream", Counted("upstream_error", API), lambda url: message_events(url, "claude/error"))
for how in ("killed", "reset"):
    add(f"anthropic messages, replica {how} in mid-stream", Counted("upstream_reset", API),
        lambda url, how=how: message_events(url, f"claude/{how}"), breaks_off=how)
add("anthropic messages, client leaves in mid-stream", Counted("client_abort", API, phase="decode"),
    lambda url: events(messages(url, "claude/long", stream=True), url, leave_after=6), client_left=True)
