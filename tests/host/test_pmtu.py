# SPDX-License-Identifier: Apache-2.0
"""`pmtu` on real paths: gw - ur - peer, and through the tunnel, with a router that takes less and tells, or does not."""

import json
import os
import re
import shutil
import subprocess

import pytest

import lab as ground
from agent import BINARY
from netns import run, wait_for

FAR, FAR6 = "198.51.100.2", "2001:db8:198::2"  # peer, behind the router
INSIDE, INSIDE6 = "192.168.10.1", "fd00:10::1"  # peer, through the tunnel
COST = {"vxlan": (50, 70), "geneve": (58, 78), "ipip": (20, 20), "wireguard": (60, 80)}
MTUS = (1400, 1368, 1320, 1296)


@pytest.fixture(scope="module")
def lab():
    with ground.Lab(servers=False) as whole:
        whole.ur.ip("addr add 2001:db8:113::3/64 dev eth0", "addr add 2001:db8:198::1/64 dev eth1")
        whole.peer.ip(f"addr add {FAR6}/64 dev eth0", "route add default via 2001:db8:198::1")
        whole.gw.ip("route add 2001:db8:198::/64 via 2001:db8:113::3")
        for address in (FAR, FAR6, INSIDE, INSIDE6):
            wait_for(lambda: whole.gw.run("ping", "-c1", "-W1", address, check=False).returncode == 0,
                     what=f"{address} answers")
        yield whole


@pytest.fixture(autouse=True)
def as_before(lab):
    yield
    lab.underlay_mtu(1500)
    for host in (lab.ur, lab.peer):
        host.run("nft", "flush", "ruleset")
    for host in (lab.gw, lab.peer):  # what reports have taught them
        host.run("ip", "route", "flush", "cache")
        host.run("ip", "-6", "route", "flush", "cache")


def pmtu(lab, *arguments, user=None, host=None):
    as_user = ("setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--inh-caps=-all") if user else ()
    return (host or lab.gw).run(*as_user, BINARY, "pmtu", *arguments, check=False)


def measured(lab, address, *options, **more):
    done = pmtu(lab, address, "--json", *options, **more)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return json.loads(done.stdout)


def found(lab, address, *options, **more):
    document = measured(lab, address, *options, **more)
    return document["mtu"], document["pmtud"]


def silence(host):
    """Its own errors about large packets are filtered, as so often in the field."""
    host.nft("table inet silent { chain out { type filter hook output priority 0; "
             "icmp type destination-unreachable drop; icmpv6 type packet-too-big drop; }; }\n")


def lose(host, percent):
    """So many of the requests never arrive."""
    host.nft("table inet lossy { chain in { type filter hook prerouting priority -300; "
             f"icmp type echo-request numgen random mod 100 < {percent} drop; "
             f"icmpv6 type echo-request numgen random mod 100 < {percent} drop; }}; }}\n")


# The router.

@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("address", [FAR, FAR6])
def test_a_smaller_router_that_tells(lab, address, mtu):
    lab.underlay_mtu(mtu)
    assert found(lab, address) == (mtu, "Working")


@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("address", [FAR, FAR6])
def test_a_smaller_router_that_is_silent(lab, address, mtu):
    lab.underlay_mtu(mtu)
    silence(lab.ur)
    assert found(lab, address) == (mtu, "BlackHole")


@pytest.mark.parametrize("address", [FAR, FAR6])
def test_every_size_has_its_answer(lab, address):
    """Also odd values, and those next to what others would guess."""
    silence(lab.ur)
    for mtu in (1499, 1493, 1492, 1411, 1357, 1281, 1280):
        lab.underlay_mtu(mtu)
        assert found(lab, address) == (mtu, "BlackHole")


@pytest.mark.parametrize("mtu", (1100, 577, 576))
def test_small_ones_exist_in_ipv4_only(lab, mtu):
    lab.ur.ip(f"link set eth1 mtu {mtu}")
    silence(lab.ur)
    try:
        assert found(lab, FAR) == (mtu, "BlackHole")
    finally:
        lab.ur.ip("link set eth1 mtu 1500", "addr replace 2001:db8:198::1/64 dev eth1")  # below 1280 it has lost IPv6


@pytest.mark.parametrize("address", [FAR, FAR6])
def test_nothing_in_the_way(lab, address):
    assert found(lab, address) == (1500, "Working")
    silence(lab.ur)
    assert found(lab, address) == (1500, "Working")


@pytest.mark.parametrize("address", [FAR, FAR6])
@pytest.mark.parametrize("silent", [True, False])
def test_five_percent_loss(lab, address, silent):
    lose(lab.peer, 5)
    if silent:
        silence(lab.ur)
    for mtu in MTUS:
        lab.underlay_mtu(mtu)
        assert found(lab, address) == (mtu, "BlackHole" if silent else "Working")


@pytest.mark.parametrize("address", [FAR, FAR6])
def test_what_the_kernel_has_learnt_does_not_matter(lab, address):
    """After a report the kernel keeps the smaller value for ten minutes; the path is asked, not the kernel."""
    lab.underlay_mtu(1300)
    assert found(lab, address) == (1300, "Working")
    lab.gw.run("ping", "-c1", "-W1", "-M", "do", "-s", "1400", address, check=False)
    lab.underlay_mtu(1450)
    assert found(lab, address) == (1450, "Working")


def test_a_router_that_answers_only_so_often(lab):
    lab.peer.nft("table inet rationed { chain in { type filter hook prerouting priority -300; "
                 "icmp type echo-request limit rate over 200/second burst 10 packets drop; }; }\n")
    silence(lab.ur)
    lab.underlay_mtu(1368)
    assert found(lab, FAR) == (1368, "BlackHole")


# The tunnel. WireGuard fills packets up to 16 bytes but not beyond its link's MTU, and costs 60 over IPv4.

def fits_inside(underlay, link):
    return max(n for n in range(576, link + 1) if min(-(-n // 16) * 16, link) + 60 <= underlay)


@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("address", [INSIDE, INSIDE6])
def test_through_a_tunnel_over_a_silent_router(lab, address, mtu):
    silence(lab.ur)
    lab.underlay_mtu(mtu)
    expected = fits_inside(mtu, lab.gw.mtu(lab.wg))
    if ":" in address and expected < 1280:
        done = pmtu(lab, address)
        assert done.returncode == 1 and done.stderr.startswith("NoAnswer: ")
    else:
        assert found(lab, address) == (expected, "BlackHole")


@pytest.mark.parametrize("address", [INSIDE, INSIDE6])
def test_through_a_tunnel_that_fits(lab, address):
    assert found(lab, address) == (1420, "Working")
    lab.gw.ip(f"link set {lab.wg} mtu 1380")
    try:
        assert found(lab, address) == (1380, "Working")
    finally:
        lab.gw.ip(f"link set {lab.wg} mtu 1420")


@pytest.mark.parametrize("address", [INSIDE, INSIDE6])
def test_through_a_tunnel_whose_ends_are_told(lab, address):
    """Once told, the kernel under wireguard-go fragments the outer packets: everything passes then."""
    lab.underlay_mtu(1368)
    lab.gw.run("ping", "-c3", "-i0.2", "-W1", "-M", "do", "-s", "1350", address, check=False)
    lab.peer.run("ping", "-c3", "-i0.2", "-W1", "-M", "do", "-s", "1350", "192.168.150.1", check=False)
    assert found(lab, address) == (1420, "Working")


def test_through_a_tunnel_with_loss(lab):
    silence(lab.ur)
    lose(lab.peer, 5)
    lab.underlay_mtu(1368)
    assert found(lab, INSIDE) == (fits_inside(1368, 1420), "BlackHole")


# Who may, and what it prints.

@pytest.fixture
def anyone(lab):
    lab.gw.sysctl("ipv4/ping_group_range", "0 65535")
    yield "65534"
    lab.gw.sysctl("ipv4/ping_group_range", "1 0")


@pytest.fixture(scope="module")
def open_binary(tmp_path_factory):
    """Where a user without privileges can reach it."""
    directory = tmp_path_factory.mktemp("open")
    for path in (directory, *list(directory.parents)[:-2]):
        os.chmod(path, 0o755)
    return shutil.copy(BINARY, directory)


@pytest.mark.parametrize("address", [FAR, FAR6])
def test_without_privileges(lab, anyone, open_binary, monkeypatch, address):
    monkeypatch.setitem(globals(), "BINARY", open_binary)
    lab.underlay_mtu(1368)
    assert found(lab, address, user=anyone) == (1368, "Working")
    silence(lab.ur)
    lab.underlay_mtu(1320)
    assert found(lab, address, user=anyone) == (1320, "BlackHole")
    done = pmtu(lab, address, user=anyone)
    assert "ping socket" in done.stdout


def test_without_permission(lab, open_binary, monkeypatch):
    monkeypatch.setitem(globals(), "BINARY", open_binary)
    lab.gw.sysctl("ipv4/ping_group_range", "1 0")
    done = pmtu(lab, FAR, user="65534")
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith("PermissionDenied: ") and "CAP_NET_RAW" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("address,family", [(FAR, 0), (FAR6, 1)])
def test_the_document(lab, address, family):
    lab.underlay_mtu(1400)
    document = measured(lab, address)
    assert list(document) == ["address", "mtu", "pmtud", "method", "elapsedMs", "maxPodMTU"]
    assert document["address"] == address and document["method"] == "ICMPEcho"
    assert document["elapsedMs"] > 0
    assert document["maxPodMTU"] == {name: 1400 - cost[family] for name, cost in COST.items()}


def test_the_table(lab):
    lab.underlay_mtu(1400)
    done = pmtu(lab, FAR)
    assert done.returncode == 0 and not done.stderr
    for text in (FAR, "1400 bytes", "Working", "ICMP echo", "vxlan 1350", "geneve 1342", "ipip 1380", "wireguard 1340"):
        assert text in done.stdout
    silence(lab.ur)
    assert "BlackHole" in pmtu(lab, FAR).stdout


def test_progress_is_for_terminals(lab):
    ours, theirs = os.openpty()
    silence(lab.ur)
    lab.underlay_mtu(1368)
    done = subprocess.run(["ip", "netns", "exec", lab.gw.full, BINARY, "pmtu", FAR], stdout=subprocess.PIPE, stderr=theirs,
                          timeout=30, check=True, text=True)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "1368 bytes" in done.stdout and "\r" not in done.stdout
    assert re.search(r"\r\d+ to \d+ bytes", shown) and shown.endswith("\r\x1b[K")


def test_names_and_limits(lab):
    document = measured(lab, "localhost", "--max", "1234")
    assert document["address"] in ("127.0.0.1", "::1")
    assert (document["mtu"], document["pmtud"]) == (1234, "Working")
    assert found(lab, "127.0.0.1") == (65535, "Working")
    lab.underlay_mtu(1400)
    assert found(lab, FAR, "--max", "1300") == (1300, "Working")
    assert found(lab, FAR, "--max", "9000") == (1400, "Working")
    assert found(lab, FAR, "--max", "68") == (68, "Working")


def test_nobody_there(lab):
    lab.peer.nft("table inet deaf { chain in { type filter hook prerouting priority -300; icmp type echo-request drop; }; }\n")
    done = pmtu(lab, FAR)
    assert done.returncode == 1 and not done.stdout and done.stderr.startswith("NoAnswer: ")
    lab.ur.nft("table ip refuse { chain f { type filter hook forward priority 0; reject with icmp type admin-prohibited; }; }\n")
    done = pmtu(lab, FAR, "--json")
    assert done.returncode == 1 and not done.stdout and done.stderr.startswith("NoAnswer: ")


def test_no_way_there(lab):
    lab.cp1.ip("route del default")
    done = pmtu(lab, FAR, host=lab.cp1)
    assert done.returncode == 1 and done.stderr.startswith("NoRoute: ") and FAR in done.stderr
    lab.cp1.ip(f"route add default via {ground.GATEWAY}")
    done = pmtu(lab, "203.0.113.77")  # on the link, but no such neighbour
    assert done.returncode == 1 and done.stderr.startswith("NoAnswer: ")


def test_a_name_that_is_none():
    done = run(BINARY, "pmtu", "no-such-host.invalid", check=False)
    assert done.returncode == 1 and done.stderr.startswith("NameNotFound: ")


@pytest.mark.parametrize("arguments", [
    (), (FAR, FAR6), ("",), (FAR, "--max"), (FAR, "--max", "x"), (FAR, "--max", "67"), (FAR, "--max", "65536"),
    (FAR, "--max", "-1"), (FAR, "--max", "1400 "), (FAR, "--fast")])
def test_wrong_usage(arguments):
    done = run(BINARY, "pmtu", *arguments, check=False)
    assert done.returncode == 2 and done.stderr.strip() and not done.stdout
