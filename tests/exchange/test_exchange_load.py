"""Five hundred clients at once, two hundred of them slow sockets: no error that a client did not cause, and memory stays flat."""

import asyncio
import contextlib
import itertools
import re
import time
from pathlib import Path

import msgspec
import pytest
from exchange_process import serving
from faulty_exchange import request
from invariants import read_truth
from payload_examples import ORDER

GOOD, SLOW, SECONDS = 300, 200, 60
GROWTH_MAX_MB = 48  # from a third of the time to its end; sessions, caches and the heap's own slack are within it


@pytest.mark.sweep
@pytest.mark.alone
def test_good_clients_are_served_among_slow_ones_and_memory_stays_flat(tmp_path, record_property):
    patience = {"LOADSHEET_SERVER__HEADER_S": "1.5", "LOADSHEET_SERVER__BODY_S": "1.5"}
    with serving(tmp_path, "--truth", "truth.jsonl", **patience) as running:
        answers, cut, sizes = asyncio.run(crowd(running.port, SECONDS, running.process.pid))
        assert running.process.stop() == 0
    assert running.process.said == f"exchange listening on {running.url}\n"
    assert {status for status, _ in answers.values()} == {200}
    slowest = sorted(took for _, took in answers.values())
    record_property("creates among slow sockets", len(answers))
    record_property("ms for 99 of 100 of them", round(slowest[len(slowest) * 99 // 100] * 1000))
    record_property("slow sockets cut", cut)
    assert slowest[-1] < 10
    assert cut >= SLOW  # every slow socket met its deadline at least once
    assert sizes[-1] - sizes[0] < GROWTH_MAX_MB
    assert {line["key"] for line in read_truth(tmp_path / "truth.jsonl")} == set(answers)


async def crowd(port, seconds, process):
    """Status and time of each create by key, how many slow sockets were cut off, and the size of the process in MB."""
    until = time.monotonic() + seconds
    numbers, answers, cut = itertools.count(), {}, itertools.count()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(GOOD):
            tasks.create_task(good(port, until, numbers, answers))
        for number in range(SLOW):
            tasks.create_task(slow(port, until, number, cut))
        sizes = tasks.create_task(sized(process, seconds))
    return answers, next(cut), sizes.result()


async def good(port, until, numbers, answers):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.monotonic() < until:
        key = f"L-{next(numbers)}"
        started = time.monotonic()
        writer.write(request("order.create", {**ORDER, "order_id": key}))
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))
        answers[key] = int(head.split()[1]), time.monotonic() - started
        assert msgspec.json.decode(body)
    writer.close()


async def slow(port, until, number, cut):
    """A socket that sends a byte now and then, of the headers or of the body, again and again."""
    data = request("order.create", {**ORDER, "order_id": f"slow-{number}"})
    start = data.index(b"\r\n\r\n") + 4 if number % 2 else 0
    while time.monotonic() < until:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionError):
            writer.write(data[:start])
            for byte in data[start:]:
                writer.write(bytes([byte]))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1000), 0.2)
                    next(cut)
                    break
        writer.close()


async def sized(process, seconds):
    sizes = []
    for third in range(3):
        await asyncio.sleep(seconds / 3 - 0.05)
        kept = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())  # noqa: ASYNC240 (no disk behind it)
        sizes.append(int(kept[1]) // 1024 if kept else third)
    return sizes
