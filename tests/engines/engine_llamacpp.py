"""Runs llama.cpp's server."""
from engine import HERE, Engine, Own
from weir import get, samples


class Llamacpp(Engine):
    name = "llamacpp"
    title = "llama.cpp"
    more = {"cache_prompt": False}  # With the cache on, timings would show what was asked before.
    tokens_a_word = 5
    masks = [
        (rb'"(?:chatcmpl|cmpl|resp|msg|fc|call|rs)[-_][0-9A-Za-z_-]+"', b'"<id>"'),
        (rb'"id":"[0-9A-Za-z]{32}"', b'"id":"<id>"'),
        (rb'"(created|created_at|completed_at)":[0-9.]+', rb'"\1":0'),
        (rb'"(\w+_ms|\w+_per_second)":[-+0-9.e]+', rb'"\1":0'),
    ]
    says_less = ("n = 2",)  # It reports the usage of one choice; streamed, it sends one event of usage a choice.
    # This server does not look at a model's name; it answers with the one it has.
    leaves_out = {name: "the server has one model and does not look at the name"
                  for name in ("unknown model", "unknown model, streamed")}

    def version(self):
        return f"{self.package('llamacpp', 'xllamacpp')} (xllamacpp)"

    def command(self, port):
        model = self.make("tiny_gguf.py", "llamacpp", "tiny.gguf")
        return [self.python("llamacpp"), HERE / "llamacpp_server.py", model, port], {}

    def own(self, url):
        read = {name: value for name, _, value in samples(get(f"{url}/metrics") or "", "llamacpp:[a-z_]+")}
        if "llamacpp:tokens_predicted_total" not in read:
            return Own()
        return Own(
            prompt=read["llamacpp:prompt_tokens_total"] + read["llamacpp:prompt_tokens_cached_total"],
            cached=read["llamacpp:prompt_tokens_cached_total"],
            output=read["llamacpp:tokens_predicted_total"],
            running=read["llamacpp:requests_processing"] + read["llamacpp:requests_deferred"],
        )
