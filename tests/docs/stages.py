"""What each page needs so that its commands can run as they stand there: the engines that its text speaks of, and, before
some of its blocks, what its reader has done by then."""
import gzip
import json
import pathlib
import re
import shutil

from place import ROOT

# The pages' word for the model of their reader is the name of the model here.
MODEL = ("--preset", "h800", "--speed", "20", "--model", "YOUR_MODEL")
REPLICAS = """[[pool]]
name = "chat"

[[pool.replica]]
name = "gpu0"
url = "http://127.0.0.1:8001"
config = "vllm-fp16"

[[pool.replica]]
name = "gpu1"
url = "http://127.0.0.1:8002"
config = "vllm-fp8"
"""
TLS = ROOT / "tests/data/tls"


class Stage:
    """Of one page. `before` has what is done before the block whose first line begins so, `outputs` what makes the text of a
    block without a kind, `status` the exit statuses of commands that have others than 0 beside it, `lasting` commands that
    go on until somebody ends them."""

    before = {}
    outputs = {}
    status = {}
    lasting = ()

    def __init__(self, page):
        self.page = page

    def begin(self, place):
        pass

    def toml(self, words):
        """Returns the TOML block of the page that has these words."""
        return next(block.text for block in self.page if block.kind == "toml" and words in block.text)


def two_configurations(place):
    """A log of a weir before two configurations of one engine."""
    place.engine("gpu0", "127.0.0.1:8001")
    place.engine("gpu1", "127.0.0.1:8002")
    place.again(REPLICAS)
    place.load("--rate", "120", "--duration", "3")


class Readme(Stage):
    def begin(self, place):
        place.engine("gpu0", "127.0.0.1:8001", *MODEL)
        place.engine("gpu1", "127.0.0.1:8002", *MODEL)


class Install(Stage):
    def begin(self, place):
        place.engine("gpu0", "127.0.0.1:8001")
        place.write("/etc/weir/weir.toml", (ROOT / "config/deploy/weir.toml").read_text())
        place.weir("/etc/weir/weir.toml")


class Api(Stage):
    lasting = ("curl -sN http://127.0.0.1:9091/api/live/stream",)

    def begin(self, place):
        two_configurations(place)


class Comparison(Stage):
    def begin(self, place):
        two_configurations(place)


class Runbook(Stage):
    def begin(self, place):
        # No request is answered in less than the objective of the page's query, and one of two fails.
        place.engine("gpu0", "127.0.0.1:8001", "--step-ms", "60")
        place.again(REPLICAS.partition("\n[[pool.replica]]\nname = \"gpu1\"")[0])
        place.load("--concurrency", "20", "--requests", "40")
        place.run("curl -s http://127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json' -d '{}{'")

    def said(self, place):
        return place.run("tail -n 2 requests.jsonl")


class Settings(Stage):
    def mistakes(self, place):
        place.write("weir.toml", "\n" * 5 + '[limits]\nfirst_tokn = "2m"\n[[pool]]\nname = "chat"\n[[pool.replica]]\nname = "gpu0"\nweight = 0\nurl = "http://127.0.0.1:8001"\n')
        return place.run("weir check --config weir.toml")[1]

    outputs = {"weir.toml:7:1": mistakes}


class Probe(Stage):
    def report(self, place):
        place.engine("gpu0", "127.0.0.1:8001", "--step-ms", "18")
        place.engine("gpu1", "127.0.0.1:8002", "--engine", "tgi", "--speculative-tokens", "3", "--acceptance", "0.8")
        place.write("weir.toml", REPLICAS + '\n[[pool.replica]]\nname = "gpu2"\nurl = "http://127.0.0.1:8003"\n')
        return place.run("weir check --config weir.toml --probe")[1]

    outputs = {"gpu0  http": report}


class Experiments(Stage):
    settings = """[[pool]]
name = "chat"

[[pool.replica]]
name = "h800"
url = "http://127.0.0.1:8001"
config = "vllm-fp16"
gpu = "H800"
cost_per_hour = 2.5
"""

    def begin(self, place):
        place.engine("h800", "127.0.0.1:8001", "--preset", "h800", "--speed", "100", "--max-batch", "256", "--model", "MODEL")
        place.write("h800.key", "a-key-of-the-engine\n")
        place.again(self.settings)

    def a_log(self, place):
        place.again(self.settings)
        place.load("--rate", "100", "--requests", "300")

    def a_trace(self, place):
        lines = [{"chat_id": i, "parent_chat_id": i - 1 if i % 4 else -1, "timestamp": i / 10, "input_length": 100 + 60 * (i % 4), "output_length": 40, "type": "coder", "turn": 1 + i % 4,
                  "hash_ids": list(range(1000 * (i // 4), 1000 * (i // 4) + (100 + 60 * (i % 4)) // 16 + 1))} for i in range(40)]
        place.write("qwen_coder_blksz_16.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    before = {
        "weir-lab load --url http://127.0.0.1:8080 --model MODEL --trace requests.jsonl": a_log,
        "weir-lab load --url http://127.0.0.1:8080 --trace qwen": a_trace,
        "weir-lab export requests.jsonl": a_log,
        "weir-lab plan requests.jsonl": a_log,
    }


class Howto(Stage):
    status = {"weir compare requests.jsonl --gate": (0, 3, 4)}

    def begin(self, place):
        place.engine("gpu0", "10.0.0.11:8000", *MODEL)
        place.engine("gpu1", "10.0.0.12:8000", *MODEL)
        place.engine("gpu2", "10.0.0.13:30000", *MODEL)
        for name in ("fullchain.pem", "privkey.pem"):
            shutil.copy(TLS / ("example.pem" if name.startswith("full") else "example.key"), place.write("/etc/weir/" + name, ""))
        shutil.copy(TLS / "ca.pem", place.write("/etc/weir/ca.pem", ""))
        place.write("/etc/weir/gpu0.key", "a-key-of-the-engine\n")
        place.environment["TOKEN"] = "dG9rZW4gb2YgdGhlIGFkbWluIGxpc3RlbmVyCg"

    def three(self):
        return self.toml('config = "sglang"')

    def changed(self, place):
        whole = self.three()
        place.again(whole.partition('\n[[pool.replica]]\nname = "gpu2"')[0])
        place.write("weir.toml", '[limits]\nfirst_token = "2m"\n\n' + whole)

    def keys(self, place):
        place.again(self.three())
        place.write("weir.toml", '[server]\napi_keys = "/etc/weir/keys.toml"\n\n' + self.three())

    def unchanged(self, place):
        place.again(self.three())

    def draining(self, place):
        place.again("[limits]\ndrain = \"5m\"\n" + self.three().partition('\n[[pool.replica]]\nname = "gpu2"')[0])
        place.load("--requests", "200", "--concurrency", "10")
        place.until(lambda: place.run("weir status | grep -q '[0-9]+[0-9]*$'")[0] == 0, "the engines' own figures are there")
        place.run("weir drain gpu0")
        return place.run("weir status")[1]

    def four(self, place):
        hosts = pathlib.Path("/etc/hosts").read_text()
        replicas = ""
        for i in range(4):
            hosts += f"10.0.1.{i} gpu{i}\n"
            place.engine(f"gpu{i}", f"10.0.1.{i}:8000", *MODEL)
            replicas += f'[[pool.replica]]\nname = "gpu{i}"\nurl = "http://gpu{i}:8000"\n'
        pathlib.Path("/etc/hosts").write_text(hosts)
        place.again('[[pool]]\nname = "chat"\n' + replicas)

    def elsewhere(self, place):
        place.stop_weir()
        place.write("weir.toml", self.toml('listen = "10.0.0.5:9091"').replace('"..."', f'"{place.environment["TOKEN"]}"') + REPLICAS)
        place.weir()

    def compared(self, place):
        two_configurations(place)
        log = (place.folder / "requests.jsonl").read_text().splitlines(keepends=True)
        with gzip.open(place.folder / "requests.jsonl.1.gz", "wt") as older:
            older.writelines(log[:len(log) // 2])
        place.write("weir.toml", REPLICAS + '\n[[slo]]\nname = "NAME"\npool = "chat"\nttft_client = "1s"\ntpot = "50ms"\n')

    def rollout(self, place):
        place.engine("gpu0", "127.0.0.1:8001")
        place.engine("gpu1", "127.0.0.1:8011")
        pathlib.Path("/var/lib/weir").mkdir(parents=True, exist_ok=True)
        whole = self.toml("[[rollout]]")
        place.again(whole.partition("[[rollout]]")[0])
        place.write("weir.toml", whole)

    def failed(self, place):
        place.engine("gpu0", "127.0.0.1:8001")
        place.engine("gpu1", "127.0.0.1:8002")
        place.again(REPLICAS)
        place.stop_engine("gpu1")

        def lines():
            return re.findall(r"replica 'gpu1' is .*", place.said())

        place.until(lambda: len(lines()) > 0, "gpu1 is down")
        place.restart_engine("gpu1")
        place.until(lambda: len(lines()) > 1, "gpu1 is starting")
        place.load("--requests", "200", "--concurrency", "10")
        place.until(lambda: len(lines()) > 2, "gpu1 is up", 70)
        return "\n".join(lines())

    before = {
        "weir check --config weir.toml --diff": changed,
        "weir key new alice": keys,
        "weir drain gpu0 --wait": unchanged,
        "for replica in": four,
        "weir bypass on": unchanged,
        "install -m 600": elsewhere,
        "weir compare requests.jsonl --slo": compared,
        "weir reload                       # from now on gpu1": rollout,
    }
    outputs = {"replica  pool  state": draining, "replica 'gpu1' is down": failed}


class Help(Stage):
    """The examples of --help."""

    lasting = ("weir-lab sim ",)


STAGES = {"README.md": Readme, "docs/install.md": Install, "docs/api.md": Api, "docs/comparison.md": Comparison, "docs/runbook.md": Runbook, "docs/settings.md": Settings,
          "docs/probe.md": Probe, "docs/experiments.md": Experiments, "docs/howto.md": Howto}
