# SPDX-License-Identifier: Apache-2.0
"""The program under test: its configuration, its life, its socket and its control channel."""

import atexit
import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import tempfile

from lab import GATEWAY
from netns import run, trust, wait_for
from servers import Authority

BINARY = os.environ.get("VGW_AGENT") or os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..", "build", "vgw-agent"))
CONTROL_PORT, PROBE_PORT = 9443, 9444

_numbers = itertools.count(1)
_identities = None


class Identities:
    """What `vgw-agent pki` makes, and further clients signed by the same and by a strange authority."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix=f"vgw{os.getpid()}-pki-")
        os.chmod(self.directory, 0o755)
        atexit.register(shutil.rmtree, self.directory, True)
        run(BINARY, "pki", self.directory, "--name", "gateway", "--address", GATEWAY)
        self.ca, self.crt, self.key = (os.path.join(self.directory, f) for f in ("ca.crt", "server.crt", "server.key"))
        self.writer = tuple(os.path.join(self.directory, f) for f in ("client.crt", "client.key"))
        ours = Authority(self.directory, "ca")
        self.reader = ours.issue("prometheus")
        self.unlisted = ours.issue("stranger")
        self.foreign = Authority(os.path.join(self.directory, "other"), "other-ca").issue("controller")

    def context(self, who="writer"):
        """A TLS client's context; who is writer, reader, unlisted, foreign or None for no certificate."""
        return trust(self.ca, *(getattr(self, who) if who else ()))


def identities():
    global _identities
    if _identities is None:
        _identities = Identities()
    return _identities


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:400]!r}>"


class _UnixHTTP(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(connection, method, path, body=None, headers=None):
    """One request on a connection that stays open."""
    if isinstance(body, (dict, list)):
        body = json.dumps(body)
    headers = dict(headers or {})
    if body is not None:
        headers.setdefault("Content-Type", "application/json")
    try:
        connection.request(method, path, body, headers)
    except BrokenPipeError:
        pass  # it has answered before it had read all
    return Answer(connection.getresponse())


class Agent:
    """One agent on one host of a lab, with directories of its own."""

    made = []

    def __init__(self, lab, host="gw", protect="auto", control=True, **settings):
        self.lab, self.host = lab, lab.namespaces[host]
        self.directory = os.path.join(lab.directory, f"agent-{next(_numbers)}")
        os.mkdir(self.directory)
        self.socket = os.path.join(self.directory, "control.sock")
        self.state = os.path.join(self.directory, "state")
        os.mkdir(self.state)
        self.config = os.path.join(self.directory, "agent.json")
        self.process, self.starts, self.binary = None, 0, BINARY
        Agent.made.append(self)
        self.settings = {"interfaces": {"private": "eth1", "external": "eth0"}, "socket": self.socket,
                         "stateDirectory": self.state, "probePort": PROBE_PORT, "protect": protect,
                         "logLevel": "debug", **settings}
        if control:
            pki = identities()
            self.settings.setdefault("control", {
                "listen": [f"{GATEWAY}:{CONTROL_PORT}"], "certificate": pki.crt, "key": pki.key, "clientCA": [pki.ca],
                "clients": [{"name": "controller", "role": "writer"}, {"name": "prometheus", "role": "reader"}]})
        self.write_config()

    def write_config(self):
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(self.settings, file, indent=2)

    def file(self, content, name="spec-file.json"):
        """A file with a spec (or raw text), for the verbs."""
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    # Its life.

    def spawn(self, *options, env=None, prefix=()):
        self.starts += 1
        self.process = self.host.spawn(*prefix, self.binary, "run", "--config", self.config, *options, env=env,
                                       log=f"{os.path.basename(self.directory)}-{self.starts}")
        return self.process

    def start(self, *options, env=None, prefix=()):
        """Starts it and waits until its socket answers."""
        self.spawn(*options, env=env, prefix=prefix)
        wait_for(self._answers, what="the agent answers on its socket")
        return self

    def _answers(self):
        assert self.process.alive() or self.fail(f"the agent ended: {self.process.text()}")
        return self.get("/livez").status == 200

    @staticmethod
    def fail(message):
        raise RuntimeError(message)

    def stop(self):
        return self.process.stop(signal.SIGTERM)

    def kill(self):
        return self.process.kill()

    def running(self):
        return self.process is not None and self.process.alive()

    def log(self):
        return self.process.text()

    # Its socket.

    def local(self, timeout=10):
        return _UnixHTTP(self.socket, timeout)

    def request(self, method, path, body=None, headers=None, timeout=10):
        connection = self.local(timeout)
        try:
            return ask(connection, method, path, body, headers)
        finally:
            connection.close()

    def get(self, path, headers=None, timeout=10):
        return self.request("GET", path, headers=headers, timeout=timeout)

    def put(self, spec, query="", timeout=30):
        return self.request("PUT", f"/v1/spec{query}", spec, timeout=timeout)

    def delete(self):
        return self.request("DELETE", "/v1/spec")

    def apply(self, spec, settled=True):
        """Puts a spec that must be accepted, and waits until every check has given its verdict."""
        answer = self.put(spec)
        assert answer.status == 200, answer
        if settled:
            self.settled(spec["generation"])
        return answer.json

    # Its control channel, from a host of the lab.

    def remote(self, host="cl", who="writer", address=GATEWAY, port=CONTROL_PORT, timeout=10):
        return self.lab.namespaces[host].https(address, port, identities().context(who), timeout, GATEWAY)

    def remote_ask(self, method, path, body=None, headers=None, **options):
        connection = self.remote(**options)
        try:
            return ask(connection, method, path, body, headers)
        finally:
            connection.close()

    # What it reports.

    def status(self):
        answer = self.get("/v1/status")
        assert answer.status == 200, answer
        return answer.json

    def frontend(self, name="kube-apiserver"):
        return next(f for f in self.status()["frontends"] if f["name"] == name)

    def backend(self, address, frontend="kube-apiserver"):
        return next(b for b in self.frontend(frontend)["backends"] if b["address"] == address)

    def tunnel(self, name="mgmt"):
        return next(t for t in self.status()["tunnels"] if t["name"] == name)

    def condition(self, kind):
        return next(c for c in self.status()["conditions"] if c["type"] == kind)

    def settled(self, generation=None):
        def judged():
            status = self.status()
            return ((generation is None or status["generation"]["applied"] == generation)
                    and all(f["state"] != "Pending" for f in status["frontends"])
                    and all(b["state"] != "Unknown" for f in status["frontends"]
                            if f["state"] != "Ignored" and f["protocol"] == "TCP" for b in f["backends"])
                    and status)
        return wait_for(judged, timeout=20, what="the spec is applied and every backend has its verdict")

    def becomes(self, address, state, code=None, frontend="kube-apiserver", timeout=10):
        """Waits for a backend's state (and check code); returns the backend."""
        def reached():
            row = self.backend(address, frontend)
            return row["state"] == state and (code is None or row["check"]["code"] == code) and row
        return wait_for(reached, timeout, what=f"{address} is {state} {code or ''}")

    # Its verbs.

    def verb(self, *arguments, config=True, stdin=None, timeout=30):
        options = ["--config", self.config] if config else []
        return self.host.run(BINARY, *arguments, *options, check=False, stdin=stdin, timeout=timeout)
