"""Serves the page of a real weir with a document of this test's making: states that would take a real one minutes to come
to, names that no settings file may have, and two hundred replicas."""

import http.client
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def rfc3339(moment):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1000):03d}Z"


def replica(i, second):
    """A replica whose figures are others each second."""
    wave = (second * 7919 + i * 104729) % 1000 / 1000
    return {"pool": f"pool{i % 20}", "role": "primary", "config": "c", "url": f"http://10.0.{i // 250}.{i % 250}:8000", "state": "up", "since": rfc3339(time.time() - 900),
            "state_s": 900 + second, "reason": "", "leaving": False, "in_flight": int(40 * wave), "max_in_flight": 64, "in_prefill": round(3 * wave, 2),
            "in_decode": round(37 * wave, 2), "queued_prefill_tokens": int(4000 * wave), "queued_decode_tokens": 100, "resident_tokens": 20000,
            "kv": {"usage": round(wave, 4), "source": "engine", "tokens": 60000}, "oldest_unanswered_s": round(wave, 3), "requests_per_s": round(9 * wave, 2),
            "failed_per_s": 0.0, "tokens_in_per_s": round(9000 * wave, 1), "tokens_out_per_s": round(1800 * wave, 1), "requests_60s": int(500 * wave), "failed_60s": 0,
            "retries_60s": 0, "share": 0.1, "tokens_per_busy_s": 1500.0, "ttft_s": {"p50": round(0.05 + 0.1 * wave, 6), "p95": round(0.2 + wave, 6)},
            "tpot_s": {"p50": round(0.02 + 0.01 * wave, 6)}, "peers": {"ttft": 1.0, "icl": 1.0}, "prediction_error": 0.12, "cached_share": round(wave, 4), "estimate_ratio": 1.0,
            "engine": {"name": "vllm", "version": "0.33.0", "model": "m", "running": 3, "waiting": 0, "divergence": 0.0}}


class FakeWeir:
    """`document(second)` makes what /api/live says in that second; changes go out as a merge patch."""

    figures = ("requests_per_s", "tokens_out_per_s")

    def __init__(self, page_port, document):
        self.page_port = page_port
        self.document = document
        self.began = time.monotonic()
        self.ended = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()

    def second(self):
        return int(time.monotonic() - self.began)

    def _now(self):
        second = self.second()
        document = {"schema": 1, "serial": 1000 + second, "time": rfc3339(time.time()), "weir": {}, "pools": {}, "replicas": {}, "shadows": {}, "rollouts": {}, "keys": {},
                    "keys_left_off": 0, "requests": {"slowest": [], "failed": []}, "findings": {}, "events": {}}
        document.update(self.document(second))
        return document

    def _window(self, query):
        seconds = int(query.get("seconds", "60"))
        row = {figure: [i * 31 % 97 for i in range(seconds)] for figure in self.figures}
        document = self._now()
        return {"schema": 1, "end": document["time"], "serial": document["serial"], "step_s": 1,
                "pools": {name: row for name in document["pools"]}, "replicas": {name: row for name in document["replicas"]}, "shadows": {}}

    def _handler(fake):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *unused):
                pass

            def answer(self, body):
                text = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def page(self):
                upstream = http.client.HTTPConnection("127.0.0.1", fake.page_port, timeout=5)
                upstream.request("GET", self.path)
                answer = upstream.getresponse()
                text = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "content-length"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)
                upstream.close()

            def stream(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                before = None
                while not fake.ended.is_set():
                    now = fake._now()
                    kind, body = ("live", now) if before is None else ("change", patch(before, now))
                    try:
                        self.wfile.write(f"event: {kind}\ndata: {json.dumps(body)}\n\n".encode())
                    except OSError:
                        return
                    before = now
                    fake.ended.wait(1)

            def do_GET(self):
                path, _, query = self.path.partition("?")
                query = dict(part.split("=", 1) for part in query.split("&") if "=" in part)
                if path == "/api/live/stream":
                    self.stream()
                elif path == "/api/live":
                    self.answer(fake._now())
                elif path == "/api/live/window":
                    self.answer(fake._window(query))
                elif path == "/api/events":
                    self.answer({"schema": 1, "events": list(fake._now()["events"].values())})
                else:
                    self.page()

        return Handler


def patch(before, now):
    """The merge patch from one document to the next, as docs/reference/api.md says it: a row that has changed is there whole."""
    result = {}
    for name, value in now.items():
        old = before.get(name)
        if value == old:
            continue
        if name in ("pools", "replicas", "shadows", "rollouts", "keys", "findings", "events"):
            rows = {row: data for row, data in value.items() if old.get(row) != data}
            rows.update({row: None for row in old if row not in value})
            result[name] = rows
        else:
            result[name] = value
    return result
