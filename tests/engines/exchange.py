"""Sends one request over plain HTTP, and keeps all that came back: head, bytes, and whether the answer was whole."""
import dataclasses
import http.client
import json
import time
import urllib.parse


@dataclasses.dataclass
class Answer:
    status: int = 0
    headers: list = dataclasses.field(default_factory=list)
    body: bytes = b""
    broken: str = ""  # The answer ended so before it was whole.
    first: float | None = None  # It is the seconds until the first byte of the body.
    left: bool = False  # The client left it.

    def header(self, name):
        return next((value for key, value in self.headers if key.lower() == name), None)

    def events(self):
        """Returns the JSON documents of a stream, or the one of an answer; what is no JSON is left out."""
        pieces = [line[5:].strip() for line in self.body.split(b"\n") if line.startswith(b"data:")] or [self.body]
        for piece in pieces:
            try:
                yield json.loads(piece)
            except ValueError:
                pass


def ask(url, path, body=None, leave_after=None, on_event=None, patience=120.0, headers=()):
    """Sends a request. The client closes after `leave_after` events (0: once it has sent the request and waited for 0.3 s)."""
    to = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(to.hostname, to.port, timeout=patience)
    answer = Answer()
    begin = time.monotonic()
    try:
        raw = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("GET" if body is None else "POST", path, raw,
                           {"content-type": "application/json", **dict(headers)})
        if leave_after == 0:
            time.sleep(0.3)
            answer.left = True
            return answer
        response = connection.getresponse()
        answer.status, answer.headers = response.status, response.getheaders()
        while piece := response.read1(65536):
            answer.first = answer.first or time.monotonic() - begin
            answer.body += piece
            if on_event:
                on_event(answer)
            if leave_after and answer.body.count(b"\n\n") >= leave_after:
                answer.left = True
                return answer
        if response.length:  # read1 takes an early end for the end.
            answer.broken = f"{response.length} bytes are missing"
    except (OSError, http.client.HTTPException) as error:
        answer.broken = f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    return answer
