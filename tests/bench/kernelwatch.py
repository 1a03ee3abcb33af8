# SPDX-License-Identifier: Apache-2.0
"""What the kernel says by itself, with the time on it: nftables' notifications, and packets on an interface. This is how the
bench sees a verdict and a change without asking the agent and without tracing it."""

import errno
import select
import socket
import struct
import threading
import time

NETLINK_NETFILTER, SOL_NETLINK, ADD_MEMBERSHIP, NFNLGRP_NFTABLES, SO_RCVBUFFORCE = 12, 270, 1, 7, 33
NFT = 10 << 8
NEWTABLE, DELTABLE, NEWGEN = NFT | 0, NFT | 2, NFT | 15
SO_TIMESTAMPNS, ETH_P_ALL = 35, 3
SYN, RST, ACK = 0x02, 0x04, 0x10


class _Watch:
    def __init__(self, sock):
        self.sock, self.over, self.seen = sock, False, []
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if not self.over:
            self.over = True
            self.thread.join()
            self.sock.close()

    def _loop(self):
        while not self.over:
            if select.select([self.sock], [], [], 0.1)[0]:
                try:
                    self._take()
                except OSError as error:
                    if error.errno != errno.ENOBUFS:  # lost some: only a flood does that, and none is measured here
                        raise


class Generations(_Watch):
    """Every committed change of the ruleset in a namespace: (time, the kinds of its messages). With a port, kinds has that
    port, negative, where a message names it: in a set's keys and values ports are padded to four bytes."""

    def __init__(self, namespace, *ports):
        self.needles = {struct.pack("!HH", port, 0): -port for port in ports}
        with namespace.entered():
            sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        sock.bind((0, 0))
        sock.setsockopt(SOL_NETLINK, ADD_MEMBERSHIP, NFNLGRP_NFTABLES)
        self.kinds = set()
        super().__init__(sock)

    def _take(self):
        data, now, at = self.sock.recv(1 << 20), time.monotonic(), 0
        while at + 16 <= len(data):
            length, kind = struct.unpack_from("=IH", data, at)
            if length < 16:
                return
            self.kinds.add(kind)
            self.kinds.update(mark for needle, mark in self.needles.items() if data.find(needle, at, at + length) >= 0)
            if kind == NEWGEN:
                self.seen.append((now, frozenset(self.kinds)))
                self.kinds = set()
            at += (length + 3) & ~3

    def first(self, after, kind=None):
        """The time of the first change after a moment, or None."""
        return next((t for t, kinds in list(self.seen) if t >= after and (kind is None or kind in kinds)), None)


class Packets(_Watch):
    """TCP packets of a namespace's interface that keep(flags, source, sport, destination, dport) wants."""

    def __init__(self, namespace, link, keep):
        with namespace.entered():
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sock.bind((link, ETH_P_ALL))
        self.keep = keep
        super().__init__(sock)

    def _take(self):
        data, ancillary, _, _ = self.sock.recvmsg(128, 64)
        if len(data) < 54 or data[12:14] != b"\x08\x00" or data[23] != 6:
            return
        tcp = 14 + (data[14] & 15) * 4
        sport, dport = struct.unpack_from("!HH", data, tcp)
        packet = (data[tcp + 13], socket.inet_ntoa(data[26:30]), sport, socket.inet_ntoa(data[30:34]), dport)
        if not self.keep(*packet):
            return
        seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2])
        # the packet's stamp is wall clock time
        self.seen.append((seconds + nanoseconds / 1e9 - time.time() + time.monotonic(), packet))

    def last(self, before):
        return max((t for t, _ in list(self.seen) if t <= before), default=None)
