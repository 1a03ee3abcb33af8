# SPDX-License-Identifier: Apache-2.0
"""What the outside sees: nothing. And what the inside may still reach."""

import socket

import pytest

from agent import CONTROL_PORT, PROBE_PORT
from lab import CONTROL_PLANE, EXTERNAL, GATEWAY, GATEWAY6, INTERNET, MANAGER, WORKER
from netns import wait_for
from observe import dropped
from specs import kube, spec, tcp, tunnel, udp
from traffic import scan


def private(lab, **extra):
    return spec(kube(), tcp("web", 8080), udp("dns", 5300), tunnels=[tunnel(lab.wg)], **extra)


def test_a_scan_of_the_external_address_finds_nothing(lab, agent):
    agent.apply(private(lab))
    assert scan(lab.ext, EXTERNAL, range(1, 20001)) == []


def test_a_scan_of_the_private_address_by_way_of_wan_finds_nothing_and_is_counted(lab, agent):
    agent.apply(private(lab))
    ports = [6443, 8080, CONTROL_PORT]
    assert lab.cl.ask(GATEWAY, 8080) and not lab.cl.refuses(GATEWAY, CONTROL_PORT)
    before = dropped(lab.gw)
    assert scan(lab.ext, GATEWAY, ports) == []
    assert dropped(lab.gw) >= before + len(ports)
    assert scan(lab.ext, GATEWAY, range(1, 11000)) == []


@pytest.mark.parametrize("port", [5300, PROBE_PORT])
def test_udp_from_outside_is_dropped_and_counted(lab, agent, port):
    agent.apply(private(lab))
    before = dropped(lab.gw)
    for address in (GATEWAY, EXTERNAL) if port == PROBE_PORT else (GATEWAY,):
        with lab.ext.socket(address, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0.3)
            sock.connect((address, port))
            sock.send(b"who\n")
            with pytest.raises((TimeoutError, ConnectionRefusedError)):
                sock.recv(512)
    assert dropped(lab.gw) >= before + 1


def test_hosts_of_the_private_network_are_out_of_reach_from_outside(lab, agent):
    assert lab.ext.ask(CONTROL_PLANE["cp1"], 7000)[0] == "cp1"
    agent.apply(private(lab))
    before = dropped(lab.gw)
    for address in CONTROL_PLANE.values():
        assert scan(lab.ext, address, [22, 6443, 7000, 7001]) == []
    assert dropped(lab.gw) >= before + 12


def test_neither_is_the_ipv6_side_of_a_dual_stack_network(lab, agent):
    assert lab.ext.ask("fd00:150::11", 7000)[0] == "cp1"
    agent.apply(private(lab, cloudspace_networks=["192.168.150.0/24", "fd00:150::/64"]))
    assert scan(lab.ext, "fd00:150::11", [6443, 7000]) == []
    assert scan(lab.ext, GATEWAY6, [6443, 8080, CONTROL_PORT]) == []


def test_a_port_that_the_operator_redirects_by_nat_still_comes_in(lab, agent):
    agent.apply(private(lab))
    lab.gw.nft("table ip operator {\n chain in { type nat hook prerouting priority -100\n"
               f" ip daddr {EXTERNAL} tcp dport 2222 dnat to {CONTROL_PLANE['cp2']}:7000\n }}\n}}\n")
    try:
        assert lab.ext.ask(EXTERNAL, 2222)[0] == "cp2"
    finally:
        lab.gw.run("nft", "delete", "table", "ip", "operator")


def test_egress_and_its_answers_are_untouched(lab, agent):
    agent.apply(private(lab))
    assert lab.cl.ask(INTERNET, 7000) == ("ext", WORKER)
    assert lab.cp1.ask(INTERNET, 7000) == ("ext", CONTROL_PLANE["cp1"])
    assert lab.cl.run("ping", "-c1", "-W2", INTERNET).returncode == 0


def test_a_private_cloudspace_has_no_egress(lab, agent):
    agent.apply(private(lab))
    held = lab.cl.connect(INTERNET, 7001)
    file = held.makefile("rw", encoding="ascii")
    assert file.readline().split()[0] == "ext"
    agent.apply(private(lab, cloudspace={"private": True}))
    for host in (lab.cl, lab.cp1):
        assert scan(host, INTERNET, [7000, 7001]) == []
        assert host.run("ping", "-c1", "-W1", INTERNET, check=False).returncode != 0
    # Nothing is forwarded: neither what was open before.
    held.settimeout(1)
    file.write("still here?\n")
    file.flush()
    with pytest.raises(OSError):
        file.readline()
    held.close()
    # The cluster itself works on, from both sides.
    assert lab.cl.ask(GATEWAY, 8080)[0] in CONTROL_PLANE
    assert lab.mg.ask(GATEWAY, 8080)[1] == MANAGER
    assert lab.cp1.ask(MANAGER, 7000)[0] == "mg"
    assert lab.gw.ask(INTERNET, 7000)[0] == "ext"
    agent.apply(private(lab))
    wait_for(lambda: lab.cl.ask(INTERNET, 7000)[0] == "ext", what="egress is back")


def test_the_tunnel_may_use_frontends_and_the_control_port(lab, agent):
    agent.apply(private(lab))
    assert set(scan(lab.mg, GATEWAY, [6443, 8080, CONTROL_PORT])) == {6443, 8080, CONTROL_PORT}
    assert agent.remote_ask("GET", "/v1/status", host="mg").status == 200


def test_a_trusted_interface_is_let_in(lab, start_agent):
    lab.wire("gw", "eth7", "10.77.0.1/24", "ext", "eth7", "10.77.0.2/24")
    lab.ext.ip(f"route add {GATEWAY}/32 via 10.77.0.1")
    try:
        agent = start_agent(interfaces={"private": "eth1", "external": "eth0", "trusted": []})
        agent.apply(private(lab))
        assert scan(lab.ext, GATEWAY, [6443, 8080, CONTROL_PORT]) == []
        agent.stop()
        agent.settings["interfaces"]["trusted"] = ["eth7"]
        agent.write_config()
        agent.start()
        wait_for(lambda: set(scan(lab.ext, GATEWAY, [6443, 8080])) == {6443, 8080}, what="eth7 is trusted")
    finally:
        lab.unplug("gw", "eth7")


def test_the_guard_stays_while_the_agent_is_stopped(lab, agent):
    agent.apply(private(lab))
    agent.stop()
    assert scan(lab.ext, GATEWAY, [6443, 8080]) == []
    assert scan(lab.ext, CONTROL_PLANE["cp1"], [6443, 7000]) == []
    assert lab.cl.ask(GATEWAY, 8080)[0] in CONTROL_PLANE
    agent.start()
