# SPDX-License-Identifier: Apache-2.0
"""Requests, connections, throughput and latency through a frontend, beside everything else that could carry them."""

import json
import sys

import specs
from agent import Agent
from ground import CLIENT_CPU, TRAFFIC, Ground, Quiet, available, tool, wait_for
from rows import Row, ratios

LOADS = {  # mode, connections, rate
    "requests": ("keep", 32, 0), "connections": ("close", 32, 0), "throughput": ("stream", 4, 0),
    "latency": ("paced", 32, 4000)}


def client(ground, who, load, seconds):
    mode, connections, rate = LOADS[load]
    done = ground.cl.run("taskset", "-c", CLIENT_CPU, tool("client"), mode, connections, seconds, rate,
                         *ground.targets(who), timeout=seconds + 20)
    return {**json.loads(done.stdout), "errors": done.stderr.splitlines()}


def frontend(name, port, **extra):
    return {"name": name, "port": port, "protocol": "TCP", "backends": specs.backends(port), **extra}


def traffic(options):
    rounds, seconds = (2, 0.5) if options.quick else (9, 0.6)
    quiet = Quiet()
    with Ground(*available()) as ground:
        ground.serve(TRAFFIC)
        agent = Agent(ground, logLevel="warning").start()
        agent.apply(specs.spec(frontend("bench", TRAFFIC)))
        contenders = ["gw"]
        for peer in ground.namespaces:
            if peer in available_peers(ground):
                contenders.append(peer)
        results = {load: {who: [] for who in contenders} for load in LOADS}
        for number in range(rounds):
            for load in LOADS:
                for who in contenders[number % len(contenders):] + contenders[:number % len(contenders)]:
                    quiet.wait()
                    got = client(ground, who, load, seconds)
                    if got["failed"]:
                        print(f"{load} through {who}: {got['failed']} failed: {got['errors']}", file=sys.stderr)
                    results[load][who].append(got)
        agent.stop()
    yield from judged(results, quiet)


def available_peers(ground):
    """Those that do carry a request: a peer that does not is skipped, loudly."""
    able = []
    for peer in ("plain", "dnat", "haproxy", "nginx", "nftlb"):
        if peer not in ground.namespaces:
            continue
        try:
            wait_for(lambda p=peer: client(ground, p, "requests", 0.2)["done"] > 0, timeout=3, what=f"{peer} carries")
            able.append(peer)
        except AssertionError as error:
            print(f"SKIPPED PEER: {error}", file=sys.stderr)
    return able


def judged(results, quiet):
    def row(load, key, title, unit, bar="", met=None, scale=1.0):
        samples = {who: [g[key] * scale for g in got] for who, got in results[load].items()}
        return Row(load, title, unit, samples.pop("gw"), samples, bar, met, paired=True,
                   note=f"ratios are medians of each round's own; {quiet.note()}")
    pace = ">= 0.95 of plain routing, >= 1.3 x HAProxy and nginx"
    yield row("requests", "perSecond", "requests/s, 32 kept-alive connections", "/s", pace,
              ratios(plain=0.95, haproxy=1.3, nginx=1.3))
    yield row("connections", "perSecond", "connections/s, 32 at a time, a request on each", "/s", pace,
              ratios(plain=0.95, haproxy=1.3, nginx=1.3))
    yield row("throughput", "bytesPerSecond", "bulk download, 4 connections", "B/s")
    yield row("latency", "p99us", "p99 latency at 4,000 requests/s", "s", scale=1e-6)
