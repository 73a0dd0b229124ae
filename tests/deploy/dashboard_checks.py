"""Reads what Prometheus and Grafana are given, and says what is wrong: queries that select no role or name series that do
not exist, panels over each other, alerts without a test or a runbook section. It starts nothing."""
import json
import re
import sys
from pathlib import Path

import queries
from compose import COMPOSE, mounts, read_yaml, settings_of, starts

PROMETHEUS = Path("config/deploy/prometheus.yml")
GRAFANA = Path("config/deploy/grafana/provisioning")
FINDINGS = Path("proxy/live/findings.cpp")
RUNBOOK = Path("docs/guides/alerts.md")
OF_SHADOWS = ("weir_shadow_requests_total",)  # No other role has these.
RULE_TESTS = Path("tests/deploy/alerts_test.yml")

problems = []


def wrong(where, what):
    problems.append(f"{where}: {what}")


def check_prometheus(services):
    config = read_yaml(PROMETHEUS)
    (job,) = config["scrape_configs"]
    always = [target for static in job.get("static_configs", []) for target in static["targets"]]
    looked_up = [f"{name}:{found['port']}" for found in job["dns_sd_configs"] for name in found["names"]]
    targets = always + looked_up
    for target in targets:
        name, port = target.split(":")
        if name not in services or settings_of(services[name])["metrics"]["listen"] != f"0.0.0.0:{port}":
            wrong(PROMETHEUS, f"no weir has metrics at {target}")
    if len(targets) != 2:
        wrong(PROMETHEUS, f"scrapes {targets}, not both weirs")
    ways = list(starts(services))
    if len(ways) != 2:
        wrong(COMPOSE, f"its first lines show {len(ways)} ways to start it, not two")
    for command, started in ways:
        scraped = {target.split(":")[0] for target in targets} & started
        if "prometheus" not in started or not scraped:
            wrong(COMPOSE, f"docker compose {command}: starts no weir, or no Prometheus that scrapes it")
        for target in always:
            if target.split(":")[0] not in started:
                wrong(PROMETHEUS, f"{target} is a target after docker compose {command} and never there: WeirDown for ever")
    mounted = {target for _, target, _ in mounts(services["prometheus"])}
    for needed in [PROMETHEUS.name, *config["rule_files"]]:
        if f"/etc/prometheus/{needed}" not in mounted:
            wrong(COMPOSE, f"prometheus: {needed} is not mounted in /etc/prometheus")


def check_grafana(services):
    (source,) = read_yaml(GRAFANA / "datasources/prometheus.yml")["datasources"]
    (provider,) = read_yaml(GRAFANA / "dashboards/weir.yml")["providers"]
    targets = {target: Path(source) for source, target, _ in mounts(services["grafana"])}
    if source["url"] != "http://prometheus:9090" or "prometheus" not in services:
        wrong(GRAFANA, f"the data source's url is {source['url']}")
    if source["jsonData"]["timeInterval"] != read_yaml(PROMETHEUS)["global"]["scrape_interval"]:
        wrong(GRAFANA, "timeInterval is not Prometheus' scrape_interval")
    if "/etc/grafana/provisioning" not in targets or provider["options"]["path"] not in targets:
        wrong(COMPOSE, "grafana: provisioning or dashboards are not mounted where Grafana looks")
    home = Path(services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    if not (targets[str(home.parent)] / home.name).is_file():
        wrong(COMPOSE, f"grafana: there is no {home}")

    chosen = {"type": "prometheus", "uid": "${datasource}"}
    variables = {variable["name"] for variable in queries.dashboard_variables()} | {"__rate_interval"}
    for variable in queries.dashboard_variables():
        if variable["type"] == "datasource" and (variable["query"], variable["current"]["value"]) != (source["type"], source["uid"]):
            wrong(queries.DASHBOARD, "the data source variable does not begin with the one that is provisioned")
        if variable["type"] == "query" and variable["datasource"] != chosen:
            wrong(queries.DASHBOARD, f"variable {variable['name']} reads from another data source")
    places = set()
    titles = set()
    for panel in queries.dashboard_panels():
        where = f"{queries.DASHBOARD}: {panel['title']}"
        if panel["datasource"] != chosen:
            wrong(where, "reads from another data source")
        if not panel["description"] or panel["type"] not in ("timeseries", "stat"):
            wrong(where, "has no description, or a type that this check does not know")
        if (panel["title"], panel["type"]) in titles:
            wrong(where, "there are two of it")
        titles.add((panel["title"], panel["type"]))
        grid = panel["gridPos"]
        cells = {(x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])}
        if cells & places or grid["x"] + grid["w"] > 24:
            wrong(where, "lies over another panel or beyond the edge")
        places |= cells
        for target in panel["targets"]:
            for variable in set(re.findall(r"\$(\w+)", target["expr"])) - variables:
                wrong(where, f"variable {variable} is not defined")
    ids = [panel["id"] for panel in json.loads(queries.DASHBOARD.read_text())["panels"]]
    if len(ids) != len(set(ids)):
        wrong(queries.DASHBOARD, "two panels have the same id")


def documented_series():
    """Returns {name: whether it has the replica's labels, role among them}, by docs/reference/metrics.md."""
    series = {}
    has_role = True
    for line in Path("docs/reference/metrics.md").read_text().splitlines():
        if line.startswith("#"):
            has_role = "weir itself" not in line
        if match := re.match(r"\| `(weir_\w+)(?:\{.*?\})?` \|", line):
            series.setdefault(match[1], has_role)
    return series


def check_queries():
    documented = documented_series()
    roleless = {name for name, has_role in documented.items() if not has_role} | {"up"}
    recorded = {query.name for query in queries.of_rules() if query.kind == "record"}
    for query in queries.everything():
        where = f"{query.kind} {query.name}"
        selected = queries.selectors(query.expr)
        if not selected:
            wrong(where, "selects no series that this check can see")
        of_shadows = any(selector.series in OF_SHADOWS for selector in selected)
        for selector in selected:
            name = re.sub(r"_(bucket|sum|count)$", "", selector.series)
            chosen = query.kind == "panel" or (query.kind == "variable" and query.name != "instance")
            if chosen and selector.series not in recorded and 'instance=~"$instance"' not in selector.matchers:
                wrong(where, f"{selector.series}{selector.matchers} does not select the weirs that were chosen")
            if name in roleless or name.startswith("process_"):
                continue
            if name not in documented and selector.series not in recorded:
                wrong(where, f"{name} is not in docs/reference/metrics.md")
            if (query.kind, query.name) == ("variable", "role"):
                continue  # It is there to list the roles.
            wanted = 'role="primary"' if query.kind in ("alert", "record", "docs") else 'role="$role"'
            if of_shadows:
                wanted = 'role="shadow"'
            if wanted not in selector.matchers:
                wrong(where, f"{selector.series}{selector.matchers} does not select {wanted}")


def check_alerts():
    """Checks that every alert has a runbook section named by its annotation, a test that fires it and one that does not."""
    sections = {title.lower() for title in re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.M)}
    # The anchor of an alert about a finding is the finding's own section.
    findings = f"{RUNBOOK}#{{{{ $labels.what }}}}"
    for name in re.findall(r'Rule\{"(\w+)"', FINDINGS.read_text()):
        if f"\n### {name}\n" not in RUNBOOK.read_text():
            wrong(RUNBOOK, f"the finding {name} has no section")
    rules = [rule for group in read_yaml(queries.RULES)["groups"] for rule in group["rules"] if "alert" in rule]
    tests = [case for test in read_yaml(RULE_TESTS)["tests"] for case in test.get("alert_rule_test", [])]
    for rule in rules:
        name = rule["alert"]
        if rule["annotations"]["runbook"] not in (f"{RUNBOOK}#{name.lower()}", findings) or name.lower() not in sections:
            wrong(f"alert {name}", "its runbook annotation leads to no section")
        if rule["labels"].get("severity") not in ("critical", "warning"):
            wrong(f"alert {name}", "severity must be critical or warning")
        fires = {bool(case["exp_alerts"]) for case in tests if case["alertname"] == name}
        if fires != {True, False}:
            wrong(f"alert {name}", f"{RULE_TESTS} must have a case in which it fires and one in which it does not")
    for section in sections - {rule["alert"].lower() for rule in rules}:
        wrong(RUNBOOK, f"section {section} is about no alert")


def main():
    services = read_yaml(COMPOSE)["services"]
    check_prometheus(services)
    check_grafana(services)
    check_queries()
    check_alerts()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


sys.exit(main())
