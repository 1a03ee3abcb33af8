# SPDX-License-Identifier: Apache-2.0
"""Many frontends and backends: what one change touches, and how connections are spread."""

import json
import time
from collections import Counter

import pytest

from lab import CONTROL_PLANE, GATEWAY
from netns import stays, wait_for
from observe import cpu_seconds, elements, objects
from specs import QUICK, backend, kube, spec, tcp
from traffic import in_turn, names

CP1, CP2, CP3 = CONTROL_PLANE.values()
PORTS = range(20000, 22000)
CHANGING = 21234
FIVE = [backend("cp1", 7000), backend("cp2", 7000), backend("cp3", 7000), backend("cp1", 7001), backend("cp2", 7001)]


def many(rows=None):
    """2,000 frontends with five backends each, one of which is checked; and one each with four and three."""
    smaller = [tcp(f"small{n}", 19000 + n, check={"type": "none"}, backends=FIVE[:n]) for n in (3, 4)]
    return spec(kube(), *smaller, *(
        tcp(f"f{port}", port, check=QUICK if port == CHANGING else {"type": "none"},
            backends=rows if rows and port == CHANGING else FIVE) for port in PORTS))


def refuse(lab, name, port=7000):
    lab.namespaces[name].nft(f"table inet wall {{ chain in {{ type filter hook input priority 0; tcp dport {port} "
                             "reject with tcp reset; }; }\n")


@pytest.fixture
def walls(lab):
    yield
    for name in CONTROL_PLANE:
        lab.namespaces[name].run("nft", "delete", "table", "inet", "wall", check=False)


def state(lab):
    return objects(lab.gw)[0], elements(lab.gw)


def assert_only(before, now, port):
    """Every object is there with its handle, and only elements of one frontend differ."""
    assert {key: now[0].get(key) for key in before[0]} == before[0]
    assert [body for key, body in now[0].items() if key not in before[0]] == []
    assert now[1].keys() == before[1].keys()
    changed = {element for name in now[1] for element in now[1][name] ^ before[1][name]}
    assert changed and all(str(port) in element for element in changed), changed


def test_two_thousand_frontends(lab, agent, walls):
    agent.apply(many(), settled=False)
    wait_for(lambda: agent.frontend(f"f{CHANGING}")["healthy"] == 5 and agent.frontend()["healthy"] == 3,
             what="the checked ones are up")
    rows = agent.status()["frontends"]
    assert len(rows) == 2003
    assert Counter(row["state"] for row in rows) == {"Programmed": 2003}
    assert {(row["healthy"], row["total"]) for row in rows} == {(5, 5), (4, 4), (3, 3)}
    for port in (PORTS[0], CHANGING, PORTS[-1]):
        assert Counter(names(lab.cl, GATEWAY, port, 60)).keys() == set(CONTROL_PLANE)
    before = state(lab)

    # A verdict.
    refuse(lab, "cp3")
    agent.becomes(CP3, "Dead", "Refused", frontend=f"f{CHANGING}")
    dead = state(lab)
    assert_only(before, dead, CHANGING)
    assert set(names(lab.cl, GATEWAY, CHANGING, 60)) == {"cp1", "cp2"}
    lab.cp3.run("nft", "delete", "table", "inet", "wall")
    agent.becomes(CP3, "Up", frontend=f"f{CHANGING}")
    assert_only(dead, state(lab), CHANGING)
    assert state(lab) == before

    # A spec with one drained backend.
    drained = many(rows=[*FIVE[:3], {**FIVE[3], "drain": True}, {**FIVE[4], "drain": True}])
    plan = agent.apply(drained, settled=False)["plan"]
    assert all(f":{CHANGING}/" in line for line in plan), plan[:5]
    assert_only(before, state(lab), CHANGING)
    assert agent.apply(many(), settled=False)["plan"]
    assert state(lab) == before

    # The same again: nothing at all.
    answer = agent.put(many())
    assert answer.status == 200 and answer.json["plan"] == []


@pytest.mark.parametrize("balance", ["roundrobin", "random", "source"])
def test_the_rules_of_other_frontends_stay(lab, start_agent, walls, balance):
    """With a few frontends, each may have rules of its own. Those of the others keep their handles: turns go on."""
    agent = start_agent(protect="off")
    agent.apply(spec(kube(), *(tcp(f"f{port}", port, balance=balance, check={} if port == 8080 else {"type": "none"})
                               for port in range(8080, 8090))), settled=False)
    wait_for(lambda: agent.frontend("f8080")["healthy"] == 3, what="the checked one is up")
    before = state(lab)
    refuse(lab, "cp2")
    agent.becomes(CP2, "Dead", "Refused", frontend="f8080")
    now = state(lab)
    gone = [body for key, body in before[0].items() if now[0].get(key) != body and "8080" not in json.dumps(body)]
    assert gone == []
    changed = {element for name in now[1] for element in now[1][name] ^ before[1].get(name, set())}
    assert changed and all("8080" in element for element in changed), changed


def test_weights_among_more_frontends_than_take_turns(lab, agent):
    """10,000 connections to one of 101 frontends: within 2 %."""
    rows = [backend("cp1", 7000, weight=50), backend("cp2", 7000, weight=30), backend("cp3", 7000, weight=20)]
    agent.apply(spec(kube(), tcp("weighed", 8080, backends=rows),
                     *(tcp(f"f{port}", port, check={"type": "none"}) for port in PORTS[:100])), settled=False)
    wait_for(lambda: agent.frontend("weighed")["healthy"] == 3, what="all are up")
    seen = Counter(names(lab.cl, GATEWAY, 8080, 10000))
    assert {name: n / 10000 for name, n in seen.items()} == pytest.approx(
        {"cp1": 0.5, "cp2": 0.3, "cp3": 0.2}, abs=0.02)


def test_many_backends_of_one_frontend(lab, agent):
    """256 backends: two that serve and 254 that refuse; the verdicts come, and every connection is served."""
    rows = [backend("cp1", 7000), backend("cp2", 7000), *(backend("cp3", 30000 + i) for i in range(254))]
    agent.apply(spec(kube(), tcp("wide", 8080, backends=rows)))
    wait_for(lambda: agent.frontend("wide")["healthy"] == 2, what="the verdicts")
    row = agent.frontend("wide")
    assert (row["state"], row["total"]) == ("Degraded", 256)
    assert Counter((b["state"], b["check"]["code"]) for b in row["backends"]) == {("Up", "OK"): 2, ("Dead", "Refused"): 254}
    assert in_turn(names(lab.cl, GATEWAY, 8080, 10), 2)


def test_source_balance_moves_only_the_clients_of_a_changed_backend(lab, agent, walls):
    sources = [f"10.77.0.{i}" for i in range(1, 201)]
    lab.cl.ip(*(f"addr replace {a}/32 dev lo" for a in sources))
    lab.gw.ip("route replace 10.77.0.0/24 via 192.168.150.100")
    try:
        agent.apply(spec(kube(), tcp("web", 8080, balance="source")))

        def placed():
            return {s: lab.cl.ask(GATEWAY, 8080, source=s)[0] for s in sources}

        first = placed()
        shares = Counter(first.values())
        assert set(shares) == set(CONTROL_PLANE) and min(shares.values()) > 35, shares
        assert placed() == first
        refuse(lab, "cp2")
        agent.becomes(CP2, "Dead", "Refused", frontend="web")
        now = placed()
        assert "cp2" not in now.values()
        assert {s: n for s, n in now.items() if first[s] != "cp2"} == {s: n for s, n in first.items() if n != "cp2"}
        moved = Counter(now[s] for s, n in first.items() if n == "cp2")
        assert set(moved) == {"cp1", "cp3"}, "the moved clients are spread"
        lab.cp2.run("nft", "delete", "table", "inet", "wall")
        agent.becomes(CP2, "Up", frontend="web")
        assert placed() == first
        # A restart places everyone as before.
        agent.kill()
        agent.start()
        agent.settled()
        assert placed() == first
        # Half the weight: clients leave this backend, and nobody else moves.
        agent.apply(spec(kube(), tcp("web", 8080, balance="source", backends=[
            backend("cp1", 7000, weight=2), backend("cp2", 7000, weight=1), backend("cp3", 7000, weight=2)])))
        agent.apply(spec(kube(), tcp("web", 8080, balance="source", backends=[
            backend("cp1", 7000), backend("cp3", 7000)])))
        without = placed()
        assert {s: n for s, n in without.items() if first[s] != "cp2"} == {s: n for s, n in first.items() if n != "cp2"}
    finally:
        lab.cl.ip(*(f"addr del {a}/32 dev lo" for a in sources), check=False)
        lab.gw.ip("route del 10.77.0.0/24", check=False)


def streaks(agent, names_):
    rows = {f["name"]: f["backends"][0] for f in agent.status()["frontends"]}
    return {name: rows[name]["check"]["streak"] for name in names_}


def test_more_checks_than_this_host_can_do(lab, agent, walls):
    """1,200 handshakes are wanted ten times a second: all are late by the same, nobody is taken for dead for it, who does die
    is still found, and the control channel answers."""
    crowd = [f"f{n}" for n in range(1200)]
    often = {"type": "https", "path": "/readyz", "interval": "100ms", "timeout": "800ms", "rise": 1, "fall": 2}
    agent.apply(spec(tcp("web", 8080), *(tcp(name, 20000 + n, check=often, backends=[backend(f"cp{n % 2 + 1}")])
                                         for n, name in enumerate(crowd))))
    since = {f["name"]: f["backends"][0]["since"] for f in agent.status()["frontends"]}

    before, slowest = streaks(agent, crowd), [0]

    def answers():
        asked = time.monotonic()
        assert agent.get("/livez").status == 200
        slowest[0] = max(slowest[0], time.monotonic() - asked)
        now = streaks(agent, crowd)
        did = sorted(now[name] - before[name] for name in crowd)
        return did[0] >= 5 and did

    begin = time.monotonic()
    did = wait_for(answers, timeout=40, what="every one was checked five times", step=0.1)
    assert did[-1] <= 10, did
    assert sum(did) < 0.8 * 10 * (time.monotonic() - begin) * len(crowd), "it was too much indeed"
    assert slowest[0] < 0.5
    assert {f["name"]: f["backends"][0]["since"] for f in agent.status()["frontends"]} == since, "no verdict has changed"
    refuse(lab, "cp3")
    agent.becomes(CP3, "Dead", "Refused", frontend="web", timeout=5)
    lab.api["cp2"].stop()
    wait_for(lambda: all((f["backends"][0]["state"] == "Dead") == (f["backends"][0]["address"] == CP2)
                         for f in agent.status()["frontends"][1:]), timeout=15, what="all that died, and nobody else")


def checks_done(agent):
    """(how many checks have ended, when): just counted, as the metrics of many frontends may be a second old."""
    def count():
        line = next(row for row in agent.get("/metrics", timeout=30).text.splitlines()
                    if row.startswith("vgw_backend_check_seconds_count"))
        return float(line.split()[1])
    old = count()
    new = wait_for(lambda: count() > old and count(), what="it is counted anew")
    return new, time.monotonic()


def test_ten_thousand_backends_keep_their_schedule(lab, agent):
    """2,000 frontends with five backends each, every one checked each second: also on a busy machine few are late by much,
    and it costs neither a core nor memory worth speaking of."""
    every = {"type": "tcp", "interval": "1s", "timeout": "800ms", "rise": 1, "fall": 2}
    agent.apply(spec(*(tcp(f"f{port}", port, check=every, backends=FIVE) for port in PORTS)), settled=False)
    wait_for(lambda: Counter(b["state"] for f in agent.status()["frontends"] for b in f["backends"]) == {"Up": 10000},
             timeout=20, what="all are up", step=0.5)
    (before, begin), used = checks_done(agent), cpu_seconds(agent.process)
    stays(lambda: agent.get("/livez").status == 200, 5, "it answers")
    after, end = checks_done(agent)
    assert (after - before) / (end - begin) > 8000, (after - before) / (end - begin)
    assert (cpu_seconds(agent.process) - used) / (end - begin) < 0.8
    assert agent.status()["agent"]["rssBytes"] < 40 << 20
    assert {b["state"] for f in agent.status()["frontends"] for b in f["backends"]} == {"Up"}
