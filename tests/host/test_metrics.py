# SPDX-License-Identifier: Apache-2.0
"""GET /metrics: the format, every metric of the contract, and values that follow what happens."""

import os
import time

import pytest

from agent import CONTROL_PORT
from lab import CONTROL_PLANE, GATEWAY
from metrics import Metrics
from netns import wait_for
from observe import TABLE, cpu_seconds, dropped, has_table, open_files
from specs import backend, kube, spec, tcp, tunnel

CP1, CP2, CP3 = CONTROL_PLANE.values()
TYPE = "text/plain; version=0.0.4; charset=utf-8"
CONTRACT = {
    "vgw_agent_build_info": "gauge", "vgw_agent_spec_generation": "gauge", "vgw_frontend_backends": "gauge",
    "vgw_backend_up": "gauge", "vgw_backend_check_seconds": "histogram", "vgw_flows_reaped_total": "counter",
    "vgw_tunnel_state": "gauge", "vgw_tunnel_mtu_bytes": "gauge", "vgw_tunnel_rtt_seconds": "gauge",
    "vgw_drift_repairs_total": "counter", "vgw_ruleset_tampered_total": "counter",
    "vgw_guard_dropped_packets_total": "counter", "vgw_conntrack_entries": "gauge", "vgw_conntrack_limit": "gauge",
    "vgw_conntrack_insert_failed_total": "counter", "vgw_certificate_not_after_seconds": "gauge",
    "vgw_control_requests_total": "counter", "vgw_control_connections": "gauge",
    "process_cpu_seconds_total": "counter", "process_open_fds": "gauge", "process_max_fds": "gauge",
    "process_virtual_memory_bytes": "gauge", "process_resident_memory_bytes": "gauge",
    "process_start_time_seconds": "gauge",
}


def scrape(agent, timeout=10):
    answer = agent.get("/metrics", timeout=timeout)
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"] == TYPE
    return Metrics(answer.text)


def states(metrics, frontend="kube-apiserver"):
    return {state: metrics.value("vgw_frontend_backends", frontend=frontend, state=state)
            for state in ("Unknown", "Up", "Draining", "Dead")}


def grown(before, now):
    """No counter of before has fallen or is gone."""
    then, since = before.counters(), now.counters()
    assert {key: value for key, value in then.items() if not since.get(key, -1) >= value} == {}


def test_every_metric_of_the_contract(lab, agent):
    wanted = spec(kube(), tcp("web", 8080), tcp("other", 8081, loadBalancerClass="metallb.io/x"), tunnels=[tunnel(lab.wg)])
    agent.apply(wanted)
    m = scrape(agent)
    assert {name: m.types.get(name) for name in CONTRACT} == CONTRACT
    assert set(m.types) == set(CONTRACT), "and nothing else"
    without = {name for name, rows in m.families.items() if not rows}
    assert without <= {"vgw_tunnel_rtt_seconds"}, "all but what is measured later has a value"

    status = agent.status()
    assert m.value("vgw_agent_build_info", version=status["agent"]["version"]) == 1
    for state in ("accepted", "applied"):
        assert m.value("vgw_agent_spec_generation", state=state) == wanted["generation"]
    for name in ("kube-apiserver", "web"):
        assert states(m, name) == {"Unknown": 0, "Up": 3, "Draining": 0, "Dead": 0}
    assert set(m.by("vgw_frontend_backends", "frontend")) == {"kube-apiserver", "web"}, "an ignored one is not counted"
    for address in CONTROL_PLANE.values():
        labels = {"frontend": "kube-apiserver", "backend": f"{address}:6443"}
        assert m.value("vgw_backend_up", **labels) == 1
        assert m.value("vgw_flows_reaped_total", **labels) == 0

    assert set(m.by("vgw_tunnel_state", "state")) == {"Absent", "Unknown", "Up", "Down", "OneWayTx", "OneWayRx",
                                                      "BlackHole", "NoRoute"}
    wait_for(lambda: tunnel_as_in_the_status(agent), what="the tunnel's values are those of the status")

    assert m.value("vgw_ruleset_tampered_total") == 0
    assert set(m.by("vgw_drift_repairs_total", "object").values()) == {0}
    assert m.value("vgw_conntrack_limit") == int(lab.gw.sysctl("netfilter/nf_conntrack_max"))
    assert 0 < m.value("vgw_conntrack_entries") < m.value("vgw_conntrack_limit")
    end = m.value("vgw_certificate_not_after_seconds", certificate="server")
    assert time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end)) == status["certificate"]["notAfter"]


def tunnel_as_in_the_status(agent):
    """Compared on one moment: the other end is being measured meanwhile."""
    row, m = agent.tunnel(), scrape(agent)
    now = {state for state, on in m.by("vgw_tunnel_state", "state").items() if on}
    mtu = m.by("vgw_tunnel_mtu_bytes", "kind")
    return now == {row["state"]} and mtu["wanted"] == row["mtu"]["wanted"] == 1400 and \
        mtu["actual"] == row["mtu"]["actual"] == 1400 and mtu["maxPod"] == row["maxPodMTU"]


def test_without_a_spec_there_are_metrics_too(lab, start_agent):
    m = scrape(start_agent(control=False))
    assert m.types.keys() == CONTRACT.keys()
    assert m.value("vgw_agent_spec_generation", state="accepted") == 0
    assert m.value("vgw_agent_spec_generation", state="applied") == 0
    assert m.families["vgw_backend_up"] == []
    assert m.families["vgw_certificate_not_after_seconds"] == []


def test_the_process_and_its_clients(lab, agent):
    agent.apply(spec(kube()))
    with open(f"/proc/{agent.process.pid}/comm", encoding="ascii") as file:
        assert file.read().strip() == "vgw-agent"
    before = scrape(agent)
    assert abs(before.value("process_start_time_seconds") - time.time()) < 60
    assert abs(before.value("process_open_fds") - open_files(agent.process)) <= 12, "checks come and go"
    with open(f"/proc/{agent.process.pid}/limits", encoding="ascii") as file:
        soft = next(line for line in file if line.startswith("Max open files")).split()[3]
    assert before.value("process_max_fds") == int(soft)
    with open(f"/proc/{agent.process.pid}/statm", encoding="ascii") as file:
        size, resident = (int(n) * os.sysconf("SC_PAGE_SIZE") for n in file.read().split()[:2])
    assert before.value("process_virtual_memory_bytes") == pytest.approx(size, rel=0.2)
    assert before.value("process_resident_memory_bytes") == pytest.approx(resident, rel=0.2)
    assert before.value("process_cpu_seconds_total") <= cpu_seconds(agent.process) + 0.02
    held = agent.remote()
    held.connect()
    try:
        wait_for(lambda: scrape(agent).value("vgw_control_connections") == 2, what="the held one and our own")
    finally:
        held.close()
    wait_for(lambda: scrape(agent).value("vgw_control_connections") == 1, what="our own alone")
    for _ in range(5):
        assert agent.get("/nothing/here").status == 404
    now = scrape(agent)
    assert now.value("vgw_control_requests_total", code="404") == 5 + (
        before.get("vgw_control_requests_total", code="404") or 0)
    assert now.value("vgw_control_requests_total", code="200") > before.value("vgw_control_requests_total", code="200")


def test_a_reader_scrapes_and_others_do_not(lab, agent):
    agent.apply(spec(kube()))
    for who in ("reader", "writer"):
        answer = agent.remote_ask("GET", "/metrics", who=who)
        assert answer.status == 200 and answer.headers["Content-Type"] == TYPE
        assert Metrics(answer.text).value("vgw_backend_up", frontend="kube-apiserver", backend=f"{CP1}:6443") == 1
    assert agent.remote_ask("GET", "/metrics", who="unlisted").status == 403
    assert agent.remote_ask("POST", "/metrics", "", who="writer").status == 405
    head = agent.remote_ask("HEAD", "/metrics")
    assert head.status == 200 and head.body == b""


def test_the_histogram_of_checks(lab, agent):
    agent.apply(spec(kube(check={"timeout": "300ms"})))
    first = scrape(agent)
    wait_for(lambda: scrape(agent).value("vgw_backend_check_seconds_count")
             > first.value("vgw_backend_check_seconds_count"), what="checks are counted")
    lab.api["cp2"].halt()
    agent.becomes(CP2, "Dead", "Timeout")
    m = scrape(agent)
    grown(first, m)
    rows = m.buckets("vgw_backend_check_seconds")
    assert rows[0][0] == 0.001 and rows[-2][0] == 10 and rows[-1][0] == float("inf")
    assert [n for _, n in rows] == sorted(n for _, n in rows), "buckets are cumulative"
    assert rows[-1][1] == m.value("vgw_backend_check_seconds_count")
    slow = rows[-1][1] - dict(rows)[0.25]
    assert slow >= 2, "what timed out after 0.3 s is counted with that"
    assert m.value("vgw_backend_check_seconds_sum") > 0.3 * slow * 0.9


def test_a_dying_backend(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080)))
    before = scrape(agent)
    connections = [lab.cl.connect(GATEWAY, 8080) for _ in range(9)]
    try:
        lab.beacons["cp2"].stop()
        agent.becomes(CP2, "Dead", frontend="web")
        dead = scrape(agent)
        assert states(dead, "web") == {"Unknown": 0, "Up": 2, "Draining": 0, "Dead": 1}
        assert states(dead) == {"Unknown": 0, "Up": 3, "Draining": 0, "Dead": 0}
        up = {backend: dead.value("vgw_backend_up", frontend="web", backend=f"{backend}:7000")
              for backend in CONTROL_PLANE.values()}
        assert up == {CP1: 1, CP2: 0, CP3: 1}
        reported = agent.backend(CP2, "web")["flowsReaped"]
        wait_for(lambda: scrape(agent).value("vgw_flows_reaped_total", frontend="web", backend=f"{CP2}:7000")
                 == agent.backend(CP2, "web")["flowsReaped"] >= reported, what="as many as in the status")
        now = scrape(agent)
        grown(before, now)
        assert now.value("vgw_flows_reaped_total", frontend="web", backend=f"{CP1}:7000") == 0
    finally:
        for connection in connections:
            connection.close()


def test_counters_outlive_changes_of_the_spec(lab, agent):
    """Reaped flows and checks stay counted when a check changes, one port checks two, or the spec goes and comes."""
    shared = [backend("cp2", 7000), backend("cp2", 7001), backend("cp1", 7000)]
    web = {"check": {"port": 7000}, "backends": shared}
    agent.apply(spec(tcp("web", 8080, **web)))
    connections = [lab.cl.connect(GATEWAY, 8080) for _ in range(6)]
    try:
        lab.cable("cp2", False)
        agent.becomes(CP2, "Dead", frontend="web")
        wait_for(lambda: scrape(agent).value("vgw_flows_reaped_total", frontend="web", backend=f"{CP2}:7000") >= 1,
                 what="flows are reaped")
        before = scrape(agent)
        agent.apply(spec(tcp("web", 8080, **web), tcp("more", 8081)), settled=False)
        grown(before, scrape(agent))
        agent.apply(spec(tcp("web", 8080, check={"port": 7001}, backends=list(reversed(shared)))), settled=False)
        now = scrape(agent)
        grown(before, now)
        for port in (7000, 7001):
            labels = {"frontend": "web", "backend": f"{CP2}:{port}"}
            assert now.value("vgw_flows_reaped_total", **labels) == before.value("vgw_flows_reaped_total", **labels)
    finally:
        for connection in connections:
            connection.close()


def test_a_wiped_table(lab, start_agent):
    agent = start_agent(protect="off")
    agent.apply(spec(kube(), tcp("web", 8080)))
    before = scrape(agent)
    assert before.value("vgw_drift_repairs_total", object=f"table {TABLE}") == 0
    last = before
    for n in range(1, 4):
        lab.gw.run("nft", "flush", "ruleset")
        wait_for(lambda: scrape(agent).value("vgw_drift_repairs_total", object=f"table {TABLE}") == n,  # pylint: disable=W0640
                 what="the repair is counted")
        assert has_table(lab.gw)
        now = scrape(agent)
        assert now.value("vgw_ruleset_tampered_total") == n
        grown(last, now)
        last = now
    agent.delete()
    grown(last, scrape_without_frontends(agent, last))
    agent.apply(spec(kube(), tcp("web", 8080)))
    assert scrape(agent).value("vgw_drift_repairs_total", object=f"table {TABLE}") == 3
    assert scrape(agent).value("vgw_ruleset_tampered_total") == 3, "what we do ourselves is not counted"


def scrape_without_frontends(agent, like):
    """A scrape after a DELETE, with the frontends' counters of before: those are gone, and that is right."""
    now = scrape(agent)
    assert now.families["vgw_flows_reaped_total"] == []
    for key in like.families["vgw_flows_reaped_total"]:
        now.samples[key] = like.samples[key]
        now.families["vgw_flows_reaped_total"].append(key)
    return now


def test_an_mtu_that_is_put_back(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    lab.gw.ip(f"link set {lab.wg} mtu 1300")
    wait_for(lambda: lab.gw.mtu(lab.wg) == 1400, what="the MTU is put back")
    wait_for(lambda: scrape(agent).value("vgw_drift_repairs_total", object=f"link {lab.wg}") == 1,
             what="the repair is counted")
    m = scrape(agent)
    assert m.value("vgw_tunnel_mtu_bytes", tunnel="mgmt", kind="actual") == 1400
    assert m.value("vgw_ruleset_tampered_total") == 0


def knock(lab, count=3):
    """Packets to the control port from outside, which are dropped."""
    for _ in range(count):
        with lab.ext.socket(GATEWAY) as sock:
            sock.setblocking(False)
            sock.connect_ex((GATEWAY, CONTROL_PORT))


def test_dropped_packets(lab, start_agent):
    agent = start_agent(protect="off")
    agent.apply(spec(kube()))
    assert scrape(agent).value("vgw_guard_dropped_packets_total") == dropped(lab.gw) == 0

    def counted(at_least):
        return wait_for(lambda: (n := scrape(agent).value("vgw_guard_dropped_packets_total")) >= at_least and n,
                        what=f"{at_least} dropped packets are counted")

    knock(lab)
    first = counted(3)
    assert first <= dropped(lab.gw)
    # Other rules of the same chain, and then no table for a moment: the kernel begins anew, and the sum goes on.
    agent.apply(spec(kube(), tcp("web", 8080), tunnels=[tunnel(lab.wg)]))
    second = counted(first)
    lab.gw.run("nft", "flush", "ruleset")
    wait_for(lambda: has_table(lab.gw), what="the table is back")
    assert counted(second) >= second
    settled = counted(second)
    knock(lab, 5)
    assert counted(settled + 5) >= first + 5
    last = scrape(agent)
    agent.delete()
    assert scrape(agent).value("vgw_guard_dropped_packets_total") >= last.value("vgw_guard_dropped_packets_total")


def test_counters_never_fall(lab, start_agent):
    """A sequence of scrapes while a backend dies and comes back, specs change and the table is wiped."""
    agent = start_agent(protect="off")
    agent.apply(spec(kube(), tcp("web", 8080)))
    last = [scrape(agent)]

    def step():
        now = scrape(agent)
        grown(last[0], now)
        last[0] = now
        return now

    for change in (lambda: lab.api["cp1"].answer(500), lambda: lab.cable("cp2", False),
                   lambda: knock(lab), lambda: lab.gw.run("nft", "flush", "ruleset"),
                   lambda: agent.apply(spec(kube(), tcp("web", 8080), tcp("more", 8081)), settled=False),
                   lambda: lab.cable("cp2", True), lambda: lab.api["cp1"].answer(200)):
        change()
        checks = step().value("vgw_backend_check_seconds_count")
        wait_for(lambda: step().value("vgw_backend_check_seconds_count") > checks + 6, what="a few checks")  # pylint: disable=W0640


def test_names_are_escaped(lab, agent):
    names = ['a"quote', "back\\slash", "default/web", "umlaut-ü", "\\n", 'x",y="z']
    agent.apply(spec(*(tcp(name, 8080 + i, check={"type": "none"}) for i, name in enumerate(names))))
    assert set(scrape(agent).by("vgw_frontend_backends", "frontend")) == set(names)


def test_ten_thousand_frontends(lab, agent):
    """The scrape is whole and cheap, also when it is asked for again and again. CPU time: the machine may be busy."""
    rows = [backend(name, 7000) for name in CONTROL_PLANE]
    many = [tcp(f"f{n}", 10000 + n, check={"type": "none"}, backends=rows) for n in range(9999)]
    agent.apply(spec(kube(), *many), settled=False)
    before = cpu_seconds(agent.process)
    answer = agent.get("/metrics", timeout=30)
    assert cpu_seconds(agent.process) - before < 0.5
    m = Metrics(answer.text)
    assert len(m.families["vgw_backend_up"]) == 30000
    assert len(m.families["vgw_frontend_backends"]) == 40000
    before, connection = cpu_seconds(agent.process), agent.local(30)
    for _ in range(20):
        connection.request("GET", "/metrics")
        connection.getresponse().read()
    connection.close()
    assert cpu_seconds(agent.process) - before < 2
    agent.becomes(CP1, "Up", timeout=20)
