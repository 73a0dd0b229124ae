"""These cases use Hugging Face's InferenceClient on TGI's own routes and on its OpenAI route."""
import huggingface_hub

from cases import Counted, add, attempt, events

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


def at_the_root(url):
    # If the client has no more than an address, it posts to that, and TGI answers there by `stream`.
    one = client(model=url)
    return events(lambda: one.text_generation("plain", stream=True, details=True), url)


STREAM = Counted("ok", GENERATE, prompt=6, output=7)
add("huggingface text_generation, stream with details", STREAM, lambda url: generate_events(url, "plain", details=True))
add("huggingface text_generation, stream of words", STREAM, lambda url: generate_events(url, "plain"))
add("huggingface text_generation with details", Counted("ok", GENERATE, False, output=7),
    lambda url: attempt(generate(url, "plain", details=True), url))
add("huggingface text_generation", Counted("ok", GENERATE, False), lambda url: attempt(generate(url, "plain"), url))
add("huggingface text_generation at the root", STREAM, at_the_root)
add("huggingface text_generation, refused in the first event", Counted("upstream_error", GENERATE),
    lambda url: generate_events(url, "overloaded", details=True))
add("huggingface text_generation, error in mid-stream", Counted("upstream_error", GENERATE, output=3),
    lambda url: generate_events(url, "error", details=True))

for status, outcome in {422: "client_error", 429: "replica_refused", 500: "upstream_error"}.items():
    add(f"huggingface text_generation, status {status}", Counted(outcome, GENERATE, False),
        lambda url, status=status: attempt(generate(url, f"status-{status}"), url))
    add(f"huggingface text_generation, status {status} instead of a stream", Counted(outcome, GENERATE),
        lambda url, status=status: generate_events(url, f"status-{status}"))

add("huggingface text_generation, replica killed in mid-stream", Counted("upstream_reset", GENERATE, output=3),
    lambda url: generate_events(url, "killed"), breaks_off="killed")
add("huggingface text_generation, client leaves in mid-stream", Counted("client_abort", GENERATE, phase="decode"),
    lambda url: events(generate(url, "long", stream=True), url, leave_after=4), client_left=True)


def chat(url, model, **options):
    one = client(base_url=url)
    return lambda: one.chat_completion(HELLO, model=model, **options)


def chat_events(url, model, **options):
    return events(chat(url, model, stream=True, **options), url)


add("huggingface chat_completion, stream", Counted("ok", CHAT, prompt=31, output=8), lambda url: chat_events(url, "tgi/plain"))
add("huggingface chat_completion, stream with usage", Counted("ok", CHAT, prompt=31, output=8),
    lambda url: chat_events(url, "tgi/plain", stream_options={"include_usage": True}))
add("huggingface chat_completion, stream with a tool call", Counted("ok", CHAT, prompt=31, output=5),
    lambda url: chat_events(url, "tgi/tools", tools=TOOLS))
add("huggingface chat_completion", Counted("ok", CHAT, False, prompt=31, output=8),
    lambda url: attempt(chat(url, "tgi/plain"), url))
add("huggingface chat_completion, a tool call", Counted("ok", CHAT, False, prompt=31, output=5),
    lambda url: attempt(chat(url, "tgi/tools", tools=TOOLS), url))
add("huggingface chat_completion, status 422", Counted("client_error", CHAT, False),
    lambda url: attempt(chat(url, "tgi/status-422"), url))
add("huggingface chat_completion, error in mid-stream", Counted("upstream_error", CHAT, output=3),
    lambda url: chat_events(url, "tgi/error"))
