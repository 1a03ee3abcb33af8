# SPDX-License-Identifier: Apache-2.0
"""The client's side: many connections, a steady load, a scan."""

import errno
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections import Counter

from netns import wait_for

HERE = os.path.dirname(os.path.abspath(__file__))


def names(host, address, port, count, source=None):
    """Who answered `count` connections made one after another."""
    return [host.ask(address, port, source=source)[0] for _ in range(count)]


def shares(host, address, port, count):
    """The share of each server in `count` connections made one after another."""
    seen = Counter(names(host, address, port, count))
    return {name: number / count for name, number in seen.items()}


def in_turn(sequence, period):
    """True when the sequence goes round and round through `period` different ones."""
    return len(set(sequence[:period])) == period and all(
        sequence[i] == sequence[i - period] for i in range(period, len(sequence)))


class Load:
    """load.py on a host. finish() ends it and returns what it counted."""

    _count = 0

    def __init__(self, host, address, port, per_second, seconds=40, timeout=5.0):
        Load._count += 1
        self.process = host.spawn(sys.executable, os.path.join(HERE, "load.py"), address, port, per_second, seconds,
                                  timeout, log=f"load-{Load._count}")
        wait_for(lambda: "started" in self.process.text(), what="the load runs")

    def finish(self):
        self.process.stop(signal.SIGTERM, timeout=20)
        return json.loads(self.process.text().splitlines()[-1])


class Transfers:
    """transfers.py on a host. finish() ends it and returns what it counted."""

    _count = 0

    def __init__(self, host, address, port, count, seconds=50):
        Transfers._count += 1
        self.process = host.spawn(sys.executable, os.path.join(HERE, "transfers.py"), address, port, count, seconds,
                                  log=f"transfers-{Transfers._count}")
        wait_for(lambda: "started" in self.process.text(), what="the transfers run")

    def finish(self):
        self.process.stop(signal.SIGTERM, timeout=20)
        return json.loads(self.process.text().splitlines()[-1])


class Streams:
    """streams.py on a host: targets is {name: (address, port)}. finish() waits for its end and returns what it counted."""

    _count = 0

    def __init__(self, host, targets, per_second=20, seconds=8, timeout=5.0):
        Streams._count += 1
        self.longest = seconds + 2 * timeout + 10
        self.process = host.spawn(sys.executable, os.path.join(HERE, "streams.py"), per_second, seconds, timeout,
                                  *(f"{name}={address}={port}" for name, (address, port) in targets.items()),
                                  log=f"streams-{Streams._count}")

    def started(self):
        wait_for(lambda: "started" in self.process.text(), what="the streams run")
        return self

    def finish(self):
        self.process.wait(self.longest)
        return json.loads(self.process.text().splitlines()[-1])


class Flows:
    """Connections to a frontend of echo beacons that stay open: who serves each, and how it was lost."""

    def __init__(self, host, address, port, count):
        self.server, self.lost = {}, {}
        for _ in range(count):
            sock = host.connect(address, port)
            line = b""
            while not line.endswith(b"\n"):
                line += sock.recv(1)
            sock.setblocking(False)
            self.server[sock] = line.split()[0].decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for sock in self.server:
            sock.close()

    def of(self, *names):
        return [sock for sock, name in self.server.items() if name in names]

    def _try(self, sock, function):
        """What the function returns, b"" for nothing yet; the first error is what the flow was lost by."""
        try:
            data = function()
        except BlockingIOError:
            return b""
        except OSError as error:
            self.lost.setdefault(sock, errno.errorcode.get(error.errno, type(error).__name__))
            return b""
        if data == b"":
            self.lost.setdefault(sock, "EOF")
        return data

    def send(self, sockets):
        """One byte on each: what makes a client an active one."""
        for sock in sockets:
            if sock not in self.lost:
                self._try(sock, lambda sock=sock: sock.send(b"."))

    def look(self):
        """Reads what there is on all of them; how each was lost that is lost."""
        for sock in self.server:
            if sock not in self.lost:
                self._try(sock, lambda sock=sock: sock.recv(65536))
        return self.lost

    def reset(self, sockets):
        """True when all of these were reset: every one by ECONNRESET, nothing else."""
        lost = self.look()
        return all(lost.get(sock) == "ECONNRESET" for sock in sockets)

    def echo(self, sockets, timeout=5.0):
        """Every one of these still carries a byte to its server and back."""
        self.look()
        waiting = set(sockets)
        self.send(waiting)

        def answered():
            waiting.difference_update([sock for sock in waiting if sock not in self.lost
                                       and self._try(sock, lambda sock=sock: sock.recv(65536))])
            assert not waiting & set(self.lost), f"lost: {Counter(self.lost[s] for s in waiting & set(self.lost))}"
            return not waiting
        return wait_for(answered, timeout, what=f"{len(waiting)} flows answer")


def scan(host, address, ports, timeout=1.0, batch=900):
    """A connect scan: the ports that answered. Those that neither answer nor refuse in time are taken as closed."""
    ports, found = list(ports), []
    for first in range(0, len(ports), batch):
        found += _scan_some(host, address, ports[first:first + batch], timeout)
    return found


def _scan_some(host, address, ports, timeout):
    selector, found = selectors.DefaultSelector(), []
    with host.entered():
        for port in ports:
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            sock.setblocking(False)
            code = sock.connect_ex((address, port))
            if code == errno.EINPROGRESS:
                selector.register(sock, selectors.EVENT_WRITE, port)
                continue
            if code == 0:
                found.append(port)
            sock.close()
    end = time.monotonic() + timeout
    while selector.get_map() and time.monotonic() < end:
        for key, _ in selector.select(max(0.0, end - time.monotonic())):
            if key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                found.append(key.data)
            selector.unregister(key.fileobj)
            key.fileobj.close()
    for key in list(selector.get_map().values()):
        key.fileobj.close()
    selector.close()
    return found
