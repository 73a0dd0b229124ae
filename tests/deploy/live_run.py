"""Runs what docker-compose.yml would start, without containers, and asks Prometheus every query that is shipped.

The services that are built here (weir, the simulated replicas, the load) run with the very command lines, settings and
health checks of the compose file, each of their addresses moved to a free port of loopback. Debian's prometheus scrapes
weir with the very rules. Then every query of the dashboard and every example of the docs has to return data, for
every replica if it groups by replica, and no alert may fire. Exceptions stand in justly_empty.yml with their reasons. At
last one replica is ended, and the alert on a replica that fails has to name it: clients see next to nothing of that, so
only weir can tell.

Usage: live_run.py BUILD_DIR TEMPORARY_DIR [SECONDS]"""
import json
import math
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import yaml

import queries
from compose import COMPOSE, mounts, read_yaml, seconds

PATIENCE = 60.0  # After so many seconds on a busy machine a run has failed.
INTERVAL = "30s"  # The range of rates is longer than the run before the first look, so that every request is in it.


class Failed(Exception):
    pass


class FreePorts:
    """Gives each (service, port) a free port of loopback, below the range that the system hands out by itself."""

    def __init__(self):
        self.taken = {}

    def of(self, service, port):
        while (service, port) not in self.taken:
            candidate = random.randrange(20000, 30000)
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", candidate))
                except OSError:
                    continue
            if candidate not in self.taken.values():
                self.taken[service, port] = candidate
        return self.taken[service, port]


class Process:
    """One program, with its output in a file. It is ended by its own process id."""

    def __init__(self, name, command, directory, program):
        self.name = name
        self.output = directory / f"{name}.out"
        with self.output.open("wb") as output:
            # It has a session of its own, so that Ctrl-C reaches this script alone, which then ends its programs in
            # order.
            self.popen = subprocess.Popen(
                command, executable=program, cwd=directory, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )

    def require_running(self):
        if self.popen.poll() is not None:
            end = self.output.read_text(errors="replace")[-2000:]
            raise Failed(f"{self.name} ended with status {self.popen.returncode}:\n{end}")

    def end(self):
        """Sends TERM and returns the exit status."""
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                self.popen.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        return self.popen.returncode


def wait_for(what, condition, *processes):
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        for process in processes:
            process.require_running()
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {PATIENCE:.0f} s")
        time.sleep(0.2)
    return value


class ComposeWithoutContainers:
    def __init__(self, build, directory):
        services = read_yaml(COMPOSE)["services"]
        self.services = {name: one for name, one in services.items() if "build" in one and "profiles" not in one}
        self.names = "|".join(sorted(services))
        self.build = build
        self.directory = directory
        self.ports = FreePorts()
        self.processes = {}

    def moved(self, service, text):
        """Returns text as seen in the container of a service, with its addresses moved to where they are in this run."""
        here = rf"(?<![\w.])(?:0\.0\.0\.0|127\.0\.0\.1)([:/])(\d+)"
        text = re.sub(here, lambda m: f"127.0.0.1{m[1]}{self.ports.of(service, m[2])}", text)
        there = rf"(?<![\w.-])({self.names}):(\d+)"
        return re.sub(there, lambda m: f"127.0.0.1:{self.ports.of(m[1], m[2])}", text)

    def command(self, name):
        """Returns the command line, with the service's settings copied into the run's directory."""
        service = self.services[name]
        words = service["command"]
        for source, target, _ in mounts(service):
            copy = self.directory / f"{name}-{Path(source).name}"
            copy.write_text(self.moved(name, Path(source).read_text()))
            words = [str(copy) if word == target else word for word in words]
        return [self.moved(name, word) for word in words]

    def healthy(self, name):
        kind, *command = self.services[name]["healthcheck"]["test"]
        if kind != "CMD":
            raise Failed(f"{name}: health check of kind {kind}")
        limit = seconds(self.services[name]["healthcheck"]["timeout"])
        try:
            done = subprocess.run([self.moved(name, word) for word in command], timeout=limit, capture_output=True)
            return done.returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def start(self, name):
        """Starts what it depends on first, and waits until that is healthy."""
        if name in self.processes:
            return
        for other in self.services[name].get("depends_on", {}):
            self.start(other)
            wait_for(f"{other} healthy", lambda: self.healthy(other), self.processes[other])
        command = self.command(name)
        self.processes[name] = Process(name, command, self.directory, self.build / command[0])

    def end(self):
        """Ends all in reverse order; returns what did not end as it should."""
        wrong = []
        while self.processes:
            name, process = self.processes.popitem()
            status = process.end()
            # weir drains and the simulated replicas stop on TERM. The load has no last request here, only an end.
            if name != "load" and status != 0:
                wrong.append(f"{name} ended with status {status}")
        return wrong


class Prometheus:
    """Debian's prometheus on a fresh directory, with the shipped rules. It scrapes the run's weir every second."""

    def __init__(self, compose, directory):
        config = read_yaml(Path("config/deploy/prometheus.yml"))
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(queries.RULES.resolve())]
        (job,) = config["scrape_configs"]
        # The targets are known, so nothing is looked up; the relabelling is for targets that were.
        names = [f"{name}:{found['port']}" for found in job.pop("dns_sd_configs") for name in found["names"]]
        del job["relabel_configs"]
        found = [name for name in names if name.partition(":")[0] in compose.services]
        job["static_configs"] = [{"targets": [compose.moved("prometheus", name) for name in found]}]
        file = directory / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        address = f"127.0.0.1:{compose.ports.of('prometheus', '9090')}"
        command = [
            "prometheus", f"--config.file={file}", f"--storage.tsdb.path={directory / 'tsdb'}", f"--web.listen-address={address}",
        ]
        self.url = f"http://{address}"
        self.process = Process("prometheus", command, directory, "prometheus")

    def get(self, path, **parameters):
        """Returns the data of an answer; None while nothing answers. Raises on an error in the query."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return None  # It is still starting.
            raise Failed(f"{path} {parameters}: {error.read().decode()}") from error
        except (urllib.error.URLError, TimeoutError):
            return None

    def query(self, expr):
        """Returns a list of (labels, value), numbers only."""
        data = self.get("/api/v1/query", query=expr)
        if data is None:
            return []
        rows = [(row["metric"], float(row["value"][1])) for row in data["result"]]
        return [(labels, value) for labels, value in rows if not math.isnan(value)]

    def scraped(self):
        return bool(self.query('up{job="weir"} == 1'))


class Questions:
    """Asks one Prometheus every shipped query."""

    def __init__(self, prometheus, replicas):
        self.prometheus = prometheus
        self.replicas = replicas
        self.justly_empty = yaml.safe_load(Path(__file__).with_name("justly_empty.yml").read_text())

    def unanswered_panels(self):
        for query in queries.of_dashboard():
            if query.kind == "panel" and query.name in self.justly_empty["panels"]:
                continue
            for by in queries.GROUPINGS if "$by" in query.expr else ("replica",):
                rows = self.prometheus.query(queries.filled(query.expr, INTERVAL, by))
                answered = {labels["replica"] for labels, _ in rows if labels.get("replica")}
                if not rows:
                    yield f"{query.kind} {query.name}: no data by {by}"
                elif "$by" in query.expr and by == "replica" and self.replicas - answered:
                    yield f"{query.kind} {query.name}: no data of {sorted(self.replicas - answered)}"

    def unanswered_examples(self):
        for query in queries.of_docs():
            if query.name not in self.justly_empty["docs"] and not self.prometheus.query(query.expr):
                yield f"example {query.name}: no data"

    def unanswered_records(self):
        for query in queries.of_rules():
            if query.kind == "record" and not self.prometheus.query(query.name):
                yield f"record {query.name}: no data"

    def unmatched_selectors(self):
        """What a query selects has to exist even where the query as a whole is justly empty, because a slip in a name or
        label would make it empty too. check_metrics() looks for the names of series that this run does not use."""
        for query in queries.everything():
            for selector in set(queries.selectors(queries.filled(query.expr, INTERVAL))):
                rows = self.prometheus.query(selector.series + selector.matchers)
                if not rows and selector.series not in self.justly_empty["series"]:
                    yield f"{query.kind} {query.name}: {selector.series}{selector.matchers} matches nothing"
                if any("role" in labels for labels, _ in rows) and "role=" not in selector.matchers:
                    if (query.kind, query.name) != ("variable", "role"):
                        yield f"{query.kind} {query.name}: {selector.series} has roles, and none is selected"

    def list_of_values(self):
        for variable in queries.dashboard_variables():
            if variable["type"] == "query":
                selector, label = queries.label_values(variable)
                rows = self.prometheus.query(queries.filled(selector, INTERVAL))
                if not any(labels.get(label) for labels, _ in rows):
                    yield f"variable {variable['name']}: no values"

    def all_unanswered(self):
        return [
            *self.unanswered_panels(), *self.unanswered_examples(), *self.unanswered_records(), *self.unmatched_selectors(),
            *self.list_of_values(),
        ]

    def contradictions(self):
        """Finds alerts in a run in which nothing is wrong, rules that fail, and exceptions that no longer hold."""
        for query in queries.of_dashboard():
            if query.name in self.justly_empty["panels"] and self.prometheus.query(queries.filled(query.expr, INTERVAL)):
                yield f"panel {query.name}: returns data, but justly_empty.yml says it cannot"
        for query in queries.of_docs():
            if query.name in self.justly_empty["docs"] and self.prometheus.query(query.expr):
                yield f"example {query.name}: returns data, but justly_empty.yml says it cannot"
        alerts = [query for query in queries.of_rules() if query.kind == "alert"]
        for alert in alerts:
            if alert.name not in self.justly_empty["alerts"]:
                yield f"alert {alert.name}: has no entry in justly_empty.yml"
            if self.prometheus.query(alert.expr):
                yield f"alert {alert.name}: fires in a run in which nothing is wrong"
        for name in self.justly_empty["series"]:
            if self.prometheus.query(name):
                yield f"series {name}: is there, but justly_empty.yml says it cannot"
        known = {query.name for query in queries.everything()}
        for name in [name for part in ("panels", "docs", "alerts") for name in self.justly_empty[part]]:
            if name not in known:
                yield f"justly_empty.yml: there is no {name}"
        groups = self.prometheus.get("/api/v1/rules")["groups"]
        for rule in [rule for group in groups for rule in group["rules"]]:
            if rule["health"] != "ok":
                yield f"rule {rule['name']}: {rule['health']}: {rule.get('lastError', '')}"


def check_metrics(address, unused):
    """Checks that promtool finds no fault in a scrape, and that the scrape names the families that are not used, too."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        page = answer.read()
    missing = [name for name in unused if f"# TYPE {name} ".encode() not in page]
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True)
    said = (done.stdout + done.stderr).decode()
    said = [f"promtool check metrics: {said or done.returncode}"] if said or done.returncode else []
    return said + [f"/metrics has no family {name}" for name in missing]


def end_a_replica(compose, prometheus, name):
    """Waits until the alert's expression is true of that replica and of no other."""
    (alert,) = [query for query in queries.of_rules() if query.name == "WeirReplicaOut"]
    compose.processes.pop(name).end()
    rows = wait_for(f"WeirReplicaOut after {name} was ended", lambda: prometheus.query(alert.expr), prometheus.process)
    return [f"WeirReplicaOut names {labels['replica']}" for labels, _ in rows if labels["replica"] != name]


def run(build, directory, load_seconds):
    compose = ComposeWithoutContainers(build, directory)
    prometheus = None
    try:
        compose.start("load")
        weir = compose.processes["weir"]
        prometheus = Prometheus(compose, directory)
        wait_for("a scrape of weir", prometheus.scraped, prometheus.process, weir)
        for _ in range(load_seconds):
            time.sleep(1)
            for process in (*compose.processes.values(), prometheus.process):
                process.require_running()

        replicas = {name for name in compose.services if name.startswith("sim-")}
        questions = Questions(prometheus, replicas)
        deadline = time.monotonic() + PATIENCE  # A busy machine needs a second look, for what came too late.
        while (wrong := questions.all_unanswered()) and time.monotonic() < deadline:
            time.sleep(2)
        wrong += questions.contradictions()
        wrong += check_metrics(compose.moved("prometheus", "weir:9090"), questions.justly_empty["series"])
        wrong += end_a_replica(compose, prometheus, "sim-a0")
        asked = len(queries.everything())
        (_, requests), = prometheus.query('sum(weir_requests_total{role="primary",outcome="ok"})')
        print(f"{asked} queries asked after {requests:.0f} answered requests: {len(wrong)} problems")
    finally:
        ended = compose.end()
        if prometheus:
            prometheus.process.end()
    return wrong + ended


def main():
    # TERM ends this script as Ctrl-C does, so that what it started ends too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    build, directory = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    load_seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    try:
        wrong = run(build, directory, load_seconds)
    except Failed as error:
        wrong = [str(error)]
    except KeyboardInterrupt:
        wrong = ["interrupted"]
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
