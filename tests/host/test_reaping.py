# SPDX-License-Identifier: Apache-2.0
"""Flows of a dead backend are reset at both ends that listen, and no other flow is touched: promise 6."""

import re
import socket
import threading
from collections import Counter

import pytest

from lab import CONTROL_PLANE, CONTROL_PLANE6, GATEWAY, GATEWAY6
from netns import stays, wait_for
from observe import entries
from specs import ADDRESS, QUICK, backend, backends, dual_stack, kube, spec, tcp, tunnel, udp
from traffic import Flows, names

CP1, CP2, CP3 = CONTROL_PLANE.values()
BACKENDS = {4: CONTROL_PLANE, 6: CONTROL_PLANE6}
DEAF = "table inet deaf { chain in { type filter hook input priority 0; tcp dport 7000 %s; }; }\n"


@pytest.fixture
def quiet(lab):
    """No entry of an earlier test is counted."""
    lab.gw.run("conntrack", "-F")


@pytest.fixture
def deaf(lab):
    """A function that lets the beacon of one host answer checks on 7000 no more; its echo on 7001 goes on."""
    yield lambda name, verdict="drop": lab.namespaces[name].nft(DEAF % verdict)
    for name in CONTROL_PLANE:
        lab.namespaces[name].run("nft", "delete", "table", "inet", "deaf", check=False)


def echo(name, port, family=4, check=None, **extra):
    """A frontend of echo beacons."""
    rows = backends(7001, tuple(CONTROL_PLANE) if family == 4 else tuple(f"{n}v6" for n in CONTROL_PLANE))
    return {**tcp(name, port, to=7001, check=check), "backends": rows, **extra}


def whole(lab):
    return dual_stack(kube(), echo("echo4", 8080), echo("echo6", 8080, 6), tunnels=[tunnel(lab.wg)])


def counted(agent, frontend, key):
    return {b["address"]: b[key] for b in agent.frontend(frontend)["backends"]}


def is_cut(flows, active, idle, timeout=8):
    """The active ones send all the time, the idle ones only read; all of them are reset."""
    def cut():
        flows.send(active)
        return flows.reset([*active, *idle])
    wait_for(cut, timeout, what=f"{len(active)} active and {len(idle)} idle flows are reset", step=0.05)


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("place", ["cl", "cp1", "gw", "mg"])
def test_active_and_idle_clients_of_a_dead_backend_are_reset(lab, quiet, agent, place, family):
    agent.apply(whole(lab))
    address, dead = BACKENDS[family]["cp2"], f"echo{family}"
    with Flows(lab.namespaces[place], ADDRESS[family], 8080, 12) as flows:
        mine = flows.of("cp2")
        assert len(mine) == 4
        lab.cable("cp2", False)
        agent.becomes(address, "Dead", frontend=dead)
        is_cut(flows, mine[::2], mine[1::2])
        assert flows.echo(flows.of("cp1", "cp3")), "those of the others go on"
        assert set(flows.lost) == set(mine)
    wait_for(lambda: counted(agent, dead, "flowsReaped") ==
             {**dict.fromkeys(BACKENDS[family].values(), 0), address: 4}, what="the reaped flows are counted")
    assert entries(lab.gw, ADDRESS[family], 8080).count(address) == 0


def test_three_hundred_flows_at_once(lab, quiet, agent):
    agent.apply(whole(lab))
    with Flows(lab.cl, GATEWAY, 8080, 300) as flows:
        assert Counter(flows.server.values()) == dict.fromkeys(CONTROL_PLANE, 100)
        wait_for(lambda: counted(agent, "echo4", "flows") == dict.fromkeys(CONTROL_PLANE.values(), 100), what="flows")
        assert set(counted(agent, "echo4", "flowsReaped").values()) == {0}
        mine = flows.of("cp2")
        lab.cable("cp2", False)
        agent.becomes(CP2, "Dead", frontend="echo4")
        is_cut(flows, mine[:50], mine[50:])
        assert flows.echo(flows.of("cp1", "cp3"))
        assert set(flows.lost) == set(mine)
        wait_for(lambda: counted(agent, "echo4", "flows") == {CP1: 100, CP2: 0, CP3: 100}, what="flows")
        assert counted(agent, "echo4", "flowsReaped") == {CP1: 0, CP2: 100, CP3: 0}
        # It comes back: it takes new flows, and what was counted stays.
        lab.cable("cp2", True)
        agent.becomes(CP2, "Up", frontend="echo4")
        assert "cp2" in names(lab.cl, GATEWAY, 8080, 6)
        assert counted(agent, "echo4", "flowsReaped") == {CP1: 0, CP2: 100, CP3: 0}
        assert flows.echo(flows.of("cp1", "cp3"))


def test_giving_up_while_clients_are_drawn_out_leaves_no_flow_behind(lab, quiet, agent):
    """Without the rule that keeps it from being tracked, a forged ACK would be a flow of its own, from the frontend to the
    client: the kernel would take the client's next SYN from that port for a reply, and refuse it."""
    agent.apply(spec(kube(), echo("echo4", 8080)))
    with Flows(lab.cl, GATEWAY, 8080, 840) as flows:
        served = Counter(flows.server.values())
        wait_for(lambda: counted(agent, "echo4", "flows") == {a: served[n] for n, a in CONTROL_PLANE.items()}, what="flows")
        lab.cable("cp2", False)
        lab.cable("cp3", False)
        status = agent.status()
        while sum(b["state"] == "Dead" for row in status["frontends"] if row["name"] == "echo4" for b in row["backends"]) < 2:
            status = agent.get(f"/v1/status?since={status['revision']}&wait=10s", timeout=15).json
        assert agent.delete().status == 200
        found = [line for line in lab.gw.run("conntrack", "-L", "-p", "tcp", "--orig-src", GATEWAY).stdout.splitlines()
                 if re.search(r"src=\S+ dst=\S+ sport=8080 ", line)]
        assert not found, (len(found), found[0])


def test_closed_flows_are_no_flows(lab, quiet, agent):
    """What the kernel only remembers is neither counted nor said to be reaped."""
    agent.apply(spec(kube(), echo("echo4", 8080)))
    with Flows(lab.cl, GATEWAY, 8080, 9):
        wait_for(lambda: set(counted(agent, "echo4", "flows").values()) == {3}, what="flows")
    wait_for(lambda: set(counted(agent, "echo4", "flows").values()) == {0}, what="none")
    assert entries(lab.gw, GATEWAY, 8080), "the kernel remembers them"
    lab.cable("cp2", False)
    agent.becomes(CP2, "Dead", frontend="echo4")
    assert set(counted(agent, "echo4", "flowsReaped").values()) == {0}


def test_reaped_flows_are_counted_in_the_metrics(lab, quiet, agent):
    agent.apply(spec(kube(), echo("echo4", 8080)))
    with Flows(lab.cl, GATEWAY, 8080, 9) as flows:
        lab.cable("cp2", False)
        is_cut(flows, [], flows.of("cp2"))
        reaped = re.findall(r"(?m)^vgw_flows_reaped_total\{([^}]*)\} (\d+)", agent.get("/metrics").text)
        assert [n for labels, n in reaped if '"echo4"' in labels and CP2 in labels] == ["3"], reaped


@pytest.mark.parametrize("verdict,code", [("drop", "Timeout"), ("reject with tcp reset", "Refused")])
def test_flows_are_told_apart_by_frontend(lab, quiet, agent, deaf, verdict, code):
    """One backend, two frontends with a check of their own each: dead in one, up in the other."""
    agent.apply(spec(kube(), echo("dying", 8080, check={"port": 7000}), echo("living", 8081)))
    with Flows(lab.cl, GATEWAY, 8080, 9) as dying, Flows(lab.cl, GATEWAY, 8081, 9) as living:
        deaf("cp2", verdict)
        agent.becomes(CP2, "Dead", code, frontend="dying")
        is_cut(dying, dying.of("cp2")[:1], dying.of("cp2")[1:])
        assert dying.echo(dying.of("cp1", "cp3"))
        assert living.echo(living.of(*CONTROL_PLANE))
        assert agent.backend(CP2, "living")["state"] == "Up"
        stays(lambda: living.look() == {}, 1, "the other frontend's flows")
        assert counted(agent, "living", "flowsReaped") == {CP1: 0, CP2: 0, CP3: 0}


def test_direct_flows_to_a_dead_backend_are_not_touched(lab, agent, deaf):
    agent.apply(spec(kube(), echo("echo4", 8080, check={"port": 7000}), tunnels=[tunnel(lab.wg)]))
    with Flows(lab.mg, GATEWAY, 8080, 6) as through, Flows(lab.mg, CP2, 7001, 4) as direct:
        deaf("cp2")
        agent.becomes(CP2, "Dead", frontend="echo4")
        is_cut(through, [], through.of("cp2"))
        assert direct.echo(direct.of("cp2"))
        lab.cable("cp2", False)
        agent.becomes(CP2, "Dead", frontend="kube-apiserver")
        stays(lambda: direct.look() == {}, 1, "a direct flow to a silent host waits")
        lab.cable("cp2", True)
        assert direct.echo(direct.of("cp2"), timeout=8), "and goes on"


@pytest.mark.parametrize("how", ["HTTPStatus", "drain", "weight", "removed"])
def test_draining_cuts_nothing(lab, quiet, agent, how):
    row = echo("echo4", 8080, check={"type": "https", "path": "/readyz", "port": 6443})
    agent.apply(spec(kube(), row))
    with Flows(lab.cl, GATEWAY, 8080, 30) as flows:
        if how == "HTTPStatus":
            lab.api["cp1"].answer(500)
            agent.becomes(CP1, "Draining", how, frontend="echo4")
        else:
            changed = {"drain": [backend("cp1", 7001, drain=True)], "weight": [backend("cp1", 7001, weight=0)]}
            agent.apply(spec(kube(), {**row, "backends": [*changed.get(how, ()), *backends(7001, ("cp2", "cp3"))]}))
        wait_for(lambda: set(names(lab.cl, GATEWAY, 8080, 6)) == {"cp2", "cp3"}, what="no new flow goes there")
        assert flows.echo(flows.of(*CONTROL_PLANE))
        stays(lambda: flows.look() == {}, 1)
        assert flows.echo(flows.of(*CONTROL_PLANE))
        assert set(counted(agent, "echo4", "flowsReaped").values()) == {0}
        if how != "removed":
            wait_for(lambda: counted(agent, "echo4", "flows")[CP1] == 10, timeout=5, what="they are counted")


@pytest.mark.parametrize("family", [4, 6])
def test_udp_entries_of_a_dead_backend_go(lab, quiet, agent, deaf, family):
    rows = backends(5353, tuple(CONTROL_PLANE) if family == 4 else tuple(f"{n}v6" for n in CONTROL_PLANE))
    address, dead = ADDRESS[family], BACKENDS[family]["cp2"]
    agent.apply(dual_stack(kube(), udp("dns", 53, backends=rows, healthCheck={"type": "tcp", "port": 7000, **QUICK})))
    agent.becomes(dead, "Up", frontend="dns")
    clients = {}
    try:
        for _ in range(12):
            sock = lab.cl.socket(address, socket.SOCK_DGRAM)
            sock.settimeout(3)
            sock.connect((address, 53))
            sock.send(b"who\n")
            clients[sock] = sock.recv(512).split()[0].decode()
        assert Counter(clients.values()) == dict.fromkeys(CONTROL_PLANE, 4)
        assert entries(lab.gw, address, 53, "udp").count(dead) == 4
        deaf("cp2")
        agent.becomes(dead, "Dead", frontend="dns")
        wait_for(lambda: Counter(entries(lab.gw, address, 53, "udp")) ==
                 {a: 4 for a in BACKENDS[family].values() if a != dead}, what="its entries are gone, the others are there")
        for sock, name in clients.items():
            sock.send(b"who\n")
            now = sock.recv(512).split()[0].decode()
            assert now == name if name != "cp2" else now in ("cp1", "cp3")
        assert agent.backend(dead, "dns")["flowsReaped"] == 4
    finally:
        for sock in clients:
            sock.close()


def test_no_entry_comes_back_while_a_client_goes_on_sending(lab, quiet, agent, deaf):
    """The rules change first and the entries go then, so that what is sent meanwhile makes none to the dead backend."""
    agent.apply(spec(kube(), udp("dns", 53, healthCheck={"type": "tcp", "port": 7000, **QUICK})))
    agent.becomes(CP2, "Up", frontend="dns")
    clients = [lab.cl.socket(GATEWAY, socket.SOCK_DGRAM) for _ in range(60)]
    over = threading.Event()

    def send():
        while not over.is_set():
            for sock in clients:
                sock.send(b"who\n")

    sender = threading.Thread(target=send, daemon=True)
    try:
        for sock in clients:
            sock.connect((GATEWAY, 53))
        sender.start()
        wait_for(lambda: entries(lab.gw, GATEWAY, 53, "udp").count(CP2) == 20, what="a third of them is with cp2")
        deaf("cp2")
        agent.becomes(CP2, "Dead", frontend="dns")
        wait_for(lambda: CP2 not in entries(lab.gw, GATEWAY, 53, "udp"), timeout=2, what="nobody is left with it")
        stays(lambda: CP2 not in entries(lab.gw, GATEWAY, 53, "udp"), 1, "and nobody comes back")
    finally:
        over.set()
        sender.join(5)
        for sock in clients:
            sock.close()


def test_a_backend_that_dies_while_the_agent_is_away_is_reaped_after_its_start(lab, quiet, agent):
    agent.apply(whole(lab))
    with Flows(lab.cl, GATEWAY, 8080, 9) as flows:
        agent.kill()
        lab.cable("cp2", False)
        flows.send(flows.of("cp2")[:1])
        stays(lambda: flows.look() == {}, 0.5, "nobody resets anything")
        agent.start()
        agent.becomes(CP2, "Dead", frontend="echo4")
        is_cut(flows, flows.of("cp2")[:1], flows.of("cp2")[1:])
        assert flows.echo(flows.of("cp1", "cp3"))


def test_two_backends_die_at_once(lab, quiet, agent):
    agent.apply(whole(lab))
    with Flows(lab.cl, GATEWAY, 8080, 30) as four, Flows(lab.mg, GATEWAY6, 8080, 30) as six:
        for name in ("cp2", "cp3"):
            lab.cable(name, False)
        for flows in (four, six):
            mine = flows.of("cp2", "cp3")
            is_cut(flows, mine[::2], mine[1::2])
            assert flows.echo(flows.of("cp1"))
        wait_for(lambda: counted(agent, "echo4", "flowsReaped") == {CP1: 0, CP2: 10, CP3: 10}, what="counted")
