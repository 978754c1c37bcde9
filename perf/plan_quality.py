#!/usr/bin/env python3
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How good the plans of `knapformer plan` are on the published workloads, judged from their chunks alone.

Every step of every workload is planned, checked and evaluated by tests/data/plan_eval.py, and set beside the plan of
the reference implementation that has the shortest step there. Step times are those of plan_eval.py's machine, 8 ranks
a node, whatever --plan-args say.

  perf/plan_quality.py --seeds 0:50 --shuffled
  perf/plan_quality.py --seeds 1000:1010 --plan-args "--topology elastic --plan-budget 0"
  perf/plan_quality.py --token-cap 1.10

Columns: `mean` and `worst` over the steps. `bound`: tokens that have to cross nodes when every node sends its work
above the mean with as few tokens as possible, in fractions of sequences. `ulysses`: 1 if all q, k, v and o travel.
`above`: steps on which the plan takes longer than the best of the reference. With --token-cap the best is of those
that keep to the cap, and steps where none does are not compared.
"""

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import workloads

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(ROOT, "tests", "data")
sys.path.insert(0, DATA)
import plan_eval  # noqa: E402

RANKS, HEADS, RANKS_PER_NODE, D_MODEL, GAMMA = 32, 24, 8, 3072, 0.5
PROGRAMS_AT_ONCE = 2
ROUNDING = 5e-6  # of the numbers of the reference


class Metric:
    def __init__(self, key, title, scale=1, digits=4):
        self.key, self.title, self.scale, self.digits = key, title, scale, digits

    def show(self, value):
        return f"{value * self.scale:.{self.digits}f}"


METRICS = [Metric("step_over_ideal", "step/ideal"), Metric("max_over_mean", "max/mean"),
           Metric("moved", "moved %", 100, 1), Metric("crossed_nodes", "crossed %", 100, 1),
           Metric("ulysses", "ulysses", 1, 3), Metric("tokens_max_over_mean", "tokens max/mean", 1, 3)]


def work(length):
    return 24 * length * D_MODEL**2 + GAMMA * 4 * length**2 * D_MODEL


def crossing_bound(rows, ranks_per_node=RANKS_PER_NODE):
    """The share of tokens that has to leave its node, if work moves with its tokens and sequences are divisible."""
    nodes = [[n for row in rows[first:first + ranks_per_node] for n in row]
             for first in range(0, len(rows), ranks_per_node)]
    work_per_rank = sum(work(n) for row in rows for n in row) / len(rows)
    crossing = 0.0
    for node, lengths in enumerate(nodes):
        ranks = min(ranks_per_node, len(rows) - node * ranks_per_node)
        surplus = sum(map(work, lengths)) - ranks * work_per_rank
        for length in sorted(lengths, reverse=True):  # the longer, the more work a token
            if surplus <= 0:
                break
            crossing += length * min(1, surplus / work(length))
            surplus -= work(length)
    total = sum(map(sum, rows))
    return crossing / total if total else 0.0


def make_plan(program, rows, arguments):
    command = [program, "plan", "--lengths", "-", "--json", "-", *arguments]
    done = subprocess.run(command, input=json.dumps({"lengths_by_rank": rows}), text=True, capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"exit status {done.returncode}")
    sequences = json.loads(done.stdout)["sequences"]
    plan_eval.check(sequences, len(rows), HEADS)
    if [(s["home"], s["length"]) for s in sequences] != [(r, n) for r, row in enumerate(rows) for n in row]:
        raise ValueError("the plan is not about these lengths in this order")
    return sequences


def evaluate(options, workload, seed):
    """The numbers of one step."""
    rows = workloads.draw(workload, seed, RANKS, options.shuffled)
    arguments = list(options.plan_args)
    most = None
    if options.token_cap:
        most = math.floor(options.token_cap * sum(map(sum, rows)) / RANKS)
        arguments += ["--max-tokens-per-rank", str(most)]
    try:
        out = plan_eval.evaluate(make_plan(options.program, rows, arguments), RANKS, gamma=GAMMA, d=D_MODEL,
                                 heads=HEADS, node=RANKS_PER_NODE)
        if most is not None and out["tokens_max"] > most:
            raise ValueError(f"a rank has {out['tokens_max']} tokens; the cap is {most}")
    except (RuntimeError, ValueError, KeyError) as error:
        raise SystemExit(f"{workload}, seed {seed}: {error}")
    return {"seed": seed, "crossing_bound": crossing_bound(rows), **out}


def best_of_reference(reference, name, seed, token_cap):
    """The topology with the shortest step, of those that keep to the cap: its name and numbers; None if there is
    none."""
    steps = reference.get(name, [])
    if not 0 <= seed < len(steps):
        return None
    fitting = [(numbers["step_over_ideal"], topology, numbers) for topology, numbers in steps[seed].items()
               if not token_cap or numbers["tokens_max_over_mean"] <= token_cap]
    if not fitting:
        return None
    _, topology, numbers = min(fitting, key=lambda item: item[:2])
    return {"topology": topology, **numbers}


def summarize(steps):
    """Mean and worst of every metric, of the plans and of the reference beside them."""
    def over(dicts):
        return {metric.key: {"mean": sum(d[metric.key] for d in dicts) / len(dicts),
                             "worst": max(d[metric.key] for d in dicts)} for metric in METRICS}
    compared = [step for step in steps if step["reference"]]
    bounds = [step["crossing_bound"] for step in steps]
    return {"plan": over(steps), "reference": over([step["reference"] for step in compared]) if compared else None,
            "crossing_bound": {"mean": sum(bounds) / len(bounds), "worst": max(bounds)},
            "steps": len(steps), "compared": len(compared),
            "above": [step["seed"] for step in compared
                      if step["step_over_ideal"] > step["reference"]["step_over_ideal"] + ROUNDING]}


def print_table(summaries):
    widths = [max(18, len(metric.title) + 2) for metric in METRICS]

    def line(name, cells):
        print(f"{name:<18}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths)))

    def values(summary):
        return [f"{m.show(summary[m.key]['mean'])} {m.show(summary[m.key]['worst']):>8}" for m in METRICS]
    line("", [metric.title for metric in METRICS])
    line("", ["mean    worst"] * len(METRICS))
    for name, summary in summaries.items():
        line(name, values(summary["plan"]))
        if summary["reference"]:
            line("  best reference", values(summary["reference"]))
        bound = summary["crossing_bound"]
        print(f"  {summary['steps']} step{'s' if summary['steps'] > 1 else ''}; bound on crossed {bound['mean']:.1%} (worst {bound['worst']:.1%}); "
              f"above the reference on {len(summary['above'])} of {summary['compared']}"
              + (": seeds " + ", ".join(map(str, summary["above"])) if summary["above"] else ""))


def seed_range(text):
    first, _, end = text.partition(":")
    seeds = range(int(first), int(end) if end else int(first) + 1)
    if not seeds:
        raise ValueError
    return seeds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "knapformer"), help="default: %(default)s")
    parser.add_argument("--workload", choices=workloads.CODES, action="append", help="default: all three")
    parser.add_argument("--seeds", type=seed_range, default=range(50), metavar="FIRST:END", help="default: 0:50")
    parser.add_argument("--shuffled", action="store_true", help="deal the rows of lengths to the ranks at random")
    parser.add_argument("--plan-args", type=shlex.split, default=["--topology", "elastic"], metavar="ARGUMENTS",
                        help='of knapformer plan; default: "--topology elastic"')
    parser.add_argument("--token-cap", type=float, metavar="TIMES", help="cap on a rank's tokens, times their mean")
    parser.add_argument("--reference", default=os.path.join(DATA, "reference_steps.json"), metavar="FILE",
                        help="steps of the reference, entry i for seed i; default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print all numbers of every step as JSON")
    options = parser.parse_args()
    with open(options.reference) as file:
        reference = json.load(file)

    out = {}
    with ThreadPoolExecutor(PROGRAMS_AT_ONCE) as pool:
        for workload in options.workload or workloads.CODES:
            name = workload + ("_shuffled" if options.shuffled else "")
            steps = list(pool.map(lambda seed: evaluate(options, workload, seed), options.seeds))
            for step in steps:
                step["reference"] = best_of_reference(reference, name, step["seed"], options.token_cap)
            out[name] = steps
    summaries = {name: summarize(steps) for name, steps in out.items()}
    if options.json:
        print(json.dumps({name: {**summaries[name], "by_step": out[name]} for name in out}, indent=1))
    else:
        print_table(summaries)


if __name__ == "__main__":
    main()
