# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`knapformer tune` as users and scripts run it. Which candidate wins is asked only where it is certain."""

import argparse
import json
import os
import shlex
import shutil
import sys
import tempfile
import unittest

from program import ProgramTest, main

# The published workloads, for 32 ranks.
WORKLOADS = {
    "lowres": "g32b32i256f1s0",
    "mixres": "g16b4i256f1s0,g4b5i512f1s0,g4b5i1024f1s0,g8b1i2048f1s0",
    "joint": "g8b4i256f1s0,g2b5i512f1s0,g2b5i1024f1s0,g4b1i2048f1s0,g1b10i256f4s0,g3b1i512f4s0,g8b2i256f85s1,"
             "g4b1i512f85s1",
}
DEFAULTS = ["home", "elastic", "elastic2", "elastic4", "elastic8", "g1n32", "g2n16", "g4n8", "g8n4"]
# Two ranks, of which one has everything, in sequences that nothing tells apart.
LOPSIDED = ["--data-codes", "g1b8i256f1s0,g1b0i256f1s0", "--max-text-tokens", "0"]


class Tune(ProgramTest):
    manifest = ""  # set below

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def tune(self, *arguments):
        """The figures and the table."""
        done = self.start("tune", *arguments, "--json", self.path("out.json"))
        self.assertEqual((done.returncode, done.stderr), (0, ""), "and no progress line in a pipe")
        with open(self.path("out.json")) as file:
            return json.load(file), done.stdout

    def assert_consistent(self, out, table):
        """What must hold of any comparison, whoever wins."""
        sample, by_name = out["sample"], {c["topology"]: c for c in out["candidates"]}
        fit = [c for c in out["candidates"] if c["refused_steps"] == 0]
        fastest = min(c["step_seconds"] for c in fit)
        chosen = by_name[out["recommended"]]
        self.assertEqual(chosen["refused_steps"], 0)
        self.assertLessEqual(chosen["step_seconds"], 1.002 * fastest)
        self.assertEqual(by_name[out["fastest"]]["step_seconds"], fastest)
        for c in fit:
            if c["step_seconds"] <= 1.002 * fastest:
                self.assertLessEqual(chosen["crossed_share"], c["crossed_share"])
            self.assertGreaterEqual(c["step_over_ideal"], c["max_over_mean"] - 1e-9)
            self.assertGreaterEqual(c["worst_step_over_ideal"], c["step_over_ideal"] - 1e-9)
            self.assertGreaterEqual(c["worst_max_over_mean"], c["max_over_mean"] - 1e-9)
            self.assertGreaterEqual(c["step_seconds"], sample["ideal_seconds"] * (1 - 1e-9))
            self.assertTrue(0 <= c["crossed_share"] <= c["moved_share"] <= 1)
            self.assertTrue(0 <= c["ulysses_share"] <= 1)
            mean = sample["tokens"] / sample["steps"] / out["ranks"]
            self.assertGreaterEqual(c["max_tokens"], mean)
            self.assertGreaterEqual(c["max_attention_tokens"], mean)
            self.assertGreaterEqual(c["tokens_max_over_mean"], 1)
            self.assertGreater(c["plan_seconds"], 0)
        self.assertIn(f"recommended: {out['recommended']};", table)

    def row(self, table, name):
        """The cells of a candidate's line, its mark of being recommended left out."""
        lines = [line.lstrip("* ").split() for line in table.splitlines() if line[:2] in ("* ", "  ")]
        found = [cells[1:] for cells in lines if cells and cells[0] == name]
        self.assertEqual(len(found), 1, (name, table))
        return found[0]

    def assert_table(self, out, table):
        """The table says what the figures say, in columns."""
        lines = table.splitlines()
        begin = next(i for i, line in enumerate(lines) if "moved" in line and "crossed" in line)
        rows = lines[begin + 1:begin + 1 + len(out["candidates"])]
        self.assertEqual({len(line) for line in rows + [lines[begin], lines[begin - 1]]}, {len(rows[0])}, table)
        self.assertEqual([line.split()[1] for line in rows if line.startswith("* ")], [out["recommended"]])
        fastest_first = sorted(out["candidates"], key=lambda c: c["step_seconds"])
        self.assertEqual([line.lstrip("* ").split()[0] for line in rows], [c["topology"] for c in fastest_first])
        for c in out["candidates"]:
            cells = self.row(table, c["topology"])
            seconds = {"us": 1e-6, "ms": 1e-3, "s": 1}
            self.assertAlmostEqual(float(cells[0]) * seconds[cells[1]], c["step_seconds"], delta=0.006 * c["step_seconds"])
            expected = [c["step_over_ideal"], c["worst_step_over_ideal"], c["max_over_mean"],
                        100 * c["moved_share"], 100 * c["crossed_share"], 100 * c["ulysses_share"], c["max_tokens"],
                        c["tokens_max_over_mean"], c["max_attention_tokens"], c["attention_tokens_max_over_mean"]]
            for cell, value in zip(cells[2:], expected):
                digits = len(cell.partition(".")[2])
                self.assertAlmostEqual(float(cell), value, delta=0.5001 * 10 ** -digits)
            self.assertIn(cells[13], seconds)

    def test_published_workloads(self):
        for name, codes in WORKLOADS.items():
            with self.subTest(workload=name):
                out, table = self.tune("--data-codes", codes, "--steps", "3", "--seed", "7")
                self.assertEqual((out["ranks"], out["seed"], out["sample"]["steps"]), (32, 7, 3))
                self.assertEqual((out["heads"], out["d_model"], out["gamma"]), (24, 3072, 0.5))
                self.assertEqual([c["topology"] for c in out["candidates"]], DEFAULTS)
                self.assertEqual(out["machine"]["ranks_per_node"], 8)
                self.assertIsNone(out["max_tokens_per_rank"])
                self.assertIn(out["next_fixed"], [t for t in DEFAULTS if t.startswith("g")])
                home = out["candidates"][0]
                self.assertAlmostEqual(home["step_seconds"], out["sample"]["home_seconds"])
                self.assertEqual((home["moved_share"], home["ulysses_share"]), (0, 0))
                self.assert_consistent(out, table)
                self.assert_table(out, table)

    def test_certain_winner(self):
        out, table = self.tune(*LOPSIDED, "--topologies", "home, g1n2,g2n1", "--steps", "2")
        self.assertEqual((out["recommended"], out["next_fixed"]), ("g1n2", "g2n1"))
        self.assertAlmostEqual(out["sample"]["max_over_mean"], 2)
        self.assertAlmostEqual(out["candidates"][1]["max_over_mean"], 1)
        self.assert_consistent(out, table)
        self.assertIn('\nin code: .topology = Topology::parse("g1n2")\n', table)
        self.assertRegex(table, r"% shorter than with g2n1, the next fixed topology, and \d+\.\d % shorter than at home")

    def use(self, *arguments):
        """The words of the command that is recommended, behind the program."""
        _, table = self.tune(*arguments, "--steps", "1", "--topologies", "home,g1n2")
        line = next(line for line in table.splitlines() if line.startswith("use: "))
        words = shlex.split(line)[1:]
        self.assertEqual(words[:5], ["mpirun", "-n", "2", self.program, "simulate"])
        return words[5:]

    def test_the_recommended_command(self):
        topology = ["--topology", "g1n2", "--group-size", "2"]
        self.assertEqual(self.use(*LOPSIDED), LOPSIDED + topology)
        words = self.use(*LOPSIDED, "--seed", "5", "--plan-budget", "9", "--flops", "1e13", "--bytes-per-element", "4")
        self.assertEqual(words, LOPSIDED + ["--seed", "5", "--plan-budget", "9", "--flops", "1e13"] + topology)
        self.assertEqual(self.use(*LOPSIDED, "--heads", "8"), LOPSIDED + ["--d-model", "3072", "--heads", "8"] + topology)
        spaced = self.path("a b's.csv")
        shutil.copy(self.manifest, spaced)
        words = self.use("--manifest", spaced, "--ranks", "2", "--patch", "160", "--samples-per-rank", "3")
        self.assertEqual(words[:2], ["--manifest", spaced])
        done = self.start("simulate", *words, "--steps", "1", "--warmup", "0", "--gamma", "1", "--peak-gflops", "10",
                          "--d-model", "32", "--temporal", "60", ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 ranks with 1 thread each, balancing in groups of 2 as g1n2", done.stdout)

    def test_nothing_to_balance(self):
        out, table = self.tune("--data-codes", "g1b3i256f1s0", "--steps", "2")
        self.assertEqual(out["recommended"], "home")
        self.assertIn(".balance = false", table)

    def test_equally_good_ones(self):
        # Two nodes of one rank, equal samples, and next to nothing to pay for attention over both.
        with open(self.path("equal.csv"), "w") as file:
            file.write("width,height,frames,caption_tokens\n" + "256,256,1,40\n" * 4)
        out, table = self.tune("--manifest", self.path("equal.csv"), "--ranks", "2", "--topologies", "g2n1,home", "--steps",
                               "2", "--ranks-per-node", "1", "--latency", "0", "--bandwidth-between", "1e16")
        self.assertEqual((out["recommended"], out["next_fixed"]), ("home", "g2n1"))
        self.assert_consistent(out, table)

    def test_manifest(self):
        out, table = self.tune("--manifest", self.manifest, "--patch", "64", "--steps", "3", "--samples-per-rank", "2")
        self.assertEqual((out["ranks"], out["sample"]["sequences"]), (8, 48))
        self.assertIn("videos_and_images.csv", out["data"])
        self.assert_consistent(out, table)
        out, _ = self.tune("--manifest", self.manifest, "--ranks", "5", "--topologies", "elastic2,g5n1,g1n3+g2n1")
        self.assertEqual([c["topology"] for c in out["candidates"]], ["elastic2", "g5n1", "g1n3+g2n1"])
        self.assertEqual((out["ranks"], out["sample"]["steps"]), (5, 50))

    def test_groups_larger_than_the_codes(self):
        out, _ = self.tune(*LOPSIDED, "--ranks", "6", "--steps", "1")
        self.assertEqual(out["ranks"], 6)
        self.assertIn("g3n2", [c["topology"] for c in out["candidates"]])

    def test_the_machine_counts(self):
        slow, _ = self.tune(*LOPSIDED, "--steps", "1", "--flops", "1e12", "--layers", "3", "--topologies", "g2n1")
        fast, _ = self.tune(*LOPSIDED, "--steps", "1", "--flops", "2e12", "--layers", "3", "--topologies", "g2n1")
        self.assertEqual(slow["machine"]["layers"], 3)
        self.assertAlmostEqual(slow["sample"]["ideal_seconds"], 2 * fast["sample"]["ideal_seconds"])
        self.assertGreater(fast["candidates"][0]["step_over_ideal"], slow["candidates"][0]["step_over_ideal"])

    def test_caps(self):
        # A sample of 256 visual tokens times 0.96 to 1.04 on one of two ranks.
        data = ["--data-codes", "g1b1i256f1s0,g1b0i256f1s0", "--max-text-tokens", "0", "--steps", "2"]
        arguments = [*data, "--topologies", "home,g1n2,g2n1", "--max-tokens-per-rank", "200"]
        out, table = self.tune(*arguments)
        self.assertEqual([c["refused_steps"] for c in out["candidates"]], [2, 2, 0])
        self.assertEqual((out["recommended"], out["max_tokens_per_rank"]), ("g2n1", 200))
        self.assertIn("200", out["candidates"][1]["refusal"])
        self.assertNotIn("step_seconds", out["candidates"][1])
        self.assertIn("caps      200 tokens a rank", table)
        for name in ("home", "g1n2"):
            self.assertEqual(" ".join(self.row(table, name)), "caps cannot be kept on 2 of 2 steps")
        self.assert_consistent(out, table)
        for cap in (["--max-tokens-per-rank", "100"], ["--max-attention-tokens-per-rank", "100"]):
            self.assertRegex(self.complaint("tune", *data, *cap), "no candidate keeps the caps .* on 2.*100.*raise")

    def test_the_same_but_for_time(self):
        arguments = ["--data-codes", WORKLOADS["joint"], "--steps", "2"]
        one, two = (self.tune(*arguments)[0] for _ in range(2))
        other, _ = self.tune(*arguments, "--seed", "1")
        for out in (one, two, other):
            for c in out["candidates"]:
                del c["plan_seconds"]
        self.assertEqual(one, two)
        self.assertNotEqual(one["sample"], other["sample"])

    def test_json_instead_of_the_table(self):
        done = self.start("tune", *LOPSIDED, "--steps", "1", "--json", "-")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(json.loads(done.stdout)["ranks"], 2)

    def test_several_processes_print_one_table(self):
        done = self.start("tune", *LOPSIDED, "--steps", "1", "--json", "-", ranks=2)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(json.loads(done.stdout)["ranks"], 2)

    def test_help_names_the_options(self):
        done = self.start("tune", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for option in ("--manifest", "--data-codes", "--ranks ", "--topologies", "--steps", "--seed", "--d-model", "--heads",
                       "--gamma", "--max-tokens-per-rank", "--plan-budget", "--machine", "--json"):
            self.assertIn(option, done.stdout)

    def test_bad_options(self):
        self.assertIn("--data-codes", self.complaint("tune"))
        self.assertIn("--data-codes", self.complaint("tune", *LOPSIDED, "--manifest", self.manifest))
        for value, part in (("g4n8x", "g4n8x"), ("g1n2,", "missing"), (",", "missing"), ("g1n2,g1n2", "g1n2 is given twice"),
                            ("home,home", "home is given twice"), ("g1n2,g1n3", "3 ranks"),
                            ("elastic0", "zero; expected elastic, elastic<k> for bags of at most k ranks, or terms g<degree>n<count> "
                                         "joined by '+', for example g1n4+g4n1; or home, which is no balancing"),
                            ("HOME", "HOME"), ("", "empty"), ("g1n1+g1n1", "twice")):
            with self.subTest(topologies=value):
                self.assertIn(part, self.complaint("tune", *LOPSIDED, "--topologies", value))
        for option, value, part in (("--ranks", "0", "--ranks"), ("--ranks", "3", "not a multiple"),
                                    ("--ranks", "-8", "--ranks"), ("--ranks", "many", "--ranks"),
                                    ("--ranks", "99999999999", "--ranks"), ("--steps", "0", "--steps"),
                                    ("--steps", "1.5", "--steps"), ("--steps", "1e30", "--steps"),
                                    ("--seed", "-1", "--seed"), ("--heads", "0", "--heads"), ("--heads", "-4", "--heads"),
                                    ("--d-model", "0", "--d-model"), ("--gamma", "nan", "gamma"), ("--gamma", "-1", "gamma"),
                                    ("--max-tokens-per-rank", "-1", "--max-tokens-per-rank"),
                                    ("--max-attention-tokens-per-rank", "x", "--max-attention-tokens-per-rank"),
                                    ("--plan-budget", "-2", "--plan-budget"), ("--ranks-per-node", "0", "ranks per node"),
                                    ("--machine", "missing.json", "missing.json"), ("--json", "", "--json is empty"),
                                    ("--json", self.folder, "cannot write"), ("--bogus", "1", "--bogus")):
            with self.subTest(option=option, value=value):
                self.assertIn(part, self.complaint("tune", *LOPSIDED, option, value))
        self.assertIn("x7", self.complaint("tune", "--data-codes", "x7"))
        self.assertIn("missing.csv", self.complaint("tune", "--manifest", self.path("missing.csv")))
        self.assertIn("samples", self.complaint("tune", "--manifest", self.manifest, "--samples-per-rank", "0"))

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            self.assertIn("No space left", self.complaint("tune", *LOPSIDED, "--steps", "1", stdout=full))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    Tune.manifest = os.path.join(main(parser).data, "manifests", "videos_and_images.csv")
    unittest.main(argv=sys.argv[:1])
