"""Runs vLLM on CPU, and Aphrodite, which came of it, with a worker that makes the tokens up."""
from engine import HERE, Engine, Own
from weir import get, samples


class Vllm(Engine):
    name = "vllm"
    title = "vLLM"
    program = ["vllm", "serve"]
    options = []
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    tokens_a_word = 1.4
    masks = [
        (rb'"(?:chatcmpl|cmpl|resp|msg|fc|call|chatcmpl-tool)[-_][0-9A-Za-z_-]+"', b'"<id>"'),
        (rb'"(created|created_at|completed_at)":[0-9.]+', rb'"\1":0'),
    ]
    # What follows it on the last chunk stays: vLLM's kv_transfer_params.
    losses = [(rb',"system_fingerprint":"[^"]*"(?=[,}])', b"", "`system_fingerprint` of the last chunk")]

    def version(self):
        return f"{self.package('vllm', 'vllm-cpu')} (vllm-cpu), torch {self.package('vllm', 'torch')}"

    def command(self, port):
        model = self.make("tiny_hf.py", self.name, "tiny-hf")
        program, *words = self.program
        command = [
            self.python(self.name).with_name(program), *words, model, "--served-model-name", self.model, "--dtype", "bfloat16",
            "--max-model-len", 2048, "--max-num-seqs", 16, "--enforce-eager", "--enable-auto-tool-choice",
            "--tool-call-parser", "hermes", "--enable-prompt-tokens-details", "--host", "127.0.0.1", "--port", port,
            *self.options,
        ]
        return command, self.environment

    def own(self, url):
        read = {}
        for name, _, value in samples(get(f"{url}/metrics") or "", f"{self.name}:[a-z_]+"):
            name = name.removeprefix(f"{self.name}:")
            read[name] = read.get(name, 0) + value
        if "generation_tokens_total" not in read:
            return Own()

        def histogram(name):
            return read[f"{name}_sum"], read[f"{name}_count"]

        return Own(
            prompt=read["prompt_tokens_total"],
            cached=read["prompt_tokens_cached_total"],
            output=read["generation_tokens_total"],
            running=read["num_requests_running"] + read["num_requests_waiting"],
            ttft=histogram("time_to_first_token_seconds"),
            tpot=histogram("request_time_per_output_token_seconds"),
            itl=histogram("inter_token_latency_seconds"),
        )


class Aphrodite(Vllm):
    name = "aphrodite"
    title = "Aphrodite"
    program = ["aphrodite", "run"]
    options = ["--worker-cls", "stub_worker.StubWorker", "--distributed-executor-backend", "uni", "--no-async-scheduling"]
    environment = {"APHRODITE_TARGET_DEVICE": "cpu", "APHRODITE_CPU_KVCACHE_SPACE": "1", "APHRODITE_NO_USAGE_STATS": "1",
                   "PYTHONPATH": str(HERE)}

    def version(self):
        return f"{self.package('aphrodite', 'aphrodite-engine')}, its tokens made up"
