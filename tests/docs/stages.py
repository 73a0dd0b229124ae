"""What each page needs so that its commands can run as they stand there: the engines that its text speaks of, and, before
some of its blocks, what its reader has done by then."""
import datetime
import gzip
import json
import pathlib
import re
import shutil

import pages
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


def toml_of(page, words):
    """Returns the TOML block of a page that has these words."""
    found = pages.blocks_of(page, (ROOT / page).read_text())
    return next(block.text for block in found if block.kind == "toml" and words in block.text)


def three_replicas():
    """Returns the settings that the guides begin with."""
    return toml_of("docs/guides/first-steps.md", 'config = "sglang"')


def three_engines(place):
    place.engine("gpu0", "10.0.0.11:8000", *MODEL)
    place.engine("gpu1", "10.0.0.12:8000", *MODEL)
    place.engine("gpu2", "10.0.0.13:30000", *MODEL)


class Stage:
    """Of one page. `before` has what is done before the block whose first line begins so, `outputs` what makes the text of a
    block without a kind, `status` the exit statuses of commands that have others than 0 beside it, `lasting` commands that
    go on until somebody ends them, `shorter` texts of commands that have others in their place. PID stands for weir's."""

    before = {}
    outputs = {}
    status = {}
    lasting = ()
    shorter = {}

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


def stretch(log, factor=600):
    """Gives the seconds of a log the times of minutes, because a shadow's first ten minutes count for no pair."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    times = [datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")) for line in lines]
    for line, time in zip(lines, times):
        line["time"] = (min(times) + factor * (time - min(times))).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    with open(log, "w") as file:  # weir has it open.
        file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def a_log_for_a_plan(place):
    """A log of engines whose steps take long beside what this machine adds to them."""
    place.engine("plan0", "127.0.0.1:8021", "--preset", "a800", "--speed", "2")
    place.engine("plan1", "127.0.0.1:8022", "--preset", "a800", "--speed", "2")
    place.again(REPLICAS.replace(":8001", ":8021").replace(":8002", ":8022"))
    place.load("--rate", "60", "--requests", "400", "--input-tokens", "400", "--input-stddev", "300", "--output-tokens", "40", "--output-stddev", "20")


class Readme(Stage):
    def its_own(self, place):
        """Its reader has engines, and puts their urls into the file of the trial."""
        for name, port in (("gpu0", 8011), ("gpu1", 8012)):
            place.engine(name, f"127.0.0.1:{port}", "--model", "YOUR_MODEL")
        place.write("weir.toml", re.sub("vllm-fp.*", 'v1"', REPLICAS.replace(":8001", ":8011").replace(":8002", ":8012")))

    before = {"weir check --config weir.toml --probe": its_own}


class Install(Stage):
    def begin(self, place):
        place.engine("gpu0", "127.0.0.1:8001")
        place.write("/etc/weir/weir.toml", (ROOT / "config/deploy/weir.toml").read_text())
        place.weir("/etc/weir/weir.toml")


class Api(Stage):
    lasting = ("curl -sN http://127.0.0.1:9091/api/live/stream",)

    def begin(self, place):
        two_configurations(place)


class Alerts(Stage):
    def begin(self, place):
        # No request is answered in less than the objective of the page's query, and one of two fails.
        place.engine("gpu0", "127.0.0.1:8001", "--step-ms", "60")
        place.again(REPLICAS.partition("\n[[pool.replica]]\nname = \"gpu1\"")[0])
        place.load("--concurrency", "20", "--requests", "40")
        place.run("curl -s http://127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json' -d '{}{'")


class Settings(Stage):
    def mistakes(self, place):
        place.write("weir.toml", "\n" * 5 + '[limits]\nfirst_tokn = "2m"\n[[pool]]\nname = "chat"\n[[pool.replica]]\nname = "gpu0"\nweight = 0\nurl = "http://127.0.0.1:8001"\n')
        return place.run("weir check --config weir.toml")[1]

    outputs = {"weir.toml:7:1": mistakes}


class LoadTest(Stage):
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
    }


class FirstSteps(Stage):
    def begin(self, place):
        three_engines(place)


class Shadow(Stage):
    def mirroring(self, place):
        place.engine("gpu0", "127.0.0.1:8001")
        place.engine("cand0", "127.0.0.1:8011")
        place.again(REPLICAS.partition("\n[[pool.replica]]\nname = \"gpu1\"")[0] + self.toml('name = "fp8"'))

    before = {"curl -X POST": mirroring}


class Compare(Stage):
    status = {"weir compare requests.jsonl --gate": (0, 3, 4)}

    def begin(self, place):
        two_configurations(place)
        log = (place.folder / "requests.jsonl").read_text().splitlines(keepends=True)
        with gzip.open(place.folder / "requests.jsonl.1.gz", "wt") as older:
            older.writelines(log[:len(log) // 2])
        place.write("requests.jsonl", "".join(log[len(log) // 2:]))
        place.write("weir.toml", REPLICAS + '\n[[slo]]\nname = "NAME"\npool = "chat"\nttft_client = "1s"\ntpot = "50ms"\n')


class Rollout(Stage):
    def begin(self, place):
        place.engine("gpu0", "127.0.0.1:8001")
        place.engine("gpu1", "127.0.0.1:8011")
        pathlib.Path("/var/lib/weir").mkdir(parents=True, exist_ok=True)
        whole = self.toml("[[rollout]]")
        place.again(whole.partition("[[rollout]]")[0])
        place.write("weir.toml", whole)


class Drain(Stage):
    def unchanged(self, place):
        three_engines(place)
        place.again(three_replicas())

    def draining(self, place):
        place.again("[limits]\ndrain = \"5m\"\n" + three_replicas().partition('\n[[pool.replica]]\nname = "gpu2"')[0])
        place.load("--requests", "200", "--concurrency", "10")
        place.until(lambda: place.run("weir status | grep -q '[0-9]+[0-9]*$'")[0] == 0, "the engines' own figures are there")
        place.run("weir drain gpu0")
        told = lambda: [line.split() for line in place.run("weir status")[1].splitlines() if line.startswith("gpu")]
        place.until(lambda: all(row[9] != "-" and "k" not in row[8] for row in told()), "the load is in the figures, and its rate falls")
        lines = place.run("weir status")[1].splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith("REPLICA"))
        return "\n".join(lines[first:first + 4]) + "\n"

    def four(self, place):
        hosts = pathlib.Path("/etc/hosts").read_text()
        replicas = ""
        for i in range(4):
            hosts += f"10.0.1.{i} gpu{i}\n"
            place.engine(f"gpu{i}", f"10.0.1.{i}:8000", *MODEL)
            replicas += f'[[pool.replica]]\nname = "gpu{i}"\nurl = "http://gpu{i}:8000"\n'
        pathlib.Path("/etc/hosts").write_text(hosts)
        place.again('[[pool]]\nname = "chat"\n' + replicas)

    before = {"weir drain gpu0 --wait": unchanged, "for replica in": four}
    outputs = {"REPLICA STATE": draining}


class Upgrade(Stage):
    def begin(self, place):
        three_engines(place)
        place.again(three_replicas().partition('\n[[pool.replica]]\nname = "gpu2"')[0])
        place.write("weir.toml", '[limits]\nfirst_token = "2m"\n\n' + three_replicas())

    def shared(self, place):
        """Ends the weir whose address the program that holds the socket is to have."""
        place.stop_weir()

    def held(self, place):
        place.ready()

    before = {"cat > share.py": shared, "kill -USR1": held}


class Keys(Stage):
    def begin(self, place):
        three_engines(place)
        place.write("/etc/weir/gpu0.key", "a-key-of-the-engine\n")
        place.environment["TOKEN"] = "dG9rZW4gb2YgdGhlIGFkbWluIGxpc3RlbmVyCg"
        place.again(three_replicas())
        place.write("weir.toml", '[server]\napi_keys = "/etc/weir/keys.toml"\n\n' + three_replicas())

    def elsewhere(self, place):
        place.stop_weir()
        place.write("weir.toml", self.toml('listen = "10.0.0.5:9091"').replace('"..."', f'"{place.environment["TOKEN"]}"') + three_replicas())
        place.weir()

    before = {"install -m 600": elsewhere}


class Tls(Stage):
    def begin(self, place):
        for name, file in (("fullchain.pem", "example.pem"), ("privkey.pem", "example.key"), ("ca.pem", "ca.pem")):
            shutil.copy(TLS / file, place.write("/etc/weir/" + name, ""))


class RequestLog(Stage):
    def begin(self, place):
        two_configurations(place)


class Capacity(Stage):
    def begin(self, place):
        a_log_for_a_plan(place)


class Troubleshoot(Stage):
    def begin(self, place):
        two_configurations(place)

    def failed(self, place):
        place.again(REPLICAS)
        words = place.engines["gpu1"][1:]
        place.stop_engine("gpu1")

        def lines():
            last = max(place.folder.glob(".weir*.out"), key=lambda file: file.stat().st_mtime)
            return re.findall(r"replica 'gpu1' is \w+, .*", last.read_text())

        place.until(lambda: len(lines()) > 0, "gpu1 is down")
        place.engine("gpu1", words[0], *words[1])
        place.until(lambda: len(lines()) > 1, "gpu1 is starting")
        place.load("--requests", "200", "--concurrency", "10")
        place.until(lambda: len(lines()) > 2, "gpu1 is up", 70)
        return "\n".join(lines())

    outputs = {"replica 'gpu1' is down": failed}


class Help(Stage):
    """The examples of --help: a block is those of one command."""

    commands = ("weir check", "weir compare", "weir status", "weir top", "weir report", "weir drain", "weir undrain", "weir reload", "weir key", "weir key new", "weir key hash", "weir bypass", "weir rollout", "weir reference", "weir",
                "weir serve", "weir-lab load", "weir-lab experiment", "weir-lab plan", "weir-lab export", "weir-lab sim",
                "weir-lab")
    status = {"weir compare requests.jsonl --gate": (0, 3, 4)}
    # Minutes of load are seconds here.
    shorter = {"--duration 60": "--duration 2", "--warm-up 30s --duration 5m": "--warm-up 1s --duration 2s", "--duration 10m": "--duration 2s", "--duration 2m": "--duration 2s", "--ramp 10 ": "--ramp 200 ",
               "--trace-speed 2 ": "--trace-speed 2000 ", "--trace requests.jsonl": "--trace requests.jsonl --trace-speed 20 --trace-limit 300"}
    twin = """
[[shadow]]
name = "fp8"
of = "chat"
twin = "gpu0"

[[shadow.replica]]
name = "cand0"
url = "http://127.0.0.1:8011"
config = "vllm-fp8"
"""
    settings = '[admin]\nstate = "/var/lib/weir"\n\n' + REPLICAS + twin
    rollout = settings + """
[[rollout]]
name = "fp8"
pool = "chat"
candidate = "vllm-fp8"
shadow = "fp8"
steps = ["shadow 20m", "1% 10m", "25% 10m", "100%"]
"""

    def begin(self, place):
        quick = ("--preset", "h800", "--speed", "100", "--max-batch", "256")
        place.engine("gpu0", "127.0.0.1:8001", *quick, "--log", "truth.jsonl")
        place.engine("gpu1", "127.0.0.1:8002", *quick)
        place.engine("cand0", "127.0.0.1:8011", *quick)
        for folder in ("/run/weir", "/var/lib/weir"):
            pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        for settings, log, rate, lasts in ((REPLICAS, "first.jsonl", "100", "2"),
                                           (REPLICAS + self.twin.replace("fp8", "fp16"), "floor.jsonl", "500", "4")):
            place.again(settings)
            place.load("--rate", rate, "--duration", lasts, "--seed", str(len(log)))
            place.stop_weir()
            (place.folder / "requests.jsonl").rename(place.folder / log)
        stretch(place.folder / "floor.jsonl", 16000)  # A floor takes eight hours.
        with gzip.open(place.folder / "requests.jsonl.1.gz", "wt") as older:
            older.write((place.folder / "first.jsonl").read_text())
        place.write("weir.toml.old", REPLICAS)
        place.write("conv.csv", (ROOT / "tests/data/traces/conv.csv").read_text())
        place.write("cards.toml", '[prompts]\ncount = 20\n[[run]]\nlabel = "H800"\nurl = "http://127.0.0.1:8001"\n')
        LoadTest.a_trace(self, place)
        self.all_weirs(place)
        place.load("--rate", "150", "--duration", "3", "--json", "report.json")
        stretch(place.folder / "requests.jsonl")
        place.run("cp report.json before.json; cp report.json after.json; curl -s http://127.0.0.1:9090/metrics > metrics.txt; weir key new alice > alice.key")

    def all_weirs(self, place):
        """One for each address that an example asks: on this machine, a second one, one with a socket and one elsewhere."""
        place.again(self.settings)
        place.write("/etc/weir/weir.toml", self.settings)
        place.write(".weir-token", "sesame-of-the-admin-listener\n")
        for name, port, admin in (("second", 8081, 'listen = "127.0.0.2:9091"'), ("socket", 8082, 'listen = "unix:/run/weir/admin.sock"'),
                                  ("elsewhere", 8083, 'listen = "10.0.0.5:9091"\ntoken_file = ".weir-token"')):
            metrics = f"127.0.0.{port - 8079}:9090"
            place.write(f"{name}.toml", f'[server]\nlisten = "127.0.0.1:{port}"\n[metrics]\nlisten = "{metrics}"\n[log]\nrequests = ""\ninstance = "{name}"\n[admin]\n{admin}\n{REPLICAS}')
            place.weir(f"{name}.toml", metrics)

    def rolled_out(self, place):
        place.write("weir.toml", self.rollout)
        place.run("weir reload")

    def its_place(self, place):
        if "gpu0" in place.engines:
            place.stop_engine("gpu0")

    def anew(self, place):
        place.again(self.settings)
        place.load("--rate", "150", "--requests", "300")

    def for_a_plan(self, place):
        a_log_for_a_plan(place)

    before = {"weir rollout start": rolled_out, "weir serve --config": lambda self, place: place.stop_weir(), "weir-lab load --url": anew,
              "weir-lab plan requests.jsonl": for_a_plan, "weir-lab sim": its_place}


STAGES = {"README.md": Readme, "--help": Help, "docs/reference/api.md": Api, "docs/reference/settings.md": Settings,
          **{f"docs/guides/{name}.md": stage for name, stage in {
              "install": Install, "first-steps": FirstSteps, "shadow": Shadow, "compare": Compare, "rollout": Rollout, "drain": Drain, "upgrade": Upgrade, "keys": Keys, "tls": Tls,
              "request-log": RequestLog, "load-test": LoadTest, "capacity": Capacity, "troubleshoot": Troubleshoot, "alerts": Alerts}.items()}}
