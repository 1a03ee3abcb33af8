# SPDX-License-Identifier: Apache-2.0
"""What the host does to the agent: settings changed behind its back, stray packets, floods of events, want of descriptors,
backends that are slow."""

import itertools
import json
import signal
import socket
import ssl
import threading

import pytest

from agent import Agent
from lab import CONTROL_PLANE, GATEWAY, GATEWAY6, MANAGER, MANAGER6, WORKER, WORKER6, Lab, cluster_authority
from netns import stays, wait_for
from observe import TABLE, cpu_seconds, has_table, objects, open_files
from packets import ACK, FIN, PSH, RST, SYN, probe
from servers import Beacon
from specs import backend, backends, dual_stack, kube, spec, tcp, tunnel
from traffic import in_turn, names

CP1, CP2, CP3 = CONTROL_PLANE.values()
LIBERAL = "netfilter/nf_conntrack_tcp_be_liberal"
CALM = {"interval": "10s", "timeout": "2s"}  # checks that use no time worth counting
_ports = itertools.count(52000)


def drift(agent, word):
    return [d for d in agent.status()["drift"] if word in d["object"]]


# Settings.

@pytest.mark.parametrize("path,word", [("ipv4/ip_forward", "ip_forward"), ("ipv6/conf/all/forwarding", "forwarding"),
                                       (LIBERAL, "nf_conntrack_tcp_be_liberal")])
def test_a_setting_that_someone_changes_is_put_back_and_recorded(lab, agent, path, word):
    agent.apply(dual_stack(kube(), tcp("web", 8080), {**tcp("web6", 8080),
                                                      "backends": backends(7000, [f"{n}v6" for n in CONTROL_PLANE])}))
    assert lab.gw.sysctl(path) == "1"
    assert drift(agent, word) == []
    for number in (1, 2):
        lab.gw.sysctl(path, 0)
        wait_for(lambda: lab.gw.sysctl(path) == "1", what=f"{path} is put back")
        wait_for(lambda: len(drift(agent, word)) == number, what="it is recorded")
    row = drift(agent, word)[-1]
    assert row["time"].endswith("Z") and row["repairedAfterMs"] >= 0
    assert names(lab.cl, GATEWAY, 8080, 3) and names(lab.cl, GATEWAY6, 8080, 3)


def test_what_is_put_back_is_counted_in_the_metrics(lab, agent):
    agent.apply(spec(kube()))
    lab.gw.sysctl("ipv4/ip_forward", 0)
    wait_for(lambda: len(drift(agent, "ip_forward")) == 1, what="it is recorded")
    repairs = [line for line in agent.get("/metrics").text.splitlines()
               if line.startswith("vgw_drift_repairs_total{") and "ip_forward" in line]
    assert [float(line.rsplit(" ", 1)[1]) for line in repairs] == [1], repairs


@pytest.mark.parametrize("original", ["0", "1"])
@pytest.mark.parametrize("how", ["delete", "teardown", "teardown killed"])
def test_teardown_gives_the_original_back(lab, agent, how, original):
    lab.gw.sysctl(LIBERAL, original)
    lab.gw.sysctl("ipv4/ip_forward", 0)
    agent.apply(spec(kube()))
    assert lab.gw.sysctl(LIBERAL) == "1"
    agent.kill()
    agent.start()
    agent.settled()
    if how == "delete":
        assert agent.delete().status == 200
    else:
        if how.endswith("killed"):
            agent.kill()
        assert agent.verb("teardown").returncode == 0
    wait_for(lambda: lab.gw.sysctl(LIBERAL) == original, what="the value of before")
    assert lab.gw.sysctl("ipv4/ip_forward") == "1", "ip_forward stays on"
    lab.gw.sysctl(LIBERAL, 0)


# Stray packets.

@pytest.fixture
def strays(lab):
    """A function: how many segments without SYN have come to the beacons, each from nobody's flow."""
    for name in CONTROL_PLANE:
        lab.namespaces[name].nft("table inet strays { chain in { type filter hook prerouting priority -300;\n"
                                 "tcp dport 7000 tcp flags & syn == 0 counter; tcp dport 7000 tcp flags & (syn | ack) == "
                                 "syn | ack counter; }; }\n")

    def count():
        text = [lab.namespaces[n].run("nft", "-j", "list", "table", "inet", "strays").stdout for n in CONTROL_PLANE]
        return sum(part["counter"]["packets"] for whole in text for row in json.loads(whole)["nftables"]
                   if "rule" in row for part in row["rule"]["expr"] if "counter" in part)

    yield count
    for name in CONTROL_PLANE:
        lab.namespaces[name].run("nft", "delete", "table", "inet", "strays")


@pytest.mark.parametrize("flags", [ACK, PSH | ACK, FIN | ACK, SYN | ACK, FIN, 0],
                         ids=["ack", "psh-ack", "fin-ack", "syn-ack", "fin", "none"])
@pytest.mark.parametrize("place", ["cl", "mg"])
def test_a_segment_of_no_flow_is_reset(lab, agent, strays, place, flags):
    """By the rules, not by a backend: none sees it. A reset is not answered."""
    six = {**tcp("web6", 8080, check={"type": "none"}), "backends": backends(7000, [f"{n}v6" for n in CONTROL_PLANE])}
    agent.apply(dual_stack(kube(), tcp("web", 8080, check={"type": "none"}), six, tunnels=[tunnel(lab.wg)]), settled=False)
    sources = {"cl": (WORKER, WORKER6), "mg": (MANAGER, MANAGER6)}[place]
    host = lab.namespaces[place]
    for source, target in zip(sources, (GATEWAY, GATEWAY6)):
        answer = probe(host, source, target, 8080, flags, next(_ports))
        assert answer is not None and answer & RST, (target, answer)
        assert probe(host, source, target, 8080, RST, next(_ports), timeout=0.3) is None
    assert strays() == 0


# Floods.

def settles(agent):
    """True when the agent has used next to nothing for a while."""
    begin = cpu_seconds(agent.process)
    stays(agent.running, 0.5)
    return cpu_seconds(agent.process) - begin < 0.05


def flood_of_links(lab, rounds):
    """1,000 changes a round: links, addresses, routes."""
    lines = ["link add flood0 type bridge", "link set flood0 up"]
    for i in range(rounds):
        for n in range(200):
            lines += [f"link set flood0 mtu {1300 + (n + i) % 7}", f"addr add 10.66.{n}.1/24 dev flood0",
                      f"route add 10.67.{n}.0/24 dev flood0", f"route del 10.67.{n}.0/24 dev flood0",
                      f"addr del 10.66.{n}.1/24 dev flood0"]
    lab.gw.ip(*lines, "link del flood0")


def flood_of_rules(lab, rounds):
    """A foreign table with 500 rules, made and removed again and again."""
    rules = "".join(f"tcp dport {n} counter\n" for n in range(1, 501))
    for _ in range(rounds):
        lab.gw.nft(f"table inet flood {{ chain c {{ {rules} }}; }}\ndelete table inet flood\n"
                   f"table inet flood {{ chain c {{ {rules} }}; }}\n")
        lab.gw.run("nft", "delete", "table", "inet", "flood")


@pytest.fixture
def flooded():
    """A ground of its own without a tunnel, as wireguard-go does not survive a flood, and an agent with another link to
    look after."""
    with Lab(tunnel=False) as plain:
        plain.gw.ip("link add side0 type bridge", "link set side0 mtu 1420 up")
        agent = Agent(plain, protect="off").start()
        link = tunnel("side0", network="10.88.0.0/16", address="10.88.0.1")
        agent.apply(spec(kube(check=CALM), tcp("web", 8080, check=CALM), tunnels=[link]))
        assert plain.gw.mtu("side0") == 1400
        yield agent


def damage(lab):
    lab.gw.ip("link set side0 mtu 1420")
    lab.gw.run("nft", "delete", "table", *TABLE.split())


def damage_is_repaired(lab, agent, whole):
    wait_for(lambda: lab.gw.mtu("side0") == 1400, what="the MTU is put back")
    wait_for(lambda: has_table(lab.gw), what="the table is put back")
    assert {json.dumps(body.get("expr")) for body in objects(lab.gw)[0].values()} == whole
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)


@pytest.mark.parametrize("flood,rounds", [(flood_of_links, 1), (flood_of_rules, 20)], ids=["links", "rules"])
@pytest.mark.parametrize("frozen", [False, True], ids=["awake", "frozen"])
def test_a_flood_of_events_leaves_the_agent_neither_deaf_nor_busy(flooded, flood, rounds, frozen):
    """Frozen meanwhile, it finds its sockets overrun, and what was damaged meanwhile too."""
    agent, lab = flooded, flooded.lab
    whole = {json.dumps(body.get("expr")) for body in objects(lab.gw)[0].values()}
    before = cpu_seconds(agent.process)
    if frozen:
        agent.process.send(signal.SIGSTOP)
        flood(lab, 3 * rounds)
        damage(lab)
        agent.process.send(signal.SIGCONT)
        damage_is_repaired(lab, agent, whole)
    else:
        flood(lab, rounds)
    wait_for(lambda: settles(agent), timeout=15, what="the agent is idle again")
    assert cpu_seconds(agent.process) - before < 5
    damage(lab)
    damage_is_repaired(lab, agent, whole)
    assert agent.status()["generation"]["applied"]


# Descriptors.

def test_want_of_descriptors_kills_no_backend_and_burns_no_time(lab, agent):
    """A few more descriptors than it has open, and somebody takes those: checks cannot be made, and say nothing."""
    agent.apply(spec(kube(), tcp("web", 8080)))
    since = {b["address"]: b["since"] for f in agent.status()["frontends"] for b in f["backends"]}
    limit = open_files(agent.process) + 6
    lab.gw.run("prlimit", "--pid", agent.process.pid, f"--nofile={limit}:{limit}")
    held = []
    try:
        for _ in range(14):
            held.append(socket.socket(socket.AF_UNIX))
            held[-1].setblocking(False)
            held[-1].connect(agent.socket)
        wait_for(lambda: open_files(agent.process) >= limit - 1, what="its descriptors are used up")
        before = cpu_seconds(agent.process)
        stays(lambda: in_turn(names(lab.cl, GATEWAY, 8080, 6), 3), 2, "nobody is taken for dead")
        assert cpu_seconds(agent.process) - before < 1
        assert agent.running()
    finally:
        for sock in held:
            sock.close()
    wait_for(lambda: agent.get("/livez").status == 200, what="it answers again")
    assert {b["address"]: b["since"] for f in agent.status()["frontends"] for b in f["backends"]} == since
    lab.api["cp2"].stop()
    agent.becomes(CP2, "Dead", "Refused", timeout=5)


# Slow backends, and how a check behaves.

def test_slow_backends_do_not_delay_the_verdict_on_another(lab, agent):
    """150 checks hang or drip for 5 s each, again and again."""
    drips = Beacon(lab.cp3, ("drip:7600",)).start().ready()
    slow = {"type": "https", "path": "/readyz", "timeout": "5s"}
    try:
        lab.api["cp2"].halt()
        agent.apply(spec(
            kube(backends=[backend("cp1"), backend("cp3")]), tcp("web", 8080),
            *(tcp(f"hung{n}", 20000 + n, check=slow, backends=[backend("cp2")]) for n in range(75)),
            *(tcp(f"drip{n}", 21000 + n, check=slow, backends=[backend("cp3", 7600)]) for n in range(75))), settled=False)
        wait_for(lambda: agent.frontend("web")["healthy"] == 3, timeout=3, what="the verdicts on the others")
        lab.beacons["cp1"].stop()
        agent.becomes(CP1, "Dead", "Refused", frontend="web", timeout=2)
        assert set(names(lab.cl, GATEWAY, 8080, 10)) == {"cp2", "cp3"}
        lab.beacons["cp1"].start().ready()
        agent.becomes(CP1, "Up", "OK", frontend="web", timeout=2)
        for name, address in (("hung0", CP2), ("drip74", CP3)):
            row = agent.becomes(address, "Dead", "Timeout", frontend=name, timeout=15)
            assert row["check"]["stage"] == "tls"
    finally:
        drips.stop()


class Witness(threading.Thread):
    """A TLS server that takes down what each client did: who it was, its request, and how it left."""

    def __init__(self, host, address, port, days=30):
        super().__init__(daemon=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*cluster_authority().issue(f"witness-{days}", [address, GATEWAY], days))
        self.context.maximum_version = ssl.TLSVersion.TLSv1_2  # tickets of TLS 1.3 are not used
        self.resumed = []
        with host.entered():
            self.sock = socket.create_server((address, port))
        self.seen = []
        self.start()

    def run(self):
        while True:
            try:
                raw, peer = self.sock.accept()
            except OSError:
                return
            raw.settimeout(3)
            try:
                with self.context.wrap_socket(raw, server_side=True, suppress_ragged_eofs=False) as client:
                    self.resumed.append(client.session_reused)
                    request = client.recv(4096).decode()
                    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    left = "close_notify" if client.recv(1) == b"" else "data"
            except OSError as error:
                request, left = "", f"{type(error).__name__} {error}"
            self.seen.append((peer[0], request, left))

    def stop(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.join(5)


def test_a_check_is_a_client_like_any_other(lab, agent):
    """A whole handshake, a real GET, close_notify; from the address that forwarded traffic uses, to the backend itself."""
    witness = Witness(lab.cp1, CP1, 7443)
    try:
        agent.apply(spec(kube(), tcp("api", 7443, check={"type": "https", "path": "/readyz"},
                                     backends=[backend("cp1", 7443)])))
        wait_for(lambda: len(witness.seen) >= 5, what="five checks")
        assert {(peer, left) for peer, _, left in witness.seen} == {(GATEWAY, "close_notify")}
        for _, request, _ in witness.seen:
            assert request.startswith("GET /readyz HTTP/1.1\r\n") and "\r\nHost: " in request
    finally:
        witness.stop()


def test_checks_resume_and_still_see_what_changes(lab, agent):
    """All handshakes but the first are short; a server that starts anew with another certificate gets a whole one."""
    with open(cluster_authority().crt, encoding="ascii") as file:
        check = {"type": "https", "path": "/readyz", "ca": file.read()}
    witness = Witness(lab.cp1, CP1, 7443)
    try:
        agent.apply(spec(kube(), tcp("api", 7443, check=check, backends=[backend("cp1", 7443)])))
        before = agent.backend(CP1, "api")
        assert (before["state"], before["certificate"]["verified"]) == ("Up", True)
        wait_for(lambda: len(witness.seen) >= 5, what="five checks")
        assert witness.resumed[:5] == [False, True, True, True, True]
        assert agent.backend(CP1, "api")["certificate"] == before["certificate"]
        witness.stop()
        witness = Witness(lab.cp1, CP1, 7443, days=60)
        wait_for(lambda: agent.backend(CP1, "api")["certificate"]["notAfter"] > before["certificate"]["notAfter"],
                 timeout=3, what="the other certificate is seen")
        wait_for(lambda: any(witness.resumed), timeout=3, what="it is resumed in turn")
        assert witness.resumed[0] is False and agent.backend(CP1, "api")["certificate"]["verified"] is True
    finally:
        witness.stop()
