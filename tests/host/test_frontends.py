# SPDX-License-Identifier: Apache-2.0
"""Who answers on a frontend, and whom the backends see."""

from collections import Counter

import pytest

from lab import CONTROL_PLANE, EXTERNAL, GATEWAY, GATEWAY6, MANAGER, MANAGER6, WORKER
from netns import wait_for
from specs import backend, backends, dual_stack, kube, spec, tcp, tunnel, udp
from traffic import Load, in_turn, names, shares


def https_names(host, lab, count, address=GATEWAY):
    answers = [host.get(address, 6443, "/", lab.trust) for _ in range(count)]
    assert {status for status, _ in answers} == {200}
    return [body.strip() for _, body in answers]


def test_three_api_servers_answer_in_turn(lab, agent):
    agent.apply(spec(kube()))
    answers = https_names(lab.cl, lab, 12)
    assert in_turn(answers, 3), answers
    frontend = agent.frontend()
    assert (frontend["state"], frontend["healthy"], frontend["total"]) == ("Programmed", 3, 3)
    assert (frontend["address"], frontend["port"], frontend["protocol"]) == (GATEWAY, 6443, "TCP")
    assert [b["state"] for b in frontend["backends"]] == ["Up"] * 3


def test_round_robin_is_exact(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080)))
    answers = names(lab.cl, GATEWAY, 8080, 300)
    assert in_turn(answers, 3)
    assert set(Counter(answers).values()) == {100}


def test_every_control_plane_node_reaches_itself_through_the_frontend(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080)))
    for name in CONTROL_PLANE:
        host = lab.namespaces[name]
        assert set(https_names(host, lab, 20)) == set(CONTROL_PLANE), name
        assert set(names(host, GATEWAY, 8080, 20)) == set(CONTROL_PLANE), name


def test_the_gateway_itself_is_a_client(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080)))
    assert in_turn(names(lab.gw, GATEWAY, 8080, 12), 3)


def test_lan_clients_are_masqueraded_and_tunnel_clients_keep_their_address(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080), udp("dns", 53), tunnels=[tunnel(lab.wg)]))
    for _ in range(3):
        assert lab.cl.ask(GATEWAY, 8080)[1] == GATEWAY
        assert lab.cl.get(GATEWAY, 6443, "/client", lab.trust) == (200, f"{GATEWAY}\n")
        assert lab.mg.ask(GATEWAY, 8080)[1] == MANAGER
        assert lab.mg.get(GATEWAY, 6443, "/client", lab.trust) == (200, f"{MANAGER}\n")
    assert lab.cl.ask_udp(GATEWAY, 53)[1] == GATEWAY
    assert lab.mg.ask_udp(GATEWAY, 53)[1] == MANAGER


def test_what_is_no_frontend_is_not_masqueraded(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    assert lab.cl.ask(CONTROL_PLANE["cp1"], 7000) == ("cp1", WORKER)
    assert lab.mg.ask(CONTROL_PLANE["cp1"], 7000) == ("cp1", MANAGER)
    assert lab.cp1.ask(MANAGER, 7000) == ("mg", CONTROL_PLANE["cp1"])


def test_the_management_cloudspace_is_served_in_turn(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    assert in_turn(https_names(lab.mg, lab, 9), 3)


def test_random_balance_is_even(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080, balance="random")))
    seen = shares(lab.cl, GATEWAY, 8080, 3000)
    assert set(seen) == set(CONTROL_PLANE)
    for share in seen.values():
        assert share == pytest.approx(1 / 3, abs=0.045)  # five standard deviations
    assert not in_turn(names(lab.cl, GATEWAY, 8080, 60), 3)


def clients_of(lab, count):
    """More addresses for the worker."""
    wanted = [f"192.168.150.{120 + i}" for i in range(count)]
    lab.cl.ip(*(f"addr replace {a}/24 dev eth0" for a in wanted))
    return wanted


def test_source_balance_keeps_a_client_on_its_backend(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080, balance="source")))
    sources = clients_of(lab, 40)
    first = {}
    for source in sources:
        answers = set(names(lab.cl, GATEWAY, 8080, 4, source))
        assert len(answers) == 1, source
        first[source] = answers.pop()
    assert set(first.values()) == set(CONTROL_PLANE)
    # One backend leaves: only its own clients move.
    agent.apply(spec(kube(), tcp("web", 8080, balance="source",
                                 backends=[*backends(7000, ("cp1", "cp3")), backend("cp2", 7000, drain=True)])))
    for source in sources:
        name, _ = lab.cl.ask(GATEWAY, 8080, source=source)
        assert name != "cp2"
        assert first[source] in (name, "cp2"), source
    # It comes back: every client is where it was.
    agent.apply(spec(kube(), tcp("web", 8080, balance="source")))
    assert {s: lab.cl.ask(GATEWAY, 8080, source=s)[0] for s in sources} == first


@pytest.mark.parametrize("balance", ["roundrobin", "random"])
def test_weights(lab, agent, balance):
    rows = [backend("cp1", 7000, weight=5), backend("cp2", 7000, weight=3), backend("cp3", 7000, weight=2)]
    agent.apply(spec(kube(), tcp("web", 8080, balance=balance, backends=rows)))
    seen = shares(lab.cl, GATEWAY, 8080, 6000)
    tolerance = 0.02 if balance == "roundrobin" else 0.033  # five standard deviations
    assert seen == pytest.approx({"cp1": 0.5, "cp2": 0.3, "cp3": 0.2}, abs=tolerance)


@pytest.mark.parametrize("how", [{"weight": 0}, {"drain": True}])
def test_no_new_flows_but_the_old_ones_for(lab, agent, how):
    agent.apply(spec(kube(), tcp("web", 8080, to=7001)))
    held = {}
    while "cp2" not in held:
        sock = lab.cl.connect(GATEWAY, 8080)
        file = sock.makefile("rw", encoding="ascii")
        held[file.readline().split()[0]] = (sock, file)
    agent.apply(spec(kube(), tcp("web", 8080, to=7001,
                                 backends=[*backends(7001, ("cp1", "cp3")), backend("cp2", 7001, **how)])))
    assert set(names(lab.cl, GATEWAY, 8080, 30)) == {"cp1", "cp3"}
    if "drain" in how:
        assert agent.backend(CONTROL_PLANE["cp2"], "web")["state"] == "Draining"
    for sock, file in held.values():
        file.write("still here\n")
        file.flush()
        assert file.readline() == "still here\n"
        sock.close()


def test_udp_frontend(lab, agent):
    agent.apply(spec(kube(), udp("dns", 53)))
    answers = [lab.cl.ask_udp(GATEWAY, 53)[0] for _ in range(30)]
    assert in_turn(answers, 3), answers
    row = agent.frontend("dns")
    assert (row["state"], row["protocol"]) == ("Programmed", "UDP")
    assert {b["check"]["stage"] for b in row["backends"]} == {"none"}


def test_tcp_and_udp_on_one_port(lab, agent):
    agent.apply(spec(kube(), tcp("web-t", 8080), udp("web-u", 8080)))
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)
    assert in_turn([lab.cl.ask_udp(GATEWAY, 8080)[0] for _ in range(9)], 3)


def test_ipv6_frontend(lab, agent):
    six = [f"{n}v6" for n in CONTROL_PLANE]
    agent.apply(dual_stack(kube(), {**kube(), "name": "api6", "backends": backends(6443, six)},
                           {**tcp("web6", 8080), "backends": backends(7000, six)},
                           {**udp("dns6", 53), "backends": backends(5353, six)}, tunnels=[tunnel(lab.wg)]))
    assert agent.frontend("web6")["address"] == GATEWAY6
    assert in_turn(names(lab.cl, GATEWAY6, 8080, 12), 3)
    assert in_turn([lab.cl.ask_udp(GATEWAY6, 53)[0] for _ in range(9)], 3)
    assert in_turn(https_names(lab.cl, lab, 9, GATEWAY6), 3)
    assert in_turn(https_names(lab.cl, lab, 9), 3)
    assert lab.cl.ask(GATEWAY6, 8080)[1] == GATEWAY6
    assert set(names(lab.cp1, GATEWAY6, 8080, 20)) == set(CONTROL_PLANE)


def test_ipv6_only_cloudspace_behind_a_tunnel(lab, agent):
    six = [f"{n}v6" for n in CONTROL_PLANE]
    agent.apply(spec({**kube(), "backends": backends(6443, six)}, {**tcp("web6", 8080), "backends": backends(7000, six)},
                     cloudspace_networks=["fd00:150::/64"],
                     clusterNetwork={"pods": ["fd00:244::/56"], "services": ["fd00:96::/112"]},
                     tunnels=[tunnel(lab.wg, network="fd00:10::/64", address="fd00:10::1")]))
    assert lab.mg.ask(GATEWAY6, 8080)[1] == MANAGER6
    assert lab.cl.ask(GATEWAY6, 8080)[1] == GATEWAY6


def test_three_hundred_frontends(lab, agent):
    ports = range(20000, 20300)
    agent.apply(spec(kube(), *(tcp(f"f{p}", p, check={"interval": "5s", "timeout": "2s"}) for p in ports)))
    for port in ports:
        assert lab.cl.ask(GATEWAY, port)[0] in CONTROL_PLANE
    for port in (20000, 20150, 20299):
        seen = Counter(names(lab.cl, GATEWAY, port, 60))
        assert set(seen) == set(CONTROL_PLANE)
    assert len(agent.status()["frontends"]) == 301
    agent.apply(spec(kube(), tcp("f20000", 20000)))
    assert in_turn(names(lab.cl, GATEWAY, 20000, 9), 3)
    wait_for(lambda: lab.cl.refuses(GATEWAY, 20150), what="a frontend that is gone answers no longer")


def test_backends_on_different_ports(lab, agent):
    agent.apply(spec(kube(), tcp("mixed", 8080, backends=[backend("cp1", 7000), backend("cp2", 7001)])))
    assert in_turn(names(lab.cl, GATEWAY, 8080, 10), 2)


def test_public_frontend_is_on_the_external_address(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080, internal=False), tcp("inside", 8081)))
    assert agent.frontend("web")["address"] == EXTERNAL
    assert in_turn(names(lab.ext, EXTERNAL, 8080, 9), 3)
    with pytest.raises(OSError):
        lab.ext.connect(EXTERNAL, 8081, timeout=1)
    with pytest.raises(OSError):
        lab.ext.connect(EXTERNAL, 6443, timeout=1)
    assert agent.frontend("inside")["address"] == GATEWAY


@pytest.mark.parametrize("extra,address", [
    ({"loadBalancerClass": "vco.whitesky.cloud/internal"}, GATEWAY),
    ({"loadBalancerClass": "vco.whitesky.cloud/public"}, EXTERNAL),
    ({"loadBalancerClass": "vco.whitesky.cloud/public", "internal": True}, EXTERNAL),
    ({"internal": True}, GATEWAY),
    ({"internal": False}, EXTERNAL),
    ({}, GATEWAY),
])
def test_which_address_a_frontend_gets(lab, agent, extra, address):
    agent.apply(spec(kube(), tcp("web", 8080, **extra)), settled=False)
    assert agent.frontend("web")["address"] == address
    assert agent.frontend()["address"] == GATEWAY


@pytest.mark.parametrize("default,exposure,address", [
    (None, "public", EXTERNAL), (True, "public", GATEWAY), (False, "private", EXTERNAL), (None, "private", GATEWAY)])
def test_the_default_for_load_balancers(lab, agent, default, exposure, address):
    extra = {} if default is None else {"defaultInternalLoadBalancers": default}
    agent.apply(spec(kube(), tcp("web", 8080), controlPlaneExposure=exposure, **extra), settled=False)
    assert agent.frontend("web")["address"] == address
    assert agent.frontend()["address"] == (GATEWAY if exposure == "private" else EXTERNAL)


def test_a_class_of_someone_else_is_ignored(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080, loadBalancerClass="metallb.universe.tf/metallb")))
    assert agent.frontend("web")["state"] == "Ignored"
    assert lab.cl.refuses(GATEWAY, 8080)


def test_a_changed_spec_replaces_the_old_one_without_a_gap(lab, agent):
    """Each change is one transaction: a client sees the old state or the new one."""
    agent.apply(spec(kube(), tcp("web", 8080)))
    load = Load(lab.cl, GATEWAY, 8080, 200)
    for number in range(60):
        agent.apply(spec(kube(), tcp("web", 8080), *(tcp(f"x{i}", 9000 + i) for i in range(number % 3))))
    result = load.finish()
    assert result["failed"] == 0, result
    assert result["ok"] > 20
