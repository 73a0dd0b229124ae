"""Says what an engine is to the tests: how its servers start and end, and where it reports its own figures."""
import dataclasses
import os
import signal
import subprocess
import time
from pathlib import Path

from weir import Failed, free_ports, get

HERE = Path(__file__).resolve().parent
QUIET = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
         "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1",
         "PYTHONDONTWRITEBYTECODE": ""}  # A start takes a minute if nothing is kept compiled.


@dataclasses.dataclass
class Own:
    """The engine's own figures since it was started. None means that it does not report one."""

    prompt: float | None = None  # It counts tokens, those from the cache included.
    cached: float | None = None
    output: float | None = None
    running: float | None = None  # It counts requests.
    ttft: tuple | None = None  # It is the sum in seconds and the number of observations.
    tpot: tuple | None = None
    itl: tuple | None = None

    def __sub__(self, before):
        def less(one, other):
            if one is None or other is None:
                return None
            return tuple(a - b for a, b in zip(one, other)) if isinstance(one, tuple) else one - other

        return Own(*(less(getattr(self, field.name), getattr(before, field.name)) for field in dataclasses.fields(Own)))

    def __add__(self, other):
        def plus(one, two):
            if one is None or two is None:
                return None
            return tuple(a + b for a, b in zip(one, two)) if isinstance(one, tuple) else one + two

        return Own(*(plus(getattr(self, field.name), getattr(other, field.name)) for field in dataclasses.fields(Own)))


class Server:
    """A process of an engine, in a session of its own so that its children end with it."""

    def __init__(self, name, command, environment, directory, port):
        self.name, self.url, self.output = name, f"http://127.0.0.1:{port}", directory / f"{name}.out"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [str(part) for part in command], cwd=directory, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, env={**os.environ, **QUIET, **environment}, start_new_session=True)

    def wait(self, path, patience):
        begin = time.monotonic()
        while get(self.url + path, 2) is None:
            if self.process.poll() is not None or time.monotonic() - begin > patience:
                why = "ended" if self.process.poll() is not None else f"did not answer within {patience:g} s"
                raise Failed(f"{self.name} {why}; its last words are in {self.output}:\n{self.last_words()}")
            time.sleep(0.25)
        return time.monotonic() - begin

    def last_words(self):
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-8:])

    def kill(self):
        """Ends them as `kill -9` does: the server first, then what it leaves behind."""
        self.process.kill()
        self.process.wait()
        self.signal(signal.SIGKILL)

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def close(self):
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            pass
        self.signal(signal.SIGKILL)
        self.process.wait()

    def busy(self, seconds=0.5):
        """Returns the share of a CPU that the server's session used over the next moment."""
        begin = self.ticks()
        time.sleep(seconds)
        return (self.ticks() - begin) / os.sysconf("SC_CLK_TCK") / seconds

    def ticks(self):
        total = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self.process.pid:  # The process belongs to its session.
                total += int(fields[11]) + int(fields[12])
        return total


class Engine:
    name = ""
    model = "tiny"
    servers_wanted = 2
    health = "/health"
    patience = 600.0  # A server may take so many seconds to start.
    sampling = {"temperature": 1.0, "seed": 7}
    more = {}  # Requests to OpenAI's routes get these members, too.
    masks = []  # Each is a pattern and a replacement, for what is random in an answer's bytes.
    losses = []  # Each is a pattern, a replacement and a name, for what weir's question for usage takes, as
                 # docs/reference/engines.md says.
    leaves_out = {}  # The engine has no answer to these cases; the value says why.
    says_less = ()  # In the answers to these cases it reports fewer tokens than it made.
    gives_one_choice = False  # If true, it ignores n and sends no end marker, so the other choices count as missing.
    tokens_a_word = 1.0  # So many tokens its tokenizer makes of a word of vocabulary.py, about.
    marker = True  # If true, its streams end with [DONE].

    def __init__(self, folder, directory):
        self.folder, self.directory, self.servers = folder, directory, []

    def python(self, environment):
        return self.folder / environment / "bin" / "python"

    def make(self, maker, environment, made):
        """Makes a tiny model, once for each version of its maker."""
        target = self.folder / "models" / made
        stamp = target.with_name(f"{made}.made-by")
        wanted = (HERE / maker).read_text() + (HERE / "vocabulary.py").read_text()
        if not (target.exists() and stamp.exists() and stamp.read_text() == wanted):
            target.parent.mkdir(parents=True, exist_ok=True)
            made_by = subprocess.run([self.python(environment), HERE / maker, target], env={**os.environ, **QUIET},
                                     stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if made_by.returncode:
                raise Failed(f"{maker} failed:\n{made_by.stderr[-2000:]}")
            stamp.write_text(wanted)
        return target

    def package(self, environment, name):
        """Returns the version of a package as it is installed."""
        asked = subprocess.run([self.python(environment), "-c", f"import importlib.metadata as m; print(m.version('{name}'))"],
                               capture_output=True, text=True)
        return asked.stdout.strip() or "unknown"

    def start(self):
        """Starts them one after the other, because each needs a CPU for itself. Returns the longest start in seconds."""
        longest = 0.0
        for number, port in enumerate(free_ports(self.servers_wanted)):
            command, environment = self.command(port)
            self.servers.append(Server(f"{self.name}-{number}", command, environment, self.directory, port))
            longest = max(longest, self.servers[-1].wait(self.health, self.patience))
        return longest

    def close(self):
        for server in self.servers:
            server.close()

    def own(self, url):
        return Own()

    def own_of_all(self, servers=None):
        figures = [self.own(server.url) for server in servers or self.servers]
        return sum(figures[1:], figures[0])
