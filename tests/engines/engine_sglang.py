"""Runs SGLang with a scheduler that makes the tokens up."""
from engine import HERE, Engine, Own
from weir import get, samples


class Sglang(Engine):
    name = "sglang"
    title = "SGLang"
    tokens_a_word = 1.4
    masks = [
        (rb'"id":"[0-9a-f]{32}"', b'"id":"<id>"'),
        (rb'"(?:chatcmpl|cmpl|resp|msg|fc|call)[-_][0-9A-Za-z_-]+"', b'"<id>"'),
        (rb'"(created|created_at|completed_at|\w+_ts|\w+_latency|decode_throughput)":[0-9.e+-]+', rb'"\1":0'),
    ]
    # /v1/completions has it where no usage was asked for; weir asks for usage on every chunk, and takes that out.
    losses = [(rb',"usage":null(?=[,}])', b"", "null usage on every chunk")]

    def version(self):
        return f"{self.package('sglang', 'sglang')}, its tokens made up"

    def command(self, port):
        model = self.make("tiny_hf.py", "sglang", "tiny-hf")
        return [
            self.python("sglang"), HERE / "stub_scheduler.py", "--model-path", model, "--served-model-name", self.model,
            "--device", "cpu", "--context-length", 2048, "--enable-metrics", "--enable-cache-report",
            "--tool-call-parser", "hermes", "--skip-server-warmup", "--host", "127.0.0.1", "--port", port,
        ], {}

    def own(self, url):
        read = {}
        for name, _, value in samples(get(f"{url}/metrics") or "", "sglang:[a-z_]+"):
            name = name.removeprefix("sglang:")
            read[name] = read.get(name, 0) + value
        if "num_running_reqs" not in read:
            return Own()
        return Own(
            prompt=read.get("prompt_tokens_total", 0),
            cached=read.get("cached_tokens_total", 0),
            output=read.get("generation_tokens_total", 0),
            running=read["num_running_reqs"] + read["num_queue_reqs"],
            ttft=(read.get("time_to_first_token_seconds_sum", 0), read.get("time_to_first_token_seconds_count", 0)),
            itl=(read.get("inter_token_latency_seconds_sum", 0), read.get("inter_token_latency_seconds_count", 0)),
        )
