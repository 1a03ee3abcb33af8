#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Steady streams of new connections to several beacons at once: streams.py PER_SECOND SECONDS TIMEOUT NAME=ADDRESS=PORT...

It ends by itself, or earlier when told to (SIGTERM), and prints for each name {"ok", "failed", "cut", "slowest", "late", "by"}.
failed: not established within the time-out. cut: established, then lost before the beacon's line was there; no new
connection any more. slowest: of those that were established, in seconds. late: how late a connection was begun at worst,
which says how busy the machine was.
"""

import asyncio
import json
import signal
import socket
import sys
import time
from collections import Counter

LIMIT = 60  # seconds, whatever is asked for


def tag(error):
    return f"{type(error).__name__} {error}"[:80]


async def connect(address, port, timeout, result):
    loop = asyncio.get_running_loop()
    begin = time.monotonic()
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as sock:
        sock.setblocking(False)
        try:
            await asyncio.wait_for(loop.sock_connect(sock, (address, port)), timeout)
        except ConnectionResetError as error:  # never in answer to a SYN: it was established for a moment
            result["cut"][tag(error)] += 1
            return
        except OSError as error:  # TimeoutError is one too
            result["failed"][f"{tag(error)} after {time.monotonic() - begin:.1f} s"] += 1
            return
        result["slowest"] = max(result["slowest"], time.monotonic() - begin)
        try:
            line = await asyncio.wait_for(loop.sock_recv(sock, 512), timeout)
            result["by"][line.decode().split()[0]] += 1
            result["ok"] += 1
        except (OSError, IndexError) as error:
            result["cut"][tag(error)] += 1


async def stream(phase, address, port, rate, seconds, timeout, result, done):
    begin, number, running = time.monotonic() + phase, 0, set()
    while not done.is_set() and time.monotonic() - begin < min(seconds, LIMIT):
        await asyncio.sleep(max(0.0, begin + number / rate - time.monotonic()))
        result["late"] = max(result["late"], time.monotonic() - begin - number / rate)
        task = asyncio.create_task(connect(address, port, timeout, result))
        running.add(task)
        task.add_done_callback(running.discard)
        number += 1
    if running:
        await asyncio.wait(running)


async def main():
    rate, seconds, timeout = (float(word) for word in sys.argv[1:4])
    targets = [word.split("=") for word in sys.argv[4:]]
    results = {name: {"ok": 0, "failed": Counter(), "cut": Counter(), "slowest": 0.0, "late": 0.0, "by": Counter()}
               for name, _, _ in targets}
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    print("started", flush=True)
    await asyncio.gather(*(stream(i / rate / len(targets), address, int(port), rate, seconds, timeout, results[name], done)
                           for i, (name, address, port) in enumerate(targets)))
    print(json.dumps(results), flush=True)


asyncio.run(main())
