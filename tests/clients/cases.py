"""Says what a case is, and writes down what a client saw, so that it can be compared."""
import dataclasses
import re
from typing import Callable

CASES = []


@dataclasses.dataclass
class Counted:
    """What weir must have counted of a case."""

    outcome: str
    api: str
    stream: bool = True
    phase: str = ""  # It is the phase of a client_abort.
    requests: int = 1
    prompt: int | None = None  # It counts the tokens of all its requests; None if the replica does not say.
    output: int | None = None


@dataclasses.dataclass
class Case:
    name: str
    run: Callable  # It takes a url and returns what was seen.
    counted: Counted | None
    client_left: bool = False  # The replica must see its connection closed before it was done.
    breaks_off: str = ""  # The replica breaks off so: killed or reset. run.py says what the client may see then.


def add(name, counted, run, **rest):
    CASES.append(Case(name, run, counted, **rest))


def plain(value):
    """Returns any object of an SDK as dicts, lists and scalars, whatever it calls that method."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    elif hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


def raised(error, url):
    """Returns an exception as its type, its status, and its words. The address and the id of the request are left out: weir
    gives every answer an id, so that clients which show ids have one to show."""
    words = str(error).replace(url, "<url>")
    words = re.sub(r"\(Request ID: [^)]*\)", "", words)
    return {
        "type": f"{type(error).__module__}.{type(error).__qualname__}",
        "bases": [base.__qualname__ for base in type(error).__mro__],
        "status": getattr(error, "status_code", None),
        "words": re.sub(r"\s+", " ", words).strip(),
        "body": plain(getattr(error, "body", None)),
    }


def attempt(call, url):
    """Returns what a call returns, or how it fails."""
    try:
        return {"returned": plain(call())}
    except Exception as error:  # The same must come through weir.
        return {"raised": raised(error, url)}


def events(open_stream, url, leave_after=None):
    """Returns what a stream brings, event by event, and how it ends. The client closes after `leave_after` events."""
    seen = {"events": []}
    try:
        stream = open_stream()
        for event in stream:
            seen["events"].append(plain(event))
            if len(seen["events"]) == leave_after:
                stream.close()
                break
    except Exception as error:
        seen["raised"] = raised(error, url)
    return seen
