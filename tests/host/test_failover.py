# SPDX-License-Identifier: Apache-2.0
"""No new connection is lost to a failing backend while another one is up: promise 12.

First one, then two of three backends die, in every way at once: each way has frontends and ports of its own. The agent
runs, or has been killed before the first death. The only time that counts is the client's time-out of 5 s.
"""

import json
import re
import time
from contextlib import contextmanager

import pytest

from agent import Agent
from conftest import clean
from lab import CONTROL_PLANE, GATEWAY, GATEWAY6
from netns import wait_for
from servers import Beacon
from specs import ADDRESS, QUICK, backend, backends, dual_stack, kube, spec, tcp, tunnel, udp
from traffic import Streams, in_turn, names

CP1, CP2, CP3 = CONTROL_PLANE.values()
FAMILIES = (4, 6)
TIMEOUT = 5.0  # the client's
# What a rule on the backend's host does with a SYN from its death on.
VERDICTS = {
    "drop": "drop",
    "reset": "meta l4proto tcp reject with tcp reset",
    "port-unreachable": "reject with icmpx type port-unreachable",
    "host-unreachable": "reject with icmpx type host-unreachable",
    "prohibited": "reject with icmpx type admin-prohibited",
}
WAYS = {**{way: 7100 + i for i, way in enumerate(VERDICTS)}, "stop": 7110, "two-silent": 7111, "two-refuse": 7112,
        "cable": 7000}
PLACES = {  # who connects where; cp1 is itself among the dead, and reaches the others through the gateway
    "cl": tuple(way for way in WAYS if way != "cable"),
    "cp1": ("drop", "stop"),
    "gw": ("drop", "stop", "host-unreachable"),
    "mg": ("drop", "stop", "port-unreachable"),
}
CASES = [(place, way, family) for place, ways in PLACES.items() for way in ways for family in FAMILIES]
CABLE_CASES = [(place, "cable", family) for place in PLACES for family in FAMILIES]
WATCH = """table inet watch {
    counter forwarded { }
    counter left { }
    chain f { type filter hook forward priority 300; meta mark != 0 counter name forwarded; }
    chain p { type filter hook postrouting priority 300; meta mark != 0 ct state != untracked counter name left; }
}
"""


def frontend(way, family):
    """With the default check, but for its kind."""
    rows = backends(WAYS[way], tuple(CONTROL_PLANE) if family == 4 else tuple(f"{n}v6" for n in CONTROL_PLANE))
    return {"name": f"{way}-{family}", "port": 1000 + WAYS[way], "protocol": "TCP", "healthCheck": {"type": "tcp"},
            "backends": rows}


def every_refusal(lab):
    """ICMP errors are sent at any rate."""
    for name in (*CONTROL_PLANE, "gw"):
        lab.namespaces[name].sysctl("ipv4/icmp_ratelimit", 0)
        lab.namespaces[name].sysctl("ipv6/icmp/ratelimit", 0)


def die(lab, name, ways):
    """A rule on the backend's host for each way that a firewall can let it die."""
    lab.namespaces[name].nft("table inet dead { chain in { type filter hook input priority 0;\n" + "".join(
        f"tcp dport {WAYS[way]} {verdict}\n" for way, verdict in ways.items()) + "}; }\n")


@contextmanager
def ground(lab, ways, running):
    """Frontends of these ways, their beacons, and an agent that runs or was killed."""
    hosts = [lab.namespaces[name] for name in CONTROL_PLANE]
    listening = [Beacon(h, [f"tcp:{WAYS[w]}" for w in ways if w not in ("stop", "cable")]) for h in hosts]
    stopping = [Beacon(h, [f"tcp:{WAYS['stop']}"]) for h in hosts]
    agent = Agent(lab)
    try:
        for beacon in listening + stopping:
            beacon.start()
        for beacon in listening + stopping:
            beacon.ready()
        every_refusal(lab)
        # A client whose SYN timer doubles, as before Linux 6.5. Not behind the tunnel: where its second SYN comes less than a
        # second after the first, delayed by the way, it meets the old entry, and the third one comes two seconds later.
        lab.cp1.sysctl("ipv4/tcp_syn_linear_timeouts", 0)
        agent.start()
        agent.apply(dual_stack(kube(), *(frontend(way, family) for way in ways for family in FAMILIES),
                               tunnels=[tunnel(lab.wg)]))
        lab.gw.nft(WATCH)
        wait_for(lambda: all(f["healthy"] == f["total"] for f in agent.status()["frontends"]), what="all backends are up")
        if not running:
            agent.kill()
        yield agent, dict(zip(CONTROL_PLANE, stopping))
    finally:
        for beacon in listening + stopping:
            if beacon.process:
                beacon.stop()
        for host in hosts:
            host.run("nft", "delete", "table", "inet", "dead", check=False)
        for name in CONTROL_PLANE:
            lab.cable(name, True)
        if not agent.running():
            agent.start()
        clean(agent)
        lab.gw.run("nft", "delete", "table", "inet", "watch", check=False)
        lab.restore()


def marks(lab):
    """Marks seen on connections, and how many packets with a mark were forwarded and left."""
    flows = lab.gw.run("conntrack", "-L", "-o", "extended").stdout + lab.gw.run("conntrack", "-L", "-f", "ipv6").stdout
    counters = json.loads(lab.gw.run("nft", "-j", "list", "counters").stdout)["nftables"]
    return {"connections": sorted({word for word in flows.split() if word.startswith("mark=")}),
            **{c["counter"]["name"]: c["counter"]["packets"] for c in counters
               if c.get("counter", {}).get("table") == "watch"}}


def deaths(lab, cases, seconds, *kill):
    """Streams from everywhere while the given functions are called, one after another; what the streams counted."""
    streams = {}
    for place in PLACES:
        targets = {f"{way}-{family}": (ADDRESS[family], 1000 + WAYS[way]) for p, way, family in cases if p == place}
        streams[place] = Streams(lab.namespaces[place], targets, seconds=seconds, timeout=TIMEOUT)
    for stream in streams.values():
        stream.started()
    begin = time.monotonic()
    for number, function in enumerate(kill):
        wait_for(lambda: time.monotonic() - begin >= 0.7 + number * 3.5, what="the next death")
        function()
    seen = None
    results = {}
    for place, stream in streams.items():
        wait_for(lambda: not stream.process.alive(), timeout=stream.longest, what="the streams end")
        seen = seen or marks(lab)
        results.update({(place, *name.rsplit("-", 1)): row for name, row in stream.finish().items()})
    return {**{(place, way, int(family)): row for (place, way, family), row in results.items()}, "marks": seen}


def on_a_machine_that_runs(function):
    """What function() counted; again where the machine stood still for so long that servers answered only after death.

    Also where one or two of the some nine thousand connections of a round failed: a SYN that a busy machine delivers less
    than a second after the one before meets the old flow again. What fails three times in a row is a fault.
    """
    for _ in range(3):
        counted = function()
        rows = [row for place, row in counted.items() if place != "marks"]
        failed = sum(sum(row["failed"].values()) for row in rows)
        if max(row["late"] for row in rows) < 0.3 and (failed == 0 or failed > 2):
            break
    return counted


@pytest.fixture(scope="module", params=["running", "stopped"])
def by_host(lab, request):
    return on_a_machine_that_runs(lambda: die_by_host(lab, request.param == "running"))


@pytest.fixture(scope="module", params=["running", "stopped"])
def by_cable(lab, request):
    return on_a_machine_that_runs(lambda: die_by_cable(lab, request.param == "running"))


def die_by_host(lab, running):
    """cp1 dies, then cp2: by their processes and by rules on their hosts; two of them at once for some."""
    ways = [way for way in WAYS if way != "cable"]
    with ground(lab, ways, running) as (_, stopping):
        def first():
            die(lab, "cp1", {**VERDICTS, "two-silent": "drop", "two-refuse": VERDICTS["reset"]})
            die(lab, "cp3", {"two-silent": "drop", "two-refuse": VERDICTS["reset"]})
            stopping["cp1"].stop()

        def second():
            die(lab, "cp2", VERDICTS)
            stopping["cp2"].stop()

        return deaths(lab, CASES, 7.5, first, second)


def die_by_cable(lab, running):
    """The cable of cp2 is pulled, then that of cp3."""
    with ground(lab, ["cable"], running):
        return deaths(lab, CABLE_CASES, 7.5, lambda: lab.cable("cp2", False), lambda: lab.cable("cp3", False))


def nothing_lost(row, survivor):
    assert row["failed"] == {}, row
    # What was established on a server when it died is no new connection. Each lasts a millisecond, but a server that ends on a
    # busy machine has left some unaccepted: at 20 a second, those of a quarter of one.
    assert sum(row["cut"].values()) <= 5, row
    assert row["ok"] >= 100 and row["slowest"] <= 4.5, row
    assert set(row["by"]) == set(CONTROL_PLANE) and row["by"][survivor] > 0.4 * row["ok"], row


@pytest.mark.parametrize("place,way,family", CASES)
def test_no_connection_is_lost(by_host, place, way, family):
    nothing_lost(by_host[place, way, family], "cp2" if way.startswith("two-") else "cp3")


def test_marks_stay_inside(by_host):
    assert by_host["marks"] == {"connections": ["mark=0"], "forwarded": 0, "left": 0}


@pytest.mark.parametrize("place,way,family", CABLE_CASES)
def test_no_connection_is_lost_to_a_pulled_cable(by_cable, place, way, family):
    nothing_lost(by_cable[place, way, family], "cp1")


def test_marks_stay_inside_when_a_host_is_unreachable(by_cable):
    assert by_cable["marks"] == {"connections": ["mark=0"], "forwarded": 0, "left": 0}


# When no other backend is up, nothing is masked.

def refused_at_once(host, address, port):
    begin = time.monotonic()
    refused = host.refuses(address, port, timeout=2)
    return refused and time.monotonic() - begin < 0.5  # before a retry of the client's


@pytest.fixture
def firewall(lab):
    """A function that lets one host treat SYNs to a port as told."""
    every_refusal(lab)
    yield lambda name, port, verdict: lab.namespaces[name].nft(
        f"table inet wall{port} {{ chain in {{ type filter hook input priority 0; tcp dport {port} {verdict}; }}; }}\n")
    for name in CONTROL_PLANE:
        host = lab.namespaces[name]
        for line in host.run("nft", "list", "tables").stdout.splitlines():
            if line.startswith("table inet wall"):
                host.run("nft", "delete", *line.split())


# A client's kernel does not take an ICMP error that arrives before its connect() has given up the socket: only from afar.
@pytest.mark.parametrize("place,verdict", [("cl", "reset"), ("gw", "reset"), ("mg", "reset"), ("mg", "port-unreachable")])
def test_the_only_backend_that_is_up_refuses_at_once(lab, agent, firewall, place, verdict):
    """Its check is on another port, so that it stays up; the others are dead, drained or not there."""
    rows = {"single": [backend("cp1", 7001)],
            "drained": [backend("cp1", 7001), backend("cp2", 7001, drain=True)],
            "dead": [backend("cp1", 7001), backend("cp3", 7001)]}
    firewall("cp3", 7000, "drop")
    agent.apply(dual_stack(kube(), *(tcp(name, 8080 + i, check={"port": 7000}, backends=row)
                                     for i, (name, row) in enumerate(rows.items())),
                           tcp("six", 8090, check={"port": 7000}, backends=[backend("cp1v6", 7001)]),
                           tunnels=[tunnel(lab.wg)]))
    agent.becomes(CP3, "Dead", frontend="dead")
    host = lab.namespaces[place]
    for number in range(len(rows)):
        assert host.ask(GATEWAY, 8080 + number)[0] == "cp1"
    firewall("cp1", 7001, VERDICTS[verdict])
    for number, name in enumerate(rows):
        assert refused_at_once(host, GATEWAY, 8080 + number), name
    assert refused_at_once(host, GATEWAY6, 8090)
    assert agent.backend(CP1, "dead")["state"] == "Up"


def test_masks_lift_with_the_verdicts(lab, agent, firewall):
    """Both refuse: masked while the other one counts as up, at once when nobody is."""
    agent.apply(spec(kube(), tcp("web", 8080, to=7001, check={"port": 7000},
                                 backends=backends(7001, ("cp1", "cp2")))))
    for name in ("cp1", "cp2"):
        firewall(name, 7001, VERDICTS["reset"])
    with pytest.raises(TimeoutError):
        lab.cl.connect(GATEWAY, 8080, timeout=1.5)
    firewall("cp2", 7000, "drop")
    agent.becomes(CP2, "Dead", "Timeout", frontend="web")
    assert refused_at_once(lab.cl, GATEWAY, 8080)
    firewall("cp1", 7000, VERDICTS["reset"])
    agent.becomes(CP1, "Dead", "Refused", frontend="web")
    assert refused_at_once(lab.cl, GATEWAY, 8080)


# `source` keeps a client where it is until the verdict.

@pytest.mark.parametrize("verdict", [VERDICTS["drop"], VERDICTS["reset"]], ids=["silent", "refusing"])
def test_source_moves_a_client_only_with_the_verdict(lab, agent, firewall, verdict):
    sources = [f"192.168.150.{i}" for i in range(120, 132)]
    lab.cl.ip(*(f"addr replace {a}/24 dev eth0" for a in sources))
    agent.apply(spec(kube(), tcp("web", 8080, to=7000, balance="source", check={"port": 7001})))
    first = {s: lab.cl.ask(GATEWAY, 8080, source=s)[0] for s in sources}
    dying = first[sources[0]]
    firewall(dying, 7000, verdict)
    # Dead for the clients, not for the check: three SYNs are all sent there, and none elsewhere
    with pytest.raises(OSError):
        lab.cl.ask(GATEWAY, 8080, timeout=2.6, source=sources[0])
    others = {s: name for s, name in first.items() if name != dying}
    assert {s: lab.cl.ask(GATEWAY, 8080, source=s)[0] for s in others} == others
    firewall(dying, 7001, "drop")
    agent.becomes(CONTROL_PLANE[dying], "Dead", frontend="web")
    now = {s: lab.cl.ask(GATEWAY, 8080, source=s)[0] for s in sources}
    assert dying not in now.values()
    assert {s: now[s] for s in others} == others


# No healthy backend: promise 7.

@pytest.mark.parametrize("how", ["failopen", "reject"])
def test_all_go_and_come_back_one_by_one(lab, agent, firewall, how):
    """Silent ones stay in with failopen, refusing and drained ones do not; each one that is back is alone at first."""
    agent.apply(spec(kube(), tcp("web", 8080, to=7001, check={"port": 7000}, whenNoneHealthy=how)))
    for name, verdict in (("cp1", "drop"), ("cp2", "drop"), ("cp3", VERDICTS["reset"])):
        firewall(name, 7000, verdict)
    for name, code in (("cp1", "Timeout"), ("cp2", "Timeout"), ("cp3", "Refused")):
        agent.becomes(CONTROL_PLANE[name], "Dead", code, frontend="web")
    state = {"failopen": "FailOpen", "reject": "NoBackends"}[how]
    wait_for(lambda: agent.frontend("web")["state"] == state, what=state)
    assert agent.frontend("web")["healthy"] == 0
    if how == "failopen":
        assert in_turn(names(lab.cl, GATEWAY, 8080, 8), 2)
        assert set(names(lab.cl, GATEWAY, 8080, 8)) == {"cp1", "cp2"}
    else:
        assert refused_at_once(lab.cl, GATEWAY, 8080)
    for number, name in enumerate(("cp3", "cp1", "cp2"), 1):
        lab.namespaces[name].run("nft", "delete", "table", "inet", "wall7000")
        agent.becomes(CONTROL_PLANE[name], "Up", frontend="web")
        row = agent.frontend("web")
        assert (row["state"], row["healthy"]) == ("Programmed" if number == 3 else "Degraded", number)
        assert in_turn(names(lab.cl, GATEWAY, 8080, 9), number)
    assert set(names(lab.cl, GATEWAY, 8080, 9)) == set(CONTROL_PLANE)


def test_failopen_ends_when_every_one_refuses(lab, agent, firewall):
    agent.apply(dual_stack(kube(), tcp("web", 8080, to=7001, check={"port": 7000}),
                           udp("dns", 53, healthCheck={"type": "tcp", "port": 7000, **QUICK})))
    for name in CONTROL_PLANE:
        firewall(name, 7000, "drop")
    for name in ("web", "dns"):
        wait_for(lambda name=name: agent.frontend(name)["state"] == "FailOpen", what=f"{name} is FailOpen")
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)
    assert lab.cl.ask_udp(GATEWAY, 53)[0] in CONTROL_PLANE
    for name in CONTROL_PLANE:
        lab.namespaces[name].run("nft", "delete", "table", "inet", "wall7000")
        firewall(name, 7000, VERDICTS["reset"])
    for name in ("web", "dns"):
        wait_for(lambda name=name: agent.frontend(name)["state"] == "NoBackends", what=f"{name} has NoBackends")
    assert refused_at_once(lab.cl, GATEWAY, 8080)
    with pytest.raises(ConnectionRefusedError):
        lab.cl.ask_udp(GATEWAY, 53)


@pytest.mark.parametrize("address", [GATEWAY, GATEWAY6])
def test_a_syn_that_no_rule_balances_is_not_refused(lab, start_agent, address):
    """Were the gateway's own kernel to answer for the service, the client would give up; so it tries again instead."""
    agent = start_agent(protect="off")
    agent.apply(dual_stack(kube(), {**kube(), "name": "v6", "port": 6444, "backends": [
        {**row, "address": f"fd00:150::{row['address'].rsplit('.', 1)[1]}"} for row in kube()["backends"]]}))
    port = 6443 if address == GATEWAY else 6444
    lab.cl.connect(address, port).close()
    agent.kill()
    lab.gw.run("nft", "flush", "chain", "inet", "vgw_agent", "balance4" if address == GATEWAY else "balance6")
    with pytest.raises(TimeoutError):
        lab.cl.connect(address, port, timeout=0.5)
    counted = lab.gw.run("nft", "list", "chain", "inet", "vgw_agent", "mask_local").stdout
    assert re.search(r"dport map @svc[46] != 0x0+ .*counter packets 1 ", counted), counted
    agent.start()
    lab.cl.connect(address, port).close()
