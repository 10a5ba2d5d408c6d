"""A bare sink: `python -m tests.benchmarks.sink [--latency-ms 50] [--keep]` says its URL and answers every create and event.

One process, one event loop, no framework: it reads the body, answers the documented 200 after the latency and stores nothing
on disk, so that what is measured is the translator. With `--keep` it keeps bodies in memory and lists them; else its listing is
empty. Each first part of a path is an account with a listing of its own: http://HOST:PORT/ACCOUNT/...
"""

import argparse
import asyncio
import re
import subprocess
import sys
from collections import defaultdict
from contextlib import contextmanager
from functools import partial

import uvloop

_ACCOUNT = re.compile(rb"\S+ /([^/]*)/")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ORDER = re.compile(rb'"order_id": ?"([^"]*)"')
_EVENT = b'{"status":true,"message":"Order status updated"}'
_CREATED = (
    b'{"status":true,"message":"Order created","data":{"order_id":{"customer_id":"BENCH","carrier_id":"CARRIER1",'
    b'"orders_data":[{"CUSTOMER_ORDER":"%b","SERVICE_ORDER":%d}]}}}'
)
_LISTING = b'{"page_size":%d,"results":[%b],"total_count":%d,"total_pages":1}'


class Sink(asyncio.Protocol):
    """One connection: requests one after the other, each answered when its time has come."""

    def __init__(self, loop, latency_s, kept):
        self.loop, self.latency_s, self.kept = loop, latency_s, kept
        self.transport, self.buffer = None, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end]
            length = _LENGTH.search(head)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self.buffer) < whole:
                return
            body, self.buffer = self.buffer[end + 4 : whole], self.buffer[whole:]
            answer = self.answer(head, body)
            if self.latency_s:
                self.loop.call_later(self.latency_s, self.say, answer)
            else:
                self.transport.write(answer)

    def say(self, answer):
        if not self.transport.is_closing():  # whoever asked may have been killed
            self.transport.write(answer)

    def answer(self, head, body):
        kept = None if self.kept is None else self.kept[_ACCOUNT.match(head)[1]]
        if head.startswith(b"GET "):
            asked = re.search(rb"page_size=(\d+)", head)
            size = int(asked[1]) if asked else 10
            shown = kept or []
            said = _LISTING % (size, b",".join(shown[:size]), len(shown))
        elif b"/createOrder" in head[:80]:
            if kept is not None:
                kept.append(body)
            order = _ORDER.search(body)
            said = _CREATED % (order[1], 1)
        else:
            said = _EVENT
        return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(said), said)


async def serve(latency_s, *, keep):
    loop = asyncio.get_running_loop()
    kept = defaultdict(list) if keep else None
    server = await loop.create_server(partial(Sink, loop, latency_s, kept), "127.0.0.1", 0, backlog=1024)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


@contextmanager
def sink(*words):
    """A sink in a process of its own: its URL and its process."""
    command = [sys.executable, "-m", "tests.benchmarks.sink", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("listening on "), "the sink could not start; its reason stands above"
            yield line.removeprefix("listening on ").strip(), process
        finally:
            process.kill()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    uvloop.run(serve(given.latency_ms / 1000, keep=given.keep))


if __name__ == "__main__":
    main()
