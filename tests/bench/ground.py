# SPDX-License-Identifier: Apache-2.0
"""The bench's ground: the host tests' lab with one more gateway for each peer, all on the same wire.

       cl .100        gw .1 (vgw-agent)   haproxy .2   tuned .3   nginx .4   nftlb .5   dnat .6   plain .7
         |               |                   |            |          |          |         |         |
         +---------------+------------- lan bridge (in sw) ----------+----------+---------+---------+
         |               |               |
       cp1 .11         cp2 .12         cp3 .13

Every gateway has one interface on the lan: what goes to a backend comes in and goes out there, whoever carries it.
"""

import json
import os
import socket
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "host"))

from lab import CONTROL_PLANE, Lab  # noqa: E402
from netns import Namespace, run, wait_for  # noqa: E402
from servers import Beacon  # noqa: E402

TOOLS = os.environ.get("VGW_BENCH_TOOLS", os.path.abspath(os.path.join(HERE, "..", "..", "build", "bench")))
LAST = {"gw": 1, "haproxy": 2, "tuned": 3, "nginx": 4, "nftlb": 5, "dnat": 6, "plain": 7}
ADDRESS = {name: f"192.168.150.{last}" for name, last in LAST.items()}
CLIENT_CPU, SERVER_CPU = "0", str(min(1, (os.cpu_count() or 1) - 1))
TRAFFIC, NAME, ECHO = 8080, 7000, 7001
PORTS = (TRAFFIC, NAME, ECHO)
NGINX_STREAM = "/usr/lib/nginx/modules/ngx_stream_module.so"


def tool(name):
    return os.path.join(TOOLS, name)


def _counter(file, group, name):
    with open(f"/proc/thread-self/net/{file}", encoding="ascii") as lines:
        rows = [line.split() for line in lines if line.startswith(f"{group}:")]
    return int(dict(zip(rows[0], rows[1]))[name])


class Ground(Lab):
    """Lab without its servers and with the peers' gateways; start() starts a peer."""

    def __init__(self, *peers, tunnel=False):
        super().__init__(servers=False, tunnel=tunnel)
        try:
            self._extend(peers)
        except BaseException:
            self.destroy()
            raise

    def _extend(self, peers):
        for name in peers:
            directory = os.path.join(self.directory, name)
            os.mkdir(directory)
            self.namespaces[name] = Namespace(f"{self.prefix}-{name}", name, directory)
            self.plug(name, "eth1", "lan", f"{ADDRESS[name]}/24")
            self.forwarding(name, True)
        # Thousands of short connections between few addresses: the same room for everybody's ports and entries.
        for name in ("gw", "cl", *CONTROL_PLANE, *peers):
            self.namespaces[name].sysctl("ipv4/ip_local_port_range", "1024 65535")
        # The servers close first. A random port that comes back within their minute of TIME_WAIT would cost its client a
        # second by PAWS, in every contender that picks ports at random: they do not remember.
        for name in CONTROL_PLANE:
            self.namespaces[name].sysctl("ipv4/tcp_max_tw_buckets", 0)
        for name in ("gw", *peers):
            self.namespaces[name].sysctl("netfilter/nf_conntrack_tcp_timeout_time_wait", 5)
        for name in peers:
            getattr(self, f"_start_{name}")()

    def serve_beacons(self):
        for name in CONTROL_PLANE:
            self.beacons[name] = Beacon(self.namespaces[name], (f"tcp:{NAME}", f"echo:{ECHO}")).start()
        for beacon in self.beacons.values():
            beacon.ready()

    def serve(self, *ports):
        """The C server on every backend, on the servers' core."""
        started = [self.namespaces[name].spawn("taskset", "-c", SERVER_CPU, tool("server"), *ports, log="server")
                   for name in CONTROL_PLANE]
        for process in started:
            wait_for(lambda p=process: "ready" in p.text() or not p.alive(), what="the server listens")
            assert process.alive(), f"the server ended: {process.text()}"
        return started

    def targets(self, name, port=TRAFFIC):
        """Where the client sends its requests through a gateway."""
        if name == "plain":
            return [f"192.168.152.{a.rsplit('.', 1)[1]}:{port}" for a in CONTROL_PLANE.values()]
        return [f"{ADDRESS[name]}:{port}"]

    def accepted(self):
        """How many connections the backends' kernels have seen begin: those accepted, and those reset half-way, as
        HAProxy's checks do."""
        total = 0
        for name in CONTROL_PLANE:
            with self.namespaces[name].entered():
                total += _counter("snmp", "Tcp", "PassiveOpens") + _counter("netstat", "TcpExt", "EmbryonicRsts")
        return total

    # The peers.

    def _start_haproxy(self):
        self.haproxy_process = self.run_haproxy("haproxy", "")

    def _start_tuned(self):
        self.run_haproxy("tuned", "default-server inter 1s fall 2")

    def run_haproxy(self, name, default_server):
        host = self.namespaces[name]
        lines = ["global", "    maxconn 4000", f"    stats socket {host.directory}/stats.sock level admin", "defaults",
                 "    mode tcp", "    timeout connect 5s", "    timeout client 1m", "    timeout server 1m"]
        for port in PORTS:
            # Where flows are held, the tuned one also cuts them when a server goes down.
            cut = " on-marked-down shutdown-sessions" if name == "tuned" and port == ECHO else ""
            check = "" if port == TRAFFIC else " check"
            lines += [f"listen p{port}", f"    bind {ADDRESS[name]}:{port}"]
            lines += [f"    {default_server}"] if default_server else []
            lines += [f"    server {cp} {a}:{port}{check}{cut}" for cp, a in CONTROL_PLANE.items()]
        config = os.path.join(host.directory, "haproxy.cfg")
        with open(config, "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")
        process = host.spawn("haproxy", "-db", "-f", config)
        wait_for(lambda: os.path.exists(f"{host.directory}/stats.sock"), what="haproxy runs")
        return process

    def haproxy_says(self, name, command):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(5)
            sock.connect(f"{self.namespaces[name].directory}/stats.sock")
            sock.sendall(command.encode() + b"\n")
            with sock.makefile("r") as file:
                return file.read()

    def haproxy_down(self, name, server, port=ECHO):
        """Whether HAProxy has taken a server out."""
        for line in self.haproxy_says(name, f"show servers state p{port}").splitlines()[2:]:
            words = line.split()
            if len(words) > 5 and words[3] == server:
                return words[5] != "2"
        raise AssertionError(f"{name} does not know {server}")

    def _start_nginx(self):
        host = self.namespaces["nginx"]
        parts = [f"load_module {NGINX_STREAM};", "daemon off;", "user root;", "worker_processes 2;",
                 f"pid {host.directory}/nginx.pid;", f"error_log {host.directory}/error.log;",
                 "events { worker_connections 8192; }", "stream {"]
        for port in PORTS:
            servers = " ".join(f"server {a}:{port};" for a in CONTROL_PLANE.values())
            parts += [f"upstream u{port} {{ {servers} }}",
                      f"server {{ listen {ADDRESS['nginx']}:{port}; proxy_pass u{port}; }}"]
        config = os.path.join(host.directory, "nginx.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write("\n".join([*parts, "}"]) + "\n")
        host.spawn("nginx", "-p", host.directory, "-e", f"{host.directory}/error.log", "-c", config)
        wait_for(lambda: os.path.exists(f"{host.directory}/nginx.pid"), what="nginx runs")

    def _start_nftlb(self):
        host = self.namespaces["nftlb"]
        farms = [{"name": f"p{port}", "family": "ipv4", "virtual-addr": ADDRESS["nftlb"], "virtual-ports": str(port),
                  "mode": "snat", "protocol": "tcp", "scheduler": "rr", "state": "up",
                  "backends": [{"name": cp, "ip-addr": a, "port": str(port), "state": "up", "weight": "1",
                                "priority": "1"} for cp, a in CONTROL_PLANE.items()]} for port in PORTS]
        config = os.path.join(host.directory, "nftlb.json")
        with open(config, "w", encoding="ascii") as file:
            json.dump({"farms": farms}, file)
        host.run("nftlb", "-e", "-c", config)

    def _start_dnat(self):
        rules = []
        for port in PORTS:
            slots = ", ".join(f"{i} : {a} . {port}" for i, a in enumerate(CONTROL_PLANE.values()))
            rules.append(f"ip daddr {ADDRESS['dnat']} tcp dport {port} dnat ip to numgen inc mod 3 map {{ {slots} }};")
        self.namespaces["dnat"].nft(
            "table ip bench {\n chain pre { type nat hook prerouting priority dstnat;\n" + "\n".join(rules) +
            "\n }\n chain post { type nat hook postrouting priority srcnat;\n"
            " ct status dnat masquerade fully-random;\n }\n}\n")

    def _start_plain(self):
        """Plain forwarding with connection tracking: two networks on the same wire, so that packets take the same way."""
        plain = self.namespaces["plain"]
        plain.ip("addr add 192.168.151.1/24 dev eth1", "addr add 192.168.152.1/24 dev eth1")
        for which in ("all", "eth1"):
            plain.sysctl(f"ipv4/conf/{which}/send_redirects", 0)
        self.cl.ip("addr add 192.168.151.100/24 dev eth0",
                   "route add 192.168.152.0/24 via 192.168.151.1 src 192.168.151.100")
        for name, address in CONTROL_PLANE.items():
            self.namespaces[name].ip(f"addr add 192.168.152.{address.rsplit('.', 1)[1]}/24 dev eth0",
                                     "route add 192.168.151.0/24 via 192.168.152.1")
        plain.nft("table ip bench { chain forward { type filter hook forward priority filter; ct state invalid drop; }; }")


def available():
    """The peers of the traffic rows that this machine has; what is missing is said loudly."""
    have, missing = ["plain", "dnat"], []
    for name, path in (("haproxy", "/usr/sbin/haproxy"), ("nginx", NGINX_STREAM), ("nftlb", "/usr/sbin/nftlb")):
        (have if os.path.exists(path) else missing).append(name)
    for name in missing:
        print(f"SKIPPED PEER: {name} is not installed (packaging/setup.sh bench)", file=sys.stderr)
    return have


def cpu_seconds(pid):
    """Processor time of all threads of a process, in seconds, to the nanosecond."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
        except FileNotFoundError:
            pass
    return total / 1e9


def resident(pid):
    """Resident memory in bytes."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))




class Thread(threading.Thread):
    """A thread that calls step() until stop()."""

    def __init__(self, step):
        super().__init__(daemon=True)
        self.step, self.over = step, False
        self.start()

    def run(self):
        while not self.over:
            self.step()

    def stop(self):
        self.over = True
        self.join()


class Quiet:
    """Waits, within a budget, until nobody else uses the machine, and counts the samples that began without that."""

    def __init__(self, budget=120.0):
        self.budget, self.noisy, self.samples = budget, 0, 0

    def wait(self, share=0.85):
        self.samples += 1
        begin = time.monotonic()
        while not (still := self._idle() >= share) and time.monotonic() - begin < min(3.0, self.budget):
            pass
        self.budget -= time.monotonic() - begin
        self.noisy += not still

    @staticmethod
    def _idle():
        def ticks():
            with open("/proc/stat", encoding="ascii") as file:
                words = [int(w) for w in file.readline().split()[1:9]]
            return sum(words), words[3] + words[4]
        all_before, idle_before = ticks()
        time.sleep(0.06)
        all_after, idle_after = ticks()
        return (idle_after - idle_before) / max(1, all_after - all_before)

    def note(self):
        return f"{self.noisy} of {self.samples} samples began while something else kept the machine busy"


def sleep_until(moment):
    time.sleep(max(0.0, moment - time.monotonic()))


__all__ = ["ADDRESS", "CLIENT_CPU", "CONTROL_PLANE", "ECHO", "Ground", "NAME", "Quiet", "SERVER_CPU", "TRAFFIC", "Thread", "available",
           "cpu_seconds", "resident", "run", "sleep_until", "tool", "wait_for"]
