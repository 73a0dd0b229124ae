"""These cases use Hugging Face's InferenceClient on TGI's own routes and on its OpenAI route."""
import huggingface_hub

from cases import Counted, attempt, case, events

HELLO = [{"role": "user", "content": "What does a weir do?"}]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
GENERATE, CHAT = "tgi.generate", "openai.chat"


def client(**options):
    return huggingface_hub.InferenceClient(token="none", **options)


def generate(url, prompt, **options):
    """The client posts to the URL that it is given as the model."""
    path = "/generate_stream" if options.get("stream") else "/generate"
    one = client()  # It has to live while its streams are read, because they end with it.
    return lambda: one.text_generation(prompt, model=url + path, **options)


def generate_events(url, prompt, **options):
    return events(generate(url, prompt, stream=True, **options), url)


@case("huggingface text_generation, stream with details", Counted("ok", GENERATE, prompt=6, output=7))
def _(url):
    return generate_events(url, "plain", details=True)


@case("huggingface text_generation, stream of words", Counted("ok", GENERATE, prompt=6, output=7))
def _(url):
    return generate_events(url, "plain")


@case("huggingface text_generation with details", Counted("ok", GENERATE, False, output=7))
def _(url):
    return attempt(generate(url, "plain", details=True), url)


@case("huggingface text_generation", Counted("ok", GENERATE, False))
def _(url):
    return attempt(generate(url, "plain"), url)


@case("huggingface text_generation at the root", Counted("ok", GENERATE, prompt=6, output=7))
def _(url):
    # If the client has no more than an address, it posts to that, and TGI answers there by `stream`.
    one = client(model=url)
    return events(lambda: one.text_generation("plain", stream=True, details=True), url)


@case("huggingface text_generation, refused in the first event", Counted("upstream_error", GENERATE))
def _(url):
    return generate_events(url, "overloaded", details=True)


@case("huggingface text_generation, error in mid-stream", Counted("upstream_error", GENERATE, output=3))
def _(url):
    return generate_events(url, "error", details=True)


for status, outcome in {422: "client_error", 429: "replica_refused", 500: "upstream_error"}.items():

    @case(f"huggingface text_generation, status {status}", Counted(outcome, GENERATE, False))
    def _(url, status=status):
        return attempt(generate(url, f"status-{status}"), url)

    @case(f"huggingface text_generation, status {status} instead of a stream", Counted(outcome, GENERATE))
    def _(url, status=status):
        return generate_events(url, f"status-{status}")


@case("huggingface text_generation, replica killed in mid-stream", Counted("upstream_reset", GENERATE, output=3),
      breaks_off="killed")
def _(url):
    return generate_events(url, "killed")


@case("huggingface text_generation, client leaves in mid-stream", Counted("client_abort", GENERATE, phase="decode"),
      client_left=True)
def _(url):
    return events(generate(url, "long", stream=True), url, leave_after=4)


def chat(url, model, **options):
    one = client(base_url=url)
    return lambda: one.chat_completion(HELLO, model=model, **options)


@case("huggingface chat_completion, stream", Counted("ok", CHAT, prompt=31, output=8))
def _(url):
    return events(chat(url, "tgi/plain", stream=True), url)


@case("huggingface chat_completion, stream with usage", Counted("ok", CHAT, prompt=31, output=8))
def _(url):
    return events(chat(url, "tgi/plain", stream=True, stream_options={"include_usage": True}), url)


@case("huggingface chat_completion, stream with a tool call", Counted("ok", CHAT, prompt=31, output=5))
def _(url):
    return events(chat(url, "tgi/tools", stream=True, tools=TOOLS), url)


@case("huggingface chat_completion", Counted("ok", CHAT, False, prompt=31, output=8))
def _(url):
    return attempt(chat(url, "tgi/plain"), url)


@case("huggingface chat_completion, a tool call", Counted("ok", CHAT, False, prompt=31, output=5))
def _(url):
    return attempt(chat(url, "tgi/tools", tools=TOOLS), url)


@case("huggingface chat_completion, status 422", Counted("client_error", CHAT, False))
def _(url):
    return attempt(chat(url, "tgi/status-422"), url)


@case("huggingface chat_completion, error in mid-stream", Counted("upstream_error", CHAT, output=3))
def _(url):
    return events(chat(url, "tgi/error", stream=True), url)
