# SPDX-License-Identifier: Apache-2.0
"""Path MTU: how long it takes to know, and what a transfer notices when it shrinks."""

import json
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import time

from agent import BINARY, Agent
from ground import wait_for
from lab import Lab
from pairs import Pair
from rows import INFINITE, Row, at_most
from wire import SlowWire

ROUND_TRIP, FAR, NEXT = 0.020, "198.51.100.2", "203.0.113.3"
MTUS = (1400, 1368, 1320, 1296, 1437)  # of the router, one a round
FLOOR, LINK = 576, 1500
GIVE_UP = 10  # tracepath, where it is told nothing
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE, IP_RECVERR = 10, 3, 11


class Bisection:
    """One size at a time by ICMP echo with DF, the link's own first: so many tries of so long each. An answer says that a
    size fits; a report, or no answer, that it does not. What a report says of the right size is not used."""

    def __init__(self, host, tries, timeout):
        self.host, self.tries, self.timeout, self.sequence = host, tries, timeout, 0

    def __call__(self, address):
        with self.host.entered():
            sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        with sock:
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
            sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
            sock.connect((address, 0))
            least, most = FLOOR, LINK
            if self.fits(sock, most):
                return most
            while most - least > 1:
                middle = (least + most) // 2
                least, most = (middle, most) if self.fits(sock, middle) else (least, middle)
            return least

    def fits(self, sock, size):
        for _ in range(self.tries):
            self.sequence += 1
            sock.send(echo(self.sequence, size - 20))
            end = time.monotonic() + self.timeout
            while (left := end - time.monotonic()) > 0 and select.select([sock], [], [], left)[0]:
                try:
                    packet = sock.recv(65536)
                except OSError:
                    return False
                if packet[20] == 0 and struct.unpack_from("!H", packet, 26)[0] == self.sequence & 0xFFFF:
                    return True
        return False


def echo(sequence, size):
    head = struct.pack("!BBHHH", 8, 0, 0, 0x7667, sequence & 0xFFFF)
    total = sum(struct.unpack("!4H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return head[:2] + struct.pack("!H", ~total & 0xFFFF) + head[4:] + bytes(size - 8)


def by_agent(host):
    def find(address):
        with host.entered():
            return json.loads(subprocess.run([BINARY, "pmtu", address, "--json"], capture_output=True, check=True,
                                             timeout=30).stdout)["mtu"]
    return find


def by_tracepath(host):
    def find(address):
        with host.entered():
            try:
                text = subprocess.run(["tracepath", "-n", address], capture_output=True, text=True, check=False,
                                      timeout=GIVE_UP).stdout
            except subprocess.TimeoutExpired:
                return None
        said = re.search(r"Resume: pmtu (\d+)", text)
        return int(said[1]) if said else None
    return find


def pmtu(options):
    """The exact path MTU behind a router that tells or does not, 20 ms round trip."""
    ours, rounds = "vgw-agent", 2 if options.quick else len(MTUS)
    with Lab(servers=False, tunnel=False) as lab:
        for host in (lab.gw, lab.ur):
            host.ip("link del eth0")
        wire = SlowWire((lab.gw, "eth0", "203.0.113.1/24"), (lab.ur, "eth0", f"{NEXT}/24"), delay=ROUND_TRIP / 2)
        try:
            lab.gw.ip(f"route add 198.51.100.0/24 via {NEXT}")
            lab.peer.ip("route add 203.0.113.0/24 via 198.51.100.1")
            wait_for(lambda: lab.gw.run("ping", "-c1", "-W1", FAR, check=False).returncode == 0, what="the way is there")
            finders = {ours: by_agent(lab.gw), "bisection, 2 x 1 s": Bisection(lab.gw, 2, 1.0),
                       "bisection, 2 x 0.2 s": Bisection(lab.gw, 2, 0.2)}
            if shutil.which("tracepath"):
                finders["tracepath"] = by_tracepath(lab.gw)
            else:
                print("SKIPPED PEER: tracepath is not installed (packaging/setup.sh bench)", file=sys.stderr)
            for name, told in (("pmtu-told", True), ("pmtu-silent", False)):
                if not told:
                    lab.underlay_silent()
                yield _found(name, told, lab, finders, rounds, ours)
        finally:
            wire.close()


def _found(name, told, lab, finders, rounds, ours):
    samples = {who: [] for who in finders}
    names = list(finders)
    for number in range(rounds):
        lab.ur.ip(f"link set eth1 mtu {MTUS[number]}")
        for who in names[number % len(names):] + names[:number % len(names)]:
            lab.gw.ip("route flush cache")
            begin = time.monotonic()
            mtu = finders[who](FAR)
            samples[who].append(time.monotonic() - begin if mtu == MTUS[number] else INFINITE)
    trips = lab.gw.run("ping", "-c5", "-i0.2", "-q", FAR).stdout
    middle = re.search(r"= [\d.]+/([\d.]+)/", trips)[1]
    note = f"round trip {middle} ms; the bisections without a program's start"
    if not told and "tracepath" in samples:
        note += f"; tracepath knows only what it is told: ended after {GIVE_UP} s"
    return Row(name, f"exact path MTU, ICMP {'passes' if told else 'filtered'}, 20 ms round trip", "s", samples.pop(ours),
               samples, "" if told else "<= 0.5 s", None if told else at_most(0.5), worst=not told, note=note)


# A transfer while the path shrinks.

BEFORE, AFTER, LIMIT = 1400, 1296, 30
FITS = 1340  # of the tunnel in what the path is before: 60 less
FIRST, REST = 1 << 20, 3 << 20
HOSTS = ("cp1", "mg")  # the transfer's ends, which know nothing of the tunnel


def shrinking(options):
    """So many MB through a WireGuard tunnel; after the first one the router takes less, and says nothing."""
    rounds = 1 if options.quick else 5
    kinds = ("agent", "nobody", "tcp_mtu_probing=1")
    samples = {kind: [] for kind in kinds}
    with Lab(servers=False) as lab:
        lab.underlay_silent()
        for number in range(rounds):
            for kind in kinds[number % 3:] + kinds[:number % 3]:
                samples[kind].append(_one(lab, kind))
    yield Row("shrinking", f"{REST >> 20} MB through a tunnel whose path goes from {BEFORE} to {AFTER}, ICMP filtered", "s",
              samples.pop("agent"), {"without": samples["nobody"], "tcp_mtu_probing=1": samples["tcp_mtu_probing=1"]},
              note=f"from the shrinking to the last byte, at most {LIMIT} s; without the agent the tunnel's MTU was given by "
                   f"hand, right for {BEFORE}; probing is a setting of the transfer's own ends")


def _one(lab, kind):
    lab.underlay_mtu(BEFORE)
    for host in (lab.gw, lab.peer):
        host.ip("route flush cache")
    for name in HOSTS:
        host = lab.namespaces[name]
        host.sysctl("ipv4/tcp_mtu_probing", int(kind == "tcp_mtu_probing=1"))
        host.ip("route flush cache", "tcp_metrics flush")
    agents = []
    for host, link in ((lab.gw, lab.wg), (lab.peer, lab.wg_peer)):
        host.ip(f"link set {link} mtu {FITS}")
    try:
        if kind == "agent":
            agents = [Agent(lab, logLevel="warning").start(),
                      Agent(lab, "peer", control=False, logLevel="warning").start()]
            pair = Pair(lab, *agents).apply("auto").up()
            wait_for(lambda: pair.gw.tunnel()["path"].get("mtu"), what="measured")
        return _transfer(lab)
    finally:
        for agent in agents:
            agent.delete()
            agent.stop()


def _transfer(lab):
    source, sink, port = lab.namespaces[HOSTS[0]], lab.namespaces[HOSTS[1]], 5001
    with sink.socket("0.0.0.0") as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))
        listener.listen()
        out = source.connect("192.168.10.10", port)
        inp, _ = listener.accept()
    with out, inp:
        out.setblocking(False)
        assert _pump(out, inp, FIRST) < LIMIT, "the first part did not arrive"
        lab.underlay_mtu(AFTER)
        return _pump(out, inp, REST)


def _pump(out, inp, size):
    """How long it takes until all of it has arrived, in seconds."""
    begin, taken, left = time.monotonic(), 0, memoryview(bytes(size))
    while taken < size and (rest := begin + LIMIT - time.monotonic()) > 0:
        readable, writable, _ = select.select([inp], [out] if left else [], [], rest)
        if readable:
            taken += len(inp.recv(1 << 16))
        if writable:
            left = left[out.send(left[:1 << 16]):]
    return time.monotonic() - begin if taken == size else INFINITE
