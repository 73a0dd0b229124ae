"""Reads docker-compose.yml strictly: what its services mount, where they listen and how they wait."""
import re
import tomllib
from pathlib import Path

import yaml

COMPOSE = Path("docker-compose.yml")


class StrictLoader(yaml.SafeLoader):
    """Reads YAML. A key that stands twice is an error here; elsewhere the last one would win."""


def strict_mapping(loader, node, deep=False):
    seen = set()
    for key_node, _ in node.value:
        if key_node.value in seen:
            raise ValueError(f"{loader.name}:{key_node.start_mark.line + 1}: key {key_node.value} stands twice")
        seen.add(key_node.value)
    loader.flatten_mapping(node)
    return yaml.SafeLoader.construct_mapping(loader, node, deep)


StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, strict_mapping)


def read_yaml(path):
    with path.open() as file:
        return yaml.load(file, StrictLoader)


def seconds(value):
    """Returns the seconds of a time as compose, systemd or weir's settings write it."""
    if isinstance(value, (int, float)):
        return float(value)
    units = {"ms": 0.001, "s": 1, "": 1, "m": 60, "min": 60, "h": 3600}
    number, unit = re.fullmatch(r"([\d.]+)(ms|s|min|m|h|)", value.replace(" ", "")).groups()
    return float(number) * units[unit]


def size(value):
    """Returns the bytes of a size as compose, docker or systemd write it."""
    number, unit = re.fullmatch(r"(\d+)([kKmMgG])", value).groups()
    return int(number) * 1024 ** ("kmg".index(unit.lower()) + 1)


def starts(services):
    """Returns the sets of services that the commands at the top of the file start, with what they depend on."""
    for command in re.findall(r"^# +docker compose (.*?)(?:  |$)", COMPOSE.read_text(), re.M):
        profiles = set(re.findall(r"--profile (\w+)", command))
        named = set(command.split()) & services.keys()
        started = named or {name for name, one in services.items() if not set(one.get("profiles", [])) - profiles}
        waiting = list(started)
        while waiting:
            needed = set(services[waiting.pop()].get("depends_on", {})) - started
            started |= needed
            waiting += needed
        yield command, started


def mounts(service):
    for volume in service.get("volumes", []):
        source, target, *mode = volume.split(":")
        yield source, target, mode[0] if mode else "rw"


def settings_of(service):
    return next((tomllib.loads(Path(source).read_text()) for source, _, _ in mounts(service) if source.endswith(".toml")), None)


def port_of(service):
    """Returns the port of a simulated replica or vLLM, by its command line."""
    words = " ".join(service["command"])
    match = re.search(r"--listen 0\.0\.0\.0:(\d+)|--host 0\.0\.0\.0 --port (\d+)", words)
    return int(match[1] or match[2]) if match else None
