# SPDX-License-Identifier: Apache-2.0
"""The control channel: who may do what, what it answers, and that nobody delays another."""

import json
import os
import re
import ssl
import threading
import time

import pytest

from agent import CONTROL_PORT, ask, identities
from lab import CONTROL_PLANE, GATEWAY
from netns import stays, wait_for
from observe import ruleset
from specs import kube, spec, tcp, tunnel
from traffic import in_turn, names

PROBLEM = "application/problem+json"


def quiet(agent):
    """Waits until nothing of substance changes any more; returns the revision."""
    def same():
        first = agent.status()["revision"]
        stays(lambda: agent.status()["revision"] == first, 0.6)
        return first
    return wait_for(same, what="the revision stands still")


def test_a_writer_may_do_everything(lab, agent):
    wanted = spec(kube())
    answer = agent.remote_ask("PUT", "/v1/spec", wanted)
    assert answer.status == 200, answer
    assert answer.json["generation"] == wanted["generation"]
    assert isinstance(answer.json["plan"], list) and answer.json["plan"]
    assert isinstance(answer.json["revision"], int)
    assert agent.remote_ask("GET", "/v1/spec").json == agent.get("/v1/spec").json
    assert agent.remote_ask("GET", "/v1/status").json["kind"] == "GatewayStatus"
    assert agent.remote_ask("DELETE", "/v1/spec").status == 200
    assert agent.remote_ask("GET", "/v1/spec").status == 404


def test_a_reader_may_use_every_get_and_nothing_else(lab, agent):
    agent.apply(spec(kube()))
    for path in ("/v1/status", "/v1/spec", "/livez", "/readyz"):
        assert agent.remote_ask("GET", path, who="reader").status == 200, path
    before = agent.get("/v1/spec").body
    for method in ("PUT", "DELETE"):
        answer = agent.remote_ask(method, "/v1/spec", spec(kube()) if method == "PUT" else None, who="reader")
        assert answer.status == 403 and answer.headers["Content-Type"].split(";")[0] == PROBLEM
        assert answer.json["reason"]
    assert agent.remote_ask("PUT", "/v1/spec?dryRun=true", spec(kube()), who="reader").status == 403
    assert agent.get("/v1/spec").body == before


def test_an_unlisted_client_gets_403(lab, agent):
    for path in ("/v1/status", "/livez", "/v1/spec"):
        answer = agent.remote_ask("GET", path, who="unlisted")
        assert answer.status == 403, answer


@pytest.mark.parametrize("who", ["foreign", None])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, None], ids=["TLS1.2", "newest"])
def test_no_or_a_strange_certificate_gets_nowhere(lab, agent, who, version):
    context = identities().context(who)
    if version:
        context.maximum_version = version
    connection = lab.cl.https(GATEWAY, CONTROL_PORT, context)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(connection, "GET", "/v1/status")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_tls_1_1_is_refused(lab, agent):
    context = identities().context()
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(lab.cl.https(GATEWAY, CONTROL_PORT, context), "GET", "/v1/status")


def test_curl_as_the_controller(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    pki = identities()
    for host in (lab.cl, lab.mg):
        done = host.run("curl", "-sS", "--fail", "--max-time", 10, "--cacert", pki.ca, "--cert", pki.writer[0],
                        "--key", pki.writer[1], f"https://{GATEWAY}:{CONTROL_PORT}/v1/status")
        assert json.loads(done.stdout)["endpoint"] == {"host": GATEWAY, "port": 6443}


def test_etag_and_not_modified(lab, agent):
    agent.apply(spec(kube()))
    revision = quiet(agent)
    answer = agent.remote_ask("GET", "/v1/status")
    tag = answer.headers["ETag"]
    assert str(revision) in tag
    same = agent.remote_ask("GET", "/v1/status", headers={"If-None-Match": tag})
    assert (same.status, same.body, same.headers["ETag"]) == (304, b"", tag)
    agent.apply(spec(kube(), tcp("web", 8080)))
    quiet(agent)
    newer = agent.remote_ask("GET", "/v1/status", headers={"If-None-Match": tag})
    assert newer.status == 200 and newer.headers["ETag"] != tag
    assert newer.json["revision"] > revision


def test_a_long_poll_answers_when_something_changes(lab, agent):
    agent.apply(spec(kube()))
    revision = quiet(agent)
    answers = []

    def poll():
        begin = time.monotonic()
        answer = agent.remote_ask("GET", f"/v1/status?since={revision}&wait=20s", timeout=25)
        answers.append((answer, time.monotonic() - begin))
    thread = threading.Thread(target=poll)
    thread.start()
    stays(lambda: not answers, 0.5, "no answer before a change")
    lab.api["cp1"].answer(500)
    thread.join(15)
    (answer, took), = answers
    assert answer.status == 200 and answer.json["revision"] > revision and took < 10


def test_a_long_poll_answers_when_its_time_is_over(lab, agent):
    agent.apply(spec(kube()))
    revision = quiet(agent)
    begin = time.monotonic()
    answer = agent.get(f"/v1/status?since={revision}&wait=700ms")
    assert answer.status == 200 and answer.json["revision"] == revision
    assert 0.65 <= time.monotonic() - begin < 3
    for since in (revision - 1, revision + 10 ** 12):
        begin = time.monotonic()
        assert agent.get(f"/v1/status?since={since}&wait=20s").status == 200
        assert time.monotonic() - begin < 2


def test_a_dry_run_only_plans(lab, agent):
    agent.apply(spec(kube()))
    before, stored = ruleset(lab.gw), agent.get("/v1/spec").body
    wanted = spec(kube(), tcp("web", 8080), tunnels=[tunnel(lab.wg)])
    answer = agent.put(wanted, "?dryRun=true")
    assert answer.status == 200 and answer.json["plan"]
    assert ruleset(lab.gw) == before and agent.get("/v1/spec").body == stored
    assert lab.gw.mtu(lab.wg) == 1420
    real = agent.put(wanted)
    assert real.json["plan"] == answer.json["plan"]
    assert agent.put(wanted, "?dryRun=true").json["plan"] == []


def test_a_spec_that_nobody_confirms_is_taken_back(lab, agent):
    first, second = spec(kube()), spec(kube(), tcp("web", 8080), tunnels=[tunnel(lab.wg)])
    agent.apply(first)
    before = ruleset(lab.gw)
    assert agent.put(second, "?confirm=1s").status == 200
    assert lab.cl.ask(GATEWAY, 8080)[0] in CONTROL_PLANE and lab.gw.mtu(lab.wg) == 1400
    wait_for(lambda: agent.get("/v1/spec").json["generation"] == first["generation"], timeout=5, what="the spec before")
    wait_for(lambda: ruleset(lab.gw).count("\n") == before.count("\n") and lab.gw.mtu(lab.wg) == 1420, what="its state")
    assert lab.cl.refuses(GATEWAY, 8080)


def test_a_confirmed_spec_stays(lab, agent):
    agent.apply(spec(kube()))
    wanted = spec(kube(), tcp("web", 8080))
    assert agent.remote_ask("PUT", "/v1/spec?confirm=1s", wanted).status == 200
    assert agent.remote_ask("POST", "/v1/spec/confirm").status == 200
    stays(lambda: agent.get("/v1/spec").json["generation"] == wanted["generation"], 1.5)
    wanted = spec(kube())
    assert agent.verb("apply", agent.file(wanted), "--confirm", "1s").returncode == 0
    assert agent.verb("confirm").returncode == 0
    stays(lambda: agent.get("/v1/spec").json["generation"] == wanted["generation"], 1.5)


def test_the_accepted_spec_is_what_was_sent(lab, agent):
    wanted = spec(kube(), tcp("web", 8080), tunnels=[tunnel(lab.wg)])
    agent.apply(wanted)
    got = agent.get("/v1/spec").json
    assert got["generation"] == wanted["generation"] and got["cluster"] == wanted["cluster"]
    assert [f["name"] for f in got["frontends"]] == ["kube-apiserver", "web"]
    assert got["tunnels"][0]["interface"] == lab.wg


@pytest.mark.parametrize("method,path,status", [
    ("GET", "/", 404), ("GET", "/v1/nothing", 404), ("POST", "/v1/status", 405), ("PATCH", "/v1/spec", 405),
    ("GET", "/v1/status?since=x", 400), ("GET", "/v1/status?since=1&wait=soon", 400)])
def test_wrong_requests_are_problems(lab, agent, method, path, status):
    answer = agent.request(method, path)
    assert answer.status == status, answer
    assert answer.headers["Content-Type"].split(";")[0] == PROBLEM
    assert answer.json["reason"] and answer.json["detail"]


@pytest.mark.parametrize("text", [
    b"GET / HTTP/9.9\r\n\r\n", b"\x00\x01\x02\r\n\r\n", b"GET /v1/status HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"GET /v1/status HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 9000 + b"\r\n\r\n",
    b"PUT /v1/spec HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}{}{}",
    b"PUT /v1/spec HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"])
def test_malformed_requests_are_answered_or_closed(lab, agent, text):
    agent.apply(spec(kube()))
    connection = agent.remote()
    connection.connect()
    connection.sock.sendall(text)
    try:
        head = connection.sock.recv(4096)
    except ConnectionResetError:
        head = b""
    assert head == b"" or re.match(rb"HTTP/1\.[01] (4\d\d|505) ", head), head
    connection.close()
    assert agent.get("/livez").status == 200
    assert agent.remote_ask("GET", "/v1/status").status == 200


def test_a_connection_is_kept_alive(lab, agent):
    connection = agent.remote()
    for _ in range(50):
        assert ask(connection, "GET", "/v1/status").status == 200
    first = connection.sock.getsockname()
    assert ask(connection, "GET", "/livez").text.strip() == "ok"
    assert connection.sock.getsockname() == first
    connection.close()


def test_a_body_in_chunks_and_in_small_pieces(lab, agent):
    wanted = json.dumps(spec(kube(), tcp("web", 8080))).encode()
    connection = agent.remote()
    connection.request("PUT", "/v1/spec", iter([wanted[:1], wanted[1:7], wanted[7:]]),
                       {"Transfer-Encoding": "chunked"}, encode_chunked=True)
    assert connection.getresponse().status == 200
    connection.close()
    assert len(agent.status()["frontends"]) == 2


def test_silent_and_slow_clients_delay_nobody(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080)))
    silent = [lab.cl.connect(GATEWAY, CONTROL_PORT) for _ in range(40)]
    begin = time.monotonic()
    slow = agent.remote(host="cp2")
    slow.connect()
    slow.sock.sendall(b"PUT /v1/spec HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
    dumb = agent.local()
    dumb.connect()
    dumb.sock.sendall(b"GET /v1/sta")
    slowest = 0.0
    for host in ("cp1", "cl", "cp3") * 5:
        start = time.monotonic()
        assert agent.remote_ask("GET", "/v1/status", host=host).status == 200
        slowest = max(slowest, time.monotonic() - start)
        assert agent.get("/livez").status == 200
    assert slowest < 1
    checked = agent.backend(CONTROL_PLANE["cp1"])["check"]["streak"]
    wait_for(lambda: agent.backend(CONTROL_PLANE["cp1"])["check"]["streak"] >= checked + 3, timeout=3,
             what="the checks go on")
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)
    # 10 s for a handshake, 10 s for a request.
    silent[-1].settimeout(15)
    assert silent[-1].recv(1) == b""
    assert 8 < time.monotonic() - begin < 14
    slow.sock.settimeout(10)
    head = slow.sock.recv(4096)
    assert head == b"" or b" 408 " in head.split(b"\r\n")[0]
    for sock in silent:
        sock.close()
    slow.close()
    dumb.close()


def test_many_connections_from_one_address_leave_room_for_another(lab, agent):
    agent.apply(spec(kube()))
    held = []
    for _ in range(80):
        connection = agent.remote(timeout=5)
        try:
            connection.connect()
            held.append(connection)
        except (OSError, ssl.SSLError):
            connection.close()
    try:
        assert agent.remote_ask("GET", "/v1/status", host="cp1").status == 200
        assert agent.get("/v1/status").status == 200
    finally:
        for connection in held:
            connection.close()


def test_readyz_says_what_is_missing(lab, agent):
    agent.apply(spec(kube()))
    wait_for(lambda: agent.get("/readyz").status == 200, what="ready")
    agent.apply(spec(kube(backends=[])))
    answer = wait_for(lambda: agent.get("/readyz").status in (200, 503) and agent.get("/readyz"), what="an answer")
    assert answer.text.strip()
    assert agent.get("/livez").status == 200


def test_the_status_document_has_its_fields(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)], cni={"name": "calico", "vethMTU": 1350}))
    status = agent.status()
    assert {"apiVersion", "kind", "revision", "bootId", "time", "ageMs", "agent", "generation", "endpoint", "conditions",
            "frontends", "tunnels", "drift", "warnings"} <= set(status)
    assert {"version", "startTime", "rssBytes", "kernel", "features"} <= set(status["agent"])
    kinds = [c["type"] for c in status["conditions"]]
    assert {"Ready", "SpecAccepted", "FrontendsProgrammed", "ControlPlaneReachable", "TunnelMTUReady"} <= set(kinds)
    assert len(kinds) == len(set(kinds)) and "ManagementAccessReady" not in kinds
    for condition in status["conditions"]:
        assert condition["status"] in ("True", "False", "Unknown")
        assert condition["reason"].isalnum() and condition["lastTransitionTime"].endswith("Z")
    row = status["frontends"][0]["backends"][0]
    assert {"address", "port", "state", "since", "check"} <= set(row)
    assert {"stage", "code", "detail", "latencyMs", "streak", "time"} <= set(row["check"])
    assert {"name", "interface", "state", "mtu", "maxPodMTU"} <= set(status["tunnels"][0])
    assert status["certificate"]["daysLeft"] > 0


def test_the_revision_counts_changes_of_substance(lab, agent):
    agent.apply(spec(kube()))
    revision = quiet(agent)
    streak = agent.backend(CONTROL_PLANE["cp1"])["check"]["streak"]
    wait_for(lambda: agent.backend(CONTROL_PLANE["cp1"])["check"]["streak"] > streak + 3, what="checks go on")
    assert agent.status()["revision"] == revision
    lab.api["cp1"].answer(500)
    wait_for(lambda: agent.status()["revision"] > revision, what="a verdict counts")


def test_the_local_socket_is_for_its_owner_and_group(lab, agent):
    mode = os.stat(agent.socket).st_mode
    assert mode & 0o007 == 0
    done = lab.gw.run("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "curl", "-sS", "--max-time", 5,
                      "--unix-socket", agent.socket, "http://localhost/v1/status", "-o", "/dev/null", "-w", "%{http_code}",
                      check=False)
    assert done.stdout in ("000", "403")
