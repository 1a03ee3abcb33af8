# SPDX-License-Identifier: Apache-2.0
"""Real servers with TLS that stand for API servers (nginx, HAProxy), beacons, and the certificates they show."""

import os
import signal
import sys

from netns import run, trust, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
BEACON_PORTS = ("tcp:7000", "echo:7001", "udp:5353")

NGINX = """\
daemon off;
master_process off;
pid {dir}/nginx.pid;
error_log {dir}/error.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;
    uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
    keepalive_timeout 300; keepalive_requests 100000;
    server {{
        listen {port} ssl; listen [::]:{port} ssl;
        ssl_certificate {crt}; ssl_certificate_key {key};
        add_header X-Server {name} always;
        location = /readyz {{
            if (-f {dir}/answer-500) {{ return 500 "not ready\\n"; }}
            if (-f {dir}/answer-401) {{ return 401 "who are you\\n"; }}
            return 200 "ok\\n";
        }}
        location = /client {{ return 200 "$remote_addr\\n"; }}
        location / {{ return 200 "{name}\\n"; }}
    }}
}}
"""

HAPROXY = """\
global
    maxconn 500
    stats socket {dir}/stats.sock level admin
defaults
    mode http
    timeout connect 2s
    timeout client 300s
    timeout server 5s
    timeout http-keep-alive 300s
frontend api
    bind 0.0.0.0:{port} ssl crt {pem}
    bind [::]:{port} v6only ssl crt {pem}
    http-request return status 200 content-type text/plain string "ok\\n" if {{ path /readyz }}
    http-request return status 200 content-type text/plain lf-string "%[src]\\n" if {{ path /client }}
    http-request return status 200 content-type text/plain string "{name}\\n" hdr X-Server {name}
"""


class Authority:
    """A certificate authority made with openssl, and what it signs."""

    def __init__(self, directory, name="cluster-ca"):
        self.directory = directory
        self.crt = os.path.join(directory, f"{name}.crt")
        self.key = os.path.join(directory, f"{name}.key")
        os.makedirs(directory, exist_ok=True)
        if not os.path.exists(self.crt):
            _openssl(self.crt, self.key, name, "-addext", "basicConstraints=critical,CA:TRUE",
                     "-addext", "keyUsage=critical,keyCertSign,cRLSign")

    def issue(self, name, addresses=(), days=30, usage="serverAuth,clientAuth"):
        """(certificate, key) for a common name and addresses."""
        crt, key = (os.path.join(self.directory, f"{name}.{end}") for end in ("crt", "key"))
        extra = ["-addext", f"extendedKeyUsage={usage}", "-addext", "basicConstraints=critical,CA:FALSE"]
        if addresses:
            extra += ["-addext", "subjectAltName=" + ",".join(f"IP:{a}" for a in addresses)]
        _openssl(crt, key, name, "-CA", self.crt, "-CAkey", self.key, *extra, days=days)
        return crt, key

    def context(self, certificate=None, key=None):
        return trust(self.crt, certificate, key)


def _openssl(crt, key, name, *extra, days=30):
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-batch",
        "-days", days, "-subj", f"/CN={name}", "-keyout", key, "-out", crt, *extra)


class ApiServer:
    """One API server on one host. Ended, halted and told to be unready like a real one."""

    def __init__(self, namespace, authority, kind, address, port=6443, also=()):
        self.namespace, self.kind, self.address, self.port = namespace, kind, address, port
        self.directory = os.path.join(namespace.directory, f"{kind}-{port}")
        os.makedirs(self.directory, exist_ok=True)
        self.context = authority.context()
        self.process = None
        crt, key = authority.issue(f"{namespace.name}-{port}", [address, *also])
        pem = os.path.join(self.directory, "server.pem")
        with open(pem, "w", encoding="ascii") as out:
            for part in (crt, key):
                with open(part, encoding="ascii") as file:
                    out.write(file.read())
        self.config = os.path.join(self.directory, f"{kind}.conf")
        with open(self.config, "w", encoding="ascii") as file:
            template = NGINX if kind == "nginx" else HAPROXY
            file.write(template.format(dir=self.directory, port=port, crt=crt, key=key, pem=pem, name=namespace.name))

    def start(self):
        if self.kind == "nginx":
            argv = ["nginx", "-p", self.directory, "-e", f"{self.directory}/error.log", "-c", self.config]
        else:
            argv = ["haproxy", "-db", "-f", self.config]
        self.process = self.namespace.spawn(*argv, log=f"{self.kind}-{self.port}")

    def ready(self):
        """Waits until it answers."""
        wait_for(lambda: self.namespace.get(self.address, self.port, "/readyz", self.context)[0] == 200,
                 what=f"{self.kind} on {self.namespace.name} answers")
        return self

    def stop(self):
        """The process dies: connections are refused."""
        self.process.kill()

    def halt(self):
        """It hangs: the kernel still accepts, nobody answers."""
        self.process.send(signal.SIGSTOP)

    def resume(self):
        self.process.send(signal.SIGCONT)

    def answer(self, status):
        """What /readyz says from now on: 200, 401 or 500 (nginx only)."""
        assert self.kind == "nginx"
        for code in (401, 500):
            path = os.path.join(self.directory, f"answer-{code}")
            if code == status:
                open(path, "w", encoding="ascii").close()
            elif os.path.exists(path):
                os.unlink(path)


class Beacon:
    """The cheap server of beacon.py on one host."""

    def __init__(self, namespace, ports=BEACON_PORTS):
        self.namespace, self.ports = namespace, ports
        self.process = None
        self.starts = 0

    def start(self):
        self.starts += 1
        name = "-".join(["beacon", *(p.replace(":", "") for p in self.ports)])[:60]
        self.process = self.namespace.spawn(sys.executable, os.path.join(HERE, "beacon.py"), self.namespace.name,
                                            *self.ports, log=f"{name}-{self.starts}")
        return self

    def ready(self):
        wait_for(lambda: "ready" in self.process.text(), what="the beacon listens")
        return self

    def stop(self):
        self.process.kill()
