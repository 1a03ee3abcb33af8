# SPDX-License-Identifier: Apache-2.0
"""A row of the bench: samples of ours and of each peer, the bar, and the verdict; and how rows are shown."""

import json
import math
import statistics

INFINITE = math.inf  # it did not happen while we looked


class Row:
    """bar: its text. met: a function of the row that gives True or False, or None for a row without a bar."""

    def __init__(self, name, title, unit, ours, peers=None, bar="", met=None, worst=False, note="",
                 paired=False):
        self.name, self.title, self.unit, self.note, self.bar = name, title, unit, note, bar
        self.ours = list(ours)
        self.peers = {peer: list(samples) for peer, samples in (peers or {}).items()}
        self.worst = worst  # the bar is about the worst sample, not the median
        self.paired = paired  # one sample of everybody in each round: compare round by round
        self.met = met(self) if met and self.ours else None

    def value(self, peer=None):
        samples = self.peers[peer] if peer else self.ours
        return max(samples) if self.worst else statistics.median(samples)

    def ratio(self, peer):
        pairs = list(zip(self.ours, self.peers[peer]))
        if self.paired and pairs and all(theirs for _, theirs in pairs):
            return statistics.median(own / theirs for own, theirs in pairs)
        own, other = self.value(), self.value(peer)
        return own / other if other and math.isfinite(own) and math.isfinite(other) else None

    def document(self):
        def spread(samples):
            return {"median": _plain(statistics.median(samples)), "min": _plain(min(samples)), "max": _plain(max(samples)),
                    "samples": [_plain(s) for s in samples]}
        return {"name": self.name, "title": self.title, "unit": self.unit, "judged": "worst" if self.worst else "median",
                "ours": spread(self.ours) if self.ours else None,
                "peers": {p: {**spread(s), "ratio": _plain(self.ratio(p))} for p, s in self.peers.items() if s},
                "bar": self.bar, "met": self.met, "note": self.note}

    def lines(self):
        mark = {True: "met", False: "MISSED", None: ""}[self.met]
        yield (f"{self.name:<22} {self.title}"
               + (f"  [bar: {self.bar}]" if self.bar else "") + (f"  {mark}" if mark else ""))
        if self.ours:
            yield f"    {'vgw-agent':<24} {self._figures(self.ours)}"
        for peer, samples in self.peers.items():
            if samples:
                ratio = self.ratio(peer)
                yield f"    {peer:<24} {self._figures(samples)}" + (f"   ours / theirs {ratio:.2f}" if ratio else "")
        if self.note:
            yield f"    ({self.note})"

    def _figures(self, samples):
        head = max(samples) if self.worst else statistics.median(samples)
        text = f"{figure(head, self.unit):>14}"
        if len(samples) > 1:
            text += f"  {'worst' if self.worst else 'median'} of {len(samples)}, {figure(min(samples), self.unit)} .. " \
                    f"{figure(max(samples), self.unit)}"
        return text


def _plain(value):
    return None if value is None or not math.isfinite(value) else round(value, 9)


def figure(value, unit):
    if not math.isfinite(value):
        return "not seen"
    if unit == "s":
        return f"{value * 1000:.2f} ms" if abs(value) < 1 else f"{value:.2f} s"
    if unit == "B":
        return f"{value / 1048576:.2f} MiB" if abs(value) >= 1 << 20 else f"{value / 1024:.1f} KiB"
    if unit == "B/s":
        return f"{value * 8 / 1e9:.2f} Gbit/s"
    if unit == "%":
        return f"{value:.2f} %"
    if unit == "":
        return f"{value:g}"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.2f} {unit}"


def at_most(limit):
    return lambda row: row.value() <= limit


def at_least(limit):
    return lambda row: row.value() >= limit


def ratios(**bars):
    """At least so many times each peer that is there."""
    return lambda row: all(row.ratio(peer) is not None and row.ratio(peer) >= bar
                           for peer, bar in bars.items() if row.peers.get(peer))


def save(path, machine, rows):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**machine, "rows": [row.document() for row in rows]}, file, indent=1)
        file.write("\n")
