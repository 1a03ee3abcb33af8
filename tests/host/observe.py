# SPDX-License-Identifier: Apache-2.0
"""What the kernel has, taken before and after: rules, links, routes, sysctls, packet counters, captured packets."""

import json
import os
import re

from netns import wait_for

TABLE = "inet vgw_agent"
_CHANGING = re.compile(r"\b(packets|bytes|expires|used) [\w.]+")


def ruleset(host, table=None):
    """The rules as text without counters, and without the elements that come and go by themselves."""
    what = ["list", "table", *table.split()] if table else ["list", "ruleset"]
    text = host.run("nft", "-a", "-s", "-nn", *what).stdout
    blocks = re.split(r"(?m)^(?=\t(?:set|map|chain|counter|quota|limit|ct) )", text)
    quiet = []
    for block in blocks:
        if re.match(r"\t(set|map) ", block) and re.search(r"\b(dynamic|timeout)\b", block.split("elements", 1)[0]):
            block = re.sub(r"(?s)\t\telements = \{.*?\}\n", "", block)
        quiet.append(_CHANGING.sub(r"\1 -", block))
    return "".join(quiet)


def objects(host, table=TABLE):
    """Every chain, rule, set, map and counter of a table with its handle, and what it has counted: two dictionaries by
    kind and handle. The elements of sets and maps are left out."""
    whole, counted = {}, {}
    for row in json.loads(host.run("nft", "-a", "-j", "list", "table", *table.split()).stdout)["nftables"]:
        kind, body = next(iter(row.items()))
        if kind in ("metainfo", "table"):
            continue
        key, packets = f"{kind} {body['handle']}", 0
        for part in body.get("expr", ()):
            if isinstance(part, dict) and isinstance(part.get("counter"), dict):
                packets += part["counter"].pop("packets")
                part["counter"].pop("bytes")
        if kind == "counter":
            packets = body.pop("packets")
            body.pop("bytes")
        body.pop("elem", None)
        whole[key], counted[key] = body, packets
    return whole, counted


def elements(host, table=TABLE):
    """The elements of all sets and maps that do not come and go by themselves, as JSON text by the set's name."""
    found = {}
    for row in json.loads(host.run("nft", "-j", "list", "table", *table.split(), timeout=60).stdout)["nftables"]:
        kind, body = next(iter(row.items()))
        if kind in ("set", "map") and not {"dynamic", "timeout"} & set(body.get("flags", ())):
            found[body["name"]] = {json.dumps(element) for element in body.get("elem", ())}
    return found


def has_table(host):
    return any(t.get("table", {}).get("name") == "vgw_agent"
               for t in json.loads(host.run("nft", "-j", "list", "tables").stdout)["nftables"])


def table_flags(host):
    """The flags of our table, as nft prints them; older ones print those that they do not know as numbers."""
    text = host.run("nft", "list", "table", *TABLE.split()).stdout
    found = re.search(r"(?m)^\s*flags ([^\n]*)", text.split("\tset", 1)[0].split("\tchain", 1)[0].split("\tmap", 1)[0])
    return found[1] if found else ""


def dropped(host):
    """How many packets our table has counted and dropped: rules that drop, with their own or a named counter."""
    objects = json.loads(host.run("nft", "-j", "list", "table", *TABLE.split()).stdout)["nftables"]
    named = {o["counter"]["name"]: o["counter"]["packets"] for o in objects if "counter" in o}
    total, seen = 0, set()
    for rule in (o["rule"] for o in objects if "rule" in o):
        if not any("drop" in part for part in rule["expr"]):
            continue
        for part in rule["expr"]:
            counter = part.get("counter")
            if isinstance(counter, dict):
                total += counter["packets"]
            elif isinstance(counter, str) and counter not in seen:
                seen.add(counter)
                total += named[counter]
    return total


def entries(host, address, port, protocol="tcp"):
    """Which backend each of conntrack's entries to a frontend leads to: addresses, one for each entry."""
    family = "ipv6" if ":" in address else "ipv4"
    text = host.run("conntrack", "-L", "-f", family, "-p", protocol, "-d", address, "--dport", port).stdout
    return [line.split(" src=")[2].split()[0] for line in text.splitlines() if line.count(" src=") == 2]


def links(host, without=()):
    rows = host.ip_json("-d link show")
    return {r["ifname"]: {**{k: r.get(k) for k in ("ifindex", "mtu", "flags", "master", "operstate", "address")},
                          "kind": r.get("linkinfo", {}).get("info_kind")}
            for r in rows if r["ifname"] not in without}


def routes(host):
    """Every route of every table but those the kernel makes by itself."""
    text = "".join(host.run("ip", family, "-d", "route", "show", "table", "all").stdout for family in ("-4", "-6"))
    lines = [re.sub(r" expires \d+sec", "", line).strip() for line in text.splitlines()]
    return sorted(line for line in lines if "table local" not in line and "ff00::/8" not in line)


def rules(host):
    return "".join(host.run("ip", family, "rule", "show").stdout for family in ("-4", "-6"))


class Capture:
    """tcpdump on an interface, from before the packets until stop()."""

    _count = 0

    def __init__(self, host, link, expression):
        Capture._count += 1
        self.process = host.spawn("tcpdump", "-i", link, "-nn", "-l", "-v", "--immediate-mode", "-Z", "root", expression,
                                  log=f"tcpdump-{Capture._count}")
        wait_for(lambda: "listening on" in self.process.text(), what="tcpdump listens")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stop()

    def find(self, pattern):
        """Waits for a line that matches; returns the match."""
        return wait_for(lambda: re.search(pattern, self.process.text()), what=f"a packet like {pattern}")

    def mss(self):
        """The MSS options seen up to now, once there is one."""
        self.find(r"\bmss \d+")
        return {int(m) for m in re.findall(r"\bmss (\d+)", self.process.text())}


def open_files(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def cpu_seconds(process):
    """What the process has used up to now."""
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
