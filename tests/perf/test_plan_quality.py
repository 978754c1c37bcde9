# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""perf/plan_quality.py: what it draws, how it compares and sums up; and, given the program, what it prints."""

import argparse
import json
import os
import subprocess
import sys
import unittest

PERF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "perf")
sys.path.insert(0, PERF)
import plan_quality  # noqa: E402
import workloads  # noqa: E402

# Of seed 7, as drawn by the generator that the numbers of the reference are for.
JOINT = [
    [329, 454, 585, 276], [521, 295, 434, 545], [505, 355, 265, 290], [289, 377, 300, 536], [543, 317, 368, 576],
    [289, 553, 557, 461], [359, 269, 531, 314], [324, 527, 311, 543], [1357, 1100, 1060, 1305, 1300],
    [1225, 1084, 1315, 1399, 1067], [4433, 4222, 4371, 4465, 4389], [4232, 4310, 4371, 4304, 4257], [16213], [16768],
    [15988], [16592], [1189, 1353, 1079, 1102, 1304, 1256, 1126, 1429, 1217, 1119], [4452], [4287], [4242],
    [6597, 6611], [6803, 6753], [6673, 6475], [6712, 6816], [6533, 6531], [6676, 6849], [6787, 6667], [6486, 6631],
    [25522], [25615], [24845], [25169]]
MIXRES_SHUFFLED = [[4204, 4240, 4159, 4471, 4219], [504, 426, 624, 480], [521, 295, 434, 545],
                   [1100, 1452, 1346, 1354, 1221]]
LOWRES_LAST = [645, 311, 304, 290, 407, 522, 552, 352, 452, 387, 368, 561, 254, 259, 529, 408, 489, 396, 415, 584,
               378, 497, 523, 374, 534, 380, 268, 464, 614, 586, 411, 282]


class Workloads(unittest.TestCase):
    def test_the_published_steps(self):
        self.assertEqual(workloads.draw("joint", 7), JOINT)
        self.assertEqual(workloads.draw("mixres", 7, shuffled=True)[:4], MIXRES_SHUFFLED)
        self.assertEqual(workloads.draw("lowres", 7)[31], LOWRES_LAST)
        self.assertEqual(workloads.draw("mixres", 7, ranks=64)[63], [16955])

    def test_ranks_that_no_workload_has(self):
        for ranks in (0, 31, 33):
            with self.assertRaises(ValueError):
                workloads.draw("lowres", 0, ranks)


class CrossingBound(unittest.TestCase):
    def test_nothing_crosses_when_nodes_are_level(self):
        self.assertEqual(plan_quality.crossing_bound([[100, 200], [], [200], [100]], ranks_per_node=2), 0)
        self.assertEqual(plan_quality.crossing_bound([[], []], ranks_per_node=1), 0)

    def test_half_of_what_one_node_has(self):
        self.assertAlmostEqual(plan_quality.crossing_bound([[1000, 1000], []], ranks_per_node=1), 0.5)
        self.assertAlmostEqual(plan_quality.crossing_bound([[1000], []], ranks_per_node=1), 0.5)

    def test_long_sequences_cross_first_since_their_tokens_have_more_work(self):
        works = [plan_quality.work(n) for n in (60000, 1000, 1000)]
        share = sum(works) / 2 / works[0]
        self.assertAlmostEqual(plan_quality.crossing_bound([[1000, 60000, 1000], []], ranks_per_node=1),
                               60000 * share / 62000)

    def test_a_node_that_is_not_full_has_a_smaller_share(self):
        self.assertAlmostEqual(plan_quality.crossing_bound([[500], [500], [500]], ranks_per_node=2), 0)


def numbers(step, tokens=1.0):
    return {**{metric.key: 1.0 for metric in plan_quality.METRICS}, "step_over_ideal": step,
            "tokens_max_over_mean": tokens}


class Comparison(unittest.TestCase):
    reference = {"joint": [{"g4n8": numbers(1.08, 1.09), "g8n4": numbers(1.07, 1.2)}]}

    def best(self, seed, cap):
        best = plan_quality.best_of_reference(self.reference, "joint", seed, cap)
        return best and best["topology"]

    def test_the_best_of_those_that_keep_to_the_cap(self):
        self.assertEqual(self.best(0, None), "g8n4")
        self.assertEqual(self.best(0, 1.1), "g4n8")
        self.assertIsNone(self.best(0, 1.05))
        self.assertIsNone(self.best(1, None), "a step the reference has not planned")
        self.assertIsNone(self.best(-1, None))

    def test_summary(self):
        def step(seed, ours, theirs):
            return {"seed": seed, "crossing_bound": seed / 10, **numbers(ours),
                    "reference": theirs and numbers(theirs)}
        summary = plan_quality.summarize([step(1, 1.1, 1.2), step(2, 1.3, 1.2), step(3, 1.2, 1.2), step(6, 1.4, None)])
        self.assertAlmostEqual(summary["plan"]["step_over_ideal"]["mean"], 1.25)
        self.assertEqual(summary["plan"]["step_over_ideal"]["worst"], 1.4)
        self.assertAlmostEqual(summary["reference"]["step_over_ideal"]["mean"], 1.2)
        self.assertAlmostEqual(summary["crossing_bound"]["mean"], 0.3)
        self.assertEqual((summary["steps"], summary["compared"], summary["above"]), (4, 3, [2]))


class Script(unittest.TestCase):
    program = ""  # set at the end

    def start(self, *arguments):
        return subprocess.run([sys.executable, os.path.join(PERF, "plan_quality.py"), "--program", self.program,
                               *arguments], text=True, capture_output=True, timeout=100)

    def test_numbers_of_every_step(self):
        done = self.start("--seeds", "0:2", "--plan-args", "--topology g1n32", "--workload", "lowres", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        out = json.loads(done.stdout)["lowres"]
        self.assertEqual([step["reference"]["topology"] for step in out["by_step"]], ["g1n32", "g1n32"])
        for step in out["by_step"]:  # with the same bags, and fewer tokens that move
            self.assertLess(step["step_over_ideal"], step["reference"]["step_over_ideal"])
            self.assertLess(step["moved"], step["reference"]["moved"])
        self.assertEqual(out["compared"], 2)

    def worst_and_means(self, *arguments):
        done = self.start("--seeds", "0:10", "--json", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def test_elastic_bags_are_near_the_ideal(self):
        limits = {  # means of the step over the ideal, tokens moved, tokens that cross nodes, Ulysses
            "lowres": (1.003, 0.04, 0.04, 0.01),
            "mixres": (1.045, 1, 0.50, 0.36),
            "joint": (1.042, 1, 0.42, 0.32)}
        for order in ([], ["--shuffled"]):
            for name, out in self.worst_and_means(*order).items():
                means = out["plan"]
                step, moved, crossed, ulysses = limits[name.split("_")[0]]
                with self.subTest(name):
                    self.assertLessEqual(means["step_over_ideal"]["mean"], step)
                    self.assertLessEqual(means["moved"]["mean"], moved)
                    self.assertLessEqual(means["crossed_nodes"]["mean"], crossed)
                    self.assertLessEqual(means["ulysses"]["mean"], ulysses)
                    self.assertEqual((out["compared"], out["above"]), (10, []))

    def test_capped_plans_are_no_worse_than_the_reference(self):
        for order in ([], ["--shuffled"]):
            for name, out in self.worst_and_means("--token-cap", "1.10", *order).items():
                with self.subTest(name):
                    self.assertLessEqual(out["plan"]["tokens_max_over_mean"]["worst"], 1.10)
                    self.assertEqual(out["above"], [])

    def test_loads_are_even_where_links_cost_nothing(self):
        free = "--bandwidth-within inf --bandwidth-between inf --latency 0"
        for order in ([], ["--shuffled"]):
            for name, out in self.worst_and_means("--plan-args", free, *order).items():
                with self.subTest(name):
                    self.assertLessEqual(out["plan"]["max_over_mean"]["worst"], 1.01)

    def test_table(self):
        done = self.start("--seeds", "3", "--plan-args", "--topology g4n8", "--workload", "joint", "--shuffled")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for part in ("joint_shuffled", "best reference", "1 step; ", "of 1"):
            self.assertIn(part, done.stdout)

    def test_what_the_program_says_when_it_fails(self):
        done = self.start("--seeds", "0", "--plan-args", "--topology g1n2")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("lowres, seed 0: knapformer: ", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program")
    Script.program = parser.parse_args().program
    if not Script.program:
        del Script
    unittest.main(argv=sys.argv[:1])
