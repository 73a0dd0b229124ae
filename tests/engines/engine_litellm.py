"""Runs LiteLLM's proxy as a replica, with a llama.cpp behind it that counts for both."""
from engine import Server
from engine_llamacpp import Llamacpp
from weir import free_ports

SETTINGS = """model_list:
  - model_name: tiny
    litellm_params: {{model: openai/tiny, api_base: "{url}/v1", api_key: none}}
litellm_settings: {{telemetry: false}}
"""


class Litellm(Llamacpp):
    name = "litellm"
    title = "LiteLLM"
    servers_wanted = 1
    health = "/health/liveliness"
    more = {}
    leaves_out = {}
    # It passes on the usage of one choice.
    says_less = ("n = 2", "n = 2, streamed", "n = 2, completions, streamed", "n = 2, streamed, usage asked for",
                 "two prompts, streamed", "n = 2, streamed, usage on every chunk")
    losses = [(rb',"usage":\{"completion_tokens":0,"prompt_tokens":0,"total_tokens":0\}', b"", "zeros for usage on every chunk")]

    def __init__(self, folder, directory):
        super().__init__(folder, directory)
        self.behind = None

    def version(self):
        return f"{self.package('litellm', 'litellm')}, before llama.cpp {super().version()}"

    def start(self):
        port = free_ports(1)[0]
        command, environment = super().command(port)
        self.behind = Server("litellm-behind", command, environment, self.directory, port)
        self.behind.wait("/health", self.patience)
        return super().start()

    def command(self, port):
        settings = self.directory / "litellm.yaml"
        settings.write_text(SETTINGS.format(url=self.behind.url))
        return [self.python("litellm").with_name("litellm"), "--config", settings, "--host", "127.0.0.1", "--port", port], {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}

    def close(self):
        super().close()
        if self.behind:
            self.behind.close()

    def own(self, url):
        return super().own(self.behind.url)
