# SPDX-License-Identifier: Apache-2.0
"""What the kernel notices by the way hastens a check, and never makes a verdict: here the neighbours that fail."""

import pytest

from lab import CONTROL_PLANE, CONTROL_PLANE6
from netns import stays, wait_for
from observe import cpu_seconds
from specs import backend, backends, dual_stack, spec, tcp

RARELY = {"interval": "30s", "timeout": "800ms", "rise": 1, "fall": 2}
ADDRESS = {4: CONTROL_PLANE["cp3"], 6: CONTROL_PLANE6["cp3"]}


@pytest.fixture
def rarely(lab, agent):
    """Two frontends of each family whose backends are checked every 30 s; cp3 fails as a neighbour after 0.3 s."""
    six = [f"{n}v6" for n in CONTROL_PLANE]
    agent.apply(dual_stack(
        *(tcp(f"web{n}-4", 8080 + n, check=RARELY) for n in (0, 1)),
        *({**tcp(f"web{n}-6", 8080 + n, check=RARELY), "backends": backends(7000, six)} for n in (0, 1))))
    for family in (4, 6):
        lab.gw.sysctl(f"ipv{family}/neigh/eth1/retrans_time_ms", 100)
    stays(agent.running, 0.1, "a check that has only just begun is no reason for another")
    yield agent
    for family in (4, 6):
        lab.gw.sysctl(f"ipv{family}/neigh/eth1/retrans_time_ms", 1000)


def streaks(agent, address, family):
    return [agent.backend(address, f"web{n}-{family}")["check"]["streak"] for n in (0, 1)]


@pytest.mark.parametrize("family", [4, 6])
def test_a_failing_neighbour_is_checked_at_once(lab, rarely, family):
    """Nobody uses the frontends, and the next check is half a minute away."""
    agent, address = rarely, ADDRESS[family]
    lab.cable("cp3", False)
    lab.gw.ip(f"neigh del {address} dev eth1")
    lab.gw.run("ping", "-c1", "-W1", address, check=False)
    for number in (0, 1):
        row = agent.becomes(address, "Dead", frontend=f"web{number}-{family}", timeout=3)
        assert row["check"]["code"] in ("Timeout", "Unreachable")
    others = [a for name, a in {4: CONTROL_PLANE, 6: CONTROL_PLANE6}[family].items() if name != "cp3"]
    for other in others:
        assert agent.backend(other, f"web0-{family}")["check"]["streak"] <= 2, "those that did not fail are left alone"


@pytest.mark.parametrize("family", [4, 6])
def test_a_hint_is_no_verdict(lab, rarely, family):
    """The entry fails, and the host is there: one more good check, and that is all."""
    agent, address = rarely, ADDRESS[family]
    before = streaks(agent, address, family)
    since = agent.backend(address, f"web0-{family}")["since"]
    lab.gw.ip(f"neigh replace {address} dev eth1 nud failed")
    wait_for(lambda: all(now > was for now, was in zip(streaks(agent, address, family), before)), timeout=1,
             what="both were checked at once")
    row = agent.backend(address, f"web0-{family}")
    assert (row["state"], row["check"]["code"], row["since"]) == ("Up", "OK", since)


def test_a_flood_of_neighbours_costs_next_to_nothing_and_hides_no_hint(lab, rarely):
    """20,000 entries come and go, and 1,000 strangers fail: the agent hears of the latter only."""
    agent = rarely
    begin = cpu_seconds(agent.process)
    strangers = [f"192.168.150.{n}" for n in range(150, 250)]
    for round_ in range(10):
        lab.gw.ip(*(f"neigh {verb} 10.{round_}.{n // 250}.{n % 250 + 1} lladdr 02:00:00:00:00:01 dev eth1 nud reachable"
                    for n in range(500) for verb in ("replace", "del", "replace", "del")),
                  *(f"neigh replace {a} dev eth1 nud failed" for a in strangers))
    before = streaks(agent, ADDRESS[4], 4)
    lab.gw.ip(*(f"neigh del {a} dev eth1" for a in strangers), f"neigh replace {ADDRESS[4]} dev eth1 nud failed")
    wait_for(lambda: streaks(agent, ADDRESS[4], 4) > before, timeout=1, what="the one that matters is heard")
    assert cpu_seconds(agent.process) - begin < 0.3


def test_a_host_that_serves_many_is_checked_bit_by_bit(lab, agent):
    """A thousand checks go to one host; its hint brings them all within a second, one a millisecond, but for those that
    had begun just before."""
    check = {**RARELY, "interval": "6s"}
    agent.apply(spec(*(tcp(f"f{n}", 20000 + n, check=check, backends=[backend("cp3", 7000)]) for n in range(1000))))

    def rows():
        return [f["backends"][0] for f in agent.status()["frontends"]]

    before = [row["check"]["streak"] for row in rows()]
    lab.gw.ip(f"neigh replace {ADDRESS[4]} dev eth1 nud failed")
    wait_for(lambda: sum(row["check"]["streak"] > was for row, was in zip(rows(), before)) > 950, timeout=3,
             what="all were checked again")
    assert {row["state"] for row in rows()} == {"Up"}
