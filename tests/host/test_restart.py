# SPDX-License-Identifier: Apache-2.0
"""Restart, crash and upgrade: promise 3, and what a restart leaves as it was."""

import os
import shutil
import signal

import pytest

from agent import BINARY
from lab import CONTROL_PLANE, EXTERNAL, GATEWAY, INTERNET
from netns import wait_for
from observe import TABLE, elements, objects, table_flags
from specs import kube, spec, tcp, tunnel, udp
from traffic import Flows, Load, Transfers, in_turn, names

CP1, CP2, CP3 = CONTROL_PLANE.values()


def whole():
    return [kube(), tcp("web", 8080), tcp("echo", 8081, to=7001), udp("dns", 53)]


def test_twenty_restarts_under_load_break_nothing(lab, agent):
    """Half of them by SIGKILL, while 200 connections/s come and 50 transfers go on."""
    agent.apply(spec(*whole(), tunnels=[tunnel(lab.wg)]))
    near, far = Transfers(lab.cl, GATEWAY, 8081, 40), Transfers(lab.mg, GATEWAY, 8081, 10)
    load = Load(lab.cl, GATEWAY, 8080, 200)
    for number in range(20):
        agent.process.stop(signal.SIGKILL if number % 2 else signal.SIGTERM)
        agent.start()
        agent.settled()
    result = load.finish()
    assert result["failed"] == 0, result
    assert result["ok"] > 100 and set(result["by"]) == set(CONTROL_PLANE)
    for transfers, count in ((near, 40), (far, 10)):
        result = transfers.finish()
        assert result["broken"] == []
        assert len(result["blocks"]) == count and min(result["blocks"]) > 20


def drops(lab):
    """Something for the counters: packets that the guard drops."""
    lab.ext.run("ip", "route", "replace", f"{GATEWAY}/32", "via", EXTERNAL)
    with pytest.raises(OSError):
        lab.ext.connect(GATEWAY, 8080, timeout=0.5)
    with pytest.raises(OSError):
        lab.ext.connect(CP1, 7000, timeout=0.5)


@pytest.mark.parametrize("protect", ["off", "auto"])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_unchanged_rules_keep_handles_and_counters(lab, start_agent, end, protect):
    agent = start_agent(protect=protect)
    agent.apply(spec(*whole(), tunnels=[tunnel(lab.wg)]))
    drops(lab)
    before, counted = objects(lab.gw)
    held = elements(lab.gw)
    assert any(counted.values()), "something was counted"
    getattr(agent, end)()
    agent.start()
    agent.settled()
    after, counted_after = objects(lab.gw)
    assert after == before
    assert {key: n for key, n in counted.items() if counted_after[key] < n} == {}
    assert elements(lab.gw) == held


def test_a_verdict_that_has_changed_meanwhile_changes_only_that(lab, start_agent):
    """The difference only: elements of one backend, and no rule, set or chain of another frontend."""
    agent = start_agent(protect="off")
    agent.apply(spec(*whole()))
    held = elements(lab.gw)
    agent.kill()
    lab.api["cp2"].stop()
    agent.start()
    agent.becomes(CP2, "Dead", "Refused")
    changed = {e for name, now in elements(lab.gw).items() for e in now ^ held[name]}
    assert changed and all("6443" in e for e in changed), changed
    lab.api["cp2"].start()
    agent.becomes(CP2, "Up")
    assert elements(lab.gw) == held


def test_an_orphaned_table_is_adopted(lab, agent):
    agent.apply(spec(*whole()))
    if "owner" not in table_flags(lab.gw):
        pytest.skip("the kernel has no owner and persist flags for nftables' tables")
    flags, (before, _) = table_flags(lab.gw), objects(lab.gw)
    agent.kill()
    wait_for(lambda: "owner" not in table_flags(lab.gw), what="the table is an orphan")
    assert objects(lab.gw)[0] == before
    agent.start()
    agent.settled()
    assert table_flags(lab.gw) == flags
    assert objects(lab.gw)[0] == before
    done = lab.gw.run("nft", "delete", "table", *TABLE.split(), check=False)
    assert done.returncode != 0 and "not permitted" in done.stderr
    lab.gw.run("nft", "flush", "ruleset", check=False)
    assert objects(lab.gw)[0] == before
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)


def test_an_upgrade_is_another_binary_in_its_place(lab, agent):
    agent.apply(spec(*whole(), tunnels=[tunnel(lab.wg)]))
    before, _ = objects(lab.gw)
    with Flows(lab.cl, GATEWAY, 8081, 9) as flows:
        load = Load(lab.cl, GATEWAY, 8080, 100)
        for number in range(2):
            agent.binary = shutil.copy(BINARY, os.path.join(agent.directory, f"vgw-agent-{number}"))
            agent.stop()
            agent.start()
            agent.settled()
        assert os.readlink(f"/proc/{agent.process.pid}/exe") == agent.binary
        result = load.finish()
        assert result["failed"] == 0, result
        assert flows.echo(flows.of(*CONTROL_PLANE))
    assert objects(lab.gw)[0] == before
    assert lab.ext.ask(INTERNET, 7000)[0] == "ext"


def test_flows_are_reaped_the_same_after_a_restart(lab, agent):
    """An open flow of before the restart belongs to its backend still."""
    agent.apply(spec(*whole()))
    with Flows(lab.cl, GATEWAY, 8081, 9) as flows:
        agent.kill()
        agent.start()
        agent.settled()
        lab.cable("cp2", False)
        agent.becomes(CP2, "Dead", frontend="echo")
        wait_for(lambda: flows.reset(flows.of("cp2")), what="its clients are reset")
        assert flows.echo(flows.of("cp1", "cp3"))


def test_a_verdict_holds_while_the_first_check_lasts(lab, agent):
    """The table says that a backend is dead. After the start its check hangs for 2 s: no connection goes there."""
    agent.apply(spec(kube(), tcp("web", 8080, to=7001, check={"port": 6443, "timeout": "2s", "fall": 1})))
    lab.api["cp2"].stop()
    agent.becomes(CP2, "Dead", "Refused", frontend="web")
    agent.kill()
    lab.cp2.nft("table inet hung { chain in { type filter hook input priority 0; tcp dport 6443 drop; }; }\n")
    try:
        agent.start()
        assert set(names(lab.cl, GATEWAY, 8080, 12)) == {"cp1", "cp3"}
        assert agent.backend(CP2, "web")["state"] in ("Unknown", "Dead")
        assert agent.frontend("web")["healthy"] == 2
    finally:
        lab.cp2.run("nft", "delete", "table", "inet", "hung")
    lab.api["cp2"].start()
    agent.becomes(CP2, "Up", frontend="web")
