# SPDX-License-Identifier: Apache-2.0
"""How long changes take: the first apply, one backend's change, a wiped ruleset, the start."""

import json
import os
import signal
import time

import specs
from agent import BINARY, Agent
from ground import CONTROL_PLANE, NAME, Ground, cpu_seconds, wait_for
from kernelwatch import ACK, NEWTABLE, RST, SYN, Generations, Packets
from netns import Process
from rows import Row, at_most


def many(frontends, backends=10):
    """Frontends without checks: the rules are what is measured."""
    return [{"name": f"f{i}", "port": 10000 + i, "protocol": "TCP", "healthCheck": {"type": "none"},
             "backends": [{"address": f"192.168.150.{11 + b}", "port": 20000 + i} for b in range(backends)]}
            for i in range(frontends)]


def by_hand(frontends, backends=10):
    """The same for nft: a chain and an anonymous map each, found by one verdict map."""
    lines = ["table ip bench {"]
    for i in range(frontends):
        slots = ", ".join(f"{b} : 192.168.150.{11 + b} . {20000 + i}" for b in range(backends))
        lines.append(f" chain f{i} {{ meta l4proto tcp dnat ip to numgen inc mod {backends} map {{ {slots} }}; }}")
    jumps = ", ".join(f"192.168.150.6 . {10000 + i} : goto f{i}" for i in range(frontends))
    lines += [" map frontends { type ipv4_addr . inet_service : verdict; elements = { " + jumps + " }; }",
              " chain pre { type nat hook prerouting priority dstnat; ip daddr . tcp dport vmap @frontends; }",
              " chain post { type nat hook postrouting priority srcnat; ct status dnat masquerade fully-random; }", "}"]
    return "\n".join(lines) + "\n"


def one_by_hand(number):
    """One chain with one backend less."""
    slots = ", ".join(f"{b} : 192.168.150.{11 + b} . {20000 + number}" for b in range(9))
    return f"flush chain ip bench f{number}\nadd rule ip bench f{number} meta l4proto tcp dnat ip to numgen inc mod 9 map {{ {slots} }}\n"


def timed_nft(host, ruleset, timeout=120):
    path = os.path.join(host.directory, "bench.nft")
    with open(path, "w", encoding="ascii") as file:
        file.write(ruleset)
    begin = time.monotonic()
    host.run("nft", "-f", path, timeout=timeout)
    return time.monotonic() - begin


def apply(options):
    """The whole of a PUT over the local socket, from the first byte to the answer: decoded, judged, planned, committed, read
    back, stored. nft -f: the whole of the program."""
    with Ground("dnat") as ground:
        agent = Agent(ground, logLevel="warning").start()
        for count, limit, rounds in ((1000, 0.1, 5), (10000, 1.0, 5)):
            rounds = 2 if options.quick else rounds
            theirs = 1 if count > 1000 else rounds  # nft needs many seconds for this
            ours, peer, work = [], [], []
            for number in range(rounds):
                body = json.dumps(specs.spec(*many(count)))
                before, begin = cpu_seconds(agent.process.pid), time.monotonic()
                answer = agent.put(body, timeout=120)
                ours.append(time.monotonic() - begin)
                work.append(cpu_seconds(agent.process.pid) - before)
                assert answer.status == 200, answer
                assert agent.delete().status == 200
                if number < theirs:
                    ground.dnat.run("nft", "flush", "ruleset")
                    peer.append(timed_nft(ground.dnat, by_hand(count)))
            yield Row(f"apply-{count}", f"first apply of {count:,} frontends x 10 backends", "s", ours,
                      {"nft -f": peer}, f"<= {limit:g} s", at_most(limit),
                      note=f"a whole PUT; processor time of the agent {sorted(work)[len(work) // 2] * 1000:.0f} ms"
                           + ("; nft once, for its length" if theirs == 1 else ""))


def change(options):
    """One backend's listener dies and comes back among N frontends. From the packet that told the agent (the reset, or the
    SYN+ACK, that its check got) to the kernel's notice of the new ruleset."""
    rounds = 2 if options.quick else 5
    medians = []
    with Ground("dnat") as ground:
        ground.serve_beacons()
        for count in (1, 1000, 10000):
            agent = Agent(ground, logLevel="warning").start()
            checked = {"name": "checked", "port": NAME, "protocol": "TCP", "backends": specs.backends(NAME),
                       "healthCheck": {"type": "tcp", **specs.QUICK}}
            answer = agent.put(json.dumps(specs.spec(checked, *many(count - 1))), timeout=120)
            assert answer.status == 200, answer
            agent.settled()
            ours, work = [], []
            for _ in range(rounds):
                for dies in (True, False):
                    took, busy = change_once(ground, agent, dies)
                    ours.append(took)
                    work.append(busy)
            agent.delete()
            agent.stop()
            ground.dnat.run("nft", "flush", "ruleset")
            timed_nft(ground.dnat, by_hand(count))
            peer = [timed_nft(ground.dnat, one_by_hand(0)) for _ in range(rounds)]
            row = Row(f"change-{count}", f"one backend's change among {count:,} frontends", "s", ours, {"nft -f": peer},
                      "<= 5 ms, the same for all", at_most(0.005),
                      note=f"processor time of the agent around one change, checks included, "
                           f"{sorted(work)[len(work) // 2] * 1000:.1f} ms")
            medians.append(row.value())
            yield row
    yield Row("change-growth", "one backend's change: 10,000 frontends beside one", "times", [medians[2] / medians[0]], {},
              "the same (<= 1.5)", at_most(1.5))


def change_once(ground, agent, dies):
    """(seconds from the check's last packet to the new ruleset, the agent's processor time around it)"""
    victim = ground.beacons["cp1"]

    def told(flags, source, sport, _destination, _dport):
        return source == CONTROL_PLANE["cp1"] and sport == NAME and bool(flags & RST if dies else flags & SYN and flags & ACK)

    time.sleep(0.5)
    with Packets(ground.gw, "eth1", told) as packets, Generations(ground.gw) as generations:
        before, begin = cpu_seconds(agent.process.pid), time.monotonic()
        if dies:
            victim.stop()
        else:
            victim.start()
        moment = wait_for(lambda: generations.first(begin), timeout=15, what="the ruleset changes")
        time.sleep(0.3)
        heard = packets.last(moment)
        busy = cpu_seconds(agent.process.pid) - before
        assert heard, "the ruleset changed, and no packet had told the agent"
    agent.becomes(CONTROL_PLANE["cp1"], "Dead" if dies else "Up", frontend="checked")
    return moment - heard, busy


def wiped(options):
    """A flushed ruleset on a table without persist: from the kernel's notice of the loss to that of the return."""
    rounds = 2 if options.quick else 5
    with Ground() as ground:
        agent = Agent(ground, protect="off", logLevel="warning").start()
        agent.apply(specs.spec({"name": "one", "port": NAME, "protocol": "TCP", "healthCheck": {"type": "none"},
                                "backends": specs.backends(NAME)}))
        ours = []
        for _ in range(rounds):
            with Generations(ground.gw) as generations:
                begin = time.monotonic()
                ground.gw.run("nft", "flush", "ruleset")
                back = wait_for(lambda: generations.first(begin, NEWTABLE), timeout=10, what="the table is back")
                gone = generations.first(begin)
                ours.append(back - gone)
            time.sleep(2.5)  # a fight begins at five losses in ten seconds
        agent.stop()
    yield Row("wiped", "ruleset flushed, protect off: back after", "s", ours, {}, "<= 0.1 s", at_most(0.1),
              note="no peer: nothing else puts its rules back")


def start(options):
    """From the start of the process to the first programmed frontend, with a stored spec; HAProxy: to its first accept."""
    rounds = 3 if options.quick else 10
    with Ground("haproxy") as ground:
        ground.serve_beacons()
        agent = Agent(ground, logLevel="warning").start()
        agent.apply(specs.spec({"name": "one", "port": NAME, "protocol": "TCP", "backends": specs.backends(NAME)}))
        agent.kill()
        ours, peer = [], []
        for number in range(rounds):
            ground.gw.run("nft", "flush", "ruleset")
            with Generations(ground.gw) as generations, ground.gw.entered():
                begin = time.monotonic()
                process = Process([BINARY, "run", "--config", agent.config], os.path.join(agent.directory, f"start-{number}"))
                ours.append(wait_for(lambda: generations.first(begin, NEWTABLE), timeout=5, step=0.001,
                                     what="the table is there") - begin)
                process.stop(signal.SIGKILL)
            ground.haproxy_process.kill()
            peer.append(start_haproxy(ground))
        agent.process = None
    yield Row("start", "run to first programmed frontend, spec stored", "s", ours, {"HAProxy": peer}, "<= 50 ms",
              at_most(0.05), note="HAProxy: to its first accepted connection")


def start_haproxy(ground):
    host = ground.namespaces["haproxy"]
    begin = time.monotonic()
    with host.entered():
        ground.haproxy_process = Process(["haproxy", "-db", "-f", f"{host.directory}/haproxy.cfg"],
                                         os.path.join(host.directory, "start.log"))
    wait_for(lambda: ground.cl.connect("192.168.150.2", NAME, timeout=1).close() or True, step=0.001, timeout=5)
    took = time.monotonic() - begin
    host.processes.append(ground.haproxy_process)
    return took


