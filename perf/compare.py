#!/usr/bin/env python3
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compare two results of perf/run_suite.py: what got faster, what slower, and what is noise.

  perf/compare.py before.json after.json

A row names the direction in which a figure is better, and for each result the median of its rounds and, of several, the smallest and
the largest value. A figure has changed when the values of all rounds of one result lie beyond all of the other, and the medians differ by more than
--threshold. With five rounds each, values that come from the same distribution are told apart so in one of 126 cases, with three in one
of 10. Exit status: 0, or 1 with --fail-if-worse when something got worse, or 2 when the two cannot be compared.
"""

import argparse
import json
import math
import statistics
import sys

SCHEMA = "knapformer-perf-1"


class NotComparable(Exception):
    pass


def load(path):
    try:
        with open(path) as file:
            result = json.load(file)
    except (OSError, ValueError) as error:
        raise NotComparable(f"{path}: {error}")
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        raise NotComparable(f"{path} is no result of run_suite.py ({SCHEMA})")
    return result


def apart(a, b):
    return max(a) < min(b) or max(b) < min(a)


def verdict(better, before, after, threshold):
    """'better', 'worse' or '' of one figure, and the ratio of the medians, after over before."""
    old, new = statistics.median(before), statistics.median(after)
    if old == new:
        return "", 1.0
    ratio = new / old if old else math.inf
    if not apart(before, after) or abs(ratio - 1) <= threshold:
        return "", ratio
    return ("better" if (ratio < 1) == (better == "lower") else "worse"), ratio


def coincidence(before, after):
    """Of how many cases one has all values of one side beyond all of the other by chance."""
    return math.comb(before + after, after) // 2


def differing_context(before, after):
    for key in ("suite", "ranks", "threads", "machine", "launcher"):
        if before["context"].get(key) != after["context"].get(key):
            yield f"{key}: {before['context'].get(key)} and {after['context'].get(key)}"


def compare(before, after, threshold):
    """Rows (figure, better, values before, values after, ratio, verdict) of the figures that both have, then those that one has."""
    rows = []
    for figure, old in before["figures"].items():
        new = after["figures"].get(figure)
        if new is not None:
            said, ratio = verdict(old["better"], old["values"], new["values"], threshold)
            rows.append((figure, old["better"], old["values"], new["values"], ratio, said))
    missing = sorted(set(before["figures"]) ^ set(after["figures"]))
    if not rows:
        raise NotComparable("the two results have no figure in common")
    return rows, missing


def spread(values):
    """The median, and of several values the smallest and the largest, in columns."""
    ends = f"{min(values):.4g} to {max(values):.4g}" if len(values) > 1 else ""
    return f"{statistics.median(values):11.4g} {ends:<22}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--threshold", type=float, default=0.05, help="smallest change that counts (default: %(default)s)")
    parser.add_argument("--all", action="store_true", help="print unchanged figures too")
    parser.add_argument("--fail-if-worse", action="store_true", help="exit status 1 when a figure got worse")
    options = parser.parse_args()
    try:
        before, after = load(options.before), load(options.after)
        rows, missing = compare(before, after, options.threshold)
    except NotComparable as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2

    for difference in differing_context(before, after):
        print(f"the two differ in {difference}")
    rounds = [min(len(figure["values"]) for figure in result["figures"].values()) for result in (before, after)]
    print(f"{rounds[0]} and {rounds[1]} rounds: of figures that did not change, 1 in {coincidence(*rounds)} lies apart by chance")
    shown = [row for row in rows if options.all or row[5]]
    width = max((len(row[0]) for row in shown), default=0)
    if shown:
        print(f"{'':{width}} {'better':6} {'before':>11} {'min to max':22} {'after':>11} {'min to max':22} {'ratio':>7}")
    for figure, better, old, new, ratio, said in shown:
        print(f"{figure:{width}} {better:6} {spread(old)} {spread(new)} {ratio:7.3f} {said}".rstrip())
    counts = {word: sum(row[5] == word for row in rows) for word in ("better", "worse")}
    print(f"{counts['better']} better, {counts['worse']} worse, {len(rows) - sum(counts.values())} within noise or "
          f"{options.threshold:.0%}")
    for figure in missing:
        print(f"only in one of the two: {figure}")
    return 1 if options.fail_if_worse and counts["worse"] else 0


if __name__ == "__main__":
    sys.exit(main())
