# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The package makes the plans that the library makes, and refuses what it refuses."""

import os
import random
import subprocess
import unittest

import knapformer

NO_CAP = 2**63 - 1
TOPOLOGIES = {1: ["g1n1"], 3: ["g1n3", "g3n1"], 4: ["g1n2+g2n1", "g2n2"], 8: ["g1n4+g4n1", "g8n1", "g3n1+g5n1"],
              12: ["g6n2", "g12n1"]}


def random_request(rng):
    """Arguments of plan(), some of which cannot be met."""
    ranks = rng.choice(list(TOPOLOGIES))
    longest = rng.choice([3, 1000, 30000])
    lengths = [[rng.randint(0, longest) for _ in range(rng.randint(0, 6))] for _ in range(ranks)]
    arguments = {"topology": rng.choice([*TOPOLOGIES[ranks], "elastic", "elastic2"]), "heads": rng.choice([1, 5, 24]),
                 "d_model": rng.choice([64, 3072]), "gamma": rng.choice([0.0, 0.5, 1.3]),
                 "constant": rng.choice([0, 0, 10**6])}
    if rng.random() < 0.3:
        arguments["costs_by_rank"] = [[rng.randint(0, 10**6) for _ in row] for row in lengths]
    if rng.random() < 0.3:
        arguments["machine"] = knapformer.Machine(speeds=[rng.choice([0.5, 1, 2]) for _ in range(ranks)])
    if rng.random() < 0.3:
        arguments["max_tokens_per_rank"] = rng.randint(0, 3 * longest)
    if rng.random() < 0.3:
        arguments["max_attention_tokens_per_rank"] = rng.randint(0, 3 * longest)
    if rng.random() < 0.3:
        arguments["budget"] = rng.choice([0, 100])
    if rng.random() < 0.1:
        arguments |= rng.choice([{"heads": 0}, {"d_model": -1}, {"gamma": -0.5}, {"topology": "g7n1"}])
    return lengths, arguments


def reference_words(lengths, arguments):
    """The request in the words of the program test_python_reference."""
    costs = [cost for row in arguments.get("costs_by_rank", []) for cost in row]
    speeds = arguments["machine"].speeds if "machine" in arguments else ()
    return [arguments["topology"], arguments["heads"], arguments["d_model"], arguments["gamma"], arguments["constant"],
            arguments.get("max_tokens_per_rank", NO_CAP), arguments.get("max_attention_tokens_per_rank", NO_CAP),
            arguments.get("budget", -1), len(lengths), *map(len, lengths), *(n for row in lengths for n in row),
            len(costs), *costs, len(speeds), *speeds]


class ComparisonTest(unittest.TestCase):
    def test_same_plans_as_the_library(self):
        seed = random.randrange(10**9)
        rng = random.Random(seed)
        requests = [random_request(rng) for _ in range(300)]
        text = "\n".join(" ".join(map(str, reference_words(*request))) for request in requests)
        done = subprocess.run([os.environ["KNAPFORMER_REFERENCE"]], input=text, capture_output=True, text=True,
                              check=True, timeout=120)
        answers = done.stdout.splitlines()
        self.assertEqual(len(answers), len(requests))
        planned = 0
        for (lengths, arguments), answer in zip(requests, answers):
            with self.subTest(seed=seed, lengths=lengths, arguments=arguments):
                try:
                    plan = knapformer.plan(lengths, **arguments)
                except knapformer.Error as error:
                    self.assertEqual(answer, f"error: {error}")
                    continue
                planned += 1
                plan.validate()
                plan_hash, step_seconds = answer.split()
                self.assertEqual(plan.hash, int(plan_hash))
                self.assertAlmostEqual(plan.report.step_seconds, float(step_seconds), delta=1e-12 * float(step_seconds))
        self.assertGreater(planned, len(requests) // 4)
