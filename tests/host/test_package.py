# SPDX-License-Identifier: Apache-2.0
"""What `make install` puts where, and that the system's own tools find nothing wrong with it."""

import configparser
import json
import os
import shutil
import stat

import pytest

from agent import BINARY
from netns import run

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
WANTED = {
    "usr/sbin/vgw-agent": 0o755,
    "usr/lib/systemd/system/vgw-agent.service": 0o644,
    "usr/lib/sysusers.d/vgw-agent.conf": 0o644,
    "usr/lib/tmpfiles.d/vgw-agent.conf": 0o644,
    "usr/lib/systemd/networkd.conf.d/vgw-agent.conf": 0o644,
    "usr/share/man/man8/vgw-agent.8": 0o644,
    "usr/share/doc/vgw-agent/LICENSE": 0o644,
    "usr/share/doc/vgw-agent/examples/agent.json": 0o644,
    "usr/share/doc/vgw-agent/examples/spec.json": 0o644,
    "etc/iproute2/rt_protos.d/vgw-agent.conf": 0o644,
    "etc/vgw-agent/agent.json": 0o644,
}


def install(destination, **environment):
    variables = {"DESTDIR": str(destination), "BIN": BINARY, **environment}
    return run("env", *(f"{k}={v}" for k, v in variables.items()), os.path.join(TOP, "packaging", "install.sh"))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    destination = tmp_path_factory.mktemp("root")
    install(destination)
    return destination


def test_every_file_is_where_it_belongs(root):
    found = {os.path.relpath(os.path.join(folder, name), root)
             for folder, _, names in os.walk(root) for name in names}
    assert found == set(WANTED)
    for name, mode in WANTED.items():
        assert stat.S_IMODE(os.stat(root / name).st_mode) == mode, name
    assert stat.S_IMODE(os.stat(root / "etc/vgw-agent/tls").st_mode) == 0o750
    assert run(root / "usr/sbin/vgw-agent", "version").returncode == 0


def test_make_install_is_the_same(tmp_path, root):
    """make's own target, with the binary as it is."""
    build = os.path.dirname(BINARY)
    run("make", "-C", TOP, "-o", BINARY, "--no-print-directory", "install", f"DESTDIR={tmp_path}", f"BUILD={build}",
        f"BIN={BINARY}", timeout=120)
    for name in WANTED:
        assert os.path.exists(tmp_path / name), name


def test_a_configuration_that_is_there_is_kept(tmp_path):
    path = tmp_path / "etc/vgw-agent/agent.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    install(tmp_path)
    assert path.read_text() == "{}"


def test_another_prefix(tmp_path):
    install(tmp_path, PREFIX="/usr/local")
    unit = (tmp_path / "usr/local/lib/systemd/system/vgw-agent.service").read_text()
    assert "ExecStart=/usr/local/sbin/vgw-agent run\n" in unit
    assert os.access(tmp_path / "usr/local/sbin/vgw-agent", os.X_OK)


def test_the_unit(root):
    text = (root / "usr/lib/systemd/system/vgw-agent.service").read_text()
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string(text)
    service = unit["Service"]
    assert service["Type"] == "notify" and service["Restart"] == "always" and service["User"] == "vgw-agent"
    for name in ("AmbientCapabilities", "CapabilityBoundingSet"):
        assert service[name].split() == ["CAP_NET_ADMIN", "CAP_NET_RAW"]
    assert service["StateDirectory"] == service["RuntimeDirectory"] == "vgw-agent"
    assert "-/proc/sys/net" in service["ReadWritePaths"].split()
    assert "ProcSubset" not in service
    assert service["WatchdogSec"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze on this machine")
def test_systemd_finds_nothing_wrong(root, tmp_path):
    unit = tmp_path / "vgw-agent.service"
    text = (root / "usr/lib/systemd/system/vgw-agent.service").read_text()
    unit.write_text(text.replace("/usr/sbin/vgw-agent", str(root / "usr/sbin/vgw-agent")))
    done = run("systemd-analyze", "verify", "--man=no", unit, check=False)
    assert done.returncode == 0 and not done.stderr.strip(), done.stderr


def test_the_example_configuration_is_the_contract_s(root):
    example = json.loads((root / "usr/share/doc/vgw-agent/examples/agent.json").read_text())
    assert run(BINARY, "check", root / "usr/share/doc/vgw-agent/examples/spec.json").returncode == 0
    assert example["socket"] == "/run/vgw-agent/control.sock" and example["probePort"] == 9444
    assert (root / "etc/iproute2/rt_protos.d/vgw-agent.conf").read_text().split() == ["86", "vgw-agent"]


def test_the_manual_page_renders_without_warnings(root):
    page = root / "usr/share/man/man8/vgw-agent.8"
    done = run("env", "LC_ALL=C.UTF-8", "MANWIDTH=100", "man", "--warnings", "-l", page)
    assert not done.stderr.strip(), done.stderr
    for word in ("run", "check", "plan", "apply", "status", "teardown", "pki", "version", "help", "NOTIFY_SOCKET"):
        assert word in done.stdout


@pytest.mark.parametrize("code,symbol", [
    ("#include <time.h>\nlong f(void) { return time(0); }", "time"),
    ("#include <stdio.h>\nvoid f(void) { fprintf(stderr, \"%d\", 1); }", "stderr"),
    ("#include <stdlib.h>\nvoid f(void) { exit(1); }", "exit"),
    ("#include <stdlib.h>\nchar *f(void) { return getenv(\"A\"); }", "getenv"),
    ("#include <sys/socket.h>\nint f(void) { return socket(1, 1, 0); }", "socket"),
    ("#include <stdio.h>\n#include <string.h>\nint f(char *b, int n) { return snprintf(b, n, \"%d\", n); }", None)])
def test_lint_names_what_makes_model_code_impure(tmp_path, code, symbol):
    (tmp_path / "probe.c").write_text(code + "\n")
    run("cc", "-O2", "-D_FORTIFY_SOURCE=2", "-c", "-o", tmp_path / "probe.o", tmp_path / "probe.c")
    run("ar", "rcs", tmp_path / "libmodel.a", tmp_path / "probe.o")
    done = run(os.path.join(TOP, "packaging", "lint.sh"), tmp_path / "libmodel.a", check=False)
    if symbol is None:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 1 and f"probe.o is in a model/ folder and asks for {symbol}\n" in done.stderr
