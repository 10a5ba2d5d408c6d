"""A wire to a PostgreSQL that can be made to stand still: connections stay open, bytes are taken, and none go through."""

import contextlib
import selectors
import socket
import threading
from urllib.parse import parse_qs, urlsplit

_READ = 65_536


class Stalling:
    """A proxy on a loopback port in front of a server that listens on a socket file. `url` is the database by way of it."""

    def __init__(self, url):
        parts = urlsplit(url)
        self._server = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"postgresql://postgres@127.0.0.1:{self._listener.getsockname()[1]}{parts.path}?sslmode=disable"
        self._flows, self._ends = threading.Event(), threading.Event()
        self._flows.set()
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self):
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        self._ends.set()
        self._flows.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def stall(self):
        """From now on nothing goes through, in either direction; nothing is closed."""
        self._flows.clear()

    def resume(self):
        """Everything goes through again, first what was held back."""
        self._flows.set()

    def _accept(self):
        while not self._ends.is_set():
            with contextlib.suppress(OSError):
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._carry, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _carry(self, client):
        with client, socket.socket(socket.AF_UNIX) as server, selectors.DefaultSelector() as ready:
            server.connect(self._server)
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            with contextlib.suppress(OSError):
                while not self._ends.is_set():
                    for key, _ in ready.select(0.05):
                        if not (data := key.fileobj.recv(_READ)):
                            return
                        self._flows.wait()
                        key.data.sendall(data)
