# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`knapformer experiment paper` on two, three and four ranks: tables, JSON, and bad input."""

import argparse
import json
import os
import sys
import tempfile
import unittest

from program import ProgramTest, main

SMALL = {"--d-model": "24", "--heads": "4", "--layers": "2", "--steps": "2", "--gamma": "1", "--peak-gflops": "10"}


def small(*others):
    """A small run, with other options beside or in place of those above."""
    options = {**SMALL, **dict(zip(others[::2], others[1::2]))}
    return [word for option in options.items() for word in option]


class ExperimentPaper(ProgramTest):
    def run_to_json(self, ranks, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            done = self.start("experiment", "paper", *small("--json", path, *arguments), ranks=ranks)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr, "", "no progress line in a pipe")
            with open(path) as file:
                return json.load(file), done.stdout

    def check(self, out):
        """What holds of every run."""
        for workload in out["workloads"]:
            cells = workload["cells"]
            self.assertEqual([cell["full"] for cell in cells], ["home", "g1n32", "g2n16", "g4n8", "g8n4", "elastic"])
            measured = [cell["measured"] for cell in cells if cell["measured"]]
            home = cells[0]
            for figures in measured:
                self.assertEqual(len(figures["losses"]), out["steps"])
                for a, b in zip(figures["losses"], home["measured"]["losses"]):
                    self.assertLess(abs(a - b) / a, out["loss_tolerance"])
                self.assertGreaterEqual(figures["busy_max_seconds"], figures["busy_mean_seconds"])
                if out["clock"] == "cpu":
                    self.assertEqual(figures["step_seconds"], figures["busy_max_seconds"])
            self.assertEqual(home["measured"]["speedup"], 1)
            self.assertAlmostEqual(home["predicted"]["speedup"], 1)
            self.assertLessEqual(workload["loss_relative_difference"], out["loss_tolerance"])
            self.assertGreater(cells[-1]["predicted"]["speedup"], 1)
            for cell in cells:
                self.assertLessEqual(cell["predicted"]["share_of_flops"], 1)

    def test_all_workloads_on_four_ranks(self):
        out, table = self.run_to_json(4, "--dtype", "double")
        self.check(out)
        self.assertEqual(out["loss_tolerance"], 1e-13)
        self.assertEqual([w["name"] for w in out["workloads"]], ["lowres", "mixres", "joint"])
        self.assertEqual((out["length_scale"], out["double_blocks"], out["single_blocks"]), (24 / 3072, 1, 1))
        self.assertEqual((out["full_size"]["ranks"], out["full_size"]["d_model"], out["full_size"]["heads"]),
                         (32, 3072, 24))
        self.assertEqual(out["full_size"]["machine"]["layers"], 57)
        for workload in out["workloads"]:
            self.assertEqual([cell["here"] for cell in workload["cells"]],
                             ["home", "g1n4", "g2n2", "g4n1", None, "elastic"])
        mixed = out["workloads"][1]["cells"]
        self.assertGreater(mixed[0]["measured"]["work_max_over_mean"], 1.5)
        self.assertLess(mixed[-1]["measured"]["work_max_over_mean"], 1.1)
        self.assertGreater(mixed[-1]["predicted"]["speedup"], 2)
        self.assertIn("left out   g8n4: 4 ranks cannot be divided into such bags; predicted only", table)
        if out["clock"] == "cpu":
            self.assertIn("ranks share cores here", table)
            self.assertIn("4 ranks, steps modelled", table)
        for workload in out["workloads"]:
            lines = table[table.index(f"({workload['name']}), "):].splitlines()
            for cell in workload["cells"]:
                line = next(line for line in lines if cell["full"].replace("home", "no balancing") in
                            line.partition("|")[2])
                here, _, full = line.partition("|")
                self.assertTrue(full.endswith(f"{cell['predicted']['speedup']:.3f}"), line)
                if cell["measured"]:
                    self.assertTrue(here.rstrip().endswith(f"{cell['measured']['speedup']:.3f}"), line)
                else:
                    self.assertEqual(here.strip(), "-")

    def test_two_ranks_load_what_four_load_together(self):
        tokens = []
        for ranks in (2, 4):
            out, _ = self.run_to_json(ranks, "--workloads", "joint", "--seed", "3", "--steps", "1", "--warmup", "0",
                                      "--d-model", "16")
            self.check(out)
            tokens.append([out["workloads"][0][name] for name in ("tokens_per_step", "longest", "flops")])
        self.assertEqual(tokens[0][:2], tokens[1][:2])
        self.assertAlmostEqual(tokens[0][2] / tokens[1][2], 1, delta=0.01, msg="but for the shares of text")

    def test_three_ranks_leave_out_all_bags_of_several(self):
        out, table = self.run_to_json(3, "--workloads", "lowres", "--dtype", "bfloat16", "--steps", "1")
        self.check(out)
        self.assertEqual([cell["here"] for cell in out["workloads"][0]["cells"]],
                         ["home", "g1n3", None, None, None, "elastic"])
        self.assertIn("left out   g2n16, g4n8, g8n4: 3 ranks", table)

    def test_json_instead_of_the_table(self):
        done = self.start("experiment", "paper", *small("--workloads", "mixres", "--steps", "1", "--json", "-"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["ranks"], 1)
        self.assertIn("one rank has nothing to balance; start several, such as mpirun -n 4 knapformer experiment paper ...",
                      done.stderr)

    def test_bad_input(self):
        def bad(wanted, *others, ranks=(1, 2)):
            for count in ranks:
                self.assertIn(wanted, self.complaint("experiment", "paper", *small(*others), ranks=count))
        self.assertIn("an experiment is missing", self.complaint("experiment"))
        bad("--workloads: there is no 'lowers'; there are lowres, mixres and joint", "--workloads", "lowers")
        bad("--workloads: mixres is given twice", "--workloads", "mixres,mixres")
        bad("--d-model is 6144; at full size it is 3072", "--d-model", "6144")
        bad("d_model 24 must be a multiple of heads, 5", "--heads", "5")
        bad("--steps", "--steps", "0")
        bad("--peak-gflops is -1", "--peak-gflops", "-1")
        bad("--learning-rate is nan", "--learning-rate", "nan")
        bad("/nowhere/out.json", "--json", "/nowhere/out.json")
        bad("--machine cannot be the standard input", "--machine", "-")
        bad("--rank-speeds is 1,a", "--rank-speeds", "1,a")

    def test_losses_that_are_none_are_an_error_behind_the_table(self):
        done = self.start("experiment", "paper", *small("--workloads", "lowres", "--learning-rate", "1e30"), ranks=2)
        self.assertEqual(done.returncode, 2)
        self.assertIn("largest relative difference from no balancing nan", done.stdout)
        self.assertIn("knapformer: lowres: the loss is not finite in some step; a lower --learning-rate may help",
                      done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    main(parser)
    unittest.main(argv=sys.argv[:1])
