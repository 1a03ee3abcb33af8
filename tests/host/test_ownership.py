# SPDX-License-Identifier: Apache-2.0
"""What is someone else's stays; what is ours comes back when it is taken, and goes when it is given up."""

import json
import os
import re

import pytest

from lab import CONTROL_PLANE, GATEWAY
from netns import stays, wait_for
from observe import TABLE, has_table, links, routes, rules, ruleset, table_flags
from specs import kube, spec, tcp, tunnel, udp
from traffic import in_turn, names

FOREIGN = """
table inet someone {
    set friends { type ipv4_addr; elements = { 10.9.0.1, 10.9.0.2 }; }
    chain in { type filter hook input priority 5; policy accept; ip saddr @friends accept; }
    chain pre { type nat hook prerouting priority -100; tcp dport 4444 dnat ip to 192.168.150.12:7000; }
}
table ip6 someone { chain out { type filter hook output priority 0; policy accept; }; }
"""


@pytest.fixture
def foreigners(lab):
    """Rules, routes, rules of routing and a link that are nobody's business of ours."""
    lab.gw.nft(FOREIGN)
    lab.gw.ip("link add other0 type bridge", "link set other0 mtu 1450 up", "addr add 10.9.0.254/24 dev other0",
              "route add 10.88.0.0/16 via 203.0.113.3 proto static metric 50", "route add 10.89.0.0/16 dev other0 mtu 1200",
              "route add blackhole 10.90.0.0/16 proto 86", "route add 10.91.0.0/16 via 203.0.113.2 table 220",
              "rule add from 10.9.0.0/24 lookup 220 priority 900")
    yield
    lab.gw.run("nft", "delete", "table", "inet", "someone", check=False)
    lab.gw.run("nft", "delete", "table", "ip6", "someone", check=False)
    lab.gw.ip("link del other0", check=False)
    for what in ("route del 10.88.0.0/16", "route del blackhole 10.90.0.0/16", "route del 10.91.0.0/16 table 220",
                 "rule del priority 900"):
        lab.gw.ip(what, check=False)


def whole(lab):
    return {"rules": ruleset(lab.gw), "links": links(lab.gw), "routes": routes(lab.gw), "rule": rules(lab.gw)}


def full_spec(lab):
    return spec(kube(), tcp("web", 8080), udp("dns", 53), tcp("out", 8081, internal=False), tunnels=[
        tunnel(lab.wg), {**tunnel(network="10.88.0.0/16", address="10.88.0.1"), "name": "routed",
                         "peer": {"cloudspaceId": "cs-9", "privateNetwork": "10.88.0.0/16", "address": "10.88.0.1"}}])


def test_foreign_tables_routes_and_links_are_as_before(lab, foreigners, agent):
    tables = ["inet someone", "ip6 someone"]
    before = {t: ruleset(lab.gw, t) for t in tables}
    before_links, before_routes, before_rules = links(lab.gw, [lab.wg]), routes(lab.gw), rules(lab.gw)
    agent.apply(full_spec(lab))
    agent.apply(spec(kube(), tcp("web", 8082)))
    agent.apply(full_spec(lab))
    assert {t: ruleset(lab.gw, t) for t in tables} == before
    assert links(lab.gw, [lab.wg]) == before_links
    assert [r for r in before_routes if r not in routes(lab.gw)] == []
    assert rules(lab.gw) == before_rules
    assert has_table(lab.gw)


@pytest.mark.parametrize("how", ["delete", "teardown running", "teardown stopped", "teardown killed"])
def test_giving_up_restores_exactly(lab, foreigners, agent, how):
    before = whole(lab)
    agent.apply(full_spec(lab))
    assert lab.gw.mtu(lab.wg) == 1400 and has_table(lab.gw)
    assert whole(lab) != before
    if how == "delete":
        answer = agent.delete()
        assert answer.status == 200, answer
        assert agent.get("/v1/spec").status == 404
        assert agent.delete().status == 200
    else:
        if how.endswith("stopped"):
            assert agent.stop() == 0
        elif how.endswith("killed"):
            agent.kill()
        done = agent.verb("teardown")
        assert done.returncode == 0, done.stderr
    wait_for(lambda: whole(lab) == before, timeout=3, what="everything is as before")
    assert lab.gw.mtu(lab.wg) == 1420
    assert not has_table(lab.gw)
    if agent.running():
        stays(lambda: not has_table(lab.gw) and lab.gw.mtu(lab.wg) == 1420, 1, "nothing comes back")
    done = agent.verb("teardown")
    assert done.returncode == 0, "a second teardown finds nothing, and that is fine: " + done.stderr


def test_teardown_leaves_an_mtu_that_someone_else_chose_since(lab, agent):
    """With the agent away, another value than ours is not ours to replace."""
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    agent.stop()
    lab.gw.ip(f"link set {lab.wg} mtu 1333")
    assert agent.verb("teardown").returncode == 0
    assert lab.gw.mtu(lab.wg) == 1333


def test_a_tunnel_that_leaves_the_spec_gets_its_old_mtu(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    assert lab.gw.mtu(lab.wg) == 1400
    agent.apply(spec(kube()))
    wait_for(lambda: lab.gw.mtu(lab.wg) == 1420, what="the old MTU")


def test_the_original_mtu_survives_restarts(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    for end in (agent.stop, agent.kill):
        end()
        agent.start()
        wait_for(lambda: agent.tunnel()["mtu"]["original"] == 1420, what="the recorded value")
    agent.delete()
    assert lab.gw.mtu(lab.wg) == 1420


def test_state_files_are_private_and_whole(lab, agent):
    agent.apply(spec(kube(), tunnels=[tunnel(lab.wg)]))
    for name in ("spec.json", "applied.json"):
        path = os.path.join(agent.state, name)
        with open(path, encoding="utf-8") as file:
            assert json.load(file)
        assert os.stat(path).st_mode & 0o022 == 0
    assert set(os.listdir(agent.state)) <= {"spec.json", "applied.json", "revision"}, "no temporary file is left"


def owned(lab):
    return "owner" in table_flags(lab.gw)


def test_flushing_the_ruleset_without_protection_is_repaired_and_recorded(lab, start_agent):
    agent = start_agent(protect="off")
    agent.apply(spec(kube(), tcp("web", 8080)))
    assert not owned(lab) and "persist" not in table_flags(lab.gw)
    before = ruleset(lab.gw, TABLE).count("chain ")
    lab.gw.run("nft", "flush", "ruleset")
    wait_for(lambda: has_table(lab.gw), what="the table is back")
    drift = wait_for(lambda: [d for d in agent.status()["drift"] if d["object"] == f"table {TABLE}"], what="it is recorded")
    assert len(drift) == 1
    assert "nft" in drift[0]["by"] and "pid" in drift[0]["by"]
    assert 0 <= drift[0]["repairedAfterMs"] <= 1000
    assert drift[0]["time"].endswith("Z")
    assert ruleset(lab.gw, TABLE).count("chain ") == before
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)


def test_a_deleted_chain_rule_or_element_is_repaired(lab, start_agent):
    agent = start_agent(protect="off")
    agent.apply(spec(kube(), tcp("web", 8080)))
    before = ruleset_without_handles(lab)
    text = lab.gw.run("nft", "-j", "list", "table", *TABLE.split()).stdout
    objects = json.loads(text)["nftables"]
    rule = next(o["rule"] for o in objects if "rule" in o)
    lab.gw.run("nft", "delete", "rule", *TABLE.split(), rule["chain"], "handle", str(rule["handle"]))
    wait_for(lambda: ruleset_without_handles(lab) == before, what="the rule is back")
    lab.gw.run("nft", "add", "chain", *TABLE.split(), "intruder")
    wait_for(lambda: "intruder" not in ruleset(lab.gw, TABLE), what="the intruder is gone")
    assert ruleset_without_handles(lab) == before
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)


def ruleset_without_handles(lab):
    return re.sub(r" # handle \d+", "", ruleset(lab.gw, TABLE))


def test_forwarding_is_switched_on_and_put_back(lab, agent):
    lab.gw.sysctl("ipv4/ip_forward", 0)
    agent.apply(spec(kube(), tcp("web", 8080)))
    wait_for(lambda: lab.gw.sysctl("ipv4/ip_forward") == "1", what="forwarding is on")
    lab.gw.sysctl("ipv4/ip_forward", 0)
    wait_for(lambda: lab.gw.sysctl("ipv4/ip_forward") == "1", what="forwarding is put back")
    agent.delete()
    assert lab.gw.sysctl("ipv4/ip_forward") == "1"


def test_protected_the_table_survives_a_flush_and_refuses_others(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080)))
    if not owned(lab):
        pytest.skip("the kernel has no owner and persist flags for nftables' tables")
    assert "nft-owner-persist" in agent.status()["agent"]["features"]
    before = ruleset(lab.gw, TABLE)
    lab.gw.run("nft", "flush", "ruleset", check=False)
    assert ruleset(lab.gw, TABLE) == before
    done = lab.gw.run("nft", "delete", "table", *TABLE.split(), check=False)
    assert done.returncode != 0 and "not permitted" in done.stderr
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)
    assert [d for d in agent.status()["drift"] if "table" in d["object"]] == []
    # It stays when the agent dies, and is adopted again.
    agent.kill()
    assert ruleset(lab.gw, TABLE).count("chain ") == before.count("chain ")
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)
    agent.start()
    wait_for(lambda: lab.gw.run("nft", "delete", "table", *TABLE.split(), check=False).returncode != 0,
             what="the table is owned again")


def test_a_table_wiped_while_nobody_was_there_is_back_at_start(lab, agent):
    agent.apply(spec(kube(), tcp("web", 8080)))
    agent.kill()
    lab.gw.run("nft", "flush", "ruleset")
    assert not has_table(lab.gw)
    agent.start()
    wait_for(lambda: has_table(lab.gw), what="the table is back")
    assert set(names(lab.cl, GATEWAY, 8080, 9)) == set(CONTROL_PLANE)


@pytest.mark.parametrize("first,second", [("off", "auto"), ("auto", "off")])
def test_protection_can_be_changed_by_a_restart(lab, start_agent, first, second):
    agent = start_agent(protect=first)
    agent.apply(spec(kube(), tcp("web", 8080)))
    agent.stop()
    agent.settings["protect"] = second
    agent.write_config()
    agent.start()
    agent.settled()
    if second == "off":
        assert not owned(lab)
    assert in_turn(names(lab.cl, GATEWAY, 8080, 9), 3)


def test_every_chain_can_be_named_in_nft(lab, agent):
    """An operator lists and flushes by name: none is a word that nft keeps for itself."""
    agent.apply(full_spec(lab))
    names_of = re.findall(r"(?m)^\tchain (\S+) \{", ruleset(lab.gw, TABLE))
    assert len(names_of) > 10, names_of
    for name in names_of:
        lab.gw.run("nft", "list", "chain", *TABLE.split(), name)
