# SPDX-License-Identifier: Apache-2.0
"""The ground itself, without an agent: a test that fails here says nothing about the agent."""

from lab import CONTROL_PLANE, INTERNET, MANAGER, WORKER
from netns import run


def test_every_server_answers_for_itself(lab):
    for name, address in CONTROL_PLANE.items():
        assert lab.cl.get(address, 6443, "/", lab.trust) == (200, f"{name}\n")
        assert lab.cl.get(address, 6443, "/client", lab.trust) == (200, f"{WORKER}\n")
        assert lab.cl.ask(address, 7000) == (name, WORKER)
        assert lab.cl.ask_udp(address, 5353) == (name, WORKER)


def test_the_tunnel_carries_both_families_both_ways(lab):
    assert lab.mg.ask(CONTROL_PLANE["cp1"], 7000) == ("cp1", MANAGER)
    assert lab.cp1.ask(MANAGER, 7000) == ("mg", CONTROL_PLANE["cp1"])
    assert lab.mg.ask("fd00:150::12", 7000) == ("cp2", "fd00:10::10")
    assert lab.gw.mtu(lab.wg) == 1420


def test_without_an_agent_the_lan_is_open_to_the_outside(lab):
    """What promise 4 closes: were it closed already, the scans would prove nothing."""
    assert lab.ext.ask(CONTROL_PLANE["cp1"], 7000) == ("cp1", INTERNET)
    assert lab.cl.ask(INTERNET, 7000) == ("ext", WORKER)


def test_unready_hung_and_dead_servers(lab):
    cp1 = lab.api["cp1"]
    for status in (500, 401, 200):
        cp1.answer(status)
        assert lab.cl.get(cp1.address, 6443, "/readyz", lab.trust)[0] == status
    cp1.stop()
    assert lab.cl.refuses(cp1.address, 6443)
    cp1.start()
    cp1.ready()


def test_names_are_of_this_run(lab):
    assert lab.gw.full in run("ip", "netns", "list").stdout
    assert not any(name in ("eth1", lab.wg) for name in (row.split(":")[1].strip() for row in
                   run("ip", "-o", "link", "show").stdout.splitlines()))
