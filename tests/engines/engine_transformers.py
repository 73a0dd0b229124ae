"""Runs `transformers serve`. The model's name is its folder, and it reports no figures but the usage of an answer."""
from engine import Engine


class Transformers(Engine):
    name = "transformers"
    title = "transformers serve"
    servers_wanted = 1
    marker = False
    sampling = {"temperature": 0, "seed": 7}
    masks = [
        (rb'"id":"[0-9a-f-]{32,36}"', b'"id":"<id>"'),  # It is the request's x-request-id, which is weir's if weir is
                                                        # in between.
        (rb'"(created|created_at|completed_at)":[0-9.]+', rb'"\1":0'),
        (rb'"(?:resp|msg)_[0-9A-Za-z_-]+"', b'"<id>"'),
    ]
    gives_one_choice = True
    leaves_out = {
        **{name: "it has no such route" for name in ("messages", "messages, streamed", "count_tokens")},
        **{name: "it would take the usage that it sends unasked, in its last chunk"
           for name in ("chat, streamed, usage on every chunk", "completions, streamed, usage on every chunk",
                        "n = 2, streamed, usage on every chunk", "tools, streamed, usage on every chunk")},
        "models": "/v1/models is a search of the cache of models, and fails where there is none",
    }

    def __init__(self, folder, directory):
        super().__init__(folder, directory)
        self.model = str(folder / "models" / "tiny-hf")

    def version(self):
        return f"{self.package('transformers', 'transformers')}, torch {self.package('transformers', 'torch')}"

    def command(self, port):
        model = self.make("tiny_hf.py", "transformers", "tiny-hf")
        return [self.python("transformers").with_name("transformers"), "serve", model, "--device", "cpu", "--default-seed", 7,
                "--host", "127.0.0.1", "--port", port], {}
