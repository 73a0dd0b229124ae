"""A place in which the commands of a page run: namespaces of its own, in which only loopback is there, every 10.x.y.z is
this machine, and what is written to /etc, /var and /run is gone at the end; simulated engines; and programs on PATH."""
import fcntl
import os
import pathlib
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def wanted_namespaces():
    """Returns the command that begins a place."""
    who = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *who, "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)


def begin_network():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        def interface(name, rest):
            return struct.pack("16s24s", name, rest)
        fcntl.ioctl(control, 0x8914, interface(b"lo", struct.pack("h", 1)))  # SIOCSIFFLAGS: up.
        # SIOCSIFADDR: loopback takes all addresses of an interface's network, and so all of 10.0.0.0/8.
        fcntl.ioctl(control, 0x8916, interface(b"lo:1", struct.pack("=HH4s", socket.AF_INET, 0, socket.inet_aton("10.0.0.1"))))


class Place:
    """The folder in which commands run is a checkout to them: build/release, config, docs, scripts and tests lead there."""

    def __init__(self, programs):
        self.programs = pathlib.Path(programs)
        self.engines = {}  # name: (process, words)
        self.environment = {}

    def __enter__(self):
        begin_network()
        base = pathlib.Path(tempfile.mkdtemp(prefix="place-", dir=os.environ["WEIR_DOCS_FOLDER"]))
        mount("-t", "tmpfs", "none", base)
        for name in ("etc", "var", "run"):
            for part in ("new", "work"):
                (base / name / part).mkdir(parents=True)
            mount("-t", "overlay", "none", "-o", f"lowerdir=/{name},upperdir={base}/{name}/new,workdir={base}/{name}/work", f"/{name}")
        self.folder = base / "here"
        (self.folder / "build").mkdir(parents=True)
        (self.folder / "build/release").symlink_to(self.programs)
        for name in ("config", "docs", "scripts", "tests"):
            (self.folder / name).symlink_to(ROOT / name)
        commands = base / "bin"
        commands.mkdir()
        # systemd restarts an engine; here its stand-in does. Nothing else is asked of it.
        (commands / "systemctl").write_text(f"""#!/bin/sh
case "$1 $2" in
  'restart vllm' | 'restart vllm@'*) ;;
  *) echo "systemctl: only the restart of an engine is played here, not: $*" >&2; exit 1 ;;
esac
name=${{2#vllm}} name=${{name#@}}
echo "${{name:-gpu0}}" >{base}/restart
while [ -e {base}/restart ]; do sleep 0.02; done
""")
        (commands / "systemctl").chmod(0o755)
        self.asked = base / "restart"
        self.path = f"{commands}:{self.programs}:{os.environ['PATH']}"
        return self

    def __exit__(self, *unused):
        """Whatever still runs ends with the namespace."""

    def write(self, name, text, mode=0o600):
        """Writes a file in the folder, or at a path of the place."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def engine(self, name, listen, *words):
        """Starts a simulated engine, or the same one again with other words; without `listen` by a command as it stands."""
        if name in self.engines:
            self.stop_engine(name)
        out = open(self.folder / f".{name}.out", "wb")
        command = [str(self.programs / "weir-lab"), "sim", "--listen", listen, *(words or ("--preset", "h800", "--speed", "20"))]
        if listen is None:
            command = ["bash", "-c", "exec " + words[0]]
        process = subprocess.Popen(command, env=self.environ(), stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder)
        self.engines[name] = (process, listen, words)
        self.until(lambda: b"listening" in (self.folder / f".{name}.out").read_bytes(), f"engine {name} listens")

    def stop_engine(self, name):
        process = self.engines.pop(name)[0]
        process.kill()
        process.wait()

    def restart_engine(self, name):
        _, listen, words = self.engines[name]
        self.stop_engine(name)
        self.engine(name, listen, *words)

    def until(self, true, what, seconds=20):
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {what}\n{self.said()}")
            time.sleep(0.02)

    def said(self):
        """Returns what the weirs of this place said last."""
        return "\n".join(file.read_text(errors="replace")[-1500:] for file in self.folder.glob(".weir*.out"))

    def answers(self, url):
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return answer.status == 200
        except (OSError, urllib.error.HTTPError):
            return False

    def weir(self, settings="weir.toml", metrics="127.0.0.1:9090", more=()):
        """Starts weir with the settings of that name, which listens for numbers at `metrics`."""
        self.start([str(self.programs / "weir"), "serve", "--config", settings, *more])
        self.ready(metrics)

    def start(self, words):
        out = open(self.folder / f".weir{len(list(self.folder.glob('.weir*.out')))}.out", "wb")
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder, env=self.environ())

    def ready(self, metrics="127.0.0.1:9090"):
        self.until(lambda: self.answers(f"http://{metrics}/-/ready"), "weir is ready")

    def weirs(self):
        """Returns the process ids of the weirs of this place, whoever started them."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z" and words[0].endswith(b"weir") and words[1:2] == [b"serve"]:
                found.append(int(entry.name))
        return found

    def stop_weir(self):
        for _ in range(2):  # The second TERM ends it at once.
            for process in self.weirs():
                os.kill(process, signal.SIGTERM)
            time.sleep(0.05)
        self.until(lambda: not self.weirs(), "weir ends")

    def again(self, settings=None, **options):
        """Starts weir anew, with these settings if there are some, and an empty request log."""
        self.stop_weir()
        if settings is not None:
            self.write("weir.toml", settings)
        (self.folder / "requests.jsonl").unlink(missing_ok=True)
        self.weir(**options)

    def load(self, *words):
        """Sends requests to weir."""
        words = [str(self.programs / "weir-lab"), "load", *(words if "--input-tokens" in words else (*words, "--input-tokens", "200", "--input-stddev", "50", "--output-tokens", "20", "--output-stddev", "5"))]
        subprocess.run(words, cwd=self.folder, check=True, capture_output=True, timeout=60, env=self.environ())

    def environ(self):
        return {"PATH": self.path, "HOME": str(self.folder), "LANG": "C.UTF-8", "TERM": "xterm", **self.environment}

    def run(self, command, seconds=120, lasts=False):
        """Runs a command in bash. Returns its exit status and output. One that lasts gets two seconds, and TERM."""
        process = subprocess.Popen(["bash", "-o", "pipefail", "-c", command], cwd=self.folder, env=self.environ(), stdin=subprocess.DEVNULL, stdout=open(self.folder / ".out", "wb"),
                                   stderr=subprocess.STDOUT, start_new_session=True)
        end = time.monotonic() + (2 if lasts else seconds)
        while process.poll() is None:
            if self.asked.exists():
                name = self.asked.read_text().strip()
                if name:
                    self.restart_engine(name)
                    self.asked.unlink()
            if time.monotonic() > end:
                os.killpg(process.pid, signal.SIGTERM if lasts else signal.SIGKILL)
                if lasts:
                    process.wait(5)
                    return 0, self.output()
                process.wait()
                return None, self.output()
            time.sleep(0.01)
        return process.returncode, self.output()

    def output(self):
        return (self.folder / ".out").read_text(errors="replace")
