# SPDX-License-Identifier: Apache-2.0
"""A cable between two hosts of a lab that takes its time: frames come out of the other end after a fixed delay. A pair of
tap devices and a thread, since not every kernel has netem; for some thousand packets a second."""

import collections
import fcntl
import os
import select
import struct
import threading
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
FRAME = 65536


class SlowWire:
    """ends: (host, link, address) twice; delay in seconds, one way."""

    def __init__(self, *ends, delay):
        self.delay, self.over = delay, False
        self.fds = [self._tap(host, link) for host, link, _ in ends]
        for host, link, address in ends:
            host.ip(f"link set {link} up", f"addr add {address} dev {link}")
        self.thread = threading.Thread(target=self._carry, daemon=True)
        self.thread.start()

    @staticmethod
    def _tap(host, link):
        with host.entered():
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", link.encode(), IFF_TAP | IFF_NO_PI))
        return fd

    def _carry(self):
        other, waiting = dict(zip(self.fds, reversed(self.fds))), collections.deque()
        while not self.over:
            pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.1
            for fd in select.select(self.fds, [], [], pause)[0]:
                frame = os.read(fd, FRAME)
                waiting.append((time.monotonic() + self.delay, other[fd], frame))
            while waiting and waiting[0][0] <= time.monotonic():
                _, fd, frame = waiting.popleft()
                try:
                    os.write(fd, frame)
                except OSError:
                    pass  # the far end is down

    def close(self):
        self.over = True
        self.thread.join()
        for fd in self.fds:
            os.close(fd)
