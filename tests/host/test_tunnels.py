# SPDX-License-Identifier: Apache-2.0
"""The MTU of tunnels, on the link or on the route, and the MSS of what passes through them."""

import pytest

from lab import CONTROL_PLANE, GATEWAY, MANAGER
from netns import stays, wait_for
from observe import Capture, cpu_seconds, links, routes
from specs import dual_stack, kube, spec, tunnel

SYN = "tcp[tcpflags] & tcp-syn != 0"
SYN6 = "ip6[6] == 6 and ip6[53] & 2 != 0"


@pytest.fixture
def plain_link(lab):
    """An interface that stands for a tunnel's: made and removed faster than a real one."""
    def make(name="site0", mtu=1420):
        lab.wire("gw", name, "10.66.0.1/30", "ext", name, "10.66.0.2/30", mtu=mtu)
        return name
    yield make
    lab.gw.ip("link del site0", check=False)


def in_sync(agent, mtu=1400, name="mgmt"):
    def reached():
        row = agent.tunnel(name)["mtu"]
        return row["state"] == "InSync" and row["wanted"] == row["actual"] == mtu and row
    return wait_for(reached, what=f"the tunnel at {mtu}")


def test_the_link_gets_the_wanted_mtu(lab, agent):
    assert lab.gw.mtu(lab.wg) == 1420
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    assert lab.gw.mtu(lab.wg) == 1400
    row = in_sync(agent)
    assert (row["original"], row["repairs"]) == (1420, 0)
    assert agent.tunnel()["interface"] == lab.wg
    assert agent.condition("TunnelMTUReady")["status"] == "True"
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg, mtu=1380)]))
    assert lab.gw.mtu(lab.wg) == 1380
    assert in_sync(agent, 1380)["original"] == 1420


def test_a_changed_mtu_is_put_back(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    lab.gw.ip(f"link set {lab.wg} mtu 1300")
    wait_for(lambda: lab.gw.mtu(lab.wg) == 1400, what="the MTU is put back")
    row = wait_for(lambda: agent.tunnel()["mtu"]["repairs"] == 1 and agent.tunnel()["mtu"], what="the repair is counted")
    assert row["original"] == 1420
    drift = [d for d in agent.status()["drift"] if lab.wg in d["object"]]
    assert len(drift) == 1 and drift[0]["repairedAfterMs"] < 1000


def test_someone_who_never_gives_up_is_called_contested(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))

    def fought():
        if lab.gw.mtu(lab.wg) == 1400:
            lab.gw.ip(f"link set {lab.wg} mtu 1300")
        return agent.tunnel()["mtu"]["state"] == "Contested"
    wait_for(fought, timeout=9, what="Contested")
    assert agent.tunnel()["mtu"]["repairs"] >= 4
    stays(lambda: lab.gw.mtu(lab.wg) == 1300, 2, "the agent stops fighting")


def test_a_late_interface_is_waited_for(lab, agent, plain_link):
    agent.apply(spec(kube(), tunnels=[tunnel("site0")]))
    row = agent.tunnel()
    assert (row["state"], row["mtu"]["state"]) == ("Absent", "Pending")
    assert agent.condition("TunnelMTUReady")["status"] == "False"
    assert lab.cl.get(GATEWAY, 6443, "/", lab.trust)[0] == 200
    plain_link()
    wait_for(lambda: lab.gw.mtu("site0") == 1400, what="the late interface gets its MTU")
    assert in_sync(agent)["original"] == 1420


def test_an_interface_that_comes_back_is_set_again(lab, agent, plain_link):
    plain_link()
    agent.apply(spec(kube(), tunnels=[tunnel("site0")]))
    assert lab.gw.mtu("site0") == 1400
    for _ in range(3):
        lab.gw.ip("link del site0")
        wait_for(lambda: agent.tunnel()["state"] == "Absent", what="Absent")
        plain_link()
        wait_for(lambda: lab.gw.mtu("site0") == 1400, what="the new interface gets the MTU")
        in_sync(agent)


def test_the_guard_knows_the_new_interface(lab, agent, plain_link):
    """An interface of the same name, with another index, is let in like the old one."""
    agent.apply(spec(kube(), tunnels=[tunnel("site0")]))
    plain_link()
    lab.ext.ip(f"route add {GATEWAY}/32 via 10.66.0.1")
    wait_for(lambda: lab.ext.get(GATEWAY, 6443, "/client", lab.trust) == (200, "10.66.0.2\n"),
             what="a client behind the late tunnel is served")


def test_an_mtu_that_the_link_cannot_have(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg, mtu=9000)]))
    row = agent.tunnel()["mtu"]
    assert row["wanted"] == 9000
    assert row["state"] in ("InSync", "OutOfRange")
    assert lab.gw.mtu(lab.wg) == row["actual"]


@pytest.mark.parametrize("network,hop,peer,family", [
    ("192.168.20.0/24", "203.0.113.3", "192.168.20.1", "-4"), ("fd00:20::/64", "2001:db8:113::3", "fd00:20::1", "-6")])
def test_without_interface_the_route_carries_the_mtu(lab, agent, network, hop, peer, family):
    """The next hop is the original's, which is another than that of the default route."""
    lab.gw.ip(f"route add {network} via {hop}")
    try:
        before = routes(lab.gw)
        agent.apply(spec(kube(), tunnels=[tunnel(network=network, address=peer)]))

        def mtu():
            text = lab.gw.run("ip", family, "route", "get", peer).stdout
            return " mtu 1400" in text and f"via {hop} " in text
        wait_for(mtu, what="the route in use has the MTU")
        stays(mtu, 0.5, "and keeps it, by the same next hop")
        during = routes(lab.gw)
        assert [line for line in before if line not in during] == [], "the other's route is as it was"
        ours = [line for line in during if line not in before]
        assert len(ours) == 1 and ("proto 86" in ours[0] or "proto vgw-agent" in ours[0])
        # Someone deletes it: it comes back, and is recorded.
        lab.gw.run("ip", family, "route", "del", network, "proto", "86")
        wait_for(mtu, what="the route is put back")
        wait_for(lambda: [d for d in agent.status()["drift"] if network in d["object"]], what="the drift is recorded")
        assert agent.delete().status == 200
        assert routes(lab.gw) == before
    finally:
        lab.gw.run("ip", family, "route", "flush", network)


def test_a_route_follows_the_original_next_hop(lab, agent):
    lab.gw.ip("route add 192.168.20.0/24 via 203.0.113.3 proto static")
    try:
        agent.apply(spec(kube(), tunnels=[tunnel(network="192.168.20.0/24", address="192.168.20.1")]))
        lab.gw.ip("route del 192.168.20.0/24 via 203.0.113.3 proto static",
                  "route append 192.168.20.0/24 via 203.0.113.4 proto static")

        def follows():
            text = lab.gw.run("ip", "route", "get", "192.168.20.1").stdout
            return "via 203.0.113.4 " in text and " mtu 1400" in text
        wait_for(follows, what="the MTU route follows")
        stays(follows, 0.5)
    finally:
        lab.gw.ip("route flush 192.168.20.0/24", check=False)


def test_mss_is_clamped_both_ways(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    with Capture(lab.cp1, "eth0", SYN) as near, Capture(lab.mg, "eth0", SYN) as far:
        assert lab.mg.ask(CONTROL_PLANE["cp1"], 7000)[0] == "cp1"
        near.find(rf"{MANAGER}\.\d+ > .*mss 1360")
        far.find(rf"{CONTROL_PLANE['cp1']}\.7000 > .*mss 1360")
        assert lab.cp1.ask(MANAGER, 7000)[0] == "mg"
        far.find(rf"{CONTROL_PLANE['cp1']}\.\d+ > .*\.7000: .*mss 1360")
        near.find(rf"{MANAGER}\.7000 > .*mss 1360")


def test_mss_through_a_frontend_and_after_a_change_of_the_mtu(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    for mtu in (1400, 1320):
        agent.apply(spec(kube(), tunnels=[tunnel(lab.wg, mtu=mtu)]))
        with Capture(lab.mg, "eth0", SYN) as far:
            assert lab.mg.get(GATEWAY, 6443, "/", lab.trust)[0] == 200
            far.find(rf"{GATEWAY}\.6443 > .*mss {mtu - 40}")


def test_mss_is_clamped_for_ipv6(lab, agent):
    agent.apply(dual_stack(kube(), tunnels=[tunnel(lab.wg)]))
    with Capture(lab.cp1, "eth0", SYN6) as near, Capture(lab.mg, "eth0", SYN6) as far:
        assert lab.mg.ask("fd00:150::11", 7000)[0] == "cp1"
        near.find(r"fd00:10::10\.\d+ > .*mss 1340")
        far.find(r"fd00:150::11\.7000 > .*mss 1340")


def test_what_does_not_use_a_tunnel_is_not_clamped(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    with Capture(lab.ext, "eth0", SYN) as out:
        assert lab.cl.ask("203.0.113.2", 7000)[0] == "ext"
        assert out.mss() == {1460}


def test_other_links_keep_their_mtu(lab, agent):
    before = links(lab.gw, without=[lab.wg])
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    assert links(lab.gw, without=[lab.wg]) == before


def test_pod_mtu_follows_the_tunnel(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)], cni={"name": "calico", "encapsulation": "vxlan",
                                                           "vethMTU": 1350}))
    wait_for(lambda: agent.tunnel()["maxPodMTU"] == 1350, what="maxPodMTU 1350")
    assert agent.condition("PodMTUFits")["status"] == "True"


def test_many_tunnels_among_many_routes(lab, agent):
    """The routes are read once for all tunnels, not once for each: measured as the processor time that a spec takes."""
    lab.gw.run("ip", "-batch", "-", stdin="".join(
        f"route add 10.{120 + i // 250}.{i % 250}.0/24 via 203.0.113.3 proto static\n" for i in range(5000)))
    tunnels = [tunnel(network=f"10.120.{i}.0/24", address=f"10.120.{i}.1", name=f"t{i}") for i in range(100)]
    try:
        agent.apply(spec(kube()))
        before = cpu_seconds(agent.process)
        agent.apply(spec(kube(), tunnels=tunnels))
        taken = cpu_seconds(agent.process) - before
        ours = [line for line in routes(lab.gw) if "proto 86" in line or "proto vgw-agent" in line]
        assert len(ours) == 100 and all("via 203.0.113.3 " in line and " mtu 1400" in line for line in ours)
        assert taken < 1, f"{taken} s"
    finally:
        agent.delete()
        lab.gw.run("ip", "route", "flush", "proto", "static")
