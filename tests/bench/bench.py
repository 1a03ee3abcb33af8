#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""make bench: every row, its peers beside it, a table for people and a JSON file. See README.md for the method."""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import traceback

import ground  # noqa: F401  (finds the host tests' modules)
import lab
import rows_agent
import rows_apply
import rows_death
import rows_path
import rows_traffic
from agent import BINARY
from rows import save

# What is run, and the words that select it. One group shares one ground.
GROUPS = (
    ("size", rows_agent.size, ("size",)),
    ("traffic", rows_traffic.traffic, ("traffic", "requests", "connections", "throughput", "latency")),
    ("deaths", rows_death.deaths, ("deaths", "silent", "refused", "reset", "lost", "stopped")),
    ("restarts", rows_death.restarts, ("restarts",)),
    ("wiped", rows_apply.wiped, ("wiped",)),
    ("start", rows_apply.start, ("start",)),
    ("apply", rows_apply.apply, ("apply",)),
    ("change", rows_apply.change, ("change",)),
    ("pmtu", rows_path.pmtu, ("pmtu",)),
    ("shrinking", rows_path.shrinking, ("shrinking",)),
    ("memory", rows_agent.memory, ("memory",)),
    ("growth", rows_agent.growth, ("growth",)),
    ("polls", rows_agent.polls, ("polls", "lateness")),
    ("cpu", rows_agent.cpu, ("cpu",)),
)


class Options(argparse.Namespace):
    def wants(self, *words):
        """Whether one of a group's parts is asked for: by its own word or by its group's."""
        return not self.only or "deaths" in self.only or any(word in self.only for word in words)


def first_line(*argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
    except OSError:
        return None
    text = (done.stdout + done.stderr).strip()
    return text.splitlines()[0] if text else None


def machine():
    cpu, count = "unknown", os.cpu_count()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        found = re.search(r"model name\s*: (.*)", file.read())
        cpu = found[1] if found else cpu
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = int(file.readline().split()[1]) // 1024
    release = "unknown"
    if os.path.exists("/etc/debian_version"):
        with open("/etc/debian_version", encoding="ascii") as file:
            release = "Debian " + file.read().strip()
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cpu": cpu, "cpus": count, "memoryMiB": memory, "arch": platform.machine(), "system": release,
                    "virtual": first_line("systemd-detect-virt") or "unknown"},
        "kernel": platform.release(),
        "load": [round(x, 2) for x in os.getloadavg()],
        "versions": {
            "vgw-agent": first_line(BINARY, "version"), "haproxy": first_line("haproxy", "-v"),
            "nginx": first_line("nginx", "-v"), "nft": first_line("nft", "--version"),
            "nftlb": first_line("nftlb", "-h") if shutil.which("nftlb") else None,
            "tracepath": first_line("tracepath", "-V") if shutil.which("tracepath") else None}}


def main():
    parser = argparse.ArgumentParser(description="the budgets, measured beside the peers")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="a row or a group; may be given more than once: " + ", ".join(w for g in GROUPS for w in g[2]))
    parser.add_argument("--quick", action="store_true", help="few samples: to see that it runs, not for figures")
    parser.add_argument("--output", default=os.path.join(ground.HERE, "..", "..", "build", "bench.json"))
    options = parser.parse_args(namespace=Options())
    known = {word for group in GROUPS for word in group[2]}
    for word in options.only:
        if word not in known:
            parser.error(f"no row {word!r}; there are {', '.join(sorted(known))}")
    lab.on_signals()
    lab.sweep()
    facts, rows, broken = machine(), [], []
    print(f"{facts['machine']['cpu']}, {facts['machine']['cpus']} CPUs, {facts['machine']['memoryMiB']} MiB, "
          f"{facts['machine']['system']}, kernel {facts['kernel']}, load {facts['load'][0]}")
    print("; ".join(str(v) for v in facts["versions"].values() if v))
    if options.quick:
        print("--quick: few samples, so these are no figures to rely on")
    for name, function, words in GROUPS:
        if options.only and not set(words) & set(options.only):
            continue
        begin = time.monotonic()
        try:
            for row in function(options):
                rows.append(row)
                print("\n".join(row.lines()), flush=True)
        except (Exception, SystemExit):  # one broken group does not take the others' figures
            broken.append(name)
            print(f"{name}: COULD NOT BE MEASURED\n{traceback.format_exc()[:3000]}", flush=True)
        print(f"-- {name}: {time.monotonic() - begin:.0f} s", flush=True)
    facts["load"] += [round(x, 2) for x in os.getloadavg()]
    facts["quick"], facts["broken"] = options.quick, broken
    save(options.output, facts, rows)
    summary(rows, broken)
    sys.exit(1 if broken else 0)


def summary(rows, broken):
    judged = [row for row in rows if row.met is not None]
    print(f"\n{sum(row.met for row in judged)} bars met, {sum(not row.met for row in judged)} missed, "
          f"{len(rows) - len(judged)} rows without a bar, {len(broken)} groups not measured")
    for row in judged:
        if not row.met:
            print(f"MISSED  {row.name:<22} {row.title}: "
                  f"{next(line for line in row.lines() if 'vgw-agent' in line).split('vgw-agent', 1)[1].strip()}"
                  f"  [bar: {row.bar}]")
    for name in broken:
        print(f"BROKEN  {name}")


if __name__ == "__main__":
    main()
