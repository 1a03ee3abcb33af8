# SPDX-License-Identifier: Apache-2.0
"""Starting, stopping, dying, and what is kept over it."""

import json
import os
import re
import shutil
import signal
import socket

import pytest

from agent import BINARY, CONTROL_PORT
from lab import CONTROL_PLANE, GATEWAY
from netns import stays, wait_for
from observe import has_table, open_files, ruleset
from specs import kube, spec, tcp, tunnel
from traffic import Load, in_turn, names


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_restarts_under_load_fail_no_connection(lab, agent, number):
    agent.apply(spec(kube(), tcp("web", 8080), tunnels=[tunnel(lab.wg)]))
    load = Load(lab.cl, GATEWAY, 8080, 200)
    far = Load(lab.mg, GATEWAY, 8080, 50)
    for _ in range(8):
        agent.process.stop(number)
        stays(lambda: not agent.running(), 0.2)
        agent.start()
        agent.settled()
    for result in (load.finish(), far.finish()):
        assert result["failed"] == 0, result
        assert result["ok"] > 50 and set(result["by"]) == set(CONTROL_PLANE)


def test_an_open_connection_lives_through_restarts(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080, to=7001)))
    sock = lab.cl.connect(GATEWAY, 8080)
    file = sock.makefile("rw", encoding="ascii")
    file.readline()
    for end in (agent.stop, agent.kill):
        end()
        agent.start()
        agent.settled()
        file.write("still here\n")
        file.flush()
        assert file.readline() == "still here\n"
    sock.close()


def without_owner(text):
    """The flags of a table lose the owner, and only that, when its process is gone."""
    return re.sub(r"(?m) progname \S+|^\tflags.*\n\n?", "", text)


def test_stopping_leaves_the_data_plane(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080), tunnels=[tunnel(lab.wg)]))
    before = without_owner(ruleset(lab.gw))
    assert agent.stop() == 0
    assert without_owner(ruleset(lab.gw)) == before
    assert lab.gw.mtu(lab.wg) == 1400
    assert in_turn(names(lab.cl, GATEWAY, 8080, 30), 3)
    assert not os.path.exists(agent.socket), "the socket goes with the process"


def test_a_restart_writes_nothing_where_nothing_has_changed(lab, start_agent):
    agent = start_agent(protect="off")
    agent.apply(spec(kube(), tcp("web", 8080), tunnels=[tunnel(lab.wg)]))
    before = ruleset(lab.gw)
    agent.stop()
    agent.start()
    agent.settled()
    assert ruleset(lab.gw) == before, "the same objects with the same handles"


def test_the_stored_spec_is_applied_without_a_controller(lab, agent):
    wanted = spec(kube(), tcp("web", 8080), tunnels=[tunnel(lab.wg)])
    agent.apply(wanted)
    agent.stop()
    lab.gw.run("nft", "delete", "table", "inet", "vgw_agent")
    lab.gw.ip(f"link set {lab.wg} mtu 1420")
    agent.start()
    status = agent.settled()
    assert status["generation"] == {"accepted": wanted["generation"], "applied": wanted["generation"]}
    assert agent.get("/v1/spec").json["generation"] == wanted["generation"]
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)
    wait_for(lambda: lab.gw.mtu(lab.wg) == 1400, what="the MTU")


def test_the_revision_never_goes_back(lab, agent):
    agent.apply(spec(kube()))
    first = agent.status()["revision"]
    assert first > 1_500_000_000_000
    agent.kill()
    agent.start()
    agent.settled()
    assert agent.status()["revision"] > first


def test_verdicts_hold_over_a_restart(lab, agent):
    agent.apply(spec(kube(check={"interval": "5s", "rise": 3})))
    lab.api["cp2"].stop()
    agent.becomes(CONTROL_PLANE["cp2"], "Dead", timeout=20)
    agent.kill()
    agent.start()
    answers = {lab.cl.get(GATEWAY, 6443, "/", lab.trust)[1].strip() for _ in range(9)}
    assert answers == {"cp1", "cp3"}


def test_a_spec_to_start_from(make_agent, start_agent):
    seed = spec(kube())
    path = make_agent().file(seed)
    agent = start_agent("--spec", path)
    assert agent.settled()["generation"]["applied"] == seed["generation"]
    newer = spec(kube(), tcp("web", 8080))
    agent.apply(newer)
    agent.stop()
    agent.start("--spec", path)
    assert agent.settled()["generation"]["applied"] == newer["generation"], "a stored spec comes first"


@pytest.mark.parametrize("content", [b"", b"{", b"\x00\xff\x00", b'{"apiVersion": "vgw-agent/v1"}', b"[]"],
                         ids=["empty", "cut", "binary", "incomplete", "array"])
def test_a_corrupted_stored_spec_does_not_stop_the_agent(lab, agent, content):
    agent.apply(spec(kube(), tcp("web", 8080)))
    agent.stop()
    with open(os.path.join(agent.state, "spec.json"), "wb") as file:
        file.write(content)
    agent.start()
    row = wait_for(lambda: agent.condition("SpecAccepted"), what="the condition")
    assert row["status"] == "False" and row["reason"] and row["message"]
    assert has_table(lab.gw)
    assert set(names(lab.cl, GATEWAY, 8080, 9)) == set(CONTROL_PLANE), "what runs goes on"
    agent.apply(spec(kube(), tcp("web", 8080)))
    assert agent.condition("SpecAccepted")["status"] == "True"


def test_a_corrupted_record_does_not_stop_the_agent(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080), tunnels=[tunnel(lab.wg)]))
    agent.stop()
    with open(os.path.join(agent.state, "applied.json"), "wb") as file:
        file.write(b"{ not json")
    agent.start()
    agent.settled()
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)
    agent.delete()
    lab.gw.ip(f"link set {lab.wg} mtu 1420")


def test_without_a_spec_it_waits(lab, agent):
    status = agent.status()
    assert status["kind"] == "GatewayStatus" and status["apiVersion"] == "vgw-agent/v1"
    assert status["frontends"] == []
    assert agent.get("/v1/spec").status == 404
    assert not has_table(lab.gw)


def test_it_listens_before_the_address_exists(lab, start_agent):
    lab.gw.ip(f"addr del {GATEWAY}/24 dev eth1")
    try:
        agent = start_agent()
        agent.apply(spec(kube()), settled=False)
        wait_for(lambda: agent.frontend()["state"] == "Pending", what="Pending")
    finally:
        lab.gw.ip(f"addr replace {GATEWAY}/24 dev eth1")
    wait_for(lambda: agent.frontend()["state"] == "Programmed", what="Programmed")
    wait_for(lambda: agent.remote_ask("GET", "/v1/status").status == 200, what="the control channel")
    assert lab.cl.get(GATEWAY, 6443, "/", lab.trust)[0] == 200


def test_the_private_interface_may_come_late(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080)))
    lab.unplug("gw", "eth1")
    try:
        wait_for(lambda: agent.frontend()["state"] == "Pending", what="Pending")
        assert agent.running()
    finally:
        lab.plug("gw", "eth1", "lan", f"{GATEWAY}/24", "fd00:150::1/64")
    agent.becomes(CONTROL_PLANE["cp1"], "Up")
    assert set(names(lab.cl, GATEWAY, 8080, 12)) == set(CONTROL_PLANE)
    assert lab.cp1.ask(GATEWAY, 8080)[0] in CONTROL_PLANE


class NotifySocket:
    """What systemd is to the service."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "notify")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(self.path)
        self.sock.setblocking(False)
        self.lines = []

    def read(self):
        try:
            while True:
                self.lines += self.sock.recv(4096).decode().splitlines()
        except BlockingIOError:
            return self.lines


def test_readiness_and_watchdog(lab, make_agent):
    notify = NotifySocket(lab.directory)
    agent = make_agent().start(env={"NOTIFY_SOCKET": notify.path, "WATCHDOG_USEC": "600000"})
    wait_for(lambda: "READY=1" in notify.read(), what="READY=1")
    agent.apply(spec(kube()))
    for _ in range(5):
        notify.lines.clear()
        wait_for(lambda: "WATCHDOG=1" in notify.read(), timeout=0.6, what="the next WATCHDOG=1 within its time")
    # Fed only while the loop turns.
    agent.process.send(signal.SIGSTOP)
    notify.read()
    notify.lines.clear()
    stays(lambda: "WATCHDOG=1" not in notify.read(), 0.7)
    agent.process.send(signal.SIGCONT)
    wait_for(lambda: "WATCHDOG=1" in notify.read(), what="WATCHDOG=1")
    assert "READY=1" not in notify.lines


def test_readiness_comes_after_the_stored_spec_is_applied(lab, start_agent):
    agent = start_agent()
    agent.apply(spec(kube(), tcp("web", 8080)))
    agent.stop()
    lab.gw.run("nft", "delete", "table", "inet", "vgw_agent")
    notify = NotifySocket(agent.directory)
    agent.spawn(env={"NOTIFY_SOCKET": notify.path})
    wait_for(lambda: "READY=1" in notify.read(), what="READY=1")
    assert has_table(lab.gw)
    assert lab.cl.ask(GATEWAY, 8080)[0] in CONTROL_PLANE
    assert agent.running(), agent.log()


def test_two_agents_on_one_host(lab, agent):
    agent.apply(spec(kube()))
    before = ruleset(lab.gw)
    second = agent.verb("run", timeout=10)
    assert second.returncode == 1
    assert second.stderr.strip()
    assert agent.get("/livez").status == 200
    assert ruleset(lab.gw) == before
    assert lab.cl.get(GATEWAY, 6443, "/", lab.trust)[0] == 200


def test_a_second_agent_with_directories_of_its_own(lab, agent, make_agent):
    agent.apply(spec(kube()))
    before = ruleset(lab.gw)
    other = make_agent()
    done = lab.gw.run(BINARY, "run", "--config", other.config, check=False, timeout=10)
    assert done.returncode == 1, done.stderr
    assert str(CONTROL_PORT) in done.stderr
    assert ruleset(lab.gw) == before
    assert agent.get("/livez").status == 200


def test_the_control_port_is_taken(lab, make_agent):
    agent = make_agent()
    with lab.gw.entered():
        taken = socket.create_server((GATEWAY, CONTROL_PORT))
    with taken:
        done = lab.gw.run(BINARY, "run", "--config", agent.config, check=False, timeout=10)
    assert done.returncode == 1
    assert f"{GATEWAY}:{CONTROL_PORT}" in done.stderr
    assert not has_table(lab.gw)


@pytest.mark.parametrize("text,place", [
    ("{", ""), ('{"probePort": "x"}', "/probePort"), ('{"colour": 1}', "/colour"),
    ('{"protect": "perhaps"}', "/protect"), ('{"interfaces": {"private": 7}}', "/interfaces/private"),
    ('{"control": {"clients": [{"name": "a", "role": "god"}]}}', "/control/clients/0/role")])
def test_a_wrong_configuration_gets_a_reason_and_a_place(lab, make_agent, text, place):
    agent = make_agent()
    path = agent.file(text, "agent.json")
    done = lab.gw.run(BINARY, "run", "--config", path, check=False, timeout=10)
    assert done.returncode in (1, 2, 3)
    assert place in done.stderr and done.stderr.strip()


def test_a_missing_certificate_is_named_and_stops_nothing_else(lab, make_agent):
    agent = make_agent()
    agent.settings["control"]["certificate"] = "/nowhere/server.crt"
    agent.write_config()
    agent.start()
    assert "/nowhere/server.crt" in agent.log()
    agent.apply(spec(kube(), tcp("web", 8080)))
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)
    assert agent.condition("CertificateValid")["status"] != "True"


def readable(path, directory):
    copy = shutil.copy(path, directory)
    os.chmod(copy, 0o644)
    return copy


def test_two_capabilities_are_enough(lab, make_agent):
    """As the packaged unit runs it: its own user, CAP_NET_ADMIN and CAP_NET_RAW."""
    agent = make_agent()
    for path in (agent.directory, agent.state):
        os.chmod(path, 0o777)
    control = agent.settings["control"]
    for name in ("certificate", "key"):
        control[name] = readable(control[name], agent.directory)
    control["clientCA"] = [readable(path, agent.directory) for path in control["clientCA"]]
    agent.write_config()
    caps = "+net_admin,+net_raw"
    drop = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", f"-all,{caps}",
            "--ambient-caps", f"-all,{caps}", "--bounding-set", f"-all,{caps}", "--no-new-privs")
    agent.start(prefix=drop)
    with open(f"/proc/{agent.process.pid}/status", encoding="ascii") as file:
        assert "CapEff:\t0000000000003000" in file.read()
    lab.gw.sysctl("ipv4/ip_forward", 0)
    agent.apply(spec(kube(), tcp("web", 8080), tunnels=[tunnel(lab.wg)]))
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)
    assert lab.gw.mtu(lab.wg) == 1400
    assert agent.delete().status == 200
    assert lab.gw.mtu(lab.wg) == 1420


def test_nothing_is_left_open_by_polls_and_checks(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080)))
    for _ in range(20):
        agent.status()
    before = open_files(agent.process)
    for _ in range(200):
        agent.status()
    for _ in range(20):
        assert agent.remote_ask("GET", "/v1/status").status == 200
    wait_for(lambda: open_files(agent.process) <= before + 8, what="no descriptor is left open")


def test_no_program_is_run(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    with open(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children", encoding="ascii") as file:
        assert file.read().strip() == ""
    assert len(os.listdir(f"/proc/{agent.process.pid}/task")) == 1


def test_the_state_is_json_that_people_can_read(lab, agent):
    wanted = spec(kube())
    agent.apply(wanted)
    with open(os.path.join(agent.state, "spec.json"), encoding="utf-8") as file:
        assert json.load(file)["generation"] == wanted["generation"]


def test_a_first_spec_that_nobody_confirmed_does_not_outlive_a_crash(lab, agent):
    """It came through the very path it configures, perhaps: with the agent gone nobody would take it back."""
    answer = agent.request("PUT", "/v1/spec?confirm=60s", json.dumps(spec(kube())))
    assert answer.status == 200, answer
    assert "vgw_agent" in lab.gw.run("nft", "list", "tables").stdout
    agent.kill()
    agent.start()
    wait_for(lambda: "vgw_agent" not in lab.gw.run("nft", "list", "tables").stdout, what="its table is gone")
    assert agent.get("/v1/spec").status == 404
