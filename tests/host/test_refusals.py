# SPDX-License-Identifier: Apache-2.0
"""Every reason for refusing a spec: by `check`, which needs no host, and by PUT, which touches nothing."""

import json
import subprocess

import pytest

from agent import BINARY, Agent
from conftest import clean
from lab import GATEWAY
from observe import ruleset
from specs import backend, kube, spec, tcp, tunnel, udp


def changed(path, value):
    """The good spec with one member set (or, for Ellipsis, taken away)."""
    def build():
        whole = good()
        at = whole
        *way, last = path
        for step in way:
            at = at[step]
        if value is ...:
            del at[last]
        else:
            at[last] = value
        return whole
    return build


def good():
    return spec(kube(), tcp("web", 8080), tunnels=[tunnel("wg0")],
                cni={"name": "calico", "ipPools": [{"cidr": "10.244.0.0/16", "blockSize": 26}]})


def with_frontend(**row):
    return lambda: spec(kube(), {**tcp("web", 8080), **row})


def private_cloudspace(**extra):
    return lambda: spec(kube(), cloudspace={"private": True}, **extra)


B = ("frontends", 1, "backends")
CHECK = ("frontends", 1, "healthCheck")

# (name, reason, JSON pointer or None, how to build it)
INVALID = [
    ("no apiVersion", "/apiVersion", changed(["apiVersion"], ...)),
    ("another apiVersion", "/apiVersion", changed(["apiVersion"], "vgw-agent/v2")),
    ("no generation", "/generation", changed(["generation"], ...)),
    ("generation of a half", "/generation", changed(["generation"], 1.5)),
    ("negative generation", "/generation", changed(["generation"], -1)),
    ("generation as text", "/generation", changed(["generation"], "3")),
    ("no cluster", "/cluster", changed(["cluster"], ...)),
    ("no private network", "/cloudspace/privateNetwork", changed(["cloudspace"], {"id": "cs"})),
    ("both private networks", "/cloudspace/privateNetworks", changed(["cloudspace", "privateNetworks"], ["192.168.150.0/24"])),
    ("two of one family", "/cloudspace/privateNetworks/1",
     changed(["cloudspace"], {"id": "cs", "privateNetworks": ["192.168.150.0/24", "192.168.151.0/24"]})),
    ("host bits", "/cloudspace/privateNetwork", changed(["cloudspace", "privateNetwork"], "192.168.150.1/24")),
    ("no room for hosts", "/cloudspace/privateNetwork", changed(["cloudspace", "privateNetwork"], "192.168.150.0/31")),
    ("no room for IPv6 hosts", "/cloudspace/privateNetwork", changed(["cloudspace", "privateNetwork"], "fd00::/127")),
    ("no network", "/cloudspace/privateNetwork", changed(["cloudspace", "privateNetwork"], "somewhere")),
    ("unknown member", "/colour", changed(["colour"], "red")),
    ("unknown member deep down", "/frontends/1/backends/0/colour", changed([*B, 0, "colour"], "red")),
    ("member of another case", "/frontends/1/Port", changed(["frontends", 1, "Port"], 1)),
    ("frontends as an object", "/frontends", changed(["frontends"], {})),
    ("port 0", "/frontends/1/port", changed(["frontends", 1, "port"], 0)),
    ("port 65536", "/frontends/1/port", changed(["frontends", 1, "port"], 65536)),
    ("port as text", "/frontends/1/port", changed(["frontends", 1, "port"], "80")),
    ("no port", "/frontends/1/port", changed(["frontends", 1, "port"], ...)),
    ("no name", "/frontends/1/name", changed(["frontends", 1, "name"], ...)),
    ("another protocol", "/frontends/1/protocol", changed(["frontends", 1, "protocol"], "SCTP")),
    ("another balance", "/frontends/1/balance", changed(["frontends", 1, "balance"], "leastconn")),
    ("another whenNoneHealthy", "/frontends/1/whenNoneHealthy", changed(["frontends", 1, "whenNoneHealthy"], "hope")),
    ("weight 101", "/frontends/1/backends/0/weight", changed([*B, 0, "weight"], 101)),
    ("negative weight", "/frontends/1/backends/0/weight", changed([*B, 0, "weight"], -1)),
    ("drain as a number", "/frontends/1/backends/0/drain", changed([*B, 0, "drain"], 1)),
    ("no address", "/frontends/1/backends/0/address", changed([*B, 0, "address"], "cp1.example")),
    ("address with a zero", "/frontends/1/backends/0/address", changed([*B, 0, "address"], "192.168.150.011")),
    ("backend twice", "/frontends/1/backends/1", changed([*B, 1], backend("cp1", 7000))),
    ("backend equal to the gateway", "/frontends/1/backends/0/address", changed([*B, 0], backend(GATEWAY, 7000))),
    ("mixed families", "/frontends/1/backends/2/address", changed([*B, 2], backend("fd00:150::11", 7000))),
    ("two frontends of one name", "/frontends/1/name", changed(["frontends", 1, "name"], "kube-apiserver")),
    ("duration without a unit", "/frontends/1/healthCheck/interval", changed([*CHECK, "interval"], "5")),
    ("duration as a number", "/frontends/1/healthCheck/timeout", changed([*CHECK, "timeout"], 5)),
    ("negative duration", "/frontends/1/healthCheck/timeout", changed([*CHECK, "timeout"], "-1s")),
    ("rise of 0", "/frontends/1/healthCheck/rise", changed([*CHECK, "rise"], 0)),
    ("another type of check", "/frontends/1/healthCheck/type", changed([*CHECK, "type"], "icmp")),
    ("no status", "/frontends/1/healthCheck/expect/0", changed([*CHECK, "expect"], [99])),
    ("path with a newline", "/frontends/1/healthCheck/path", changed([*CHECK, "path"], "/a\r\nHost: b")),
    ("path without a slash", "/frontends/1/healthCheck/path", changed([*CHECK, "path"], "readyz")),
    ("no CA", "/frontends/1/healthCheck/ca", changed([*CHECK, "ca"], "not PEM")),
    ("interface of a name too long", "/tunnels/0/interface", changed(["tunnels", 0, "interface"], "a" * 16)),
    ("interface with a slash", "/tunnels/0/interface", changed(["tunnels", 0, "interface"], "a/b")),
    ("two tunnels of one name", "/tunnels/1/name", changed(["tunnels"], [tunnel("wg0"), tunnel("wg1")])),
    ("mtu as another word", "/tunnels/0/mtu", changed(["tunnels", 0, "mtu"], "big")),
    ("mtu of 0", "/tunnels/0/mtu", changed(["tunnels", 0, "mtu"], 0)),
    ("another encapsulation", "/cni/encapsulation", changed(["cni", "encapsulation"], "gre")),
    ("another exposure", "/controlPlaneExposure", changed(["controlPlaneExposure"], "hidden")),
    ("another role", "/role", changed(["role"], "king")),
]

REFUSED = [(name, "InvalidSpec", pointer, build) for name, pointer, build in INVALID] + [
    ("pods over the private network", "CIDROverlap", None, changed(["clusterNetwork", "pods"], ["192.168.0.0/16"])),
    ("services over pods", "CIDROverlap", None, changed(["clusterNetwork", "services"], ["10.244.4.0/24"])),
    ("a pool over services", "CIDROverlap", None, changed(["cni", "ipPools"], [{"cidr": "10.96.0.0/16"}])),
    ("a pool that contains pods", "CIDROverlap", None, changed(["cni", "ipPools"], [{"cidr": "10.240.0.0/12"}])),
    ("a peer's network over the private one", "CIDROverlap", None,
     changed(["tunnels", 0, "peer", "privateNetwork"], "192.168.150.128/25")),
    ("a peer's network over pods", "CIDROverlap", None, changed(["tunnels", 0, "peer", "privateNetwork"], "10.244.0.0/24")),
    ("an address that is not the gateway's", "AddressNotAvailable", "/frontends/1/address",
     with_frontend(address="192.168.150.2")),
    ("another address of the control plane", "AddressNotAvailable", "/frontends/0/address",
     lambda: spec(kube(address="192.168.150.7"))),
    ("two frontends on one port", "PortConflict", None, lambda: spec(kube(), tcp("a", 8080), tcp("b", 8080))),
    ("the control port", "PortConflict", None, with_frontend(port=9443)),
    ("the probe port", "PortConflict", None, lambda: spec(kube(), udp("p", 9444))),
    ("private cloudspace, public control plane", "UnsupportedConfiguration", None,
     private_cloudspace(controlPlaneExposure="public")),
    ("private cloudspace with a management connection", "UnsupportedConfiguration", None,
     private_cloudspace(managementAccess={"connectedCloudspace": {"cloudspaceId": "cs-7f2a"}})),
    ("geo with a private control plane", "UnsupportedConfiguration", None,
     changed(["geo"], {"privateNetworks": ["192.168.160.0/24"]})),
    ("the ccm on a private cluster", "UnsupportedConfiguration", None, changed(["addons"], {"ccm": "enabled"})),
    ("public frontend in a private cloudspace", "UnsupportedConfiguration", None,
     lambda: spec(kube(), tcp("web", 8080, internal=False), cloudspace={"private": True})),
    ("frontends on a management host", "UnsupportedConfiguration", None, changed(["role"], "management")),
    ("too many backends", "TooLarge", None,
     lambda: spec(kube(), tcp("web", 8080, backends=[backend(f"192.168.150.{i % 250 + 2}", 1000 + i) for i in range(257)]))),
    ("too many tunnels", "TooLarge", None, lambda: spec(kube(), tunnels=[
        {"name": f"t{i}", "interface": f"wg{i}", "mtu": 1400,
         "peer": {"cloudspaceId": f"cs-{i}", "privateNetwork": f"172.{16 + i // 250}.{i % 250}.0/24",
                  "address": f"172.{16 + i // 250}.{i % 250}.1"}} for i in range(257)])),
    ("too many frontends", "TooLarge", None,
     lambda: spec(kube(), *({"name": f"f{i}", "port": 10000 + i, "protocol": "TCP", "backends": []} for i in range(10000)))),
]

RAW = [
    ("empty", b"", "InvalidSpec"), ("no JSON", b"{", "InvalidSpec"), ("an array", b"[]", "InvalidSpec"),
    ("more behind it", None, "InvalidSpec"), ("a member twice", None, "InvalidSpec"), ("a NUL", b'{"a\x00b": 1}', "InvalidSpec"),
    ("too deep", b'{"a":' * 40 + b"1" + b"}" * 40, None), ("not UTF-8", b'{"cluster": "\xff\xfe"}', "InvalidSpec"),
]


def raw(name, content):
    if content is not None:
        return content
    text = json.dumps(good())
    return (text + " x" if name == "more behind it" else text.replace("{", '{"cluster": "a", ', 1)).encode()


@pytest.fixture(scope="module")
def applied(lab):
    """An agent with a good spec that no test here may change."""
    agent = Agent(lab).start()
    agent.apply(spec(kube(), tcp("web", 8080)))
    yield agent
    clean(agent)


def check(content):
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    done = subprocess.run([BINARY, "check", "-"], input=data, capture_output=True, timeout=20)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Untouched:
    """Nothing is touched: the rules with their handles, and the accepted spec."""

    def __init__(self, agent):
        self.agent = agent

    def __enter__(self):
        self.rules, self.spec = ruleset(self.agent.host), self.agent.get("/v1/spec").body
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            assert ruleset(self.agent.host) == self.rules
            assert self.agent.get("/v1/spec").body == self.spec


def refused(answer, reason, pointer=None, status=None):
    assert answer.status == (status or (413 if reason == "TooLarge" else 422)), answer
    assert answer.headers["Content-Type"].split(";")[0] == "application/problem+json"
    problem = answer.json
    assert problem["reason"] == reason and problem["detail"]
    if pointer is not None:
        assert problem["pointer"] == pointer
    return problem


def test_a_good_spec_passes_the_check():
    assert check(good())[0] == 0


@pytest.mark.parametrize("reason,pointer,build", [c[1:] for c in REFUSED], ids=[c[0].replace(" ", "-") for c in REFUSED])
def test_refused(applied, reason, pointer, build):
    status, _, error = check(build())
    assert status == 3
    assert error.startswith(f"{reason}: "), error
    if pointer is not None:
        assert pointer in error
    with Untouched(applied):
        refused(applied.put(build()), reason, pointer)
        refused(applied.put(build(), "?dryRun=true"), reason, pointer)


@pytest.mark.parametrize("name,content,reason", RAW, ids=[c[0].replace(" ", "-") for c in RAW])
def test_refused_text(applied, name, content, reason):
    data = raw(name, content)
    status, _, error = check(data)
    assert status == 3
    reasons = [reason] if reason else ["InvalidSpec", "TooLarge"]
    assert any(error.startswith(f"{r}: ") for r in reasons), error
    with Untouched(applied):
        answer = applied.request("PUT", "/v1/spec", data)
        assert answer.status in (422, 413) and answer.json["reason"] in reasons, answer


def test_an_overlap_names_both_networks(applied):
    problem = applied.put(changed(["clusterNetwork", "pods"], ["192.168.0.0/16"])()).json
    assert "192.168.0.0/16" in problem["detail"] and "192.168.150.0/24" in problem["detail"]


def test_an_overlap_with_a_connected_network_of_this_host(applied):
    build = changed(["tunnels", 0, "peer"], {"cloudspaceId": "cs-7f2a", "privateNetwork": "203.0.112.0/20",
                                             "address": "203.0.112.1"})
    assert check(build())[0] == 0, "without a host there is nothing to overlap with"
    with Untouched(applied):
        problem = refused(applied.put(build()), "CIDROverlap")
    assert "203.0.112.0/20" in problem["detail"] and "203.0.113.0/24" in problem["detail"]


def test_the_exposure_of_a_live_control_plane(applied):
    with Untouched(applied):
        refused(applied.put(spec(kube(), tcp("web", 8080), controlPlaneExposure="public")), "ControlPlaneExposureChanged")
        refused(applied.put(spec(kube(backends=[backend("192.168.0.11")]),
                                 cloudspace={"privateNetwork": "192.168.0.0/24"})), "ControlPlaneExposureChanged")
    condition = applied.condition("SpecAccepted")
    assert (condition["status"], condition["reason"]) == ("False", "ControlPlaneExposureChanged")
    applied.apply(spec(kube(), tcp("web", 8080)))
    assert applied.condition("SpecAccepted")["status"] == "True"


def test_another_cluster(applied):
    with Untouched(applied):
        refused(applied.put({**spec(kube()), "cluster": "another"}), "ClusterChanged")


def test_stale_generations(applied):
    current = applied.get("/v1/spec").json
    with Untouched(applied):
        refused(applied.put({**current, "generation": current["generation"] - 1}), "StaleGeneration", status=409)
        refused(applied.put({**spec(kube()), "generation": current["generation"]}), "StaleGeneration", status=409)
        # Judged before the others.
        broken = {**spec(kube(), tcp("web", 9443)), "generation": current["generation"] - 1}
        refused(applied.put(broken), "StaleGeneration", status=409)
    # The same content once more is no change, however it is written.
    rules = ruleset(applied.host)
    answer = applied.request("PUT", "/v1/spec", json.dumps(dict(reversed(list(current.items()))), indent=7))
    assert answer.status == 200 and answer.json["plan"] == []
    assert ruleset(applied.host) == rules and applied.get("/v1/spec").json == current


def test_a_body_over_the_limit(applied):
    with Untouched(applied):
        answer = applied.request("PUT", "/v1/spec", b" " * (16 * 1024 * 1024 + 1))
        assert answer.status == 413, answer
    assert applied.get("/livez").status == 200


def test_a_pool_beside_the_pods_is_a_warning(applied):
    applied.apply({**good(), "cni": {"name": "calico", "ipPools": [{"cidr": "10.245.0.0/16"}]}})
    assert "PodCIDRMismatch" in [w["code"] for w in applied.status()["warnings"]]
    applied.apply(spec(kube(), tcp("web", 8080)))


def test_a_corrected_spec_is_accepted_at_once(applied):
    refused(applied.put(spec(kube(), tcp("web", 9443))), "PortConflict")
    applied.apply(spec(kube(), tcp("web", 8080)))
    assert [f["name"] for f in applied.status()["frontends"]] == ["kube-apiserver", "web"]
