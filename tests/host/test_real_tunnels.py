# SPDX-License-Identifier: Apache-2.0
"""Tunnels of several makes, with an agent at both ends: IPsec by policies, vxlan, WireGuard that comes and goes and that
someone else sets; both families inside."""

import os

import pytest

import ipsec
import lab as ground
from agent import Agent
from conftest import clean
from lab import CONTROL_PLANE, CONTROL_PLANE6, EXTERNAL, GATEWAY, MANAGER, MANAGER6
from netns import run, stays, wait_for
from observe import Capture, open_files, routes, rules
from pairs import FAR, NEAR, PEER, Pair, Transfer, cut, directions, narrow, restore

PEER_OUTSIDE = "198.51.100.2"


@pytest.fixture
def make_pair(lab, start_agent):
    """A function that makes two agents on a silent underlay; the ground is as before afterwards."""
    for host in (lab.gw, lab.peer):
        host.ip("route flush cache")  # what the kernel has learnt of earlier paths would have it fragment
    lab.underlay_silent()

    def make(**options):
        return Pair(lab, start_agent(), start_agent(host="peer", control=False), **options)
    yield make
    lab.underlay_mtu(1500)
    for host in (lab.ur, lab.gw, lab.peer):
        for table in ("ip silent", "inet oneway", "ip whole"):
            host.run("nft", "delete", "table", *table.split(), check=False)


def loud(lab):
    """The underlay's router tells after all."""
    lab.ur.run("nft", "delete", "table", "ip", "silent")


# Someone who sets the MTU all the time. The agent tries again a minute after it gave up, so this is begun first, on a ground
# of its own, and looked at again at the end.

class Contest:
    def __init__(self):
        self.lab = ground.Lab()
        self.lab.underlay_silent()
        self.lab.underlay_mtu(1368)
        self.made = len(Agent.made)
        self.pair = Pair(self.lab, Agent(self.lab).start(), Agent(self.lab, "peer", control=False).start())
        self.pair.apply("auto").up()
        self.watch = self.lab.gw.spawn("ip", "-o", "monitor", "link", log="link-monitor")
        self.other = self.lab.gw.spawn("sh", "-c", f"while :; do ip link set {self.lab.wg} mtu 1420; sleep 0.2; done")

    def in_bounds(self):
        # What fits into 1368 depends on the link's MTU too, up to which WireGuard fills packets: test_pmtu.py.
        return 1296 <= self.pair.gw.tunnel()["path"]["mtu"] <= 1308

    def set_down(self):
        return [line for line in self.watch.text().splitlines()
                if f": {self.lab.wg}:" in line and "UP" not in line.split("<", 1)[1].split(">", 1)[0].split(",")]

    def close(self):
        for agent in (self.pair.gw, self.pair.peer):
            clean(agent)
        self.lab.destroy()


@pytest.fixture(scope="module")
def contest():
    whole = Contest()
    yield whole
    whole.close()


def test_an_mtu_that_is_reset_all_the_time(contest):
    """Measured all the same, called contested, and not fought over by setting the link down."""
    gw, lab = contest.pair.gw, contest.lab
    wait_for(contest.in_bounds, 20, what="measured meanwhile")
    wait_for(lambda: gw.tunnel()["mtu"]["state"] == "Contested", 20, what="Contested")
    stays(lambda: lab.gw.mtu(lab.wg) == 1420 and contest.in_bounds(), 1, "the other has his way, and the path is known")
    assert gw.condition("TunnelMTUReady")["status"] == "False"
    contest.other.kill()
    assert contest.set_down() == []


# IPsec by policies: strongSwan.

@pytest.fixture
def site(lab):
    """charon at both ends. The lab's WireGuard does not lead to the other network meanwhile."""
    for host, end in ((lab.gw, FAR), (lab.peer, NEAR)):
        host.ip(f"route del {end[4][0]}")
    ends = (ipsec.Charon(lab.gw, EXTERNAL, PEER_OUTSIDE, NEAR[4][0], FAR[4][0]).start(),
            ipsec.Charon(lab.peer, PEER_OUTSIDE, EXTERNAL, FAR[4][0], NEAR[4][0]).start())
    ends[0].up()
    yield ends
    for end in ends:
        end.stop()
    lab.gw.ip(f"route add {FAR[4][0]} dev {lab.wg}")
    lab.peer.ip(f"route add {NEAR[4][0]} dev {lab.wg_peer}")


def own_routes(host):
    return [line for line in routes(host) if "proto 86" in line or "proto vgw-agent" in line]


def carries(host, address, mtu):
    """Whether the kernel sends to there by strongSwan's table and interface, and with this MTU."""
    text = host.run("ip", "route", "get", address).stdout
    return f"dev {ipsec.LINK} table {ipsec.TABLE} " in text and f" mtu {mtu} " in text


def test_policy_ipsec(lab, site, make_pair):
    """The route in strongSwan's own table carries the MTU: as it is measured, after a rekey and after a restart."""
    before = {host: (routes(host), rules(host)) for host in (lab.gw, lab.peer)}
    pair = make_pair(links=(None, None)).apply("auto").up()
    pair.measured(1400)
    wait_for(lambda: carries(lab.gw, PEER, 1400) and carries(lab.peer, GATEWAY, 1400), what="the routes in use have the MTU")
    # Who comes decrypted from the other network is let in, with his own address.
    assert lab.mg.get(GATEWAY, 6443, "/client", lab.trust) == (200, f"{MANAGER}\n")
    # The path shrinks, and says nothing.
    fits = ipsec.fits(1368, 1400)
    lab.underlay_mtu(1368)
    assert pair.measured(fits)["maxPodMTU"] == fits - 50
    assert carries(lab.gw, PEER, fits)
    with Capture(lab.mg, "eth0", "tcp[tcpflags] & tcp-syn != 0") as far:
        assert lab.mg.get(GATEWAY, 6443, "/", lab.trust)[0] == 200
        far.find(rf"{GATEWAY}\.6443 > .*mss {fits - 40}")
    # New keys change nothing.
    spis, kept = site[0].spis(), own_routes(lab.gw)
    assert len(kept) == 1 and f"table {ipsec.TABLE}" in kept[0]
    site[0].rekey()
    wait_for(lambda: (now := site[0].spis()) and not now & spis, what="other keys are in force")
    stays(lambda: pair.states() == ("Up", "Up") and own_routes(lab.gw) == kept, 1.2, "all is as before")
    # charon dies, and its interface and routes with it.
    site[0].kill()
    wait_for(lambda: pair.gw.tunnel()["state"] != "Up", what="it is noticed")
    assert not [line for line in own_routes(lab.gw) if ipsec.LINK in line]
    site[0].start().up()
    wait_for(lambda: carries(lab.gw, PEER, fits), what="the new route has the MTU")
    pair.up(30).measured(fits)
    assert len(own_routes(lab.gw)) == 1
    for agent in (pair.gw, pair.peer):
        assert agent.delete().status == 200
    assert {host: (routes(host), rules(host)) for host in before} == before


@pytest.fixture
def kernel_site(lab):
    """The kernel's own IPsec at both ends: policies over the route that leads outside."""
    if not ipsec.in_kernel(lab.gw):
        pytest.skip("this kernel has no ESP")
    ends = ((lab.gw, EXTERNAL, PEER_OUTSIDE, NEAR, FAR, "203.0.113.3", lab.wg),
            (lab.peer, PEER_OUTSIDE, EXTERNAL, FAR, NEAR, "198.51.100.1", lab.wg_peer))
    for host, own, other, near, far, hop, _ in ends:
        host.ip(f"route del {far[4][0]}", f"route add {far[4][0]} via {hop} src {near[4][1]}",
                ipsec.state(own, other), ipsec.state(other, own), *ipsec.policies(own, other, near[4][0], far[4][0]))
        lab.ur.ip(f"route add {near[4][0]} via {own}")  # what is not encrypted would get there
    yield
    lab.ur.ip(f"route del {NEAR[4][0]}", f"route del {FAR[4][0]}")
    for host, _, _, _, far, _, link in ends:
        host.ip("xfrm policy flush", "xfrm state flush", f"route del {far[4][0]}", f"route add {far[4][0]} dev {link}")


def test_kernel_ipsec(lab, kernel_site, make_pair):
    """Over the external interface: who was decrypted is let in, nobody else, and the route has the MTU."""
    before = {host: routes(host) for host in (lab.gw, lab.peer)}
    lab.underlay_mtu(1400)
    fits = ipsec.fits_in_kernel(1400, 1400)
    pair = make_pair(links=(None, None)).apply("auto").up()
    assert pair.measured(fits)["maxPodMTU"] == fits - 50
    wait_for(lambda: f" mtu {fits} " in lab.gw.run("ip", "route", "get", PEER).stdout, what="the route has the MTU")
    assert lab.mg.get(GATEWAY, 6443, "/client", lab.trust) == (200, f"{MANAGER}\n")
    # The same packets without IPsec are from outside.
    for host in (lab.gw, lab.peer):
        host.ip("xfrm policy flush")
    with pytest.raises(OSError):
        lab.mg.get(GATEWAY, 6443, "/client", lab.trust, timeout=2)
    for agent in (pair.gw, pair.peer):
        assert agent.delete().status == 200
    assert {host: routes(host) for host in before} == before


# vxlan, which costs 50: 20 + 8 + 8 and an Ethernet header.

@pytest.fixture
def vxlan(lab):
    """One at both ends, routed through, DF as given."""
    def make(df):
        for host, own, other, last in ((lab.gw, EXTERNAL, PEER_OUTSIDE, 1), (lab.peer, PEER_OUTSIDE, EXTERNAL, 2)):
            host.ip(f"link add site1 type vxlan id 7 local {own} remote {other} dstport 4789 df {df}",
                    f"addr add 10.77.0.{last}/30 dev site1", "link set site1 mtu 1450 up")
        lab.gw.ip(f"route replace {FAR[4][0]} via 10.77.0.2")
        lab.peer.ip(f"route replace {NEAR[4][0]} via 10.77.0.1")
        return ("site1", "site1")
    yield make
    for host in (lab.gw, lab.peer):
        host.ip("link del site1", check=False)
    lab.gw.ip(f"route add {FAR[4][0]} dev {lab.wg}")
    lab.peer.ip(f"route add {NEAR[4][0]} dev {lab.wg_peer}")


@pytest.mark.parametrize("df", ["set", "unset"])
def test_vxlan_over_a_smaller_path(lab, vxlan, make_pair, df):
    """Exact, whether the router drops what is too large or someone drops the pieces it makes of that."""
    lab.underlay_mtu(1400)
    lab.peer.nft("table ip whole { chain in { type filter hook prerouting priority -450; ip frag-off & 0x3fff != 0 drop; }; }\n")
    pair = make_pair(links=vxlan(df)).apply("auto").up()
    row = pair.measured(1350)
    assert row["maxPodMTU"] == 1300
    assert row["mtu"]["original"] == 1450
    assert lab.gw.mtu("site1") == 1350
    assert pair.gw.condition("PodMTUFits")["status"] == "True"


def both_ways(lab):
    """A transfer each way that lasts."""
    return [Transfer(a, b, at, 100_000_000, pause=0.02)
            for a, b, at in ((lab.cp1, lab.mg, MANAGER), (lab.mg, lab.cp1, CONTROL_PLANE["cp1"]))]


@pytest.mark.parametrize("first,then", [(1400, 1320), (1368, 1296)])
def test_a_path_that_shrinks_under_traffic(lab, vxlan, make_pair, first, then):
    """Exact before and after, and the transfers, begun when all was larger, go on."""
    lab.underlay_mtu(first)
    pair = make_pair(links=vxlan("set")).apply("auto").up()
    pair.measured(first - 50)
    flows = both_ways(lab)
    for flow in flows:
        flow.goes_on()
    lab.underlay_mtu(then)
    assert pair.measured(then - 50)["path"]["pmtud"] == "BlackHole"
    wait_for(lambda: lab.peer.mtu("site1") == then - 50, what="the other end follows")
    for flow in flows:
        flow.goes_on(20)  # their senders wait seconds between two tries by now
        flow.close()


# WireGuard.

def test_wireguard_that_comes_and_goes(lab, make_pair):
    """Ten times a new interface, half of them gone again in the middle of the measurement."""
    pair = make_pair()
    lab.underlay_mtu(1368)
    pair.apply("auto").up()
    wait_for(lambda: lab.gw.mtu(lab.wg) < 1400, 20, what="measured")
    low, before, files = lab.gw.mtu(lab.wg), routes(lab.gw), open_files(pair.gw.process)
    assert 1296 <= low <= 1308
    for number in range(10):
        lab.take_end("gw")
        wait_for(lambda: pair.gw.tunnel()["state"] == "Absent", what="Absent")
        lab.start_end("gw")
        wait_for(lambda: lab.gw.mtu(lab.wg) < 1420, what="the new interface gets an MTU")
        if number % 2:
            pair.up()
            pair.measured(low)
            assert pair.gw.tunnel()["mtu"]["original"] == 1420
    wait_for(lambda: lab.gw.mtu(lab.wg) == low and routes(lab.gw) == before, what="no route is left over")
    pair.measured(low)
    wait_for(lambda: open_files(pair.gw.process) == files, what="no socket is left over")


def test_a_path_that_shrinks_and_says_so_under_traffic(lab, make_pair):
    """wireguard-go's socket is told and sends in pieces: nothing has to follow, and nothing stalls."""
    loud(lab)
    pair = make_pair().apply("auto").up()
    pair.measured(1400)
    flows = both_ways(lab)
    for mtu in (1400, 1368, 1320, 1296):
        lab.underlay_mtu(mtu)
        for flow in flows:
            flow.goes_on(5)
        pair.measured(1400)
    for flow in flows:
        flow.close()


# IPv6 inside the tunnel.

def test_one_direction_at_a_time_in_ipv6(lab, make_pair):
    pair = make_pair(family=6).apply().up()
    cut(lab.gw, lab.wg, family=6)
    pair.become("OneWayTx", "OneWayRx")
    assert directions(pair.gw) == ("True", "False") and directions(pair.peer) == ("False", "True")
    restore(lab.gw)
    pair.up()
    cut(lab.peer, lab.wg_peer, family=6)
    pair.become("OneWayRx", "OneWayTx")
    restore(lab.peer)
    pair.up()


def test_a_large_transfer_each_way_in_ipv6(lab, make_pair):
    """Stalls on a silent path without agents, completes with them."""
    lab.underlay_mtu(1368)
    lab.peer.ip("link set eth0 mtu 1500", "route flush cache")
    narrow(lab.peer, 1368)  # the way back is as narrow
    there_and_back = ((lab.cp1, lab.mg, MANAGER6), (lab.mg, lab.cp1, CONTROL_PLANE6["cp1"]))
    stalled = [Transfer(a, b, at, 300_000) for a, b, at in there_and_back]
    stays(lambda: not any(t.arrived for t in stalled), 2, "without agents nothing large gets through")
    for t in stalled:
        t.close()
    pair = make_pair(family=6).apply("auto").up()
    wait_for(lambda: lab.gw.mtu(lab.wg) < 1400 and lab.peer.mtu(lab.wg_peer) < 1400, what="both ends follow")
    going = [Transfer(a, b, at, 3_000_000) for a, b, at in there_and_back]
    wait_for(lambda: all(t.done() for t in going), 20, what="both transfers complete")
    for t in going:
        t.close()
    pair.up()


def test_an_mtu_that_is_left_alone_again(contest):
    """The last of this file: a minute after the agent gave up it tries again, by itself."""
    gw, lab = contest.pair.gw, contest.lab
    wait_for(lambda: gw.tunnel()["mtu"]["state"] == "InSync", 70, what="InSync")
    row = gw.tunnel()
    assert row["mtu"]["actual"] == row["mtu"]["wanted"] == lab.gw.mtu(lab.wg) < 1400 and contest.in_bounds()
    contest.pair.up()
    assert contest.set_down() == []
