#!/usr/bin/env python3
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How soon plans that adapt to speed are as good as plans for known speeds, with one rank slowed.

Runs `knapformer simulate` on the same steps in turn with --adapt-to-speed and with the speeds given, and sets the
largest busy time of a rank in the balanced step of one beside that of the other. `busy`: ratio of what was measured,
which other programs disturb. `planned`: the same ratio of work times slowdown, as planned. Both are medians over the
rounds.

  perf/adapt_to_speed.py --rounds 3
  perf/adapt_to_speed.py --launcher "srun -n 8" --slow-rank 7 --factor 3 --json adapt.json
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SAME = ["--manifest", os.path.join(ROOT, "tests/data/manifests/videos_and_images.csv"), "--patch", "128", "--temporal",
        "30", "--samples-per-rank", "16", "--gamma", "1", "--peak-gflops", "40", "--warmup", "0", "--d-model", "128"]
SETTLED = 9  # the step from which on plans should be as good


def largest(step, slowdowns):
    planned = [work * slowdown for work, slowdown in zip(step["work"], slowdowns)]
    return {"busy": max(step["busy_seconds"]), "planned": max(planned)}


def run(options, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.json")
        command = [*shlex.split(options.launcher), options.program, "simulate", *SAME, "--topology", options.topology,
                   "--steps", str(options.steps), "--slow-ranks", f"{options.slow_rank}:{options.factor}", *arguments,
                   "--json", path]
        one_thread = {"OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false", **os.environ}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=one_thread)
        with open(path) as file:
            out = json.load(file)
    return [largest(step, out["slowdowns"]) for step in out["balanced_steps"]], out["ranks"]


def known_speeds(options, ranks):
    return ",".join(str(1 / options.factor if r == options.slow_rank else 1.0) for r in range(ranks))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/knapformer"))
    parser.add_argument("--launcher", default="mpirun --oversubscribe -n 4")
    parser.add_argument("--topology", default="elastic")
    parser.add_argument("--slow-rank", type=int, default=3)
    parser.add_argument("--factor", type=float, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="write the ratio of every step to FILE", metavar="FILE")
    options = parser.parse_args()
    if options.steps <= SETTLED or options.rounds < 1:
        parser.error(f"give more than {SETTLED} steps and at least 1 round")

    rounds = []
    for _ in range(options.rounds):
        adapted, ranks = run(options, "--adapt-to-speed")
        known, _ = run(options, "--rank-speeds", known_speeds(options, ranks))
        rounds.append((adapted, known))

    result = {}
    for key in ("busy", "planned"):
        result[key] = [statistics.median(a[step][key] / k[step][key] for a, k in rounds) for step in
                       range(options.steps)]
        totals = [[sum(step[key] for step in placement[SETTLED:]) for placement in pair] for pair in rounds]
        result[f"{key}_settled"] = statistics.median(a / k for a, k in totals)
    print("step     busy  planned")
    for step in range(options.steps):
        print(f"{step:4}{result['busy'][step]:9.3f}{result['planned'][step]:9.3f}")
    print(f"from step {SETTLED} on: busy {result['busy_settled']:.3f}, planned {result['planned_settled']:.3f} times "
          "that of known speeds")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=2)


if __name__ == "__main__":
    sys.exit(main())
