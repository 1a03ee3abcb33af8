#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A steady stream of new connections to a beacon: load.py ADDRESS PORT PER_SECOND SECONDS [TIMEOUT]. It ends by itself, or
earlier when told to (SIGTERM), and prints {"ok", "failed", "errors", "slowest", "by"} as JSON."""

import asyncio
import json
import signal
import sys
import time
from collections import Counter

LIMIT = 60  # seconds, whatever is asked for


async def connect(address, port, timeout, result):
    begin = time.monotonic()
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(address, port)
            line = await reader.readline()
            writer.close()
        name = line.decode().split()[0]
        result["ok"] += 1
        result["by"][name] += 1
    except Exception as error:  # every kind of failure is counted
        result["failed"] += 1
        result["errors"][f"{type(error).__name__} {error}"[:80]] += 1
    result["slowest"] = max(result["slowest"], time.monotonic() - begin)


async def main():
    address, port, rate, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    timeout = float(sys.argv[5]) if len(sys.argv) > 5 else 5.0
    result = {"ok": 0, "failed": 0, "errors": Counter(), "slowest": 0.0, "by": Counter()}
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    print("started", flush=True)
    begin, number, running = time.monotonic(), 0, set()
    while not done.is_set() and time.monotonic() - begin < min(seconds, LIMIT):
        task = asyncio.create_task(connect(address, port, timeout, result))
        running.add(task)
        task.add_done_callback(running.discard)
        number += 1
        await asyncio.sleep(max(0.0, begin + number / rate - time.monotonic()))
    if running:
        await asyncio.wait(running)
    print(json.dumps(result), flush=True)


asyncio.run(main())
