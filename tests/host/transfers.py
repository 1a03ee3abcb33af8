#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Long transfers through an echo beacon: transfers.py ADDRESS PORT COUNT SECONDS. Every one sends a block after another and
compares what comes back. It ends by itself, or earlier when told to (SIGTERM), and prints {"blocks", "broken"} as JSON."""

import asyncio
import json
import os
import signal
import sys
import time

LIMIT, BLOCK, PAUSE = 60, 8192, 0.02


async def transfer(address, port, end, done, result):
    number = 0
    try:
        reader, writer = await asyncio.open_connection(address, port)
        await reader.readline()
        while not done.is_set() and time.monotonic() < end:
            block = os.urandom(BLOCK)
            writer.write(block)
            async with asyncio.timeout(5):
                if await reader.readexactly(BLOCK) != block:
                    raise ValueError("another block came back")
            number += 1
            await asyncio.sleep(PAUSE)
        writer.close()
    except Exception as error:  # every kind of end before the end is a broken transfer
        result["broken"].append(f"{type(error).__name__} {error} after {number} blocks"[:80])
    result["blocks"].append(number)


async def main():
    address, port, count, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    result, done = {"blocks": [], "broken": []}, asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    end = time.monotonic() + min(seconds, LIMIT)
    print("started", flush=True)
    await asyncio.gather(*(transfer(address, port, end, done, result) for _ in range(count)))
    print(json.dumps(result), flush=True)


asyncio.run(main())
