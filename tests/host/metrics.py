# SPDX-License-Identifier: Apache-2.0
"""Prometheus' text format 0.0.4, read strictly."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_ENDS = {"histogram": ("_bucket", "_sum", "_count")}


def _labels(text):
    found, at = {}, 0
    while at < len(text):
        match = _LABEL.match(text, at)
        assert match, f"not labels: {text!r}"
        assert match[1] not in found, f"twice the same label: {text!r}"
        found[match[1]] = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], match[2])
        at = match.end()
    return found


class Metrics:
    """One scrape: the families' types, and every sample by its name and labels."""

    def __init__(self, text):
        self.types, self.helps, self.samples, self.families = {}, {}, {}, {}
        assert text.endswith("\n"), "the last line ends"
        family = None
        for line in text[:-1].split("\n"):
            if line.startswith("#"):
                word, name, rest = re.fullmatch(rf"# (HELP|TYPE) ({NAME}) (.+)", line).groups()
                known = self.helps if word == "HELP" else self.types
                assert name not in known, f"announced twice: {line}"
                assert word == "HELP" or rest in ("counter", "gauge", "histogram"), line
                assert word == "HELP" or name == family, f"TYPE follows HELP: {line}"
                known[name], family = rest, name
                self.families.setdefault(name, [])
                continue
            match = _SAMPLE.fullmatch(line)
            assert match, f"not a sample: {line!r}"
            names = [family + end for end in _ENDS.get(self.types[family], ("",))]
            assert match[1] in names, f"among the samples of {family}: {line}"
            key = (match[1], frozenset(_labels(match[2] or "").items()))
            assert key not in self.samples, f"twice: {line}"
            self.samples[key] = float(match[3])
            self.families[family].append(key)
        assert self.types.keys() == self.helps.keys()

    def value(self, metric, **labels):
        return self.samples[metric, frozenset(labels.items())]

    def get(self, metric, **labels):
        """The same, or None."""
        return self.samples.get((metric, frozenset(labels.items())))

    def by(self, metric, label):
        """The values of one family by one of its labels."""
        return {dict(labels)[label]: self.samples[name, labels] for name, labels in self.families[metric]}

    def counters(self):
        """What must never fall: counters, and all of a histogram."""
        return {key: self.samples[key] for family, kind in self.types.items() if kind in ("counter", "histogram")
                for key in self.families[family]}

    def buckets(self, family):
        """The counts of a histogram, in the order of their bounds."""
        rows = [(float(dict(labels)["le"]), self.samples[name, labels]) for name, labels in self.families[family]
                if name.endswith("_bucket")]
        assert rows == sorted(rows), "bounds are in order"
        return rows
