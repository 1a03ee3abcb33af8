# SPDX-License-Identifier: Apache-2.0
"""The verdicts: what a server does, what the status says of it, and where new connections go."""

import time

import pytest

from lab import CONTROL_PLANE, GATEWAY, cluster_authority
from netns import stays, wait_for
from servers import Authority, Beacon
from specs import backend, backends, kube, spec, tcp, udp
from traffic import in_turn, names

CP1, CP2, CP3 = CONTROL_PLANE.values()


def who(lab, count=12):
    answers = [lab.cl.get(GATEWAY, 6443, "/", lab.trust) for _ in range(count)]
    assert {status for status, _ in answers} == {200}
    return [body.strip() for _, body in answers]


def test_a_stopped_backend_leaves_the_rotation_and_comes_back(lab, agent):
    agent.apply(spec(kube()))
    lab.api["cp2"].stop()
    row = agent.becomes(CP2, "Dead", "Refused")
    assert row["check"]["stage"] == "connect"
    assert in_turn(who(lab), 2)
    assert "cp2" not in who(lab)
    frontend = agent.frontend()
    assert (frontend["state"], frontend["healthy"], frontend["total"]) == ("Degraded", 2, 3)
    lab.api["cp2"].start()
    agent.becomes(CP2, "Up", "OK")
    assert in_turn(who(lab), 3)
    assert agent.frontend()["state"] == "Programmed"


def test_an_unready_backend_drains_and_keeps_its_connections(lab, agent):
    agent.apply(spec(kube()))
    held = {}
    while "cp1" not in held:
        connection = lab.cl.https(GATEWAY, 6443, lab.trust)
        connection.request("GET", "/")
        held[connection.getresponse().read().decode().strip()] = connection
    lab.api["cp1"].answer(500)
    row = agent.becomes(CP1, "Draining", "HTTPStatus")
    assert (row["check"]["stage"], row["check"]["detail"]) == ("http", "500")
    assert set(who(lab)) == {"cp2", "cp3"}
    for name, connection in held.items():
        connection.request("GET", "/")
        assert connection.getresponse().read().decode().strip() == name
        connection.close()
    assert agent.frontend()["state"] == "Degraded"
    lab.api["cp1"].answer(200)
    agent.becomes(CP1, "Up", "OK")
    assert set(who(lab)) == set(CONTROL_PLANE)


def test_401_has_a_code_of_its_own(lab, agent):
    agent.apply(spec(kube()))
    lab.api["cp1"].answer(401)
    row = agent.becomes(CP1, "Draining", "AuthRequired")
    assert row["check"]["detail"] == "401"
    assert "cp1" not in who(lab)


def test_401_is_healthy_where_it_is_expected(lab, agent):
    lab.api["cp1"].answer(401)
    agent.apply(spec(kube(check={"expect": [200, 401]})))
    assert agent.backend(CP1)["state"] == "Up"
    assert set(who(lab)) == set(CONTROL_PLANE)


def test_a_server_that_starts_gets_no_one_before_it_is_ready(lab, agent):
    """As API servers do: refused, then 401 while the roles are not there, then 500, then 200."""
    agent.apply(spec(kube()))
    lab.api["cp1"].stop()
    agent.becomes(CP1, "Dead", "Refused")
    lab.api["cp1"].answer(401)
    lab.api["cp1"].start()
    agent.becomes(CP1, "Draining", "AuthRequired")
    assert set(who(lab)) == {"cp2", "cp3"}
    lab.api["cp1"].answer(500)
    agent.becomes(CP1, "Draining", "HTTPStatus")
    assert set(who(lab)) == {"cp2", "cp3"}
    lab.api["cp1"].answer(200)
    agent.becomes(CP1, "Up", "OK")
    assert set(who(lab)) == set(CONTROL_PLANE)


@pytest.mark.parametrize("name", ["cp2", "cp3"])  # nginx, HAProxy
def test_a_hanging_server_is_a_timeout(lab, agent, name):
    agent.apply(spec(kube()))
    lab.api[name].halt()
    row = agent.becomes(CONTROL_PLANE[name], "Dead", "Timeout")
    assert row["check"]["stage"] == "tls"
    assert name not in who(lab)
    lab.api[name].resume()
    agent.becomes(CONTROL_PLANE[name], "Up", "OK")


def test_a_silent_host_is_dead(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080)))
    lab.cable("cp3", False)
    row = agent.becomes(CP3, "Dead")
    assert row["check"]["code"] in ("Timeout", "Unreachable")
    assert row["check"]["stage"] == "connect"
    agent.becomes(CP3, "Dead", frontend="web")
    assert set(names(lab.cl, GATEWAY, 8080, 20)) == {"cp1", "cp2"}
    lab.cable("cp3", True)
    agent.becomes(CP3, "Up", "OK")


def test_one_failed_check_is_no_verdict(lab, agent):
    """fall counts samples, and after a first failure the next check starts at once."""
    agent.apply(spec(kube(check={"interval": "1s", "timeout": "800ms", "rise": 2, "fall": 5})))
    streak = agent.backend(CP1)["check"]["streak"]
    wait_for(lambda: agent.backend(CP1)["check"]["streak"] > streak, what="checks go on")
    lab.api["cp1"].answer(500)
    wait_for(lambda: agent.backend(CP1)["check"]["code"] == "HTTPStatus", what="a failed check")
    begin = time.monotonic()
    agent.becomes(CP1, "Draining", "HTTPStatus")
    assert time.monotonic() - begin < 6


def test_the_default_check_finds_a_refusing_backend_in_time(lab, agent):
    row = kube()
    row["healthCheck"] = {}
    agent.apply(spec(row))
    begin = time.monotonic()
    lab.api["cp2"].stop()
    agent.becomes(CP2, "Dead", "Refused")
    assert time.monotonic() - begin < 3
    assert "cp2" not in who(lab)


def test_all_dead_with_reject_is_reset_at_once(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080, whenNoneHealthy="reject", check={"port": 7100})))
    wait_for(lambda: agent.frontend("web")["state"] == "NoBackends", what="NoBackends")
    begin = time.monotonic()
    assert lab.cl.refuses(GATEWAY, 8080)
    assert time.monotonic() - begin < 0.5
    assert agent.frontend("web")["healthy"] == 0


def test_all_unready_with_failopen_is_served(lab, agent):
    servers = ("cp1", "cp2")
    agent.apply(spec(kube(backends=backends(names=servers))))
    for name in servers:
        lab.api[name].answer(500)
    wait_for(lambda: agent.frontend()["state"] == "FailOpen", what="FailOpen")
    assert in_turn(who(lab), 2)
    assert agent.frontend()["healthy"] == 0
    lab.api["cp1"].answer(200)
    agent.becomes(CP1, "Up")
    assert agent.frontend()["state"] == "Degraded"
    assert set(who(lab)) == {"cp1"}


def test_failopen_leaves_out_those_that_refuse_or_are_drained(lab, agent):
    rows = [backend("cp1"), backend("cp2"), backend("cp3", drain=True)]
    agent.apply(spec(kube(backends=rows)))
    lab.api["cp1"].answer(500)
    lab.api["cp2"].stop()
    agent.becomes(CP1, "Draining", "HTTPStatus")
    agent.becomes(CP2, "Dead", "Refused")
    assert agent.frontend()["state"] == "FailOpen"
    assert set(who(lab)) == {"cp1"}
    lab.api["cp1"].stop()
    wait_for(lambda: agent.frontend()["state"] == "NoBackends", what="NoBackends")
    begin = time.monotonic()
    assert lab.cl.refuses(GATEWAY, 6443)
    assert time.monotonic() - begin < 0.5


def test_reject_when_unready(lab, agent):
    servers = ("cp1", "cp2")
    agent.apply(spec(kube(backends=backends(names=servers), whenNoneHealthy="reject")))
    for name in servers:
        lab.api[name].answer(500)
    wait_for(lambda: agent.frontend()["state"] == "NoBackends", what="NoBackends")
    assert lab.cl.refuses(GATEWAY, 6443)


def test_a_frontend_without_backends_refuses(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080, backends=[]), udp("dns", 53, backends=[])))
    for name in ("web", "dns"):
        row = agent.frontend(name)
        assert (row["state"], row["healthy"], row["total"]) == ("NoBackends", 0, 0)
    begin = time.monotonic()
    assert lab.cl.refuses(GATEWAY, 8080)
    with pytest.raises(ConnectionRefusedError):
        lab.cl.ask_udp(GATEWAY, 53)
    assert time.monotonic() - begin < 1


def test_the_check_may_use_another_port(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080, check={"type": "https", "path": "/readyz", "port": 6443})))
    assert agent.backend(CP1, "web")["check"]["detail"] == "200"
    lab.api["cp1"].answer(500)
    agent.becomes(CP1, "Draining", "HTTPStatus", frontend="web")
    assert set(names(lab.cl, GATEWAY, 8080, 12)) == {"cp2", "cp3"}


@pytest.mark.parametrize("kind,stage", [("tcp", "connect"), ("tls", "tls"), ("https", "http")])
def test_stages_of_a_good_check(lab, agent, kind, stage):
    agent.apply(spec(kube(check={"type": kind, "path": "/readyz"})))
    check = agent.backend(CP1)["check"]
    assert (check["stage"], check["code"]) == (stage, "OK")
    assert 0 <= check["latencyMs"] < 400
    assert check["time"].endswith("Z")


def test_no_check_takes_the_backend_as_it_is(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080, check={"type": "none"})), settled=False)
    wait_for(lambda: agent.frontend("web")["state"] == "Programmed", what="Programmed")
    assert set(names(lab.cl, GATEWAY, 8080, 12)) == set(CONTROL_PLANE)


def test_a_server_that_speaks_no_tls_fails_at_that_stage(lab, agent):
    beacon = Beacon(lab.cp1, ("tcp:7443",)).start().ready()
    try:
        agent.apply(spec(kube(), tcp("web", 8443, to=7443, check={"type": "tls"}, backends=[backend("cp1", 7443)])))
        row = agent.becomes(CP1, "Draining", "TLSFailed", frontend="web")
        assert row["check"]["stage"] == "tls"
    finally:
        beacon.stop()


def test_certificates_are_reported_and_verified_where_a_ca_is_given(lab, agent):
    agent.apply(spec(kube()))
    certificate = agent.backend(CP1)["certificate"]
    assert certificate["hasGatewayAddress"] is True
    assert certificate["notAfter"].endswith("Z")
    with open(cluster_authority().crt, encoding="ascii") as file:
        ca = file.read()
    agent.apply(spec(kube(check={"ca": ca})))
    assert agent.backend(CP1)["state"] == "Up"
    assert agent.backend(CP1)["certificate"]["verified"] is True
    with open(Authority(f"{lab.directory}/strange", "strange").crt, encoding="ascii") as file:
        strange = file.read()
    agent.apply(spec(kube(check={"ca": strange}, whenNoneHealthy="reject")))
    row = agent.becomes(CP1, "Draining", "CertificateInvalid")
    assert row["check"]["stage"] == "tls"
    wait_for(lambda: agent.frontend()["state"] == "NoBackends", what="NoBackends")
    assert lab.cl.refuses(GATEWAY, 6443)


def test_a_good_backend_is_checked_again_and_again(lab, agent):
    agent.apply(spec(kube()))
    first = agent.backend(CP1)["check"]["streak"]
    wait_for(lambda: agent.backend(CP1)["check"]["streak"] >= first + 5, timeout=5, what="five more good checks")
    stays(lambda: agent.frontend()["state"] == "Programmed", 1)


def test_control_plane_reachable_says_so(lab, agent):
    agent.apply(spec(kube()))
    wait_for(lambda: agent.condition("ControlPlaneReachable")["status"] == "True", what="ControlPlaneReachable")
    for server in lab.api.values():
        server.stop()
    wait_for(lambda: agent.condition("ControlPlaneReachable")["status"] == "False", what="not ControlPlaneReachable")
