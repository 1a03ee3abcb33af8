# SPDX-License-Identifier: Apache-2.0
"""MTUs that an interface cannot have: what is said of them, and what is left alone meanwhile."""

import json

import pytest

from lab import GATEWAY, MANAGER
from netns import stays, wait_for
from observe import Capture
from specs import dual_stack, kube, spec, tunnel

SYN = "tcp[tcpflags] & tcp-syn != 0"


def mtu_of(agent, state, name="mgmt"):
    """The tunnel's MTU, once it is said to be in that state."""
    return wait_for(lambda: agent.tunnel(name)["mtu"]["state"] == state and agent.tunnel(name)["mtu"], what=state)


def ready(agent):
    return agent.condition("TunnelMTUReady")


@pytest.fixture
def site(lab):
    """Interfaces that stand for tunnels: what is made of them goes with the test."""
    made = []

    def make(words, name="site0"):
        lab.gw.ip(f"link add {name} {words}", f"link set {name} up")
        made.append(name)
        return name
    yield make
    for name in made:
        lab.gw.ip(f"link del {name}", check=False)


@pytest.fixture
def below(lab):
    """A device for others to stand on."""
    lab.wire("gw", "low0", "10.67.0.1/30", "ext", "low0", "10.67.0.2/30")
    yield "low0"
    lab.gw.ip("link del low0", check=False)


def tries(agent):
    """What the agent has tried in vain."""
    return [line for line in agent.log().splitlines() if " mtu " in line and "failed" in line]


KINDS = {"macvlan": ("link low0 type macvlan mode bridge", 1500),
         "vxlan": ("mtu 1400 type vxlan id 7 remote 10.67.0.2 dstport 4789 dev low0", 1450),
         "vxlan over IPv6": ("mtu 1400 type vxlan id 7 remote fd67::2 dstport 4789 dev low0", 1430)}


@pytest.mark.parametrize("kind", KINDS)
def test_more_than_the_device_below_carries(lab, agent, site, below, kind):
    """The kernel refuses it, without a word of it in the device's own maximum."""
    words, most = KINDS[kind]
    name = site(words)
    before = lab.gw.mtu(name)
    agent.apply(spec(kube(), tunnels=[tunnel(name, mtu=most + 1)]))
    row = mtu_of(agent, "OutOfRange")
    assert (row["wanted"], row["actual"], row["maximum"]) == (most + 1, before, most)
    assert ready(agent)["status"] == "False" and ready(agent)["reason"] == "OutOfRange"
    for number in (most + 1, most, before):
        assert str(number) in ready(agent)["message"]
    assert agent.condition("FrontendsProgrammed")["status"] == "True", "the rest of the spec is in force"
    assert tries(agent) == []
    # The same number is right when the device below grows: nobody has to ask again.
    lab.gw.ip("link set low0 mtu 1600")
    mtu_of(agent, "InSync")
    assert lab.gw.mtu(name) == most + 1
    # And a spec with another number is tried at once.
    lab.gw.ip("link set low0 mtu 1500", f"link set {name} mtu {most - 20}")
    agent.apply(spec(kube(), tunnels=[tunnel(name, mtu=most)]))
    mtu_of(agent, "InSync")
    assert lab.gw.mtu(name) == most
    assert tries(agent) == []


def test_more_or_less_than_the_device_takes(lab, agent, site):
    """By the bounds that the kernel itself names for the device."""
    site("type bridge")
    lab.gw.ip("link set site0 mtu 1400")
    row, = json.loads(lab.gw.run("ip", "-d", "-j", "link", "show", "site0").stdout)
    agent.apply(spec(kube(), tunnels=[tunnel("site0", mtu=1300)]))
    row = mtu_of(agent, "InSync") | {"kernel": (row["min_mtu"], row["max_mtu"])}
    assert (row["minimum"], row["maximum"]) == row["kernel"]
    assert ready(agent)["status"] == "True"


def test_what_the_kernel_refuses_for_reasons_of_its_own(lab, agent, below):
    """The device below is in another namespace, so no bound is known: it is tried once, and again when something changes."""
    lab.ext.ip(f"link add link low0 name site0 netns {lab.gw.full} type macvlan mode bridge")
    lab.gw.ip("link set site0 up")
    whole = spec(kube(), tunnels=[tunnel("site0", mtu=1600)])
    agent.apply(whole)
    row = mtu_of(agent, "OutOfRange")
    assert (row["wanted"], row["actual"]) == (1600, 1500)
    assert ready(agent)["reason"] == "OutOfRange" and "refuses an MTU of 1600" in ready(agent)["message"]
    assert agent.condition("FrontendsProgrammed")["status"] == agent.condition("HostHealthy")["status"] == "True"
    assert len(tries(agent)) == 1
    # Other links come and go: that is no reason to try.
    lab.gw.ip("link add other0 type bridge", "link del other0")
    stays(lambda: len(tries(agent)) == 1, 2.5, "nothing is tried again")
    # The link itself changes: one more.
    lab.gw.ip("link set site0 mtu 1490")
    wait_for(lambda: len(tries(agent)) == 2, what="tried again")
    stays(lambda: len(tries(agent)) == 2, 1.5, "and once")
    # The same number in a new spec, now that the device below carries it.
    lab.ext.ip("link set low0 mtu 1600")
    agent.apply(spec(kube(), tunnels=[tunnel("site0", mtu=1600)]))
    mtu_of(agent, "InSync")
    assert lab.gw.mtu("site0") == 1600


def test_ipv6_keeps_its_1280(lab, agent, site, below):
    """Below it the kernel would take IPv6 off the interface, with its addresses and routes."""
    lab.gw.ip("addr add fd67::1/64 dev low0 nodad")
    agent.apply(spec(kube(), tunnels=[tunnel("low0", mtu=1200)]))
    row = mtu_of(agent, "OutOfRange")
    assert (row["wanted"], row["actual"], row["minimum"]) == (1200, 1500, 1280)
    assert "IPv6" in ready(agent)["message"] and "1280" in ready(agent)["message"]
    assert "fd67::1" in lab.gw.run("ip", "-6", "addr", "show", "dev", "low0").stdout
    agent.apply(spec(kube(), tunnels=[tunnel("low0", mtu=1280)]))
    mtu_of(agent, "InSync")
    assert "fd67::1" in lab.gw.run("ip", "-6", "addr", "show", "dev", "low0").stdout
    # Without IPv6 there is nothing to lose.
    lab.gw.ip("addr del fd67::1/64 dev low0")
    agent.apply(spec(kube(), tunnels=[tunnel("low0", mtu=1200)]))
    mtu_of(agent, "InSync")
    assert lab.gw.mtu("low0") == 1200


def test_traffic_meanwhile(lab, agent):
    """TCP is kept to the smaller of what was asked for and what is there; the pods' MTU follows what is there."""
    cni = {"name": "calico", "encapsulation": "vxlan", "vethMTU": 1350}
    low = dual_stack(kube(), tunnels=[tunnel(lab.wg, mtu=1200)], cni=cni)
    agent.apply(low)
    row = mtu_of(agent, "OutOfRange")
    assert (row["wanted"], row["actual"], row["minimum"]) == (1200, 1420, 1280), "the interface has a route of IPv6"
    assert lab.gw.mtu(lab.wg) == 1420
    with Capture(lab.mg, "eth0", SYN) as far:
        assert lab.mg.get(GATEWAY, 6443, "/", lab.trust)[0] == 200
        far.find(rf"{GATEWAY}\.6443 > {MANAGER}.*mss 1160")
    assert agent.tunnel()["maxPodMTU"] <= 1420 - 50
    assert agent.delete().status == 200
    assert lab.gw.mtu(lab.wg) == 1420


def test_a_link_that_was_set_before(lab, agent, site, below):
    """A spec that cannot be carried out leaves what the one before has set, and teardown still gives the old value back."""
    name = site("link low0 type macvlan mode bridge")
    agent.apply(spec(kube(), tunnels=[tunnel(name, mtu=1400)]))
    mtu_of(agent, "InSync")
    agent.apply(spec(kube(), tunnels=[tunnel(name, mtu=9000)]))
    row = mtu_of(agent, "OutOfRange")
    assert (row["actual"], row["original"]) == (1400, 1500)
    stays(lambda: lab.gw.mtu(name) == 1400, 1.5, "nothing is tried")
    assert agent.delete().status == 200
    assert lab.gw.mtu(name) == 1500
