# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`knapformer simulate` on one, two and four ranks: good input, and bad input of every kind."""

import argparse
import json
import os
import sys
import tempfile
import unittest

from program import ProgramTest, main

SMALL = ["--patch", "160", "--temporal", "60", "--samples-per-rank", "3", "--steps", "2", "--warmup", "1",
         "--d-model", "32", "--heads", "4", "--layers", "1", "--gamma", "1", "--peak-gflops", "10"]



class Simulate(ProgramTest):
    manifest = ""  # set below

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return self.path(name)

    def run_to_json(self, ranks, *arguments, small=SMALL):
        result = self.start("simulate", "--manifest", self.manifest, *small, "--json", self.path("out.json"),
                            *arguments, ranks=ranks)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "", "no progress line in a pipe")
        with open(self.path("out.json")) as file:
            return json.load(file), result.stdout

    def test_shared_keys_travel_less(self):
        splits = ["--topology", "g2n1"]
        whole, _ = self.run_to_json(2, *splits)
        out, table = self.run_to_json(2, *splits, "--kv-heads", "2")
        self.assertEqual((whole["kv_heads"], out["kv_heads"]), (4, 2))
        self.assertIn("4 heads (2 of keys)", table)
        self.assertLess(out["loss_relative_difference"], 1e-5)
        sent = [run["balanced"]["bytes_exchanged_per_step"] for run in (whole, out)]
        self.assertAlmostEqual(sent[0] * 3, sent[1] * 4, msg="q and the output as before, half of k and v")

    def test_an_mmdit(self):
        sizes = {"--layers": "3", "--dtype": "double"}
        small = [word for name, value in {**dict(zip(SMALL[::2], SMALL[1::2])), **sizes}.items() for word in (name, value)]
        out, table = self.run_to_json(2, "--model", "mmdit", "--topology", "g2n1", "--micro-batches", "2", small=small)
        self.assertEqual((out["model"], out["layers"], out["heads"]), ("mmdit", 3, 4))
        self.assertIn("MMDiT, 1 double-stream and 2 single-stream blocks, d 32, 4 heads, double", table)
        self.assertIn("mean over image tokens", table)
        self.assertLess(out["loss_relative_difference"], 1e-13)
        self.assertGreater(out["balanced"]["bytes_exchanged_per_step"], 0)
        for arguments in (["--causal"], ["--kv-heads", "2"]):
            self.bad("--causal and --kv-heads are for --model transformer only", "--manifest", self.manifest, *SMALL,
                     "--model", "mmdit", *arguments)

    def test_table_and_json_say_the_same(self):
        out, table = self.run_to_json(2, "--trace", self.path("trace.h5"))
        with open(self.path("trace.h5"), "rb") as trace:
            self.assertIn(f"simulate --manifest {self.manifest}".encode(), trace.read(), "notes the command line")
        self.assertEqual((out["ranks"], out["steps"], len(out["balanced_steps"])), (2, 2, 2))
        self.assertIn(f"speed-up {out['speedup']:.3f}, mean step time unbalanced over balanced;", table)
        mean = {name: out[name]["mean_step_seconds"] for name in ("unbalanced", "balanced")}
        self.assertAlmostEqual(out["speedup"], mean["unbalanced"] / mean["balanced"])
        self.assertIn(f"{out['balanced']['work_max_over_mean']:.3f}", table)
        self.assertLess(out["balanced"]["work_max_over_mean"], out["unbalanced"]["work_max_over_mean"])
        self.assertEqual(out["unbalanced"]["moved_share"], 0)
        self.assertGreater(out["balanced"]["moved_share"], 0)
        self.assertLess(out["loss_relative_difference"], 1e-5)
        for name in ("unbalanced", "balanced"):
            steps = out[name + "_steps"]
            self.assertAlmostEqual(out[name]["seconds"], sum(s["seconds"] for s in steps))
            self.assertAlmostEqual(out[name]["busy_max_seconds"], sum(max(s["busy_seconds"]) for s in steps))
        self.assertAlmostEqual(out["speedup"], out["unbalanced"]["seconds"] / out["balanced"]["seconds"])
        self.assertAlmostEqual(out["bound"], out["unbalanced"]["busy_max_seconds"] /
                               out["unbalanced"]["busy_mean_seconds"])

    def test_bags_of_two_in_groups_of_two_and_double(self):
        out, _ = self.run_to_json(4, "--topology", "g2n1", "--dtype", "double", "--no-checkpoint", "--causal")
        self.assertEqual((out["group_size"], out["topology"]), (2, "g2n1"))
        self.assertGreater(out["balanced"]["bytes_exchanged_per_step"], 0)
        self.assertLess(out["loss_relative_difference"], 1e-13)

    def test_elastic_bags(self):
        for arguments, group in ((["--topology", "elastic"], 4), (["--topology", "elastic2", "--group-size", "2"], 2)):
            out, table = self.run_to_json(4, *arguments, "--dtype", "double")
            self.assertEqual((out["group_size"], out["topology"]), (group, arguments[1]))
            self.assertIn(f"in groups of {group} as {arguments[1]}", table)
            self.assertLess(out["balanced"]["work_max_over_mean"], out["unbalanced"]["work_max_over_mean"])
            self.assertLess(out["loss_relative_difference"], 1e-13)

    def test_memory_of_ranks(self):
        out, table = self.run_to_json(2, "--topology", "elastic", small=["--patch", "64", *SMALL[2:]])
        self.assertRegex(table, r"memory of a rank +predicted +mean +measured +mean\n")
        for placement, memory in out["memory_bytes_per_rank"].items():
            parts = [kind for kind in memory if kind != "total"]
            self.assertEqual(parts, ["parameters", "gradients", "optimizer", "activations", "exchange buffers"])
            for figure in ("predicted_mean", "measured_mean"):
                self.assertAlmostEqual(memory["total"][figure], sum(memory[kind][figure] for kind in parts))
            self.assertEqual(memory["parameters"]["measured_max"], memory["parameters"]["predicted_max"])
            for kind in ("activations", "total"):
                for figure in ("max", "mean"):
                    predicted, measured = (memory[kind][f"{by}_{figure}"] for by in ("predicted", "measured"))
                    self.assertAlmostEqual(predicted / measured, 1, delta=0.05, msg=f"{placement} {kind} {figure}")

    def test_bfloat16_takes_two_bytes(self):
        whole, half = (self.run_to_json(2, "--topology", "g2n1", "--dtype", dtype)[0] for dtype in ("float", "bfloat16"))
        self.assertLess(half["loss_relative_difference"], 2e-2)
        loss_of = lambda out: out["balanced_steps"][-1]["loss"]
        self.assertAlmostEqual(loss_of(half) / loss_of(whole), 1, delta=2e-2)
        of = lambda out, kind: out["memory_bytes_per_rank"]["balanced"][kind]["measured_max"]
        self.assertEqual(of(half, "parameters"), of(whole, "parameters") * 3 // 2, "float, and rounded")
        self.assertEqual(of(half, "gradients"), of(whole, "gradients"))
        self.assertLess(of(half, "activations") / of(whole, "activations"), 0.7)

    def test_micro_batches_change_no_loss_and_the_way_to_normalise_does(self):
        def losses(*arguments):
            out, table = self.run_to_json(2, "--dtype", "double", *arguments)
            self.assertLess(out["loss_relative_difference"], 1e-13)
            return [step["loss"] for step in out["balanced_steps"]], out, table
        whole, out, table = losses()
        self.assertEqual((out["micro_batches"], out["loss_mean"]), (1, "tokens"))
        self.assertIn("loss   mean over tokens\n", table)
        cut, out, table = losses("--micro-batches", "2")
        self.assertEqual(out["micro_batches"], 2)
        self.assertIn("loss   mean over tokens, in 2 micro-batches a step\n", table)
        for a, b in zip(whole, cut):
            self.assertAlmostEqual(a, b, delta=1e-12 * a)
        by_samples, out, _ = losses("--micro-batches", "5", "--normalize", "samples")  # more than samples
        self.assertEqual(out["loss_mean"], "samples")
        for a, b in zip(whole, by_samples):
            self.assertGreater(abs(a - b), 1e-6 * a)

    def test_machine_is_that_of_the_run_unless_told_otherwise(self):
        machine = self.run_to_json(2)[0]["machine"]
        self.assertEqual((machine["flops"], machine["layers"], machine["bytes_per_element"], machine["speeds"]),
                         (10e9, 1, 4, []))
        path = self.write("machine.json", '{"flops": 5e9, "latency": 0, "layers": 57, "speeds": [1, 2]}')
        out, _ = self.run_to_json(2, "--machine", path, "--dtype", "double", "--bandwidth-within", "inf",
                                  "--plan-budget", "0", "--max-tokens-per-rank", "1000000")
        self.assertEqual(out["machine"], {"ranks_per_node": 8, "flops": 5e9, "bandwidth_within": "infinity",
                                          "bandwidth_between": 45e9, "latency": 0, "layers": 1,
                                          "bytes_per_element": 8, "speeds": [1, 2]})

    def test_slow_ranks_and_plans_that_follow_them(self):
        more = [{"2": "8", "3": "12"}.get(word, word) for word in SMALL]  # steps, samples
        out, table = self.run_to_json(4, "--slow-ranks", "3:8,1:1.5", "--adapt-to-speed", small=more)
        self.assertIn("slowed rank 3 computes 8 times slower", table)
        self.assertIn("slowed rank 1 computes 1.5 times slower", table)
        self.assertIn("(rank 3, the slowest)", table)
        self.assertEqual((out["slowdowns"], out["adapt_to_speed"]), ([1, 1.5, 1, 8], True))
        self.assertEqual(out["unbalanced_steps"][-1]["speed_estimate"], [1, 1, 1, 1])
        speeds = out["balanced_steps"][-1]["speed_estimate"]
        self.assertAlmostEqual(sum(speeds), 4, places=4)
        work = out["balanced_steps"][-1]["work"]
        self.assertLess(work[3], 0.5 * work[0])
        self.assertLess(speeds[3], 0.5 * speeds[0])
        self.assertGreater(out["balanced"]["hidden_seconds_per_rank_and_step"]["planning"], 0)
        self.assertEqual(out["unbalanced"]["hidden_seconds_per_rank_and_step"]["exchanges"], 0)

    def test_one_rank_needs_no_launcher(self):
        result = self.start("simulate", "--data-codes", "g1b2i256f1s0", *SMALL, "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["ranks"], 1)
        self.assertEqual(result.stderr, "knapformer: one rank has nothing to balance; start several, such as mpirun -n 4 "
                         "knapformer simulate ...\n")

    def test_a_model_that_does_not_fit(self):
        small = ["--data-codes", "g1b1i256f1s0", "--patch", "160", "--gamma", "1", "--peak-gflops", "10", "--d-model", "4096",
                 "--heads", "8", "--layers"]
        for ranks in (1, 2):
            result = self.start("simulate", *small, "1000000", ranks=ranks)  # more than addresses
            self.assertEqual(result.returncode, 2)
            count = "1 rank" if ranks == 1 else "2 ranks"
            self.assertRegex(result.stderr, rf"^knapformer: warning: {count} on \S+ will need about [\d.]+ PB of memory, and "
                             r"[\d.]+ .?B are left there; reduce --layers, --d-model or the samples of a rank")

    def bad(self, wanted, *arguments):
        """One clear line from the program, on one rank and on four."""
        for ranks in (1, 4):
            self.assertIn(wanted, self.complaint("simulate", *arguments, ranks=ranks))

    def test_bad_manifests(self):
        head = "width,height,frames,caption_tokens\n"
        self.bad("missing.csv", "--manifest", self.path("missing.csv"), *SMALL)
        self.bad(self.folder.name, "--manifest", self.folder.name, *SMALL)
        for name, text in {"empty.csv": "", "words.csv": head + "a,b,c,d\n", "short.csv": head + "1,2,3\n",
                           "negative.csv": head + "-640,480,1,5\n", "fraction.csv": head + "640,480,1.5,5\n",
                           "huge.csv": head + "99999999999999999999,480,1,5\n", "head.csv": "w,h\n1,2\n",
                           "binary.csv": bytes(range(256))}.items():
            self.bad(name, "--manifest", self.write(name, text), *SMALL)

    def test_bad_options(self):
        data = ["--manifest", self.manifest]
        self.bad("g4n8x", *data, *SMALL, "--topology", "g4n8x")
        self.bad("g0n4", *data, *SMALL, "--topology", "g0n4")
        self.bad("groups of 8", *data, *SMALL, "--topology", "g1n8")
        self.bad("--group-size is 1", *data, *SMALL, "--topology", "g1n2", "--group-size", "1")
        self.bad("groups of 3", *data, *SMALL, "--topology", "elastic", "--group-size", "3")
        self.bad("elasticx", *data, *SMALL, "--topology", "elasticx")
        self.bad("7 speeds for ", *data, *SMALL, "--rank-speeds", "1,1,1,1,1,1,1")
        self.bad("--machine cannot be the standard input", *data, *SMALL, "--machine", "-")
        self.bad("missing.json", *data, *SMALL, "--machine", self.path("missing.json"))
        self.bad("bandwidth within a node is 0", *data, *SMALL, "--bandwidth-within", "0")
        self.bad("--data-codes", *SMALL)
        self.bad("--data-codes", *data, "--data-codes", "g1b1i256f1s0", *SMALL)
        self.bad("give one of them", "--data-codes", "g1b1i256f1s0", "--manifest", "samples.csv", *SMALL)
        self.bad("x7", "--data-codes", "x7", *SMALL)
        self.bad("--steps", *data, "--steps", "0")
        self.bad("--steps", *data, "--steps", "many")
        self.bad("--steps", *data, "--steps", "1.5")
        self.bad("heads", *data, "--d-model", "32", "--heads", "5")
        self.bad("heads", *data, "--d-model", "32", "--heads", "0")
        self.bad("kv_heads is 3", *data, "--d-model", "32", "--heads", "4", "--kv-heads", "3")
        self.bad("--kv-heads", *data, "--d-model", "32", "--heads", "4", "--kv-heads", "0")
        self.bad("--d-model: Value -32 not in range", *data, "--d-model", "-32", "--heads", "4")
        self.bad("--dtype", *data, "--dtype", "half")
        self.bad("gamma", *data, "--gamma", "nan")
        self.bad("gamma", *data, "--gamma", "1e300")
        self.bad("patch", *data, "--patch", "0")
        self.bad("samples", *data, "--samples-per-rank", "-1")
        self.bad("there is no rank 9", *data, *SMALL, "--slow-ranks", "9:2")
        self.bad("rank 0 is there twice", *data, *SMALL, "--slow-ranks", "0:2,0:3")
        self.bad("--bogus", *data, "--bogus")
        self.bad("cannot both be written", *data, *SMALL, "--json", self.path("same"), "--trace", self.path("same"))
        self.assertFalse(os.path.exists(self.path("same")))
        self.bad("no/such", *data, *SMALL, "--json", self.path("no/such/out.json"))
        kept = self.write("kept.json", "{}")
        self.bad("no/such", *data, *SMALL, "--json", kept, "--trace", self.path("no/such/out.h5"))
        with open(kept) as file:
            self.assertEqual(file.read(), "{}", "what was there is lost only when there is something new")

    def test_bad_values_of_options(self):
        cases = [(option, "-1", "not in range .*16777216") for option in ("--d-ffn", "--group-size")]
        cases += [("--heads", value, f"{value} not in range .*65536") for value in ("0", "70000", "9" * 20)]
        cases += [("--layers", "9" * 20, "9{20} not in range .*1048576")]
        cases += [("--peak-gflops", value, "is") for value in ("nan", "inf", "0", "-1")]
        cases += [("--seed", value, "not in range .*9223372036854775807") for value in ("-1", "")]
        cases += [("--slow-ranks", value, "expected ranks with factors of at least 1") for value in
                  ("0", "0:", "0:x", "0:2,", "x:2", ":2", "-1:2", "0:0.5", "0:nan", "0:inf", "0:2;1:2")]
        cases += [("--learning-rate", value, "is") for value in ("nan", "1e400")]
        cases += [(option, "", "is empty") for option in ("--patch", "--gamma", "--topology", "--trace")]
        for option, value, part in cases:
            with self.subTest(option=option, value=value):
                self.assertRegex(self.complaint("simulate", "--manifest", self.manifest, option, value),
                                 f"knapformer: {option}:? .*{part}")

    def test_caps_that_cannot_be_met(self):
        for topology in ("elastic", "g1n4"):
            self.assertIn("5", self.complaint("simulate", "--manifest", self.manifest, *SMALL, "--topology", topology,
                                              "--max-tokens-per-rank", 5, ranks=4))

    def test_help_names_the_options(self):
        result = self.start("simulate", "--help")
        self.assertEqual(result.returncode, 0)
        for option in ("--manifest", "--data-codes", "--topology", "--group-size", "--json", "--trace", "--no-checkpoint ",
                       "--machine", "--rank-speeds", "--max-tokens-per-rank", "--plan-budget", "--adapt-to-speed", "--slow-ranks", "--flops FLOAT=measured"):
            self.assertIn(option, result.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    Simulate.manifest = os.path.join(main(parser).data, "manifests", "videos_and_images.csv")
    unittest.main(argv=sys.argv[:1])
