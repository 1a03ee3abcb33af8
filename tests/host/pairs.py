# SPDX-License-Identifier: Apache-2.0
"""An agent at each end of a tunnel: their specs, what both say, and what tests do to the way between them."""

import socket
import threading
import time

from lab import GATEWAY, GATEWAY6
from netns import wait_for
from specs import kube, spec, tunnel

# The networks behind both ends and their first hosts.
NEAR = {4: ("192.168.150.0/24", GATEWAY), 6: ("fd00:150::/64", GATEWAY6)}
FAR = {4: ("192.168.10.0/24", "192.168.10.1"), 6: ("fd00:10::/64", "fd00:10::1")}
PEER = FAR[4][1]
VXLAN = {"name": "calico", "encapsulation": "vxlan", "vethMTU": 1300}
ASKED = {"connectedCloudspace": {"cloudspaceId": "cs-7f2a"}}


def _networks(side, family):
    """What a cloudspace says of its networks: one, or both where the tunnel's is the second."""
    return {"privateNetworks": [side[4][0], side[6][0]]} if family == 6 else {"privateNetwork": side[4][0]}


def here(lab, mtu=1400, link="", family=4, **extra):
    """link: the tunnel's interface, the lab's WireGuard when left out, None for a tunnel without one."""
    network, address = FAR[family]
    whole = spec(kube(), tunnels=[tunnel(lab.wg if link == "" else link, mtu, network, address)], managementAccess=ASKED,
                 cni=VXLAN, **extra)
    whole["cloudspace"] = {"id": "cs-1a2b", **_networks(NEAR, family)}
    return whole


def there(lab, mtu=1400, link="", family=4, **extra):
    """The other end: the gateway of a cloudspace of its own."""
    network, address = NEAR[family]
    back = tunnel(lab.wg_peer if link == "" else link, mtu, name="back",
                  peer={"cloudspaceId": "cs-1a2b", "privateNetwork": network, "address": address})
    whole = spec(tunnels=[back], managementAccess={"connectedCloudspace": {"cloudspaceId": "cs-1a2b"}}, **extra)
    whole["cloudspace"] = {"id": "cs-7f2a", **_networks(FAR, family)}
    whole["clusterNetwork"] = {"pods": ["10.245.0.0/16"], "services": ["10.112.0.0/12"]}
    return whole


class Pair:
    """Two agents; links are the tunnel's interfaces at both ends, the lab's WireGuard when left out."""

    def __init__(self, lab, gw, peer, links=("", ""), family=4):
        self.lab, self.gw, self.peer, self.links, self.family = lab, gw, peer, links, family

    def apply(self, mtu=1400):
        self.gw.apply(here(self.lab, mtu, self.links[0], self.family), settled=False)
        self.peer.apply(there(self.lab, mtu, self.links[1], self.family), settled=False)
        return self

    def states(self):
        return self.gw.tunnel()["state"], self.peer.tunnel("back")["state"]

    def become(self, gw, peer, timeout=15):
        wait_for(lambda: self.states() == (gw, peer), timeout, what=f"the tunnel is {gw} here and {peer} there")

    def up(self, timeout=15):
        self.become("Up", "Up", timeout)
        return self

    def measured(self, mtu, timeout=20):
        """Waits until the path's MTU is exactly this, in force at this end, and nothing in use is too large."""
        def reached():
            row = self.gw.tunnel()
            return (row["path"].get("mtu") == mtu and row["mtu"]["state"] == "InSync" and row["state"] == "Up"
                    and row["mtu"]["wanted"] == row["mtu"]["actual"] == mtu and row)
        return wait_for(reached, timeout, what=f"a path of {mtu}, in force")


def cut(host, incoming, family=None):
    """What comes in by the tunnel (of one family) is dropped on this host, before anything else sees it."""
    only = f"meta nfproto ipv{family} " if family else ""
    host.nft(f'table inet oneway {{ chain in {{ type filter hook prerouting priority -400; '
             f'iifname "{incoming}" {only}drop; }}; }}\n')


def restore(host):
    host.run("nft", "delete", "table", "inet", "oneway")


def known_by_echoes(lab, agent):
    """A peer without an agent: its path, its path as it shrinks in silence, and its own silence."""
    wait_for(lambda: agent.tunnel()["state"] == "Up", what="Up by echoes")
    row = wait_for(lambda: agent.tunnel()["path"].get("mtu") and agent.tunnel(), 15, what="measured by echoes")
    assert row["path"]["mtu"] == 1400 and "reverseMtu" not in row["path"]
    assert row["peer"]["agent"] is False and row["peer"]["rttMs"] < 200
    assert directions(agent) == ("True", "True") and access(agent) == "True"
    lab.underlay_silent()
    try:
        lab.underlay_mtu(1368)
        wait_for(lambda: 1296 <= lab.gw.mtu(lab.wg) <= 1308, 20, what="the link follows")
        cut(lab.gw, lab.wg)
        wait_for(lambda: agent.tunnel()["state"] == "Down", what="Down")
        assert access(agent) == "False"
    finally:
        restore(lab.gw)
        lab.underlay_mtu(1500)
        lab.ur.run("nft", "delete", "table", "ip", "silent")


def narrow(host, size, ports="51820"):
    """A host's own tunnel packets that are larger than that vanish on the way: as if its path were narrow and silent."""
    host.nft("table inet oneway { chain out { type filter hook postrouting priority 0; "
             f'oifname "eth0" udp dport {ports} meta length > {size} drop; }}; }}\n')


def access(agent):
    return agent.condition("ManagementAccessReady")["status"]


def directions(agent):
    row, = agent.status()["managementConnections"]
    return row["outbound"], row["inbound"]


class Transfer:
    """So many bytes from one host to another; `arrived` is how many are there. With a pause between blocks it is a load
    that lasts."""

    BLOCK = 16384

    def __init__(self, source, sink, address, size, pause=0):
        self.size, self.arrived, self.pause = size, 0, pause
        listener = sink.socket(address)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, 0))
        listener.listen()
        self.out = source.connect(address, listener.getsockname()[1])
        self.out.settimeout(30)
        self.inp, _ = listener.accept()
        listener.close()
        self.inp.settimeout(30)
        self.threads = [threading.Thread(target=t, daemon=True) for t in (self._send, self._take)]
        for thread in self.threads:
            thread.start()

    def _send(self):
        try:
            for at in range(0, self.size, self.BLOCK):
                self.out.sendall(bytes(min(self.BLOCK, self.size - at)))
                time.sleep(self.pause)
        except OSError:
            pass

    def _take(self):
        try:
            while data := self.inp.recv(65536):
                self.arrived += len(data)
        except OSError:
            pass

    def done(self):
        return self.arrived == self.size

    def goes_on(self, timeout=10):
        """Waits until some full packets more have arrived."""
        before = self.arrived
        wait_for(lambda: self.arrived >= before + 4 * self.BLOCK, timeout, what="the transfer goes on")

    def close(self):
        for sock in (self.out, self.inp):
            sock.shutdown(socket.SHUT_RDWR)
            sock.close()
