# SPDX-License-Identifier: Apache-2.0
"""Tunnels as they are measured: an agent at each end, and what happens to packets in between."""

import signal
import socket

import pytest

from agent import PROBE_PORT
from lab import CONTROL_PLANE, GATEWAY, MANAGER
from netns import stays, wait_for
from observe import Capture
from pairs import PEER, VXLAN, Pair, Transfer, access, cut, directions, here, known_by_echoes, narrow, restore, there
from specs import kube, spec, tunnel


@pytest.fixture
def pair(lab, start_agent):
    whole = Pair(lab, start_agent(), start_agent(host="peer", control=False))
    # What the kernel has learnt of earlier paths would have it fragment the tunnel's packets.
    for host in (lab.gw, lab.peer):
        host.ip("route flush cache")
    yield whole
    lab.underlay_mtu(1500)
    for host in (lab.ur, lab.gw, lab.peer):
        for table in ("silent", "oneway"):
            host.run("nft", "delete", "table", "ip" if table == "silent" else "inet", table, check=False)


def test_both_ends_say_up(lab, pair):
    pair.apply().up()
    wait_for(lambda: pair.gw.tunnel()["path"].get("reverseMtu"), what="the way back is known")
    row = wait_for(lambda: pair.gw.tunnel()["peer"]["lossPercent"] == 0 and pair.gw.tunnel(), what="the loss is known")
    assert row["peer"]["address"] == PEER and row["peer"]["agent"] is True
    assert 0 <= row["peer"]["rttMs"] < 200 and row["peer"]["lossPercent"] == 0 and row["peer"]["lastHeard"]
    assert directions(pair.gw) == directions(pair.peer) == ("True", "True")
    assert access(pair.gw) == access(pair.peer) == "True"


def test_round_trips_do_not_move_the_revision(lab, pair):
    pair.apply().up()
    wait_for(lambda: pair.gw.tunnel()["path"].get("reverseMtu"), what="everything is measured")
    revision = pair.gw.status()["revision"]
    stays(lambda: pair.gw.status()["revision"] == revision, 4, "nothing of substance changes")


def test_one_direction_at_a_time(lab, pair):
    pair.apply().up()
    cut(lab.gw, lab.wg)
    pair.become("OneWayTx", "OneWayRx")
    assert access(pair.gw) == access(pair.peer) == "False"
    # Who hears nothing knows by the last word alone that it is heard, and that gets too old; who hears knows for certain.
    pair.become("Down", "OneWayRx")
    assert directions(pair.gw) == ("Unknown", "False")
    stays(lambda: pair.states() == ("Down", "OneWayRx"), 2)
    assert directions(pair.peer) == ("False", "True")
    assert access(pair.gw) == access(pair.peer) == "False"
    restore(lab.gw)
    pair.up()
    cut(lab.peer, lab.wg_peer)
    pair.become("OneWayRx", "OneWayTx")
    restore(lab.peer)
    pair.up()
    assert access(pair.gw) == "True"


def test_both_directions_at_once(lab, pair):
    """Nothing passes any more: both ends say so within seconds, although each has the other's last good word."""
    pair.apply().up()
    cut(lab.gw, lab.wg)
    cut(lab.peer, lab.wg_peer)
    pair.become("Down", "Down", 12)
    stays(lambda: pair.states() == ("Down", "Down"), 2)
    assert directions(pair.gw) == directions(pair.peer) == ("Unknown", "False")
    restore(lab.gw)
    restore(lab.peer)
    pair.up()


def test_an_agent_that_falls_silent(lab, pair):
    """It is stopped, and nothing refuses in its place: its host is asked, and the tunnel stays what it is."""
    pair.apply().up()
    pair.peer.process.send(signal.SIGSTOP)
    try:
        stays(lambda: pair.gw.tunnel()["state"] in ("Up", "OneWayTx"), 6, "never Down")
        wait_for(lambda: pair.gw.tunnel()["state"] == "Up", what="Up by echoes")
        stays(lambda: pair.gw.tunnel()["state"] == "Up", 6)
    finally:
        pair.peer.process.send(signal.SIGCONT)
    pair.up()


def test_no_route_to_the_peer(lab, pair):
    pair.apply().up()
    lab.gw.ip(f"route del 192.168.10.0/24 dev {lab.wg}")
    try:
        wait_for(lambda: pair.gw.tunnel()["state"] == "NoRoute", what="NoRoute")
        wait_for(lambda: access(pair.gw) == "False", what="no management access")
    finally:
        lab.gw.ip(f"route add 192.168.10.0/24 dev {lab.wg}")
    pair.up()


def test_an_interface_that_is_down(lab, pair):
    pair.apply().up()
    lab.gw.ip(f"link set {lab.wg} down")
    try:
        wait_for(lambda: pair.gw.tunnel()["state"] == "Down", what="Down")
    finally:
        lab.gw.ip(f"link set {lab.wg} up", "route replace 192.168.10.0/24 dev " + lab.wg,
                  "route replace fd00:10::/64 dev " + lab.wg)
    pair.up()


def test_probes_from_outside_are_not_answered(lab, pair):
    """Neither from the external network nor through the tunnel from an address that is not the peer's."""
    pair.apply().up()
    packet = b"vgwP\x01\x01\0\0" + b"12345678" + (60).to_bytes(2, "big") + bytes(14)
    assert len(packet) == 32

    def answered(host, source=None):
        with host.socket(GATEWAY, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0.5)
            if source:
                sock.bind((source, 0))
            sock.sendto(packet, (GATEWAY, PROBE_PORT))
            try:
                return sock.recv(100)[:6] == b"vgwP\x01\x02"
            except OSError:
                return False
    assert answered(lab.peer, PEER), "the peer itself is answered"
    assert answered(lab.mg), "and so is a host of its network"
    assert not answered(lab.ext)
    assert not answered(lab.peer, "10.255.0.2")
    assert not answered(lab.cl)


def test_two_agents_follow_the_path(lab, pair):
    """mtu auto, the path's routers saying nothing: down at once, and the pods' condition with it."""
    lab.underlay_silent()
    pair.apply("auto").up()
    wait_for(lambda: pair.gw.tunnel()["path"].get("mtu") == 1400, what="the path carries maxMTU")
    assert lab.gw.mtu(lab.wg) == 1400
    assert pair.gw.condition("PodMTUFits")["status"] == "True"
    lab.underlay_mtu(1368)
    row = wait_for(lambda: pair.gw.tunnel()["path"]["mtu"] < 1400 and pair.gw.tunnel(), 20, what="the smaller path is found")
    # WireGuard pads to 16 bytes, up to its link's MTU: 1368 leaves 1308, and of a link of 1400 only 1296 gets through.
    assert 1296 <= row["path"]["mtu"] <= 1308
    assert row["path"]["pmtud"] == "BlackHole"
    wait_for(lambda: lab.gw.mtu(lab.wg) == row["path"]["mtu"], what="the link follows")
    wait_for(lambda: pair.gw.tunnel()["state"] == "Up", what="nothing in use is too large")
    row = pair.gw.tunnel()
    assert row["mtu"]["state"] == "InSync" and row["mtu"]["wanted"] == row["mtu"]["actual"] == row["path"]["mtu"]
    wait_for(lambda: pair.gw.condition("PodMTUFits")["status"] == "False", what="pods of 1300 do not fit")


@pytest.mark.parametrize("underlay,least,most", [(1400, 1328, 1340), (1368, 1296, 1308), (1320, 1248, 1260),
                                                 (1296, 1232, 1236)])
def test_a_number_too_large_is_a_black_hole(lab, pair, underlay, least, most):
    """The MTU stays as given, and is measured all the same. Only one direction of this path is too small: the other
    end's own link fragments."""
    lab.underlay_silent()
    lab.underlay_mtu(underlay)
    pair.apply(1400)
    wait_for(lambda: pair.gw.tunnel()["state"] == "BlackHole", what="BlackHole")
    row = pair.gw.tunnel()
    assert least <= row["path"]["mtu"] <= most and row["mtu"]["actual"] == 1400
    assert row["maxPodMTU"] == row["path"]["mtu"] - 50
    assert pair.gw.condition("TunnelMTUReady")["reason"] == "BlackHole"
    wait_for(lambda: pair.peer.tunnel("back")["path"].get("reverseMtu") == row["path"]["mtu"],
             what="the other end is told")
    wait_for(lambda: pair.gw.tunnel()["path"].get("reverseMtu") == pair.peer.tunnel("back")["path"]["mtu"] == 1400,
             what="and knows its own direction")


@pytest.mark.parametrize("underlay", [1400, 1368, 1320, 1296])
def test_where_icmp_passes_the_outer_packets_are_fragmented(lab, pair, underlay):
    """wireguard-go's socket takes part in PMTU discovery: once the router has spoken, everything passes, in pieces."""
    lab.underlay_mtu(underlay)
    pair.apply(1400)
    wait_for(lambda: pair.gw.tunnel()["path"].get("mtu"), what="a measurement")
    wait_for(lambda: pair.gw.tunnel()["state"] == "Up" and pair.gw.tunnel()["path"]["mtu"] == 1400, 30, what="Up")


def test_upwards_again_behind_a_route_that_holds(lab, pair):
    """A link that comes back is searched upwards: raised for the length of the search, our route holding the MTU."""
    lab.underlay_silent()
    lab.underlay_mtu(1368)
    pair.apply("auto").up()
    wait_for(lambda: lab.gw.mtu(lab.wg) < 1400, what="down")
    low = lab.gw.mtu(lab.wg)
    lab.underlay_mtu(1500)
    watch = lab.gw.spawn("ip", "-o", "monitor", "route", log="route-monitor")
    lab.gw.ip(f"link set {lab.wg} down")
    wait_for(lambda: pair.gw.tunnel()["state"] == "Down", what="Down")
    lab.gw.ip(f"link set {lab.wg} up", f"route replace 192.168.10.0/24 dev {lab.wg}",
              f"route replace fd00:10::/64 dev {lab.wg}")
    wait_for(lambda: pair.gw.tunnel()["path"]["mtu"] == 1400, 20, what="the larger path is found")
    wait_for(lambda: lab.gw.mtu(lab.wg) == 1400, what="the link follows")
    wait_for(lambda: not [r for r in lab.gw.ip_json("route show") if r.get("protocol") in ("86", "vgw-agent")],
             what="the route of the search is gone")
    watch.stop()
    held = [line for line in watch.text().splitlines() if "192.168.10.0/24" in line and f"mtu {low}" in line]
    assert held, "our own route held the MTU in use"
    row = pair.gw.tunnel()
    assert row["state"] == "Up" and row["mtu"]["original"] == 1420 and row["mtu"]["actual"] == 1400
    assert [d for d in pair.gw.status()["drift"] if lab.wg in d["object"]] == []


def test_a_link_that_is_down_for_a_moment(lab, pair):
    """So short that nobody sees it down: what lies behind it is measured anew all the same, and upwards."""
    lab.underlay_silent()
    lab.underlay_mtu(1368)
    pair.apply("auto").up()
    wait_for(lambda: lab.gw.mtu(lab.wg) < 1400, what="down")
    wait_for(lambda: pair.gw.tunnel()["mtu"]["state"] == "InSync", what="settled")
    lab.underlay_mtu(1500)
    stays(lambda: lab.gw.mtu(lab.wg) < 1400, 1, "nothing says that there is more room now")
    lab.gw.run("ip", "-batch", "-", stdin=f"link set {lab.wg} down\nlink set {lab.wg} up\n"
               f"route replace 192.168.10.0/24 dev {lab.wg}\nroute replace fd00:10::/64 dev {lab.wg}\n")
    wait_for(lambda: lab.gw.mtu(lab.wg) == 1400, 20, what="the larger path is found")
    wait_for(lambda: pair.gw.tunnel()["state"] == "Up" and pair.gw.tunnel()["path"]["mtu"] == 1400, what="Up")


def test_a_restart_does_not_try_what_was_too_large(lab, pair):
    lab.underlay_silent()
    lab.underlay_mtu(1368)
    pair.apply("auto").up()
    wait_for(lambda: lab.gw.mtu(lab.wg) < 1400, what="down")
    low = lab.gw.mtu(lab.wg)
    pair.gw.kill()
    pair.gw.start()
    stays(lambda: lab.gw.mtu(lab.wg) == low, 3, "the MTU found before is kept")
    pair.up()
    assert pair.gw.tunnel()["path"]["mtu"] == low


def test_a_peer_without_an_agent(lab, start_agent):
    """Measured by echoes, both directions at once; its path shrinks, and it falls silent."""
    lab.gw.ip("route flush cache")
    agent = start_agent()
    agent.apply(here(lab, "auto"), settled=False)
    known_by_echoes(lab, agent)


def test_the_management_side(lab, start_agent):
    """Role management: no tunnel interface is named, so a route carries the MTU, and packets are measured all the same."""
    gw, peer = start_agent(), start_agent(host="peer", control=False)
    whole = there(lab, "auto", role="management")
    del whole["tunnels"][0]["interface"]
    gw.apply(here(lab, "auto"), settled=False)
    peer.apply(whole, settled=False)
    wait_for(lambda: gw.tunnel()["state"] == peer.tunnel("back")["state"] == "Up", what="both say Up")
    wait_for(lambda: peer.tunnel("back")["path"].get("mtu") == 1400, what="measured")
    assert directions(peer) == directions(gw) == ("True", "True")


@pytest.mark.parametrize("ipv6", [False, True])
def test_the_clamp_follows(lab, pair, ipv6):
    """Below 1280 too; the link only where nothing uses it for IPv6, which the kernel would take off it. Then a route of
    ours holds what IPv4 needs."""
    routes6 = [(host, f"fd00:{net}::/64 dev {link}") for host, net, link in
               ((lab.gw, 10, lab.wg), (lab.peer, 150, lab.wg_peer))]
    for host, route in () if ipv6 else routes6:
        host.ip(f"route del {route}")
    try:
        lab.underlay_silent()
        lab.underlay_mtu(1320)
        pair.apply("auto").up() if not ipv6 else pair.apply("auto")
        low = wait_for(lambda: pair.gw.tunnel()["path"].get("mtu", 1400) < 1280 and pair.gw.tunnel()["path"]["mtu"],
                       what="the path is measured")
        wait_for(lambda: lab.gw.mtu(lab.wg) == (1280 if ipv6 else low), what="the link follows")
        wait_for(lambda: pair.gw.tunnel()["state"] == "Up", what="the state")
        way = lab.gw.run("ip", "route", "get", "192.168.10.10").stdout
        assert ipv6 == (f"mtu {low}" in way), way
        row = pair.gw.tunnel()["mtu"]
        assert (row["state"], row["wanted"]) == ("OutOfRange" if ipv6 else "InSync", low)
        with Capture(lab.mg, "eth0", "tcp[tcpflags] & tcp-syn != 0") as far:
            assert lab.mg.get(GATEWAY, 6443, "/", lab.trust)[0] == 200
            far.find(rf"{GATEWAY}\.6443 > .*mss {low - 40}")
        assert ipv6 == bool(lab.gw.run("ip", "-6", "route", "show", "fd00:10::/64").stdout)
    finally:
        pair.gw.delete()
        pair.peer.delete()
        assert "mtu" not in lab.gw.run("ip", "route", "show", "192.168.10.0/24").stdout
        for host, route in () if ipv6 else routes6:
            host.ip(f"link set {route.split()[-1]} mtu 1420", f"route replace {route}")


def test_a_large_transfer_each_way(lab, start_agent):
    """Stalls on a silent path without agents, completes with them. Forwarded: the senders know nothing of the tunnel."""
    lab.gw.ip("route flush cache")
    lab.underlay_silent()
    lab.underlay_mtu(1320)
    # The way back is as narrow: the peer's own link does not fragment either.
    lab.peer.ip("link set eth0 mtu 1500", "route flush cache")
    narrow(lab.peer, 1320)
    there_and_back = ((lab.cp1, lab.mg, MANAGER), (lab.mg, lab.cp1, CONTROL_PLANE["cp1"]))
    try:
        stalled = [Transfer(a, b, at, 300_000) for a, b, at in there_and_back]
        stays(lambda: not any(t.done() for t in stalled), 3, "without agents nothing large gets through")
        for t in stalled:
            t.close()
        pair = Pair(lab, start_agent(), start_agent(host="peer", control=False)).apply("auto").up()
        wait_for(lambda: lab.gw.mtu(lab.wg) < 1400 and lab.peer.mtu(lab.wg_peer) < 1400, what="both ends follow")
        going = [Transfer(a, b, at, 3_000_000) for a, b, at in there_and_back]
        wait_for(lambda: all(t.done() for t in going), 20, what="both transfers complete")
        for t in going:
            t.close()
        wait_for(lambda: pair.gw.tunnel()["path"]["reverseMtu"] < 1400, what="this end is told of the way back")
    finally:
        restore(lab.peer)
        lab.underlay_mtu(1500)
        lab.ur.run("nft", "delete", "table", "ip", "silent")


SITE = ("link add site0 link low0 address 02:00:00:00:66:01 type macvlan mode bridge", "link set site0 up",
        "addr add 10.66.0.1/30 dev site0", "route add 192.168.20.0/24 via 10.66.0.2 dev site0")


@pytest.fixture
def beyond(lab):
    """A plain link for a tunnel, and a router behind it that says what it cannot pass on: 1300 is the most."""
    lab.wire("gw", "low0", "", "ext", "low0", "10.66.0.2/30")
    lab.gw.ip("link set low0 arp off")  # or it answers for the addresses of what stands on it
    lab.wire("ext", "far0", "10.68.0.1/30", "ur", "far0", "10.68.0.2/30 192.168.20.1/24", mtu=1300)
    lab.gw.ip(*SITE)
    lab.ext.ip("route add 192.168.20.0/24 via 10.68.0.2", f"route add {GATEWAY}/32 via 10.66.0.1")
    lab.ur.ip("route add 192.168.150.0/24 via 10.68.0.1")
    yield
    lab.gw.ip("link del low0", "route flush cache")
    lab.ext.ip("link del far0")
    lab.ur.ip("route flush cache")


def test_a_link_that_is_made_anew(lab, start_agent, beyond):
    """So fast that nobody sees it gone; it has the same name and another index, and another path behind it."""
    agent = start_agent()
    agent.apply(spec(kube(), tunnels=[tunnel("site0", "auto", network="192.168.20.0/24", address="192.168.20.1")]),
                settled=False)
    wait_for(lambda: lab.gw.mtu("site0") == 1300 and agent.tunnel()["state"] == "Up", 15, what="the path is followed")
    for host in (lab.ext, lab.ur):
        host.ip("link set far0 mtu 1500")
    stays(lambda: lab.gw.mtu("site0") == 1300, 1, "nothing says that there is more room now")
    lab.gw.ip("link del site0", *SITE)
    wait_for(lambda: lab.gw.mtu("site0") == 1400 and agent.tunnel()["state"] == "Up", 20, what="the larger path is found")


def test_echoes_that_come_back_another_way(lab, start_agent, beyond):
    """Outside the tunnel: of the tunnel they say nothing."""
    agent = start_agent()
    agent.apply(spec(kube(), tunnels=[tunnel("site0", network="192.168.20.0/24", address="192.168.20.1")]), settled=False)
    wait_for(lambda: agent.tunnel()["state"] == "Up", what="Up")
    lab.ext.ip(f"route del {GATEWAY}/32")
    ping = lab.gw.run("ping", "-c1", "-W2", "-I", GATEWAY, "192.168.20.1", check=False)
    assert ping.returncode == 0, "by the external network the way back is open"
    wait_for(lambda: agent.tunnel()["state"] == "Down", what="Down")
    assert agent.tunnel()["path"]["pmtud"] in ("Unknown", "Working")


def test_a_number_too_large_where_routers_say_so(lab, start_agent, beyond):
    """Discovery works, and packets of the MTU in force do not arrive: both are said, for as long as it is so."""
    agent = start_agent()
    agent.apply(spec(kube(), tunnels=[tunnel("site0", network="192.168.20.0/24", address="192.168.20.1")], cni=VXLAN),
                settled=False)
    wait_for(lambda: agent.tunnel()["path"].get("mtu") == 1300, 15, what="measured")
    row = wait_for(lambda: agent.tunnel()["state"] == "BlackHole" and agent.tunnel(), what="BlackHole")
    assert row["path"]["pmtud"] == "Working" and row["mtu"]["actual"] == 1400 and row["mtu"]["state"] == "InSync"
    assert agent.condition("TunnelMTUReady")["reason"] == "BlackHole"
    assert row["maxPodMTU"] == 1250
    stays(lambda: agent.tunnel()["state"] == "BlackHole", 6, "it stays so")
    for host in (lab.ext, lab.ur):
        host.ip("link set far0 mtu 1500")
    wait_for(lambda: agent.tunnel()["state"] == "Up", 30, what="Up, now that it fits")
    assert agent.tunnel()["path"]["mtu"] == 1400
