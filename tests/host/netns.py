# SPDX-License-Identifier: Apache-2.0
"""Network namespaces, the processes in them, and waiting for a condition: the ground floor of the host tests."""

import ctypes
import http.client
import itertools
import json
import os
import signal
import socket
import ssl
import subprocess
import time
from contextlib import contextmanager

CLONE_NEWNET = 0x40000000
_udp_ports = itertools.count(10000)
_libc = ctypes.CDLL(None, use_errno=True)


def wait_for(condition, timeout=10.0, what=None, step=0.02):
    """Polls until condition() is true and returns its value; what it raises meanwhile counts as not yet."""
    end = time.monotonic() + timeout
    while True:
        try:
            value, problem = condition(), None
        except (AssertionError, OSError, http.client.HTTPException, KeyError, IndexError, StopIteration) as error:
            value, problem = None, error
        if value:
            return value
        if time.monotonic() > end:
            name = what or getattr(condition, "__name__", "the condition")
            raise AssertionError(f"not within {timeout:g} s: {name} (last: {value!r}, {problem!r})")
        time.sleep(step)


def stays(condition, seconds, what=None, step=0.05):
    """Fails when condition() stops to hold within the given time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), f"did not stay so for {seconds:g} s: {what or 'the condition'}"
        time.sleep(step)


def run(*argv, check=True, timeout=30, stdin=None):
    """Runs a program to its end; a failure carries what it wrote."""
    argv = [str(a) for a in argv]
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=timeout)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


class Process:
    """A program that runs beside the test. It dies with the test's own process, and is only ever ended by its pid."""

    def __init__(self, argv, output, env=None, cwd=None, stdin=subprocess.DEVNULL):
        self.argv = [str(a) for a in argv]
        self.output = output
        with open(output, "ab") as out:
            self.popen = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.argv],
                stdin=stdin, stdout=out, stderr=subprocess.STDOUT, cwd=cwd,
                env=None if env is None else {**os.environ, **env})

    @property
    def pid(self):
        return self.popen.pid

    def alive(self):
        return self.popen.poll() is None

    def text(self):
        with open(self.output, encoding="utf-8", errors="replace") as out:
            return out.read()

    def send(self, number):
        if self.alive():
            self.popen.send_signal(number)

    def wait(self, timeout=10):
        return self.popen.wait(timeout)

    def stop(self, number=signal.SIGTERM, timeout=10):
        """Ends the process, by force after the time; returns its exit status."""
        self.send(number)
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.popen.send_signal(signal.SIGCONT)
            self.popen.kill()
            return self.popen.wait(timeout)

    def kill(self):
        return self.stop(signal.SIGKILL)


class Namespace:
    """One host of the test ground."""

    def __init__(self, full, name, directory):
        self.full = full
        self.name = name
        self.directory = directory
        self.processes = []
        run("ip", "netns", "add", full)
        self.ip("link set lo up")
        # Addresses are usable at once, and only what a test sets up decides about paths.
        for path in ("ipv6/conf/all/accept_dad", "ipv6/conf/default/accept_dad", "ipv6/conf/all/accept_ra",
                     "ipv6/conf/default/accept_ra", "ipv4/conf/all/rp_filter", "ipv4/conf/default/rp_filter"):
            self.sysctl(path, 0)

    @contextmanager
    def entered(self):
        """This thread is in the namespace meanwhile: what it opens or starts stays there."""
        with open("/proc/thread-self/ns/net", "rb") as back, open(f"/run/netns/{self.full}", "rb") as there:
            if _libc.setns(there.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"setns {self.full}")
            try:
                yield self
            finally:
                if _libc.setns(back.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns back")

    def run(self, *argv, **options):
        return run("ip", "netns", "exec", self.full, *argv, **options)

    def spawn(self, *argv, log=None, **options):
        path = os.path.join(self.directory, f"{log or os.path.basename(str(argv[0]))}.log")
        process = Process(["ip", "netns", "exec", self.full, *argv], path, **options)
        self.processes.append(process)
        return process

    def ip(self, *lines, check=True):
        """Several ip commands, one a string, in one go."""
        return run("ip", "-n", self.full, "-batch", "-", stdin="\n".join(lines) + "\n", check=check)

    def ip_json(self, arguments):
        text = run("ip", "-n", self.full, "-j", *arguments.split()).stdout
        return json.loads(text) if text.strip() else []

    def nft(self, ruleset):
        return self.run("nft", "-f", "-", stdin=ruleset)

    def sysctl(self, path, value=None):
        with self.entered():
            name = f"/proc/sys/net/{path}"
            if value is not None:
                with open(name, "w", encoding="ascii") as file:
                    file.write(str(value))
                return str(value)
            with open(name, encoding="ascii") as file:
                return file.read().strip()

    def mtu(self, link):
        rows = self.ip_json(f"link show dev {link}")
        return rows[0]["mtu"]

    # Sockets: opened inside the namespace, used from anywhere.

    def socket(self, address, kind=socket.SOCK_STREAM):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with self.entered():
            return socket.socket(family, kind)

    def connect(self, address, port, timeout=5.0, source=None):
        sock = self.socket(address)
        try:
            sock.settimeout(timeout)
            if source:
                sock.bind((source, 0))
            sock.connect((address, port))
        except BaseException:
            sock.close()
            raise
        return sock

    def ask(self, address, port, timeout=5.0, source=None):
        """What a beacon says: (its name, the client's address as it saw it)."""
        with self.connect(address, port, timeout, source) as sock:
            with sock.makefile("r", encoding="ascii") as file:
                name, seen = file.readline().split()
        return name, seen

    def ask_udp(self, address, port, timeout=3.0):
        """The same by a datagram. Every one is a flow of its own: a source port that was not used before."""
        with self.socket(address, socket.SOCK_DGRAM) as sock:
            sock.settimeout(timeout)
            sock.bind(("", next(_udp_ports)))
            sock.connect((address, port))
            sock.send(b"who\n")
            name, seen = sock.recv(512).decode("ascii").split()
        return name, seen

    def refuses(self, address, port, timeout=3.0):
        """True when a connection is refused with a reset."""
        try:
            self.connect(address, port, timeout).close()
        except ConnectionRefusedError:
            return True
        return False

    def https(self, address, port, context, timeout=5.0, server_name=None):
        """A kept-alive HTTPS connection from this host: an http.client object."""
        return _HTTPS(self, address, port, context, timeout, server_name or address)

    def get(self, address, port, path, context, timeout=5.0):
        """One GET on a connection of its own: (status, body)."""
        connection = self.https(address, port, context, timeout)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def destroy(self):
        for process in self.processes:
            if process.alive():
                process.stop()
        left = run("ip", "netns", "pids", self.full, check=False).stdout.split()
        for pid in left:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        run("ip", "netns", "del", self.full, check=False)


class _HTTPS(http.client.HTTPConnection):
    def __init__(self, namespace, address, port, context, timeout, server_name):
        super().__init__(f"[{address}]" if ":" in address else address, port, timeout=timeout)
        self.namespace, self.address, self.context, self.server_name = namespace, address, context, server_name

    def connect(self):
        raw = self.namespace.connect(self.address, self.port, self.timeout)
        try:
            self.sock = self.context.wrap_socket(raw, server_hostname=self.server_name)
        except BaseException:
            raw.close()
            raise


def trust(ca, certificate=None, key=None):
    """A TLS client's context that trusts one authority, with a client certificate where one is given."""
    context = ssl.create_default_context(cafile=ca)
    if certificate:
        context.load_cert_chain(certificate, key)
    return context
