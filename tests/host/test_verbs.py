# SPDX-License-Identifier: Apache-2.0
"""The verbs: what they print, on which stream, and with which exit status."""

import json
import os
import re
import ssl
import stat

import pytest

from agent import BINARY, CONTROL_PORT, identities
from lab import CONTROL_PLANE, GATEWAY
from netns import Process, run, wait_for
from observe import has_table, ruleset
from specs import kube, spec, tcp, tunnel

VERBS = ("run", "check", "plan", "apply", "status", "teardown", "pki", "version", "help")


def program(*arguments, **options):
    return run(BINARY, *arguments, check=False, **options)


def test_version():
    done = program("version")
    assert done.returncode == 0 and re.search(r"\b0\.1\.0\b", done.stdout) and not done.stderr


def test_help_knows_every_verb():
    done = program("help")
    assert done.returncode == 0 and not done.stderr
    for verb in VERBS:
        assert re.search(rf"\b{verb}\b", done.stdout), verb
        own = program("help", verb)
        assert own.returncode == 0 and verb in own.stdout, verb


@pytest.mark.parametrize("arguments", [
    (), ("fly",), ("check",), ("check", "a", "b"), ("check", "--colour", "x"), ("run", "--config"), ("help", "fly"),
    ("pki",), ("plan",), ("apply",), ("status", "extra")])
def test_wrong_usage(arguments):
    done = program(*arguments)
    assert done.returncode == 2
    assert done.stderr.strip() and not done.stdout


def test_check(tmp_path):
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(spec(kube())))
    assert program("check", path).returncode == 0
    assert program("check", "-", stdin=path.read_text()).returncode == 0
    path.write_text(json.dumps(spec(kube(), tcp("web", 9443))))
    done = program("check", path)
    assert done.returncode == 3 and done.stderr.startswith("PortConflict: ")
    assert done.stderr.count("\n") == 1


def test_check_needs_no_privileges(tmp_path):
    os.chmod(tmp_path, 0o755)
    done = run("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "--no-new-privs",
               BINARY, "check", "-", stdin=json.dumps(spec(kube())), check=False)
    assert done.returncode == 0, done.stderr


def test_a_file_that_is_not_there():
    for verb in ("check", "plan"):
        done = program(verb, "/nowhere/spec.json")
        assert done.returncode == 1, (verb, done)
        assert "/nowhere/spec.json" in done.stderr


def test_plan_and_no_changes(lab, agent):
    wanted = agent.file(spec(kube(), tcp("web", 8080), tunnels=[tunnel(lab.wg)]))
    before = ruleset(lab.gw)
    done = agent.verb("plan", wanted)
    assert done.returncode == 0 and done.stdout.strip() and "no changes" not in done.stdout
    assert any(lab.wg in line and "1400" in line for line in done.stdout.splitlines())
    assert ruleset(lab.gw) == before and lab.gw.mtu(lab.wg) == 1420
    applied = agent.verb("apply", wanted)
    assert applied.returncode == 0, applied.stderr
    agent.settled()
    done = agent.verb("plan", wanted)
    assert (done.returncode, done.stdout.strip()) == (0, "no changes"), done.stdout


def test_plan_uses_the_verdicts_in_force(lab, agent):
    whole = spec(kube())
    agent.apply(whole)
    lab.api["cp2"].stop()
    agent.becomes(CONTROL_PLANE["cp2"], "Dead", "Refused")
    assert agent.verb("plan", agent.file(whole)).stdout.strip() == "no changes"


def test_plan_and_apply_refused(lab, agent):
    agent.apply(spec(kube()))
    wrong = agent.file(spec(kube(), tcp("web", 9443)))
    for verb in ("plan", "apply"):
        done = agent.verb(verb, wrong)
        assert done.returncode == 3 and done.stderr.startswith("PortConflict: "), (verb, done)
    old = agent.file({**spec(kube()), "generation": 0})
    done = agent.verb("apply", old)
    assert done.returncode == 3 and done.stderr.startswith("StaleGeneration: ")


def test_apply_dry_run(lab, agent):
    agent.apply(spec(kube()))
    before = agent.get("/v1/spec").body
    done = agent.verb("apply", agent.file(spec(kube(), tcp("web", 8080))), "--dry-run")
    assert done.returncode == 0 and done.stdout.strip()
    assert agent.get("/v1/spec").body == before


def remote_options():
    pki = identities()
    return ("--connect", f"{GATEWAY}:{CONTROL_PORT}", "--ca", pki.ca, "--cert", pki.writer[0], "--key", pki.writer[1])


def test_apply_and_status_over_mtls(lab, agent):
    path = agent.file(spec(kube()))
    done = lab.cl.run(BINARY, "apply", path, *remote_options(), check=False)
    assert done.returncode == 0, done.stderr
    done = lab.cl.run(BINARY, "status", "--json", *remote_options(), check=False)
    assert done.returncode == 0 and json.loads(done.stdout)["kind"] == "GatewayStatus"
    options = list(remote_options())
    options[3] = identities().writer[0]  # an authority that did not sign the agent's certificate
    done = lab.cl.run(BINARY, "status", *options, check=False)
    assert done.returncode == 1 and done.stderr.strip()


def test_status_table_and_json(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080), tunnels=[tunnel(lab.wg)]))
    done = agent.verb("status")
    assert done.returncode == 0 and not done.stderr
    for word in ("kube-apiserver", f"{GATEWAY}:6443", *CONTROL_PLANE.values(), "Up", "Programmed", "mgmt", lab.wg, "1400"):
        assert word in done.stdout, word
    assert "\x1b" not in done.stdout, "no colour where nobody looks"
    done = agent.verb("status", "--json")
    assert json.loads(done.stdout)["frontends"][1]["name"] == "web"


def test_status_shows_a_dead_backend(lab, agent):
    agent.apply(spec(kube()))
    lab.api["cp2"].stop()
    agent.becomes(CONTROL_PLANE["cp2"], "Dead", "Refused")
    text = agent.verb("status").stdout
    row = next(line for line in text.splitlines() if CONTROL_PLANE["cp2"] in line)
    assert "Dead" in row and "Refused" in row and "Degraded" in text


def test_status_watch_is_live(lab, agent):
    agent.apply(spec(kube()))
    watch = agent.host.spawn(BINARY, "status", "--watch", "--config", agent.config, log="watch")
    wait_for(lambda: "kube-apiserver" in watch.text(), what="the first view")
    lab.api["cp2"].stop()
    wait_for(lambda: "Dead" in watch.text(), what="the change is seen")
    watch.stop()


def test_colour_on_a_terminal(lab, agent):
    agent.apply(spec(kube()))
    shown = agent.host.run("script", "-qec", f"{BINARY} status --config {agent.config}", "/dev/null").stdout
    assert "\x1b[" in shown and "kube-apiserver" in shown


def test_without_an_agent(lab, make_agent):
    agent = make_agent()
    for arguments in (("status",), ("apply", agent.file(spec(kube())))):
        done = agent.verb(*arguments)
        assert done.returncode == 1 and agent.socket in done.stderr, done
    done = agent.verb("teardown")
    assert done.returncode == 0, done.stderr


def test_teardown_through_the_socket(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    done = agent.verb("teardown")
    assert done.returncode == 0, done.stderr
    assert not has_table(lab.gw) and lab.gw.mtu(lab.wg) == 1420
    assert agent.running()
    assert agent.get("/v1/spec").status == 404


def test_pki(tmp_path):
    directory = tmp_path / "pki"
    done = program("pki", directory, "--name", "vgw.example", "--address", GATEWAY, "--address", "fd00:150::1")
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(directory)) == sorted(f"{n}.{e}" for n in ("ca", "server", "client") for e in ("crt", "key"))
    for name in ("ca", "server", "client"):
        assert stat.S_IMODE(os.stat(directory / f"{name}.key").st_mode) & 0o077 == 0
        text = run("openssl", "x509", "-in", directory / f"{name}.crt", "-noout", "-text").stdout
        assert "prime256v1" in text and "ecdsa-with-SHA256" in text
        assert "Version: 3" in text
    assert run("openssl", "verify", "-CAfile", directory / "ca.crt", "-purpose", "sslserver",
               directory / "server.crt").returncode == 0
    assert run("openssl", "verify", "-CAfile", directory / "ca.crt", "-purpose", "sslclient",
               directory / "client.crt").returncode == 0
    names = run("openssl", "x509", "-in", directory / "server.crt", "-noout", "-ext", "subjectAltName").stdout
    assert "DNS:vgw.example" in names and f"IP Address:{GATEWAY}" in names and "FD00:150:0:0:0:0:0:1" in names
    assert "CN = controller" in run("openssl", "x509", "-in", directory / "client.crt", "-noout", "-subject").stdout
    # Python's own idea of a sound chain.
    context = ssl.create_default_context(cafile=directory / "ca.crt")
    context.load_cert_chain(directory / "client.crt", directory / "client.key")


def test_pki_again_keeps_the_authority(tmp_path):
    assert program("pki", tmp_path).returncode == 0
    before = {name: (tmp_path / name).read_bytes() for name in ("ca.crt", "ca.key")}
    assert program("pki", tmp_path, "--address", GATEWAY).returncode == 0
    assert {name: (tmp_path / name).read_bytes() for name in before} == before, "what it has signed stays valid"
    assert run("openssl", "verify", "-CAfile", tmp_path / "ca.crt", tmp_path / "server.crt").returncode == 0


def test_a_running_agent_ends_cleanly_when_told(lab, agent):
    assert isinstance(agent.process, Process)
    assert agent.stop() == 0
    assert not os.path.exists(agent.socket)
