"""Receivers of notices: a real HTTP server and a real SMTP server on loopback sockets, which keep what they get and can refuse."""

import email
import email.policy
import json
import socketserver
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Web:
    """An HTTP server. `got` has (method, path, headers, body) of each request; `answers` gives the code of an answer to a path; `redirect`
    is where it sends all who ask.
    """

    def __init__(self, server):
        self.got, self.code, self.redirect = [], 200, ""
        self.port = server.server_address[1]

    @property
    def notices(self):
        """What came as apprise's json:// sends it, and was taken: decoded, in order."""
        return [json.loads(body) for _, _, _, body, code in self.got if code == 200]

    @property
    def paths(self):
        return [path for _, path, *_ in self.got]


@contextmanager
def _serving(server):
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


@contextmanager
def web():
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            moved = found.redirect and not found.redirect.endswith(self.path)
            code = 302 if moved else found.code
            found.got.append((self.command, self.path, dict(self.headers), body, code))
            self.send_response(code)
            if moved:
                self.send_header("Location", found.redirect)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST  # noqa: N815 (http.server's names)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, _serving(server):
        found = Web(server)
        yield found


class Mailbox:
    """An SMTP server. `mails` has what it took, parsed; `refuses` makes it turn every recipient away, and mails with more
    than `most` bytes are too large for it."""

    def __init__(self, port):
        self.port, self.mails, self.recipients, self.refuses, self.most = port, [], [], False, 10_000_000


class _Smtp(socketserver.StreamRequestHandler):
    def handle(self):
        self.say("220 here")
        while line := self.rfile.readline().decode().strip():
            self.answer(line)
            if line.upper() == "QUIT":
                return

    def answer(self, line):
        verb, found = line.upper(), self.server.found
        if verb == "DATA":
            self.say("354 go on")
            self.take(self.data())
        elif verb.startswith("RCPT") and found.refuses:
            self.say("550 not here")
        else:
            if verb.startswith("RCPT"):
                found.recipients.append(line[8:].strip("<>"))
            self.say("250 fine")

    def take(self, data):
        if len(data) > self.server.found.most:
            self.say("552 too large")
            return
        self.server.found.mails.append(email.message_from_bytes(data, policy=email.policy.default))
        self.say("250 taken")

    def data(self):
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        return b"".join(lines)

    def say(self, text):
        self.wfile.write(f"{text}\r\n".encode())


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@contextmanager
def mailbox():
    with _Server(("127.0.0.1", 0), _Smtp) as server, _serving(server):
        server.found = Mailbox(server.server_address[1])
        yield server.found
