# SPDX-License-Identifier: Apache-2.0
"""What has broken elsewhere in the field, as far as no other file has it: rules that are lost in part, source ports that
collide, segments out of their window, a checker that is alive and does not check."""

import json
import re
import socket

import pytest

from lab import CONTROL_PLANE, EXTERNAL, GATEWAY, WORKER
from netns import stays, wait_for
from observe import TABLE, elements, has_table, objects, table_flags
from packets import ACK, PSH, inject
from specs import backend, dual_stack, kube, spec, tcp, tunnel
from test_lifecycle import NotifySocket
from traffic import Flows, in_turn, names

CP1 = CONTROL_PLANE["cp1"]
LIBERAL = "netfilter/nf_conntrack_tcp_be_liberal"


# The rules.

def content(lab):
    """All objects without their handles, and all elements of sets and maps that do not come and go by themselves."""
    bodies = sorted(json.dumps({k: v for k, v in body.items() if k != "handle"}) for body in objects(lab.gw)[0].values())
    return bodies, elements(lab.gw)


def one(lab, kind, condition=lambda body: True):
    return next(body for key, body in objects(lab.gw)[0].items() if key.startswith(f"{kind} ") and condition(body))


def a_map(lab):
    return max(elements(lab.gw).items(), key=lambda item: len(item[1]))


def nft_json(lab, *commands):
    lab.gw.run("nft", "-j", "-f", "-", stdin=json.dumps({"nftables": list(commands)}))


def an_element(lab, verb):
    name, rows = a_map(lab)
    element = json.loads(min(rows))
    if verb == "delete" and isinstance(element, list):
        element = element[0]
    nft_json(lab, {verb: {"element": {"family": "inet", "table": "vgw_agent", "name": name, "elem": [element]}}})


def delete_rules(lab):
    for chain in ("guard", "services", "masq"):
        handle = one(lab, "rule", lambda body, chain=chain: body["chain"] == chain)["handle"]
        nft_json(lab, {"delete": {"rule": {"family": "inet", "table": "vgw_agent", "chain": chain, "handle": handle}}})


def add_drop(lab):
    hooked = one(lab, "chain", lambda body: body.get("hook") in ("prerouting", "forward"))
    lab.gw.run("nft", "insert", "rule", *TABLE.split(), hooked["name"], "tcp", "dport", "8080", "drop")


def flush_chains(lab):
    nft_json(lab, *({"flush": {"chain": {"family": "inet", "table": "vgw_agent", "name": body["name"]}}}
                    for key, body in objects(lab.gw)[0].items() if key.startswith("chain ")))


WIPES = {
    "flush ruleset": lambda lab: lab.gw.run("nft", "flush", "ruleset"),
    "delete table": lambda lab: lab.gw.run("nft", "delete", "table", *TABLE.split()),
    "flush table": lambda lab: lab.gw.run("nft", "flush", "table", *TABLE.split()),
    "flush chains": flush_chains,
    "delete rules": delete_rules,
    "insert a rule": add_drop,
    "add a chain": lambda lab: lab.gw.run("nft", "add", "chain", *TABLE.split(), "intruder"),
    "delete an element": lambda lab: an_element(lab, "delete"),
    "flush a map": lambda lab: lab.gw.run("nft", "flush", "map", *TABLE.split(), a_map(lab)[0]),
    "dormant": lambda lab: lab.gw.nft(f"table {TABLE} {{ flags dormant; }}\n"),
    "replaced by a stranger's": lambda lab: lab.gw.nft(
        f"delete table {TABLE}\ntable {TABLE} {{ chain guard {{ type filter hook input priority 0; drop; }}; }}\n"),
}


@pytest.mark.parametrize("how", WIPES)
def test_what_is_lost_of_the_rules_comes_back(lab, start_agent, how):
    """All of them, part of one, or something more: the table is what it was, and it is said who did it."""
    agent = start_agent(protect="off")
    agent.apply(dual_stack(kube(), tcp("web", 8080), tcp("same", 8081, balance="source"), tunnels=[tunnel(lab.wg)]))
    whole, flags = content(lab), table_flags(lab.gw)
    WIPES[how](lab)
    wait_for(lambda: has_table(lab.gw) and content(lab) == whole and table_flags(lab.gw) == flags, timeout=3,
             what="the table is what it was")
    row = wait_for(lambda: [d for d in agent.status()["drift"] if TABLE in d["object"]], what="it is recorded")[-1]
    assert re.fullmatch(r"pid \d+ nft", row["by"]) and row["repairedAfterMs"] <= 1000, row
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)
    assert len(set(names(lab.cl, GATEWAY, 8081, 3))) == 1
    with pytest.raises(OSError):
        lab.ext.connect(GATEWAY, 8080, timeout=0.3)


def test_beside_another_nat_table_a_wipe_of_ours_resets_no_flow(lab, start_agent):
    """The kernel's own hooks stay, so that what is established is translated until the rules are back."""
    agent = start_agent(protect="off")
    agent.apply(spec(kube(), tcp("web", 8080, to=7001)))
    lab.gw.nft(f"table ip operator {{\n chain pre {{ type nat hook prerouting priority -100; ip daddr {EXTERNAL} tcp dport "
               f"2222 dnat to {CP1}:7000; }}\n chain post {{ type nat hook postrouting priority 100; }}\n"
               " chain f { type filter hook forward priority 0; ct state established accept; }\n}\n")
    try:
        with Flows(lab.cl, GATEWAY, 8080, 20) as flows:
            for _ in range(3):
                lab.gw.run("nft", "delete", "table", *TABLE.split(), check=False)
                wait_for(lambda: flows.send(flows.of(*CONTROL_PLANE)) or has_table(lab.gw), what="the table is back", step=0)
                assert flows.echo(flows.of(*CONTROL_PLANE)), flows.look()
            assert flows.look() == {}
        assert lab.ext.ask(EXTERNAL, 2222)[0] == "cp1"
    finally:
        lab.gw.run("nft", "delete", "table", "ip", "operator")


# Flows.

def entry(lab, port, client_port):
    """(what the client uses, what the backend sees): the source ports of one connection in conntrack."""
    text = lab.gw.run("conntrack", "-L", "-p", "tcp", "-d", GATEWAY, "--dport", port, "--sport", client_port).stdout
    found = re.search(r" sport=(\d+) dport=\d+ (?:\[UNREPLIED\] )?src=\S+ dst=\S+ sport=\d+ dport=(\d+)", text)
    return int(found[1]), int(found[2])


def test_masqueraded_source_ports_are_random(lab, agent):
    """Two clients that choose ports alike do not meet behind the gateway."""
    agent.apply(spec(kube(), tcp("web", 8080, to=7001)))
    with Flows(lab.cl, GATEWAY, 8080, 40) as flows:
        pairs = [entry(lab, 8080, sock.getsockname()[1]) for sock in flows.server]
    assert sum(client == seen for client, seen in pairs) <= 1, pairs
    seen = [port for _, port in pairs]
    assert len(set(seen)) == len(seen)
    steps = {b - a for a, b in zip(sorted(seen), sorted(seen)[1:])}
    assert max(seen) - min(seen) > 5000 and len(steps) > 20, seen


def numbers(sock):
    """The next sequence numbers that this end sends and expects (TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ)."""
    sock.setsockopt(socket.IPPROTO_TCP, 19, 1)
    both = []
    for queue in (2, 1):
        sock.setsockopt(socket.IPPROTO_TCP, 20, queue)
        both.append(sock.getsockopt(socket.IPPROTO_TCP, 21) & 0xffffffff)
    sock.setsockopt(socket.IPPROTO_TCP, 19, -1)
    return both


def out_of_window(lab, sock, count=20):
    """Segments of this flow, in both directions, that are far from where its ends are."""
    client, (mine, theirs) = sock.getsockname()[1], numbers(sock)
    _, seen = entry(lab, 8080, client)
    for n in range(1, count + 1):
        far = (n + 1) << 26
        inject(lab.cp1, CP1, GATEWAY, 7001, seen, PSH | ACK, (theirs + far) & 0xffffffff, mine).close()
        inject(lab.cl, WORKER, GATEWAY, client, 8080, PSH | ACK, (mine + far) & 0xffffffff, theirs).close()


def test_segments_out_of_their_window_reset_no_flow(lab, agent):
    """They are translated like any other, and the ends know what to do with them; to the gateway's own kernel they would
    be a stranger's. Without the setting, the flow is lost: the lab shows it."""
    agent.apply(spec(kube(), tcp("web", 8080, to=7001, backends=[backend("cp1", 7001)])))
    with Flows(lab.cl, GATEWAY, 8080, 2) as flows:
        first, second = flows.server
        out_of_window(lab, first)
        for _ in range(3):
            assert flows.echo([first, second])
        agent.stop()
        lab.gw.sysctl(LIBERAL, 0)
        out_of_window(lab, second)
        wait_for(lambda: flows.reset([second]), what="it is reset where conntrack is strict")
        assert flows.echo([first])
        agent.start()
        wait_for(lambda: lab.gw.sysctl(LIBERAL) == "1", what="the setting is put back")


# The checker.

def test_the_watchdog_starves_while_no_check_can_begin(lab, make_agent):
    """Alive, and blind: without local ports no check begins, and that is for systemd to see."""
    notify = NotifySocket(lab.directory)
    agent = make_agent().start(env={"NOTIFY_SOCKET": notify.path, "WATCHDOG_USEC": "600000"})
    agent.apply(spec(kube()))
    before = agent.backend(CP1)["since"]
    ports = lab.gw.sysctl("ipv4/ip_local_port_range")
    lab.gw.sysctl("ipv4/ip_local_port_range", "1025 1025")
    taken = [lab.gw.connect(address, 6443) for address in CONTROL_PLANE.values()]

    def hungry():
        notify.read()
        notify.lines.clear()
        stays(lambda: "WATCHDOG=1" not in notify.read(), 1)
        return True

    assert "WATCHDOG=1" in wait_for(notify.read, what="it is fed yet")
    wait_for(hungry, timeout=12, what="the watchdog is not fed")
    lab.gw.sysctl("ipv4/ip_local_port_range", ports)
    for sock in taken:
        sock.close()
    notify.lines.clear()
    wait_for(lambda: "WATCHDOG=1" in notify.read(), timeout=5, what="it is fed again")
    wait_for(lambda: agent.backend(CP1)["check"]["code"] == "OK", what="checks go on")
    assert agent.backend(CP1)["since"] == before, "nobody was taken for dead"
