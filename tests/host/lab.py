# SPDX-License-Identifier: Apache-2.0
"""The test ground: one cloudspace out of network namespaces.

      mg 192.168.10.10                          cl .100   cp1 .11   cp2 .12   cp3 .13
       |                                            |        |         |         |
     peer 192.168.10.1                              +--- lan bridge (in sw) -----+
       |  198.51.100.2                                          |
       |                                          eth1 192.168.150.1, fd00:150::1
      ur (a router)                                             |
       |  203.0.113.3                                           gw  -- wg: a real tunnel to peer, by wireguard-go
       |                                                        |
       +------------- wan bridge (in sw) ----------- eth0 203.0.113.1
                           |
                    ext 203.0.113.2, with a route to the lan via gw

Nothing but these namespaces is touched. Their names carry the test's pid, so that runs do not collide, and what a
killed run left behind is removed by the next one. Processes die with the test's own.
"""

import atexit
import itertools
import os
import re
import shutil
import signal
import subprocess
import tempfile

from netns import Namespace, run, wait_for
from servers import ApiServer, Authority, Beacon

GATEWAY, GATEWAY6 = "192.168.150.1", "fd00:150::1"
EXTERNAL, EXTERNAL6 = "203.0.113.1", "2001:db8:113::1"
WORKER, WORKER6 = "192.168.150.100", "fd00:150::100"
MANAGER, MANAGER6 = "192.168.10.10", "fd00:10::10"
INTERNET = "203.0.113.2"
CONTROL_PLANE = {"cp1": "192.168.150.11", "cp2": "192.168.150.12", "cp3": "192.168.150.13"}
CONTROL_PLANE6 = {"cp1": "fd00:150::11", "cp2": "fd00:150::12", "cp3": "fd00:150::13"}
WIREGUARD = "/var/run/wireguard"  # wireguard-go's sockets, one folder for all namespaces
HOSTS = ("sw", "gw", "cp1", "cp2", "cp3", "cl", "ext", "ur", "peer", "mg")

_numbers = itertools.count(1)
_living = []
_authority = None


def cluster_authority():
    """The cluster's own CA, one for the whole run."""
    global _authority
    if _authority is None:
        directory = tempfile.mkdtemp(prefix=f"vgw{os.getpid()}-ca-")
        atexit.register(shutil.rmtree, directory, True)
        _authority = Authority(directory)
    return _authority


def sweep():
    """Removes what runs that are gone have left: namespaces with their processes, folders, sockets."""
    def gone(name, pattern):
        found = re.match(pattern, name)
        return found and not os.path.exists(f"/proc/{found[1]}")

    for line in run("ip", "netns", "list", check=False).stdout.splitlines():
        name = line.split()[0]
        if gone(name, r"vgw(\d+)\.\d+-\w+$"):
            for pid in run("ip", "netns", "pids", name, check=False).stdout.split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            run("ip", "netns", "del", name, check=False)
    for name in os.listdir(tempfile.gettempdir()):
        if gone(name, r"vgw(\d+)[.-]"):
            shutil.rmtree(os.path.join(tempfile.gettempdir(), name), ignore_errors=True)
    for name in os.listdir(WIREGUARD) if os.path.isdir(WIREGUARD) else ():
        if gone(name, r"wg(\d+)\.\d+[ab]\.sock$"):
            os.unlink(os.path.join(WIREGUARD, name))


def on_signals():
    """SIGINT and SIGTERM end the run like Ctrl-C, with everything cleaned up."""
    def interrupted(*_):
        raise KeyboardInterrupt
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)


@atexit.register
def _destroy_all():
    for lab in list(_living):
        lab.destroy()


class Lab:
    """A whole ground. `with Lab() as lab:` or destroy() removes it."""

    def __init__(self, servers=True, tunnel=True):
        self.number = next(_numbers)
        self.prefix = f"vgw{os.getpid()}.{self.number}"
        self.directory = tempfile.mkdtemp(prefix=f"{self.prefix}-")
        os.chmod(self.directory, 0o755)
        self.namespaces, self.api, self.beacons, self.tunnels = {}, {}, {}, {}
        # wireguard-go's interfaces share one folder of sockets whatever their namespace
        self.wg, self.wg_peer = (f"wg{os.getpid()}.{self.number}{end}" for end in "ab")
        _living.append(self)
        try:
            self._lay_out()
            if servers:
                self._start_servers()
            if tunnel:
                self.start_tunnel()
            if servers:
                for server in [*self.api.values(), *self.beacons.values()]:
                    server.ready()
        except BaseException:
            self.destroy()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.destroy()

    def __getattr__(self, name):
        try:
            return self.__dict__["namespaces"][name]
        except KeyError:
            raise AttributeError(name) from None

    def destroy(self):
        if self in _living:
            _living.remove(self)
        for namespace in self.namespaces.values():
            namespace.destroy()
        for name in (self.wg, self.wg_peer):
            try:
                os.unlink(f"{WIREGUARD}/{name}.sock")
            except FileNotFoundError:
                pass
        shutil.rmtree(self.directory, ignore_errors=True)

    # The wires.

    def _lay_out(self):
        for name in HOSTS:
            directory = os.path.join(self.directory, name)
            os.mkdir(directory)
            self.namespaces[name] = Namespace(f"{self.prefix}-{name}", name, directory)
        self.sw.sysctl("ipv6/conf/default/disable_ipv6", 1)
        self.sw.ip(*(f"link add {b} type bridge mcast_snooping 0" for b in ("lan", "wan")), "link set lan up",
                   "link set wan up")
        for kind in ("iptables", "ip6tables", "arptables"):
            try:
                self.sw.sysctl(f"bridge/bridge-nf-call-{kind}", 0)
            except FileNotFoundError:
                pass
        self.plug("gw", "eth1", "lan", f"{GATEWAY}/24", f"{GATEWAY6}/64")
        self.plug("gw", "eth0", "wan", f"{EXTERNAL}/24", f"{EXTERNAL6}/64")
        self.gw.ip(f"route add default via {INTERNET}", "route add default via 2001:db8:113::2",
                   "route add 198.51.100.0/24 via 203.0.113.3")
        for name, last in (("cp1", 11), ("cp2", 12), ("cp3", 13), ("cl", 100)):
            self.plug(name, "eth0", "lan", f"192.168.150.{last}/24", f"fd00:150::{last}/64")
            self.namespaces[name].ip(f"route add default via {GATEWAY}", f"route add default via {GATEWAY6}")
        self.plug("ext", "eth0", "wan", f"{INTERNET}/24", "2001:db8:113::2/64")
        self.ext.ip(f"route add 192.168.150.0/24 via {EXTERNAL}", f"route add fd00:150::/64 via {EXTERNAL6}")
        self.plug("ur", "eth0", "wan", "203.0.113.3/24")
        self.wire("ur", "eth1", "198.51.100.1/24", "peer", "eth0", "198.51.100.2/24")
        self.peer.ip("route add default via 198.51.100.1")
        self.wire("peer", "eth1", "192.168.10.1/24 fd00:10::1/64", "mg", "eth0", f"{MANAGER}/24 {MANAGER6}/64")
        self.mg.ip("route add default via 192.168.10.1", "route add default via fd00:10::1")
        for name in ("gw", "ext", "ur", "peer"):
            self.forwarding(name, True)

    def forwarding(self, name, on):
        self.namespaces[name].sysctl("ipv4/ip_forward", int(on))
        self.namespaces[name].sysctl("ipv6/conf/all/forwarding", int(on))

    def plug(self, name, link, bridge, *addresses, mtu=1500):
        """A cable from a host to one of the two bridges."""
        port = f"{name}-{link}"
        host = self.namespaces[name]
        self.sw.ip(f"link add {port} type veth peer name {link} netns {host.full}",
                   f"link set {port} master {bridge} mtu {mtu} up")
        host.ip(f"link set {link} mtu {mtu} up", *(f"addr add {a} dev {link}" for a in addresses))

    def unplug(self, name, link):
        """The interface disappears, as when a network card is taken out."""
        self.namespaces[name].ip(f"link del {link}")

    def cable(self, name, up, link="eth0"):
        """Pulls the cable of a host at the bridge, or puts it back: its server falls silent."""
        self.sw.ip(f"link set {name}-{link} {'up' if up else 'down'}")

    def wire(self, left, left_link, left_addresses, right, right_link, right_addresses, mtu=1500):
        """A cable between two hosts."""
        a, b = self.namespaces[left], self.namespaces[right]
        a.ip(f"link add {left_link} type veth peer name {right_link} netns {b.full}")
        for host, link, addresses in ((a, left_link, left_addresses), (b, right_link, right_addresses)):
            host.ip(f"link set {link} mtu {mtu} up", *(f"addr add {x} dev {link}" for x in addresses.split()))

    # What runs on it.

    def _start_servers(self):
        authority = cluster_authority()
        for name, kind in (("cp1", "nginx"), ("cp2", "nginx"), ("cp3", "haproxy")):
            server = ApiServer(self.namespaces[name], authority, kind, CONTROL_PLANE[name],
                               also=(GATEWAY, GATEWAY6, CONTROL_PLANE6[name]))
            server.start()
            self.api[name] = server
        for name in ("cp1", "cp2", "cp3", "ext", "mg"):
            self.beacons[name] = Beacon(self.namespaces[name]).start()

    @property
    def trust(self):
        """The TLS context of a client of the cluster."""
        return cluster_authority().context()

    def start_tunnel(self):
        """gw and peer with a WireGuard tunnel between them, MTU 1420 as wireguard-go makes it."""
        self.keys = dict(zip(("gw", "peer"), (_key_pair() for _ in range(2))))
        for name in ("gw", "peer"):
            self.start_end(name)
        wait_for(lambda: self.gw.run("ping", "-c1", "-W1", "10.255.0.2", check=False).returncode == 0,
                 timeout=15, what="the tunnel carries a ping")

    def start_end(self, name):
        """One end of the tunnel: a new interface with the routes through it."""
        host, other = self.namespaces[name], "peer" if name == "gw" else "gw"
        link, endpoint, net4, net6, own = {
            "gw": (self.wg, "198.51.100.2", "192.168.10.0/24", "fd00:10::/64", "10.255.0.1"),
            "peer": (self.wg_peer, EXTERNAL, "192.168.150.0/24", "fd00:150::/64", "10.255.0.2")}[name]
        self.tunnels[name] = self.start_wireguard(name, link, self.keys[name][0])
        host.run("wg", "set", link, "peer", self.keys[other][1], "endpoint", f"{endpoint}:51820",
                 "allowed-ips", f"{net4},{net6},10.255.0.0/30")
        host.ip(f"link set {link} up", f"addr add {own}/30 dev {link}", f"route add {net4} dev {link}",
                f"route add {net6} dev {link}")

    def take_end(self, name):
        """Takes one end away as a crash does, with its interface and what went through it."""
        self.tunnels[name].kill()
        link = self.wg if name == "gw" else self.wg_peer
        try:
            os.unlink(f"{WIREGUARD}/{link}.sock")
        except FileNotFoundError:
            pass

    def start_wireguard(self, name, link, private_key):
        host = self.namespaces[name]
        process = host.spawn("wireguard-go", "-f", link, env={"LOG_LEVEL": "error"}, log=f"wireguard-{link}")
        wait_for(lambda: os.path.exists(f"{WIREGUARD}/{link}.sock"), what=f"wireguard-go made {link}")
        key = os.path.join(host.directory, f"{link}.key")
        with open(key, "w", encoding="ascii") as file:
            file.write(private_key)
        host.run("wg", "set", link, "listen-port", 51820, "private-key", key)
        return process

    def restore(self):
        """What a failed test may have left otherwise: the tunnel's MTU, forwarding, and servers that are up and ready."""
        self.forwarding("gw", True)
        if self.wg in [row["ifname"] for row in self.gw.ip_json("link show")]:
            self.gw.ip(f"link set {self.wg} mtu 1420")
        for server in self.api.values():
            if server.kind == "nginx":
                server.answer(200)
            server.resume()
        gone = [s for s in [*self.api.values(), *self.beacons.values()] if not s.process.alive()]
        for server in gone:
            server.start()
        for name in CONTROL_PLANE:
            self.cable(name, True)
        for server in gone:
            server.ready()

    def underlay_mtu(self, mtu):
        """The router in the tunnel's underlay gets a smaller MTU towards the peer."""
        self.ur.ip(f"link set eth1 mtu {mtu}")
        self.peer.ip(f"link set eth0 mtu {mtu}")

    def underlay_silent(self):
        """That router's ICMP errors are filtered: a black hole for what does not fit."""
        self.ur.nft("table ip silent { chain out { type filter hook output priority 0; "
                    "icmp type destination-unreachable drop; }; }\n")


def _key_pair():
    private = subprocess.run(["wg", "genkey"], capture_output=True, text=True, check=True).stdout.strip()
    public = subprocess.run(["wg", "pubkey"], input=private, capture_output=True, text=True, check=True).stdout.strip()
    return private, public
