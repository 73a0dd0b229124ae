"""A replica that plays what engines send. The path and the model of the request tell which stream.

It runs in the process of the tests, on loopback, with a thread a connection. It remembers every request and how it ended,
so that a case can ask whether its connection was closed when the client left."""
import dataclasses
import json
import os
import select
import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import plays


@dataclasses.dataclass
class Seen:
    """One request, as the replica got it."""

    path: str
    body: dict
    size: int
    done: threading.Event = dataclasses.field(default_factory=threading.Event)
    left: bool = False  # The peer had closed before the answer was whole.


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        self.answer(plays.get(self.path), None)

    def do_POST(self):
        raw = self.read_body()
        body = json.loads(raw)
        seen = Seen(self.path, body, len(raw))
        self.server.seen.append(seen)
        try:
            self.answer(plays.post(self.path, body, len(raw)), seen)
        except (BrokenPipeError, ConnectionResetError):
            seen.left = True
            self.close_connection = True
        finally:
            seen.done.set()

    def read_body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        raw = b""
        while size := int(self.rfile.readline(), 16):
            raw += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return raw

    def answer(self, play, seen):
        self.send_response_only(play.status)
        for name, value in play.headers:
            self.send_header(name, value)
        # Engines frame in chunks what they stream. HTTP/1.0 has no chunks, so the close is the end.
        chunked = play.streamed and self.request_version == "HTTP/1.1"
        if chunked:
            self.send_header("transfer-encoding", "chunked")
        elif play.streamed:
            self.close_connection = True
        else:
            self.send_header("content-length", str(sum(map(len, play.pieces))))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        for piece in play.pieces:
            if play.streamed and self.peer_left_within(play.pace):
                seen.left = True
                self.close_connection = True
                return
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        if play.end == "mute":  # Its prefill never ends.
            seen.left = self.peer_left_within(30)
            self.close_connection = True
        elif play.end == "whole":
            self.wfile.write(b"0\r\n\r\n" if chunked else b"")
        else:
            self.break_off(play.end)

    def peer_left_within(self, seconds):
        readable, _, _ = select.select([self.connection], [], [], seconds)
        try:
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except ConnectionResetError:
            return True

    def break_off(self, how):
        """Does what the kernel does to the connections of a process that is killed: it sends FIN, or RST."""
        self.close_connection = True
        if how == "killed":
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def shutdown_request(self, request):
        if request.fileno() >= 0:
            super().shutdown_request(request)

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionResetError):  # The client left between two requests.
            super().handle_error(request, client_address)


class Replica:
    def __init__(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.seen = []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def last(self):
        return self.server.seen[-1]

    def left(self, patience=5.0):
        """Returns whether the peer left the last request before its answer was whole; None if it still waits."""
        return self.last.left if self.last.done.wait(patience) else None

    def close(self):
        self.server.shutdown()
        self.server.server_close()
