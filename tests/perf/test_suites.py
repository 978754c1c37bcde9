# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""perf/run_suite.py and perf/compare.py: what they read, what they call a change; and, given --build, a run of the quick suite.

Times are not looked at.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest

PERF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "perf")
sys.path.insert(0, PERF)
import compare  # noqa: E402
import run_suite  # noqa: E402

REPEATED = {"benchmarks": [
    {"name": "f/tokens:64/repeats:3", "run_name": "f/tokens:64/repeats:3", "run_type": "iteration", "real_time": 9.0,
     "time_unit": "us", "ratio_to_gemm": 0.1},
    {"name": "f/tokens:64/repeats:3_median", "run_name": "f/tokens:64/repeats:3", "aggregate_name": "median",
     "real_time": 5.0, "time_unit": "us", "ratio_to_gemm": 0.5},
    {"name": "f/tokens:64/repeats:3_cv", "run_name": "f/tokens:64/repeats:3", "aggregate_name": "cv", "real_time": 0.1,
     "time_unit": "us", "ratio_to_gemm": 0.2}]}
SINGLE = {"benchmarks": [
    {"name": "g/sequences:2/ranks:4/iterations:1/manual_time", "run_name": "g/sequences:2/ranks:4/iterations:1/manual_time",
     "run_type": "iteration", "real_time": 7.0, "time_unit": "us", "ratio_to_alltoallv": 1.1}]}


def result(**figures):
    return {"schema": compare.SCHEMA, "context": {"suite": "quick", "ranks": 2},
            "figures": {name: {"better": "lower", "values": values} for name, values in figures.items()}}


class Figures(unittest.TestCase):
    def test_the_median_of_repetitions(self):
        self.assertEqual(list(run_suite.figures_of_benchmarks(REPEATED, ["time", "ratio_to_gemm"])),
                         [("f/tokens:64 time_us", 5.0, "lower"), ("f/tokens:64 ratio_to_gemm", 0.5, "higher")])

    def test_what_was_not_repeated(self):
        self.assertEqual(list(run_suite.figures_of_benchmarks(SINGLE, ["ratio_to_alltoallv", "ratio_to_gemm"])),
                         [("g/sequences:2 ratio_to_alltoallv", 1.1, "lower")])

    def test_a_benchmark_that_failed(self):
        failed = {"benchmarks": [{**SINGLE["benchmarks"][0], "error_occurred": True, "error_message": "no memory"}]}
        with self.assertRaisesRegex(run_suite.SuiteError, "no memory"):
            list(run_suite.figures_of_benchmarks(failed, ["time"]))

    def test_programs_that_were_not_built(self):
        suite = {"cases": [{"program": "simulate"}, {"program": "bench_nothing"}]}
        with self.assertRaisesRegex(run_suite.SuiteError, "there is no program /there/perf/bench_nothing: `make perf-programs`"):
            run_suite.check_programs(suite, argparse.Namespace(build="/there"))

    def test_ranks_that_do_not_know_each_other(self):
        case = {"name": "route", "program": "bench_route"}
        run_suite.check_ranks(case, SINGLE, 4)
        with self.assertRaisesRegex(run_suite.SuiteError, "asked for 2 ranks, and the program has seen 4"):
            run_suite.check_ranks(case, SINGLE, 2)
        with self.assertRaisesRegex(run_suite.SuiteError, "asked for 2 ranks, and the program has seen 1"):
            run_suite.check_ranks({"name": "train", "program": "simulate"}, {"ranks": 1}, 2)


class Comparison(unittest.TestCase):
    def verdict(self, before, after, better="lower", threshold=0.05):
        return compare.verdict(better, before, after, threshold)[0]

    def test_what_lies_apart(self):
        self.assertEqual(self.verdict([1.0, 1.1, 1.2], [0.8, 0.85, 0.9]), "better")
        self.assertEqual(self.verdict([1.0, 1.1, 1.2], [1.3, 1.35, 1.4]), "worse")
        self.assertEqual(self.verdict([1.0, 1.1, 1.2], [1.3, 1.35, 1.4], "higher"), "better")

    def test_noise(self):
        self.assertEqual(self.verdict([1.0, 1.1, 1.5], [1.3, 1.35, 1.4]), "", "the ranges overlap")
        self.assertEqual(self.verdict([1.0, 1.01], [1.02, 1.03]), "", "below the threshold")
        self.assertEqual(self.verdict([1.0, 1.01], [1.02, 1.03], threshold=0.01), "worse")
        self.assertEqual(self.verdict([0, 0], [0, 0]), "")
        self.assertEqual(self.verdict([0, 0], [1, 1]), "worse")

    def test_coincidence(self):
        self.assertEqual(compare.coincidence(5, 5), 126)
        self.assertEqual(compare.coincidence(3, 3), 10)

    def test_what_only_one_has(self):
        rows, missing = compare.compare(result(a=[1, 1], b=[1, 1]), result(a=[2, 2], c=[1, 1]), 0.05)
        self.assertEqual([(row[0], row[4], row[5]) for row in rows], [("a", 2.0, "worse")])
        self.assertEqual(missing, ["b", "c"])
        with self.assertRaises(compare.NotComparable):
            compare.compare(result(a=[1]), result(b=[1]), 0.05)


class Commands(unittest.TestCase):
    def run_script(self, name, *arguments):
        return subprocess.run([sys.executable, os.path.join(PERF, name), *arguments], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=100)

    def test_comparing_files(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("before", "after", "other")]
            for path, content in zip(paths, (result(a=[1, 1.1], b=[3, 3]), result(a=[2, 2.1], b=[3, 3]), {"schema": 1})):
                with open(path, "w") as file:
                    json.dump(content, file)
            done = self.run_script("compare.py", *paths[:2])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"\n +better +before +min to max +after +min to max +ratio\n")
            self.assertRegex(done.stdout, r"\na lower +1\.05 1 to 1\.1 +2\.05 2 to 2\.1 +1\.952 worse\n")
            self.assertNotIn("\nb ", done.stdout)
            self.assertRegex(self.run_script("compare.py", *paths[:2], "--all").stdout, r"\nb lower +3 3 to 3 +3 3 to 3 +1\.000\n")
            self.assertIn("0 better, 1 worse, 1 within noise", done.stdout)
            self.assertEqual(self.run_script("compare.py", *paths[:2], "--fail-if-worse").returncode, 1)
            for path in (paths[2], os.path.join(folder, "missing")):
                done = self.run_script("compare.py", paths[0], path)
                self.assertEqual(done.returncode, 2)
                self.assertIn(path, done.stderr)

    def test_what_cannot_run(self):
        for arguments, says in ((["quick", "--build", os.devnull], "build it"), (["slow"], "invalid choice"),
                                ([], "--list"), (["quick", "--rounds", "0"], "at least 1")):
            done = self.run_script("run_suite.py", *arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(says, done.stderr)

    def test_list(self):
        self.assertRegex(self.run_script("run_suite.py", "--list").stdout, r"(?m)^cpu .*route")

    @unittest.skipUnless(len(sys.argv) > 1, "no programs were built")
    def test_the_quick_suite(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "quick.json")
            done = self.run_script("run_suite.py", "quick", "--build", options.build, "--rounds", "1", "--output", path,
                                   "--launcher", f"{options.mpiexec} -n {{ranks}}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("round 1 of 1: train", done.stderr)
            with open(path) as file:
                written = json.load(file)
            self.assertEqual((written["context"]["suite"], written["context"]["ranks"]), ("quick", 2))
            for start in ("plan: make_plan/joint", "kernels: attention/", "route: route/", "route: prepare/", "train: hfu"):
                self.assertTrue(any(name.startswith(start) for name in written["figures"]), start)
            for name, figure in written["figures"].items():
                self.assertEqual(len(figure["values"]), 1, name)
                self.assertGreater(figure["values"][0], 0, name)
            same = self.run_script("compare.py", path, path)
            self.assertIn("0 better, 0 worse", same.stdout, same.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build")
    parser.add_argument("--mpiexec")
    options = parser.parse_args()
    unittest.main(argv=sys.argv[:1], verbosity=2)
