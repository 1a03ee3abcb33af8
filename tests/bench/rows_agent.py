# SPDX-License-Identifier: Apache-2.0
"""What the agent itself costs: memory, growth, polls, processor time, size."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import specs
from agent import BINARY, CONTROL_PORT, Agent, identities
from ground import (CLIENT_CPU, CONTROL_PLANE, HERE, NAME, SERVER_CPU, Ground, cpu_seconds, resident, wait_for)
from kernelwatch import ACK, SYN, Packets
from lab import GATEWAY
from netns import run
from rows import Row, at_least, at_most

KIB, MIB = 1024, 1 << 20


def poll(ground, seconds, count, address=GATEWAY, port=CONTROL_PORT):
    pki = identities()
    done = ground.cl.run("taskset", "-c", CLIENT_CPU, sys.executable, os.path.join(HERE, "poll.py"), address, port, pki.ca,
                         *pki.writer, seconds, count, timeout=seconds + 30)
    return json.loads(done.stdout)


def names(**check):
    return {"name": "names", "port": NAME, "protocol": "TCP", "backends": specs.backends(NAME),
            **({"healthCheck": {"type": "tcp", **check}} if check else {})}


def dynamic():
    return "dynamic" in run("file", "-L", BINARY, check=False).stdout or bool(
        run("readelf", "-d", BINARY, check=False).stdout.count("NEEDED"))


def memory(options):
    """1 frontend, 3 backends, 1 tunnel, polled once a second; the highest sample of the second half."""
    seconds = 6 if options.quick else 30
    with Ground("haproxy", tunnel=True) as ground:
        ground.serve_beacons()
        agent = Agent(ground, logLevel="warning").start()
        agent.apply(specs.spec(names(), tunnels=[specs.tunnel(ground.wg)]))
        connection = agent.remote()
        ours, peer = [], []
        for number in range(seconds):
            connection.request("GET", "/v1/status")
            assert json.loads(connection.getresponse().read())["kind"] == "GatewayStatus"
            time.sleep(1)
            if number >= seconds // 2:
                ours.append(resident(agent.process.pid))
                peer.append(resident(ground.haproxy_process.pid))
        connection.close()
        agent.stop()
    limit = 6 if dynamic() else 4
    yield Row("memory", "resident: 1 frontend, 3 backends, 1 tunnel, polled each second", "B", ours, {"HAProxy": peer},
              f"<= {limit} MiB ({'dynamic' if dynamic() else 'static'})", at_most(limit * MIB), worst=True)


def growth(options):
    """Resident memory over 100,000 polls, then over 100,000 checks, each after a warm-up; over https checks with TLS too."""
    target = 5000 if options.quick else 100000
    with Ground() as ground:
        ground.serve("20000-20065")
        agent = Agent(ground, logLevel="warning").start()
        pid = agent.process.pid
        checks = [{"name": f"c{n}", "port": 21000 + n, "protocol": "TCP",
                   "healthCheck": {"type": "tcp", "interval": "50ms"},
                   "backends": [{"address": a, "port": 20000 + 33 * n + i} for a in CONTROL_PLANE.values() for i in range(33)]}
                  for n in range(2)]
        agent.apply(specs.spec(*checks))
        _checks(ground, target // 20)
        first = resident(pid)
        checked = _checks(ground, target)
        by_checks = resident(pid) - first
        small = {**names(interval="1s"), "backends": [{"address": a, "port": 20000} for a in CONTROL_PLANE.values()]}
        agent.apply(specs.spec(small))
        poll(ground, 60, target // 20)
        first = resident(pid)
        polled = poll(ground, 60, target)["polls"]
        by_polls = resident(pid) - first
        agent.stop()
    yield Row("growth", f"resident memory grown by {polled:,} polls and {checked:,} checks", "B", [by_polls + by_checks], {},
              "<= 64 KiB", at_most(64 * KIB), note=f"polls {by_polls // KIB} KiB, checks {by_checks // KIB} KiB")


def _checks(ground, count):
    first, end = ground.accepted(), time.monotonic() + 120
    while ground.accepted() - first < count and time.monotonic() < end:
        time.sleep(0.2)
    return ground.accepted() - first


HAPROXY = """\
global
    nbthread 1
    tune.maxrewrite 1024
    tune.bufsize 65536
defaults
    mode http
    timeout connect 5s
    timeout client 1m
    timeout server 1m
frontend status
    bind 192.168.150.2:9443 ssl crt {pem} ca-file {ca} verify required
    http-request return status 200 content-type application/json file {body}
"""


def polls(options):
    """Status polls over one kept-alive mTLS connection, the agent on one core and the client on the other; the time between
    SYNs of the checks at a backend, less the interval, is their lateness."""
    rounds, seconds = (2, 1.5) if options.quick else (5, 4)
    with Ground("haproxy") as ground:
        ground.serve_beacons()
        agent = Agent(ground, logLevel="warning").start()
        agent.apply(specs.spec(names()))
        run("taskset", "-a", "-p", "-c", SERVER_CPU, agent.process.pid)
        body = os.path.join(ground.directory, "status.json")
        with open(body, "w", encoding="utf-8") as file:
            file.write(agent.get("/v1/status").text)
        peer_haproxy(ground, body)
        ours, peer, late, size, busy = [], [], [], 0, []
        for _ in range(rounds):
            before = cpu_seconds(agent.process.pid)
            with Packets(ground.gw, "eth1", lambda flags, source, _s, _d, dport: flags & (SYN | ACK) == SYN
                         and source == GATEWAY and dport == NAME) as packets:
                got = poll(ground, seconds, 1000000)
                time.sleep(0.3)
            busy.append((cpu_seconds(agent.process.pid) - before) / got["seconds"])
            ours.append(got["polls"] / got["seconds"])
            size = got["bytes"]
            for address in CONTROL_PLANE.values():
                times = [t for t, packet in packets.seen if packet[3] == address]
                late += [b - a - 1.0 for a, b in zip(times, times[1:])]
            got = poll(ground, seconds, 1000000, "192.168.150.2")
            peer.append(got["polls"] / got["seconds"])
        agent.stop()
    yield Row("polls", "status polls/s, one kept-alive mTLS connection, agent on one core", "/s", ours,
              {"HAProxy, the same bytes": peer}, ">= 5,000/s", at_least(5000),
              note=f"{size} bytes an answer; the agent used {sorted(busy)[len(busy) // 2] * 100:.0f} % of its core, so that "
                   "the rest is the client's; HAProxy returns a file of the same content, one thread on the same core")
    yield Row("lateness", "lateness of backend checks meanwhile", "s", [max(0.0, x) for x in late], {}, "<= 50 ms",
              at_most(0.05), worst=True)


def peer_haproxy(ground, body):
    pki, host = identities(), ground.namespaces["haproxy"]
    pem, config = os.path.join(host.directory, "status.pem"), os.path.join(host.directory, "status.cfg")
    with open(pem, "w", encoding="ascii") as out:
        for part in (pki.crt, pki.key):
            with open(part, encoding="ascii") as file:
                out.write(file.read())
    with open(config, "w", encoding="ascii") as file:
        file.write(HAPROXY.format(pem=pem, ca=pki.ca, body=body))
    host.spawn("taskset", "-c", SERVER_CPU, "haproxy", "-db", "-f", config, log="status-haproxy")
    wait_for(lambda: ground.cl.connect("192.168.150.2", 9443, timeout=1).close() or True, what="haproxy listens")


def cpu(options):
    """Processor time of the agent with default checks (connect, each second), HAProxy with the same number of servers."""
    seconds = 4 if options.quick else 10
    for count in (1, 100, 10000):
        with Ground("dnat") as ground:
            ports = -(-count // 3)
            ground.serve(f"20000-{20000 + ports - 1}")
            backends = [{"address": a, "port": 20000 + i} for i in range(ports) for a in CONTROL_PLANE.values()][:count]
            agent = Agent(ground, logLevel="warning").start()
            agent.apply(specs.spec(*(
                {"name": f"b{n}", "port": 30000 + n, "protocol": "TCP", "backends": backends[250 * n:250 * n + 250]}
                for n in range(-(-count // 250)))), settled=False)
            time.sleep(4)
            ours, made = busy(ground, agent.process.pid, seconds)
            agent.stop()
            host = ground.dnat
            lines = ["global", "    maxconn 100", "    nbthread 1", "defaults", "    mode tcp", "    timeout connect 5s",
                     "    timeout client 1m", "    timeout server 1m", "    default-server inter 1s", "listen all",
                     "    bind 192.168.150.6:8080"]
            lines += [f"    server s{i} {b['address']}:{b['port']} check" for i, b in enumerate(backends)]
            config = os.path.join(host.directory, "checks.cfg")
            with open(config, "w", encoding="ascii") as file:
                file.write("\n".join(lines) + "\n")
            process = host.spawn("haproxy", "-db", "-f", config, log="checks-haproxy")
            time.sleep(4)
            theirs, their_checks = busy(ground, process.pid, seconds)
            process.stop(signal.SIGKILL)
        row = Row(f"cpu-{count}", f"processor time with {count:,} backends checked each second", "%", [ours * 100],
                  {"HAProxy, one thread": [theirs * 100]},
                  note=f"checks made a second: ours {made:,.0f}, theirs {their_checks:,.0f}")
        yield row


def busy(ground, pid, seconds):
    before, checks, begin = cpu_seconds(pid), ground.accepted(), time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - begin
    return (cpu_seconds(pid) - before) / passed, (ground.accepted() - checks) / passed


def size(_options):
    """The binary, stripped."""
    found = {"dynamic" if dynamic() else "static": BINARY}
    static = os.environ.get("VGW_AGENT_STATIC", "")
    if static and os.path.exists(static):
        found["static"] = static
    peers = {name: [os.path.getsize(path)] for name, path in (
        ("haproxy", "/usr/sbin/haproxy"), ("nginx", "/usr/sbin/nginx"), ("nftlb", "/usr/sbin/nftlb")) if os.path.exists(path)}
    for kind, path in found.items():
        with tempfile.TemporaryDirectory(prefix="vgw-size-") as directory:
            copy = os.path.join(directory, "stripped")
            shutil.copyfile(path, copy)
            subprocess.run(["strip", copy], check=True)
            yield Row(f"size-{kind}", f"the {kind} binary, stripped", "B", [os.path.getsize(copy)], peers,
                      "<= 2 MiB" if kind == "static" else "", at_most(2 * MIB) if kind == "static" else None,
                      note="the peers' are dynamic")
