"""These cases use Anthropic's SDK: Messages."""
import anthropic

from cases import Counted, attempt, case, events, plain

HELLO = [{"role": "user", "content": "What does a weir do?"}]
TOOLS = [{"name": "look", "input_schema": {"type": "object", "properties": {"river": {"type": "string"}}}}]
THINKING = {"type": "enabled", "budget_tokens": 1024}
API = "anthropic.messages"
OK = Counted("ok", API, prompt=125, output=15)


def client(url):
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)


def messages(url, model, **options):
    return lambda: client(url).messages.create(model=model, max_tokens=2048, messages=HELLO, **options)


def message_events(url, model, **options):
    return events(messages(url, model, stream=True, **options), url)


@case("anthropic messages, stream", OK)
def _(url):
    return message_events(url, "claude/plain")


@case("anthropic messages, stream with thinking and a tool", OK)
def _(url):
    return message_events(url, "claude/thinking", thinking=THINKING, tools=TOOLS)


@case("anthropic messages, stream helper", OK)
def _(url):
    with client(url).messages.stream(model="claude/thinking", max_tokens=2048, messages=HELLO, tools=TOOLS) as stream:
        kinds = [event.type for event in stream]
        return {"kinds": kinds, "final": plain(stream.get_final_message())}


@case("anthropic messages", Counted("ok", API, False, prompt=125, output=15))
def _(url):
    return attempt(messages(url, "claude/plain"), url)


@case("anthropic messages, a tool", Counted("ok", API, False, prompt=125, output=15))
def _(url):
    return attempt(messages(url, "claude/tools", tools=TOOLS), url)


for status, outcome in {400: "client_error", 404: "client_error", 429: "replica_refused", 500: "upstream_error",
                        529: "upstream_error"}.items():

    @case(f"anthropic messages, status {status}", Counted(outcome, API, False))
    def _(url, status=status):
        return attempt(messages(url, f"claude/status-{status}"), url)

    @case(f"anthropic messages, status {status} instead of a stream", Counted(outcome, API))
    def _(url, status=status):
        return message_events(url, f"claude/status-{status}")


@case("anthropic messages, error in mid-stream", Counted("upstream_error", API))
def _(url):
    return message_events(url, "claude/error")


for how in ("killed", "reset"):

    @case(f"anthropic messages, replica {how} in mid-stream", Counted("upstream_reset", API), breaks_off=how)
    def _(url, how=how):
        return message_events(url, f"claude/{how}")


@case("anthropic messages, client leaves in mid-stream", Counted("client_abort", API, phase="decode"), client_left=True)
def _(url):
    return events(messages(url, "claude/long", stream=True), url, leave_after=6)
