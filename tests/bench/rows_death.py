# SPDX-License-Identifier: Apache-2.0
"""Backends that die, silently or refusing: how long new connections still go there, what is lost, when clients that were
connected hear of it. All gateways see the same death at the same moment."""

import os
import random
import signal
import sys
import time

import specs
from agent import Agent
from ground import ADDRESS, CONTROL_PLANE, ECHO, NAME, Ground, Thread, available, sleep_until, tool, wait_for
from kernelwatch import Generations
from rows import INFINITE, Row, at_most

SLOW = 0.4  # seconds: who needs longer has met the dead backend
RETRY = 1.2  # seconds until a client's second SYN, and then some
PEERS = {"haproxy": "HAProxy, defaults", "tuned": "HAProxy, inter 1s fall 2", "nginx": "nginx stream"}
# seconds after the first and after the second death: HAProxy's defaults need 10 s and more to see a silent one
LONG = {"silent": (13.5, 10.5), "refused": (9, 8)}
SHORT = (5.5, 4)


class Rate:
    """A steady rate of new connections through one gateway; rows() after finish()."""

    def __init__(self, ground, who, per_second):
        self.process = ground.cl.spawn(tool("watch"), "rate", per_second, 60, 5, ADDRESS[who], NAME,
                                       log=f"rate-{per_second}-{who}-{time.monotonic()}")
        wait_for(lambda: "started" in self.process.text(), what="the load runs")

    def finish(self):
        self.process.send(signal.SIGTERM)

    def rows(self):
        self.process.wait(20)
        lines = [line.split() for line in self.process.text().splitlines()[1:]]
        return [(float(start), float(took), how) for start, took, how, _ in lines]


class Hold:
    """Connections that stay, half of them active, half idle."""

    def __init__(self, ground, who, active, idle, seconds=60):
        self.process = ground.cl.spawn(tool("watch"), "hold", active, idle, seconds, ADDRESS[who], ECHO,
                                       log=f"hold-{who}-{time.monotonic()}")
        wait_for(lambda: "holding" in self.process.text(), timeout=20, what=f"connections through {who} are held")

    def finish(self):
        self.process.send(signal.SIGTERM)

    def rows(self):
        """[(end, kind, how, backend)]"""
        self.process.wait(20)
        lines = [line.split() for line in self.process.text().splitlines() if line != "holding"]
        return [(float(end), kind, how, name) for end, kind, how, name in lines]


def kill(ground, kind, name):
    """Returns the moment just before: what is begun while the cable is being pulled counts."""
    moment = time.monotonic()
    if kind == "silent":
        ground.cable(name, False)
    else:
        ground.beacons[name].process.send(signal.SIGKILL)
    return moment


def revive(ground, kind, names):
    for name in names:
        if kind == "silent":
            ground.cable(name, True)
        else:
            ground.beacons[name].process.wait()
            ground.beacons[name].start().ready()


def answers(ground, who, count=9):
    """True when connections are quick again, whichever backend they go to."""
    begin = time.monotonic()
    names = {ground.cl.ask(ADDRESS[who], NAME, timeout=SLOW)[0] for _ in range(count)}
    return len(names) == 3 and time.monotonic() - begin < SLOW * count


class Cycle:
    """One death after another, with loads through every contender; what came of it."""

    def __init__(self, ground, kind, contenders, spans, number, hold):
        self.kind, self.spans, self.contenders = kind, spans, contenders
        names = list(CONTROL_PLANE)
        self.victims = [names[number % 3], names[(number + 1) % 3]]
        held = {who: Hold(ground, who, 12, 12) for who in contenders} if hold else {}
        loads = {who: (Rate(ground, who, 20), Rate(ground, who, 100)) for who in contenders}
        self.downs = {}
        observers = [self._observe(ground, who) for who in contenders if hold and who in ("haproxy", "tuned")]
        with Generations(ground.gw, NAME, ECHO) as generations:
            time.sleep(0.7 + random.random())  # any phase of the checks
            self.first = kill(ground, kind, self.victims[0])
            sleep_until(self.first + spans[0])
            self.second = kill(ground, kind, self.victims[1])
            sleep_until(self.second + spans[1])
            self.end = time.monotonic()
            for pair in loads.values():
                for load in pair:
                    load.finish()
            for one in held.values():
                one.finish()
            # each frontend has its own verdict on a backend
            self.verdict = generations.first(self.first, -NAME) or generations.first(self.first)
            self.echo_verdict = generations.first(self.first, -ECHO) or generations.first(self.first)
        for observer in observers:
            observer.stop()
        self.rows20 = {who: pair[0].rows() for who, pair in loads.items()}
        self.rows100 = {who: pair[1].rows() for who, pair in loads.items()}
        self.held = {who: one.rows() for who, one in held.items()}
        revive(ground, kind, self.victims)

    def _observe(self, ground, who):
        def step():
            if who not in self.downs and ground.haproxy_down(who, self.victims[0]):
                self.downs[who] = time.monotonic()
            time.sleep(0.01)
        return Thread(step)

    def avoided(self, who):
        """Seconds after the first death at which the last connection that met it was begun."""
        bad = [start for start, took, how in self.rows100[who]
               if self.first <= start < self.second - RETRY and (how != "ok" or took > SLOW)]
        last = max(bad, default=self.first) - self.first
        if os.environ.get("VGW_BENCH_DEBUG"):
            print(who, self.kind, [(round(s - self.first, 3), round(t, 3), h) for s, t, h in self.rows100[who]
                                   if self.first <= s < self.second - RETRY and (h != "ok" or t > SLOW)][-5:], file=sys.stderr)
        return INFINITE if last > self.spans[0] - RETRY - 0.1 else last

    def lost(self, who, second):
        """(failed, slowest) of the 20 connections/s after the first or the second death."""
        # What began just before the second death is retried after it.
        turn = self.second - RETRY
        begin, end = (turn, self.end) if second else (self.first, turn)
        rows = [row for row in self.rows20[who] if begin <= row[0] < end]
        return sum(how != "ok" for _, _, how in rows), max(took for _, took, _ in rows)

    def reset_after(self, who, kind):
        """Worst time from the verdict to the end of a connection to the first victim; None when there was none."""
        verdict = self.echo_verdict if who == "gw" else self.downs.get(who)
        rows = [(end, how) for end, k, how, name in self.held[who] if k == kind and name == self.victims[0]]
        if not rows:
            return None
        if any(how in ("open", "stalled") or end > self.second for end, how in rows) or verdict is None:
            return INFINITE
        return max(end for end, _ in rows) - verdict


def spec():
    """Default check settings: a connect each second, 800 ms, fall 2."""
    return specs.spec({"name": "names", "port": NAME, "protocol": "TCP", "backends": specs.backends(NAME)},
                      {"name": "echo", "port": ECHO, "protocol": "TCP", "backends": specs.backends(ECHO)})


def deaths(options):
    peers = [p for p in PEERS if p in ("haproxy", "tuned") or p in available()]
    long, short, stopped = (1, 1, 1) if options.quick else (5, 5, 5)
    with Ground(*peers) as ground:
        ground.serve_beacons()
        agent = Agent(ground, logLevel="warning").start()
        agent.apply(spec())
        for kind in ("silent", "refused"):
            if not options.wants(kind, "lost", *(["reset"] if kind == "silent" else [])):
                continue
            cycles = []
            for number in range(long + short):
                full = number % 2 == 0 if long == short else number < long
                contenders = ["gw", *peers] if full else ["gw", "tuned"]
                for who in contenders:
                    wait_for(lambda w=who: answers(ground, w), timeout=25, what=f"{who} uses every backend again")
                cycles.append(Cycle(ground, kind, contenders, LONG[kind] if full else SHORT, number, kind == "silent"))
            yield from judged(kind, cycles, peers)
        if options.wants("stopped"):
            yield from without_agent(ground, agent, stopped)


def judged(kind, cycles, peers):
    def of(function):
        return [value for value in map(function, cycles) if value is not None]

    def by_peer(function):
        return {PEERS[p]: [v for v in (function(c, p) for c in cycles if p in c.contenders) if v is not None]
                for p in peers}
    limit = 2.0 if kind == "silent" else 0.6
    what = "silent death (cable pulled)" if kind == "silent" else "process died (refused)"
    yield Row(kind, f"{what}: new connections avoid it, from 100 connections/s", "s", of(lambda c: c.avoided("gw")),
              by_peer(lambda c, p: c.avoided(p)), f"<= {limit} s, worst of 10", at_most(limit), worst=True,
              note="default check settings; the kernel's change came "
                   + ", ".join(f"{c.verdict - c.first:.2f}" if c.verdict else "never" for c in cycles) + " s after")
    if kind == "silent":
        for flow in ("active", "idle"):
            yield Row(f"reset-{flow}", f"the same: its {flow} clients are reset after the verdict", "s",
                      of(lambda c, f=flow: c.reset_after("gw", f)),
                      by_peer(lambda c, p, f=flow: c.reset_after(p, f) if p != "nginx" else None), "<= 0.1 s",
                      at_most(0.1), worst=True, note="tuned HAProxy here with on-marked-down shutdown-sessions")
    for second, count, slowest in ((False, "one", 1.2), (True, "two", 2.3)):
        yield Row(f"lost-{kind}-{count}", f"{count} of three {kind}, 20 connections/s: failed", "",
                  of(lambda c, s=second: c.lost("gw", s)[0]), by_peer(lambda c, p, s=second: c.lost(p, s)[0]), "0",
                  at_most(0), worst=True)
        yield Row(f"slow-{kind}-{count}", f"{count} of three {kind}, 20 connections/s: slowest", "s",
                  of(lambda c, s=second: c.lost("gw", s)[1]), by_peer(lambda c, p, s=second: c.lost(p, s)[1]),
                  f"<= {slowest} s", at_most(slowest), worst=True)


def without_agent(ground, agent, cycles):
    """The same while the agent is stopped: what the rules do by themselves."""
    for kind in ("silent", "refused"):
        failed, slow = {False: [], True: []}, {False: [], True: []}
        for number in range(cycles):
            wait_for(lambda: answers(ground, "gw"), timeout=20, what="every backend is used again")
            agent.stop() if number % 2 else agent.kill()
            cycle = Cycle(ground, kind, ["gw"], SHORT, number, False)
            for second in (False, True):
                lost, took = cycle.lost("gw", second)
                failed[second].append(lost)
                slow[second].append(took)
            wait_for(lambda: answers(ground, "gw"), timeout=20, what="every backend is used again")
            agent.start()
            agent.settled()
        for second, count, limit in ((False, "one", 1.2), (True, "two", 2.3)):
            yield Row(f"stopped-{kind}-{count}", f"agent stopped, {count} of three {kind}: failed", "", failed[second],
                      {}, "0", at_most(0), worst=True)
            yield Row(f"stopped-slow-{kind}-{count}", f"agent stopped, {count} of three {kind}: slowest", "s", slow[second],
                      {}, f"<= {limit} s", at_most(limit), worst=True)


def restarts(options):
    """20 restarts under 200 connections/s and 50 long transfers, beside HAProxy killed and stopped the same way."""
    count = 4 if options.quick else 20
    with Ground("haproxy") as ground:
        ground.serve_beacons()
        agent = Agent(ground, logLevel="warning").start()
        agent.apply(spec())
        failed, broken = {}, {}
        for who in ("gw", "haproxy"):
            held, load = Hold(ground, who, 50, 0, 120), Rate(ground, who, 200)
            time.sleep(0.5)
            for number in range(count):
                number_of_signal = signal.SIGKILL if number % 2 else signal.SIGTERM
                if who == "gw":
                    agent.process.stop(number_of_signal)
                    time.sleep(0.1)
                    agent.start()
                else:
                    ground.haproxy_process.stop(number_of_signal)
                    time.sleep(0.1)
                    ground._start_haproxy()
                time.sleep(0.3)
            load.finish()
            held.finish()
            failed[who] = sum(how != "ok" for _, _, how in load.rows())
            broken[who] = sum(how != "open" for _, _, how, _ in held.rows())
    yield Row("restarts", f"{count} restarts, half SIGKILL, 200 connections/s: failed", "", [failed["gw"]],
              {"HAProxy": [failed["haproxy"]]}, "0", at_most(0), worst=True, note="100 ms between end and start")
    yield Row("restart-transfers", f"{count} restarts: of 50 long transfers broken", "", [broken["gw"]],
              {"HAProxy": [broken["haproxy"]]}, "0", at_most(0), worst=True)
