# SPDX-License-Identifier: Apache-2.0
"""Tunnels whose networks are IPv6: the same questions, asked of the other family."""

import pytest

from lab import GATEWAY6
from netns import stays, wait_for
from observe import Capture
from pairs import FAR, VXLAN, Pair, directions, here, known_by_echoes, there
from specs import dual_stack, kube, tunnel

NETWORK, PEER = FAR[6]
SYN6 = "ip6[6] == 6 and ip6[53] & 2 != 0"


def no_paths_learnt(lab):
    for host in (lab.gw, lab.peer):
        host.ip("route flush cache")
        host.run("ip", "-6", "route", "flush", "cache")


def clean(lab):
    lab.underlay_mtu(1500)
    for host in (lab.ur, lab.gw, lab.peer):
        for table in ("ip silent", "inet oneway"):
            host.run("nft", "delete", "table", *table.split(), check=False)


@pytest.fixture
def pair(lab, start_agent):
    no_paths_learnt(lab)
    yield Pair(lab, start_agent(), start_agent(host="peer", control=False), family=6)
    clean(lab)


def test_both_ends_say_up(lab, pair):
    pair.apply().up()
    row = wait_for(lambda: pair.gw.tunnel()["path"].get("reverseMtu") == pair.gw.tunnel()["path"].get("mtu") == 1400
                   and pair.gw.tunnel(), what="both directions are measured")
    assert row["peer"]["address"] == PEER and row["peer"]["agent"] is True
    assert 0 <= row["peer"]["rttMs"] < 200 and row["mtu"]["minimum"] == 1280
    assert directions(pair.gw) == directions(pair.peer) == ("True", "True")


@pytest.mark.parametrize("underlay,least,most", [(1400, 1328, 1340), (1368, 1296, 1308), (1320, 1248, 1260)])
def test_a_number_too_large_is_a_black_hole(lab, pair, underlay, least, most):
    """WireGuard pads to 16 bytes, up to its link's MTU. A path below IPv6's own minimum is measured like any other."""
    lab.underlay_silent()
    lab.underlay_mtu(underlay)
    pair.apply(1400)
    row = wait_for(lambda: pair.gw.tunnel()["state"] == "BlackHole" and pair.gw.tunnel(), what="BlackHole")
    assert least <= row["path"]["mtu"] <= most and row["path"]["pmtud"] == "BlackHole"
    assert row["maxPodMTU"] == row["path"]["mtu"] - 70
    assert pair.gw.condition("TunnelMTUReady")["reason"] == "BlackHole"
    wait_for(lambda: pair.peer.tunnel("back")["path"].get("reverseMtu") == row["path"]["mtu"], what="the other end is told")


def test_down_at_once_and_upwards_behind_a_route_that_holds(lab, pair):
    """Our own route stands before the other's by a smaller metric, and goes with the search."""
    lab.underlay_silent()
    lab.underlay_mtu(1368)
    pair.apply("auto").up()
    wait_for(lambda: lab.gw.mtu(lab.wg) < 1400, what="down")
    low = lab.gw.mtu(lab.wg)
    with Capture(lab.mg, "eth0", SYN6) as far:
        assert lab.mg.ask("fd00:150::11", 7000)[0] == "cp1"
        far.find(rf"fd00:150::11\.7000 > .*mss {low - 60}")
    before = lab.gw.run("ip", "-6", "route", "show", NETWORK).stdout
    lab.underlay_mtu(1500)
    watch = lab.gw.spawn("ip", "-6", "-o", "monitor", "route", log="route-monitor")
    lab.gw.run("ip", "-batch", "-", stdin=f"link set {lab.wg} down\nlink set {lab.wg} up\n"
               f"route replace 192.168.10.0/24 dev {lab.wg}\nroute replace {NETWORK} dev {lab.wg}\n")
    wait_for(lambda: lab.gw.mtu(lab.wg) == 1400, 20, what="the larger path is found")
    wait_for(lambda: lab.gw.run("ip", "-6", "route", "show", NETWORK).stdout == before, what="our route is gone")
    watch.stop()
    held = [line for line in watch.text().splitlines() if NETWORK in line and f"mtu {low}" in line]
    assert held and all("metric 1023" in line for line in held), watch.text()
    wait_for(lambda: pair.states() == ("Up", "Up"), what="Up")


def test_below_what_ipv6_needs(lab, pair):
    """The path carries less than 1280: the interface keeps that much, and with it IPv6; the rest is said."""
    lab.underlay_silent()
    lab.underlay_mtu(1320)
    pair.apply("auto")
    wait_for(lambda: pair.gw.tunnel()["mtu"]["state"] == "OutOfRange", what="OutOfRange")
    row = wait_for(lambda: lab.gw.mtu(lab.wg) == 1280 and pair.gw.tunnel()["state"] == "BlackHole" and pair.gw.tunnel(),
                   what="as low as may be")
    assert (row["mtu"]["wanted"], row["mtu"]["actual"], row["mtu"]["minimum"]) == (row["path"]["mtu"], 1280, 1280)
    assert lab.gw.run("ip", "-6", "route", "show", NETWORK).stdout


def test_a_peer_without_an_agent(lab, start_agent):
    """By ICMPv6 echo: its path, its path as it shrinks, and its silence."""
    no_paths_learnt(lab)
    agent = start_agent()
    agent.apply(here(lab, "auto", family=6), settled=False)
    known_by_echoes(lab, agent)


def test_the_management_side(lab, start_agent):
    """Without an interface a route carries the MTU, before the other's by its metric, and the path is measured."""
    no_paths_learnt(lab)
    gw, peer = start_agent(), start_agent(host="peer", control=False)
    gw.apply(here(lab, "auto", family=6), settled=False)
    peer.apply(there(lab, 1380, None, 6, role="management"), settled=False)
    wait_for(lambda: gw.tunnel()["state"] == peer.tunnel("back")["state"] == "Up", what="both say Up")
    wait_for(lambda: peer.tunnel("back")["path"].get("mtu") == 1380, what="measured")
    row = peer.tunnel("back")["mtu"]
    assert (row["state"], row["wanted"], row["actual"]) == ("InSync", 1380, 1380)
    assert " mtu 1380 " in lab.peer.run("ip", "-6", "route", "get", GATEWAY6).stdout + " "
    assert "metric 1023" in lab.peer.run("ip", "-6", "route", "show", "proto", "86").stdout


def test_a_route_keeps_what_ipv6_needs(lab, start_agent):
    agent = start_agent(host="peer", control=False)
    agent.apply(there(lab, 1200, None, 6, role="management"), settled=False)
    row = wait_for(lambda: agent.tunnel("back")["mtu"].get("actual") and agent.tunnel("back")["mtu"], what="a route")
    assert (row["state"], row["wanted"], row["actual"], row["minimum"]) == ("OutOfRange", 1200, 1280, 1280)


@pytest.fixture
def beyond(lab):
    """A plain link for a tunnel, and a router behind it that says what it cannot pass on: 1300 is the most."""
    lab.wire("gw", "site0", "fd66::1/64", "ext", "site0", "fd66::2/64")
    lab.wire("ext", "far0", "fd68::1/64", "ur", "far0", "fd68::2/64 fd00:20::1/64", mtu=1300)
    wait_for(lambda: not [1 for host in (lab.gw, lab.ext, lab.ur)
                          if "tentative" in host.run("ip", "-6", "addr", "show").stdout], what="the addresses are valid")
    lab.gw.ip("route add fd00:20::/64 via fd66::2 dev site0")
    lab.ext.ip("route add fd00:20::/64 via fd68::2", f"route add {GATEWAY6}/128 via fd66::1")
    lab.ur.ip("route add fd00:150::/64 via fd68::1")
    yield
    lab.gw.ip("link del site0")
    lab.ext.ip("link del far0")


def test_a_number_too_large_where_routers_say_so(lab, start_agent, beyond):
    """Packet too big (RFC 8201) is heard: discovery works, and packets of the MTU in force do not arrive."""
    agent = start_agent()
    agent.apply(dual_stack(kube(), tunnels=[tunnel("site0", network="fd00:20::/64", address="fd00:20::1")], cni=VXLAN),
                settled=False)
    wait_for(lambda: agent.tunnel()["path"].get("mtu") == 1300, 15, what="measured")
    row = wait_for(lambda: agent.tunnel()["state"] == "BlackHole" and agent.tunnel(), what="BlackHole")
    assert row["path"]["pmtud"] == "Working" and row["mtu"]["actual"] == 1400 and row["mtu"]["state"] == "InSync"
    stays(lambda: agent.tunnel()["state"] == "BlackHole", 6, "it stays so")
    for host in (lab.ext, lab.ur):
        host.ip("link set far0 mtu 1500")
    wait_for(lambda: agent.tunnel()["state"] == "Up" and agent.tunnel()["path"]["mtu"] == 1400, 30, what="Up")


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("encapsulation,costs", [("vxlan", (50, 70)), ("geneve", (58, 78)), ("wireguard", (60, 80)),
                                                 ("ipip", (20, 20)), ("none", (0, 0))])
def test_what_pods_have_left(lab, agent, encapsulation, costs, family):
    """The encapsulation between the nodes costs more where their network is IPv6."""
    room = 1400 - costs[family == 6]
    for veth, fits in ((room, "True"), (room + 1, "False")):
        cni = {"name": "calico", "encapsulation": encapsulation, "vethMTU": veth}
        agent.apply(dual_stack(kube(), tunnels=[tunnel(lab.wg, 1400, *FAR[family])], cni=cni), settled=False)
        assert agent.tunnel()["maxPodMTU"] == room
        assert agent.condition("PodMTUFits")["status"] == fits
