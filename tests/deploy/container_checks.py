"""Reads what builds and starts the containers and the systemd unit, and says what is wrong: what a container engine would
refuse, and what none would notice. It starts nothing. Usage: container_checks.py BUILD_DIR"""
import configparser
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from compose import COMPOSE, mounts, port_of, read_yaml, seconds, settings_of, size

DOCKERFILE = Path("config/deploy/Dockerfile")
UNIT = Path("config/deploy/weir.service")
SHARED_SOCKET = Path("config/deploy/shared-socket.conf")

SERVICE_KEYS = {
    "image", "build", "user", "read_only", "cap_drop", "security_opt", "restart", "logging", "command", "entrypoint", "ulimits",
    "healthcheck", "volumes", "ports", "stop_grace_period", "depends_on", "environment", "profiles", "shm_size", "deploy",
    "mem_limit", "pids_limit",
}
MIB = 1024 * 1024
THREADS = 256  # The limits of processes are meant for hosts of up to so many CPUs.
problems = []


def wrong(where, what):
    problems.append(f"{where}: {what}")


def default_settings():
    """Returns every key with its default."""
    return tomllib.loads(Path("config/examples/every-key.toml").read_text())


def drain_time(settings):
    limits = default_settings()["limits"] | settings.get("limits", {})
    return seconds(limits["drain_delay"]) + seconds(limits["drain"])


def pinned(image):
    tag = image.partition(":")[2]
    return re.search(r"\d", tag) is not None


def check_limits(name, service):
    where = f"{COMPOSE}: {name}"
    if service["image"].startswith("vllm/"):
        return  # An engine's needs depend on its model.
    if "mem_limit" not in service or size(service["mem_limit"]) < 256 * MIB:
        wrong(where, "has no limit of memory, or one below 256 MiB")
    if service.get("pids_limit", 0) < THREADS:
        wrong(where, f"has no limit of processes, or one that {THREADS} threads do not fit in")


def check_service(name, service, compose):
    where = f"{COMPOSE}: {name}"
    services = compose["services"]
    for key in service.keys() - SERVICE_KEYS:
        wrong(where, f"key {key} is not known to this check; is it one of compose?")
    if "build" in service:
        if not Path(service["build"]["dockerfile"]).is_file() or not Path(service["build"]["context"]).is_dir():
            wrong(where, "its Dockerfile or context does not exist")
        hardened = {"user": "10001:10001", "read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
        for key, value in hardened.items():
            if service.get(key) != value:
                wrong(where, f"{key} must be {value}")
    elif not pinned(service["image"]):
        wrong(where, f"image {service['image']} is not pinned to a version")
    if service.get("restart") != "unless-stopped" or "logging" not in service:
        wrong(where, "does not start again after a failure, or its log grows without end")
    for source, target, mode in mounts(service):
        if source.startswith("."):
            if not Path(source).exists():
                wrong(where, f"{source} does not exist")
            if mode != "ro":
                wrong(where, f"{source} is mounted writable")
        elif source not in compose["volumes"]:
            wrong(where, f"volume {source} is not declared")
    for port in service.get("ports", []):
        if not re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port):
            wrong(where, f"port {port} is not published on loopback alone")
    needed = service.get("depends_on", {})
    for other in needed:
        if other not in services:
            wrong(where, f"depends on {other}, which there is not")
        elif set(services[other].get("profiles", [])) - set(service.get("profiles", [])):
            wrong(where, f"depends on {other}, which is only there in a profile")
        elif isinstance(needed, dict) and needed[other]["condition"] == "service_healthy" and "healthcheck" not in services[other]:
            wrong(where, f"waits until {other} is healthy, which has no health check")
    for variable in re.findall(r"\$\{?(\w+[^}]*)", json.dumps(service)):
        if ":-" not in variable:
            wrong(where, f"variable {variable} has no default")


def check_weir_service(name, service, services):
    """Checks that settings, other services and published ports speak of the same addresses."""
    where = f"{COMPOSE}: {name}"
    settings = settings_of(service)
    for pool in settings["pool"]:
        for replica in pool["replica"]:
            host, port = re.fullmatch(r"http://([\w-]+):(\d+)", replica["url"]).groups()
            if host not in services or port_of(services[host]) != int(port):
                wrong(where, f"replica {replica['name']}: no service listens at {replica['url']}")
            elif host not in service["depends_on"]:
                wrong(where, f"starts without waiting for {host}")
    listening = {settings["server"]["listen"], settings["metrics"]["listen"]}
    published = {"0.0.0.0:" + port.rsplit(":", 1)[1] for port in service["ports"]}
    if listening != published:
        wrong(where, f"listens at {sorted(listening)}, published is {sorted(published)}")
    if seconds(service["stop_grace_period"]) <= drain_time(settings):
        wrong(where, f"stop_grace_period is not above the drain of {drain_time(settings)} s")
    if service["healthcheck"]["test"] != ["CMD", *image_health_check()]:
        wrong(where, f"asks for its health otherwise than {DOCKERFILE}")
    if settings["log"]["requests"] != "-":
        wrong(where, "its request log is not what the logging driver bounds")
    files = service["ulimits"]["nofile"]
    if files < 2 * default_settings()["limits"]["connections"]:
        wrong(where, f"nofile {files} is below two descriptors a connection")


def check_compose():
    compose = read_yaml(COMPOSE)
    services = compose["services"]
    for key in compose:
        if key not in ("name", "services", "volumes") and not key.startswith("x-"):
            wrong(COMPOSE, f"unknown top-level key {key}")
    for name, service in services.items():
        check_service(name, service, compose)
        check_limits(name, service)
    for name in ("weir", "weir-gpu"):
        check_weir_service(name, services[name], services)
    host_ports = [port.split(":")[1] for service in services.values() for port in service.get("ports", [])]
    for port in {port for port in host_ports if host_ports.count(port) > 1}:
        wrong(COMPOSE, f"host port {port} is published twice")
    used = {source for service in services.values() for source, _, _ in mounts(service)}
    for volume in compose["volumes"].keys() - used:
        wrong(COMPOSE, f"volume {volume} is declared and not used")

    for name, service in services.items():
        if "build" in service and "serve" not in service["command"] and service.get("healthcheck", {"test": None}).get("test") is None:
            if service.get("healthcheck") != {"disable": True}:
                wrong(f"{COMPOSE}: {name}", "has the image's health check, which asks a weir")

    always = {name for name, service in services.items() if "profiles" not in service}
    if always != {"weir", "sim-a0", "sim-a1", "sim-b0", "candidate", "load", "prometheus", "grafana"}:
        wrong(COMPOSE, f"without a profile it starts {sorted(always)}")
    gpus = [
        device["device_ids"]
        for service in services.values()
        if service["image"].startswith("vllm/") and service["profiles"] == ["gpu"]
        for device in service["deploy"]["resources"]["reservations"]["devices"]
    ]
    if sorted(gpus) != [["0"], ["1"]]:
        wrong(COMPOSE, f"the vLLM replicas have GPUs {gpus}, not one each")


def dockerfile_instructions():
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.M)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            yield line.split(None, 1)


def image_health_check():
    checks = [rest for word, rest in dockerfile_instructions() if word == "HEALTHCHECK"]
    return json.loads(checks[0].split("CMD ")[1]) if checks else []


def check_bounded_log(instructions):
    """Checks that the default request log of the last stage, relative to its working directory, is standard output."""
    directory = next((rest for word, rest in reversed(instructions) if word == "WORKDIR"), "")
    log = default_settings()["log"]["requests"]
    if ["RUN", f"ln -s /dev/stdout {log}"] not in instructions or directory == "/tmp":
        wrong(DOCKERFILE, f"the default request log, {log}, grows without end in {directory}")
    shown = re.search(r"docker run (?:.*\\\n#)?.*", DOCKERFILE.read_text())[0]
    for option in ("--memory", "--pids-limit", "--log-opt max-size", "--log-opt max-file"):
        if option not in shown:
            wrong(DOCKERFILE, f"the docker run in its first lines has no {option}")


def loaded_packages(build):
    """Returns the Debian packages of the libraries that both programs load."""
    libraries = set()
    for program in ("weir", "weir-lab"):
        output = subprocess.run(["ldd", str(build / program)], check=True, capture_output=True, text=True).stdout
        libraries |= {str(Path(path).resolve()) for path in re.findall(r"=> (/\S+)", output)}
    packages = set()
    for library in libraries:
        # Debian 12 has /lib as a link to /usr/lib, and its database both names.
        for path in (library, library.removeprefix("/usr")):
            found = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True)
            if found.returncode == 0:
                packages.add(found.stdout.split(":")[0])
                break
        else:
            wrong(DOCKERFILE, f"no Debian package has {library}")
    return packages - {"libc6", "libgcc-s1"}  # Every Debian image has these.


def check_dockerfile(build):
    instructions = list(dockerfile_instructions())
    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "CMD"}
    stages = set()
    for word, rest in instructions:
        if word not in known:
            wrong(DOCKERFILE, f"{word} is not known to this check")
        if word == "FROM":
            image, *alias = rest.split(" AS ")
            if not pinned(image):
                wrong(DOCKERFILE, f"image {image} is not pinned")
            stages |= set(alias)
        if word == "COPY":
            *sources, target = rest.split()
            if sources[0].startswith("--from="):
                if sources[0].removeprefix("--from=") not in stages:
                    wrong(DOCKERFILE, f"copies from a stage that there is not: {sources[0]}")
            elif not all(Path(source).exists() for source in sources):
                wrong(DOCKERFILE, f"copies what does not exist: {sources}")
    users = [rest for word, rest in instructions if word == "USER"]
    last_stage = max(i for i, (word, _) in enumerate(instructions) if word == "FROM")
    if users != ["10001:10001"] or instructions.index(["USER", users[0]]) < last_stage:
        wrong(DOCKERFILE, "the last stage must not run as root")
    command = json.loads(next(rest for word, rest in instructions if word == "CMD"))
    if command != ["weir", "serve", "--config", "/etc/weir/weir.toml"]:
        wrong(DOCKERFILE, f"runs {command}")
    installed = {
        package
        for word, rest in instructions[last_stage:]
        if word == "RUN"
        for packages in re.findall(r"--no-install-recommends (.*?) &&", rest)
        for package in packages.split()
    }
    if not image_health_check():
        wrong(DOCKERFILE, "has no HEALTHCHECK")
    check_bounded_log(instructions[last_stage:])
    needed = loaded_packages(build)
    for package in needed - installed:
        wrong(DOCKERFILE, f"does not install {package}, which the programs load")
    for package in installed - needed:
        wrong(DOCKERFILE, f"installs {package}, which neither program loads")


def unit_in(path):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string(path.read_text())
    return unit


def check_shared_socket():
    """What differs for weirs that share a socket: the reload asks the admin listener that the same file opens."""
    service = unit_in(SHARED_SOCKET)["Service"]
    config, admin = (re.search(rf"{option} (\S+)", service["ExecStart"])[1] for option in ("--config", "--admin-listen"))
    if service.get("ExecReload") != f"/usr/local/bin/weir reload --config {config} --admin {admin} --pid $MAINPID":
        wrong(SHARED_SOCKET, f"ExecReload must be weir reload with {config}, --admin {admin} and --pid $MAINPID")


def check_unit():
    unit = unit_in(UNIT)
    service = unit["Service"]
    serve = service["ExecStart"]
    if service.get("ExecStartPre") != serve.replace(" serve ", " check "):
        wrong(UNIT, f"ExecStartPre must check the file of {serve}")
    if service.get("ExecReload") != serve.replace(" serve ", " reload ") + " --pid $MAINPID":
        wrong(UNIT, f"ExecReload must be weir reload with the file of {serve} and --pid $MAINPID")
    if "MemoryMax" not in service or size(service["MemoryMax"]) < 256 * MIB:
        wrong(UNIT, "has no limit of memory, or one below 256 MiB")
    if int(service.get("TasksMax", 0)) < THREADS:
        wrong(UNIT, f"has no limit of threads, or one that {THREADS} do not fit in")
    # RestartPreventExitStatus is about ExecStart alone.
    if int(unit["Unit"]["StartLimitBurst"]) * (seconds(service["RestartSec"]) + 1) > seconds(unit["Unit"]["StartLimitIntervalSec"]):
        wrong(UNIT, "a settings file that fails ExecStartPre would be tried for ever")
    wanted = {"DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "KillSignal": "SIGTERM"}
    for key, value in wanted.items():
        if service.get(key) != value:
            wrong(UNIT, f"{key} must be {value}")
    if int(service["LimitNOFILE"]) < 2 * default_settings()["limits"]["connections"]:
        wrong(UNIT, "LimitNOFILE is below two descriptors a connection")
    if service.get("LimitCORE") != "0":
        wrong(UNIT, "LimitCORE must be 0: a core file holds keys and clients' texts")
    if seconds(service["TimeoutStopSec"]) <= drain_time({}):
        wrong(UNIT, f"TimeoutStopSec is not above the default drain of {drain_time({})} s")


def main():
    check_compose()
    check_dockerfile(Path(sys.argv[1]))
    check_unit()
    check_shared_socket()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


sys.exit(main())
