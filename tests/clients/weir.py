"""Starts, asks and ends a weir in front of replicas, on free ports of loopback."""
import json
import os
import random
import re
import socket
import subprocess
import time
import urllib.request

PATIENCE = 10.0  # weir may take so many seconds to start, to count, or to leave a replica.


class Failed(Exception):
    pass


def until(what, tried, patience=PATIENCE):
    """Waits until `tried` returns something true and returns that."""
    end = time.monotonic() + patience
    while not (result := tried()):
        if time.monotonic() > end:
            raise Failed(f"{what} did not come within {patience:g} s")
        time.sleep(0.01)
    return result


def get(url, patience=PATIENCE):
    try:
        with urllib.request.urlopen(url, timeout=patience) as answer:
            return answer.read().decode()
    except OSError:
        return None


def free_ports(count):
    """Returns ports of loopback below the range that the system hands out by itself."""
    ports = set()
    while len(ports) < count:
        port = random.randrange(20000, 30000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                ports.add(port)
    return list(ports)


SETTINGS = """[server]
listen = ["127.0.0.1:{client}"]
[metrics]
listen = "127.0.0.1:{metrics}"
[admin]
listen = ""
[log]
requests = "requests.jsonl"
[limits]
drain_delay = 0
drain = 1
{more}
[[pool]]
name = "clients"
{of_pool}"""

REPLICA = """
[[pool.replica]]
name = "{name}"
url = "{url}"
"""


def samples(page, names):
    """Returns (name, labels, value) of each sample on a page of metrics whose name matches."""
    for line in page.splitlines():
        sample = re.fullmatch(rf"({names})(?:\{{(.*)\}})? (\S+)", line)
        if sample:
            name, labels, value = sample.groups()
            yield name, dict(re.findall(r'(\w+)="([^"]*)"', labels or "")), float(value)


class Weir:
    def __init__(self, program, directory, replicas, more="", of_pool=""):
        """`replicas` has their urls by name; `more` has further sections of the settings, `of_pool` further keys of the pool."""
        client, metrics = free_ports(2)
        self.url, self.metrics = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{metrics}"
        self.settings, self.log = directory / "weir.toml", directory / "requests.jsonl"
        self.log.unlink(missing_ok=True)
        behind = "".join(REPLICA.format(name=name, url=url) for name, url in replicas.items())
        self.settings.write_text(SETTINGS.format(client=client, metrics=metrics, more=more, of_pool=of_pool) + behind)
        with (directory / "weir.out").open("wb") as output:
            self.process = subprocess.Popen([program, "serve", "--config", "weir.toml"], cwd=directory,
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        until("weir", lambda: get(f"{self.metrics}/-/ready"))

    def page(self):
        return get(f"{self.metrics}/metrics") or ""

    def counters(self):
        """Returns the counters of a scrape that cases look at: {(name, (label, ...)): value}."""
        read = {}
        for name, labels, value in samples(self.page(), "weir_(?:requests|api_requests|prompt_tokens|output_tokens)_total"):
            key = (name, *(labels.get(label, "") for label in ("outcome", "api", "stream", "phase")))
            read[key] = read.get(key, 0) + value
        return read

    def total(self, name):
        """Returns a counter, all its series together."""
        return sum(value for _, _, value in samples(self.page(), name))

    def lines(self):
        """Returns the request log so far."""
        try:
            written = self.log.read_text()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in written[: written.rfind("\n") + 1].splitlines()]

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()


def without_proxies():
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]  # Traffic stays on loopback.
