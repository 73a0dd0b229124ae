"""Collects the PromQL that is shipped: every query of the dashboard, every expression of the rules, every example of the
docs, and what they select."""
import json
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

DASHBOARD = Path("config/deploy/grafana/dashboards/weir.json")
RULES = Path("config/deploy/alerts.yml")
DOCS = [*sorted(Path("docs").glob("**/*.md")), Path("README.md")]
GROUPINGS = ("replica", "config", "pool")  # The dashboard's variable `by` can be these.


@dataclass(frozen=True)
class Query:
    name: str  # It is the name of the panel, the variable, the alert or the record, or the words that introduce an
               # example.
    kind: str  # It is "panel", "variable", "alert", "record" or "docs".
    expr: str


@dataclass(frozen=True)
class Selector:
    series: str
    matchers: str  # They are the matchers as written, with braces; "" if there are none.


def dashboard_panels():
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def dashboard_variables():
    return json.loads(DASHBOARD.read_text())["templating"]["list"]


def label_values(variable):
    """Returns the selector and the label that a query variable lists."""
    match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
    if not match:
        raise ValueError(f"variable {variable['name']}: not label_values(SELECTOR, LABEL)")
    return match.groups()


def of_dashboard():
    for panel in dashboard_panels():
        for target in panel["targets"]:
            yield Query(panel["title"], "panel", target["expr"])
    for variable in dashboard_variables():
        if variable["type"] == "query":
            yield Query(variable["name"], "variable", label_values(variable)[0])


def of_rules():
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            kind = "alert" if "alert" in rule else "record"
            yield Query(rule[kind], kind, rule["expr"])


def of_docs():
    """Names each example by the words of its introduction, up to what is in parentheses or ends the sentence."""
    for document in DOCS:
        paragraph = ""
        for block in document.read_text().split("\n\n"):
            if not block.startswith("```promql\n"):
                paragraph = block
                continue
            text = block.removeprefix("```promql\n").strip().removesuffix("```")
            # The README's five have a line each.
            for expr in text.splitlines() if document.name == "README.md" else [text]:
                yield Query(re.split(r"[:(]|\.(?:\s|$)", paragraph.replace("\n", " "))[0].strip(), "docs", expr)


def everything():
    return [*of_dashboard(), *of_rules(), *of_docs()]


def filled(expr, interval, by="replica"):
    """Returns the query as Grafana sends it with all pools of the primaries selected. An example of the docs stays as it is."""
    for variable, value in (("$__rate_interval", interval), ("$role", "primary"), ("$pool", ".*"), ("$instance", ".*"), ("$by", by)):
        expr = expr.replace(variable, value)
    return expr


SERIES = re.compile(r"""(?<![\w:.$"])((?:weir|process)_\w+|(?:replica|slo):weir_[\w:]+|up)\b\s*(\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?""")


def selectors(expr):
    return [Selector(match[1], match[2] or "") for match in SERIES.finditer(expr)]
