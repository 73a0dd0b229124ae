"""Starts each engine with a tiny model, puts weir before it, and compares what weir gives and says with the engine's own.

Usage: run.py WEIR_PROGRAM FOLDER REPORT WORD...
  FOLDER  where the engines were installed.
  REPORT  where the tables are written, as Markdown.
  WORD    an engine: vllm, aphrodite, sglang, llamacpp, transformers, litellm; or tools (guidellm, AIPerf and weir-lab load, through weir at vllm).
          case=TEXT: only cases with this in their name, and nothing else of an engine."""
import json
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "clients"))  # The start of a weir is written there.

import aborts  # noqa: E402
import answers  # noqa: E402
import conversations  # noqa: E402
import failures  # noqa: E402
import figures  # noqa: E402
import hangs  # noqa: E402
import shadow  # noqa: E402
import tools  # noqa: E402
from cases import CASES  # noqa: E402
from engine_litellm import Litellm  # noqa: E402
from engine_llamacpp import Llamacpp  # noqa: E402
from engine_sglang import Sglang  # noqa: E402
from engine_transformers import Transformers  # noqa: E402
from engine_vllm import Aphrodite, Vllm  # noqa: E402
from report import Report  # noqa: E402
from weir import Failed, Weir, without_proxies  # noqa: E402

ENGINES = {engine.name: engine for engine in (Vllm, Aphrodite, Sglang, Llamacpp, Transformers, Litellm)}


class Seen:
    """Keeps what the tables are made from."""

    def __init__(self):
        self.engines, self.cases, self.aborts, self.figures, self.twins, self.hangs, self.failures = [], {}, [], [], [], [], []
        self.conversations, self.probes, self.tools = [], [], []


def probe(program, weir, engine, report):
    """Returns what `weir check --probe` says of the engine's servers."""
    ran = subprocess.run([program, "check", "--config", weir.settings, "--probe", "--json"], capture_output=True, text=True)
    if ran.returncode != 0:
        report.fail(f"{engine.name}, weir check --probe", f"status {ran.returncode}: {ran.stdout[-600:]}{ran.stderr[-300:]}")
    else:
        report.say(f"passed  {engine.name}: weir check --probe")
    said = subprocess.run([program, "check", "--config", weir.settings, "--probe"], capture_output=True, text=True,
                          env={"NO_COLOR": "1"}).stdout
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")], said


def run_engine(engine, program, directory, parts, words, seen, report):
    """`parts`: cases, all of them or those that have one of `words` in their names, the rest that an engine is tried for, tools."""
    directory.mkdir(parents=True, exist_ok=True)
    weirs = []

    def weir(name, servers, more="", of_pool=""):
        (directory / name).mkdir(exist_ok=True)
        replicas = {f"replica{number}": server.url for number, server in enumerate(engine.servers[:servers])}
        weirs.append(Weir(program, directory / name, replicas, more, f'health = {{path = "{engine.health}"}}\n{of_pool}'))
        return weirs[-1]

    try:
        report.say(f"{engine.title} {engine.version()}: starting {engine.servers_wanted}")
        seconds = engine.start()
        report.say(f"{engine.title} answers after {seconds:.0f} s")
        seen.engines.append([engine.title, engine.version(), f"{engine.servers_wanted}"])
        if "cases" in parts:
            one = {False: weir("one", 1), True: weir("every-chunk", 1, "[measure]\ninject_continuous_usage = true\n")}
            seen.cases[engine.title] = answers.run(engine, one, words, report)
        if "rest" in parts:
            seen.aborts += aborts.run(engine, one, report)
            every = weir("all", engine.servers_wanted)
            found, said = probe(program, every, engine, report)
            seen.probes.append((engine.title, said))
            (directory / "probe.json").write_text(json.dumps(found, indent=1))
            seen.figures += figures.run(engine, every, report)
            if engine.servers_wanted > 1:
                seen.conversations += conversations.run(engine, weir, report)
                seen.twins.append(shadow.run(engine, weir, report))
                seen.hangs.append(hangs.run(engine, weir("hangs", engine.servers_wanted), report))
                seen.failures.append(failures.run(engine, weir("failures", engine.servers_wanted), report))
        if "tools" in parts:
            tools.run(engine, weir("tools", 1), directory, seen, report)
    except Exception as error:  # The other engines are to be tried all the same.
        report.fail(engine.name, str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}")
    finally:
        for each in weirs:
            each.close()
        engine.close()


def write_tables(seen, report):
    if seen.engines:
        report.table("Engines", ["engine", "version", "servers"], seen.engines)
    if seen.cases:
        names = [case.name for case in CASES if any(case.name in said for said in seen.cases.values())]
        report.table("Bytes with and without weir, and output tokens: weir's = the engine's", ["case", *seen.cases],
                     [[name, *(said.get(name, "") for said in seen.cases.values())] for name in names])
    if seen.aborts:
        report.table("A client that leaves", ["engine", "how", "idle without weir", "idle with weir", "weir says",
                                              "output tokens: weir's of the engine's"], seen.aborts)
    if seen.figures:
        report.table(f"{figures.REQUESTS} streams, {figures.AT_ONCE} at a time", ["engine", "", "weir", "the engine", "difference"],
                     seen.figures)
    if seen.conversations:
        report.table(f"{conversations.CONVERSATIONS} conversations of {conversations.TURNS} turns over two servers, {conversations.AT_ONCE} at a time",
                     ["engine", "`prefix_aware`", "prompt tokens", "predicted to be cached", "reported as cached", "apart, of the prompt tokens",
                      "computed"], seen.conversations)
    if seen.twins:
        report.table("One server as the other's twin", ["engine", "requests", "mirrored", "dropped", "greedy pairs of equal text",
                                                        "primary's output tokens: weir / the engine", "shadow's: weir / the engine"], seen.twins)
    if seen.failures:
        report.table("`kill -9` of one of two servers", ["engine", "streams of the killed", "streams of the other",
                                                         "requests after it that were answered", "weir says"], seen.failures)
    if seen.hangs:
        report.table("SIGSTOP of one of two servers", ["engine", "out after", "requests under way then", f"asked in the next {hangs.STOPPED:g} s",
                                                       "streams of the stopped", "back after SIGCONT"], seen.hangs)
    for title, rows in seen.tools:
        report.table(title, ["the tool's", "weir's", "difference"], rows)
    for title, said in seen.probes:
        report.sections.append(f"**`weir check --probe` before {title}**\n\n```\n{said.strip()}\n```")


def main():
    program, folder, written, *words = sys.argv[1:]
    program, folder, written = Path(program).resolve(), Path(folder).resolve(), Path(written).resolve()
    only = [word.removeprefix("case=") for word in words if word.startswith("case=")]
    wanted = [word for word in words if not word.startswith("case=")]
    without_proxies()
    report, seen = Report(Path.cwd()), Seen()
    try:
        for name in ENGINES:
            parts = [] if name not in wanted else ["cases"] if only else ["cases", "rest"]
            if name == "vllm" and "tools" in wanted:
                parts.append("tools")
            if parts:
                directory = folder / "run" / name
                engine = ENGINES[name](folder, directory)
                engine.lab = program.with_name("weir-lab")
                if parts == ["tools"]:
                    engine.servers_wanted = 1
                run_engine(engine, program, directory, parts, only, seen, report)
    finally:
        write_tables(seen, report)
        written.write_text(report.whole())
    print(f"\n{report.whole()}\nThe tables are in {written}; what servers said is in {folder}/run.")
    sys.exit(1 if report.failures else 0)


if __name__ == "__main__":
    main()
