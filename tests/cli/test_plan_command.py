# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`knapformer plan` as users and scripts run it; its plans are judged by plan_eval.py, which knows only chunks."""

import argparse
import json
import os
import random
import sys
import tempfile
import unittest

from program import ProgramTest, main

data = ""  # the folder with plans.json and plan_eval.py, set at the end


def write(folder, name, content):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def ranks_of(topology):
    return sum(int(d) * int(n) for d, n in (term[1:].split("n") for term in topology.split("+")))


class PlanCommand(ProgramTest):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        self.good = write(self.folder, "good.json", {"lengths_by_rank": [[100, 200, 300, 400], [], [], []]})

    def plan(self, rows, topology, *more, heads=24):
        text = json.dumps({"lengths_by_rank": rows})
        done = self.start("plan", "--lengths", "-", "--topology", topology, "--heads", heads, "--json", "-", *more,
                          stdin=text)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def judged(self, plan, rows, heads=24, gamma=0.5, d=3072, **machine):
        """What plan_eval finds; it raises when an invariant is broken."""
        sequences = plan["sequences"]
        plan_eval.check(sequences, len(rows), heads)
        self.assertEqual([(s["home"], s["length"]) for s in sequences],
                         [(r, n) for r, row in enumerate(rows) for n in row])
        return plan_eval.evaluate(sequences, len(rows), gamma=gamma, d=d, heads=heads, **machine)

    def agrees(self, plan, found, rows, d=3072, width=2):
        """Every figure that plan_eval finds is the one printed."""
        def same(printed, figure):
            self.assertAlmostEqual(printed, figure, delta=1e-9 * max(abs(printed), abs(figure)))
        total = sum(map(sum, rows))
        self.assertEqual(plan["total_tokens"], total)
        for name in ("max_over_mean", "step_seconds", "ideal_seconds", "step_over_ideal"):
            with self.subTest(name=name):
                same(plan[name], found[name])
        if found["max_over_min"] is not None:
            same(plan["max_over_min"], found["max_over_min"])
        same(max(plan["seconds_by_rank"]), found["step_seconds"])
        self.assertEqual(max(plan["tokens_by_rank"]), found["tokens_max"])
        if total:
            for kind in ("tokens", "attention_tokens"):
                same(max(plan[kind + "_by_rank"]) * len(rows) / total, found[kind + "_max_over_mean"])
        same(plan["moved_tokens"], found["moved"] * total)
        same(plan["crossed_tokens"], found["crossed_nodes"] * total)
        same(plan["ulysses_tokens"], found["ulysses"] * total)
        same(plan["ulysses_bytes_per_layer"], found["ulysses"] * total * 4 * d * width)


# Communication that costs nothing: the largest load alone counts.
FREE = ["--bandwidth-within", "inf", "--bandwidth-between", "inf", "--latency", 0]
MACHINES = {  # what plan_eval calls it: what the program is told
    "default": ({}, []),
    "slow links": ({"node": 2, "intra": 2e9, "inter": 1e8, "latency": 1e-4},
                   ["--ranks-per-node", 2, "--bandwidth-within", 2e9, "--bandwidth-between", 1e8, "--latency", 1e-4]),
    "other numbers": ({"node": 3, "flops": 1e13, "layers": 7, "width": 4},
                      ["--ranks-per-node", 3, "--flops", 1e13, "--layers", 7, "--bytes-per-element", 4]),
    "infinite": ({"intra": float("inf"), "inter": float("inf"), "latency": 0}, FREE),
}


class GoodInput(PlanCommand):
    def test_the_case_where_the_rule_of_the_paper_stumbles(self):
        rows = [[100, 200, 300, 400], [], [], []]
        plan = self.plan(rows, "g1n2+g2n1")
        self.assertEqual(round(self.judged(plan, rows)["max_over_mean"], 2), 1.20)
        self.assertEqual(round(plan["max_over_mean"], 2), 1.20)

    def test_not_worse_than_the_reference(self):
        with open(os.path.join(data, "plans.json")) as file:
            cases = json.load(file)
        self.assertEqual(len(cases), 58)
        worst = 0
        for case in cases:
            rows, gamma, d = case["lengths_by_rank"], case["gamma"], case["d_model"]
            with self.subTest(scenario=case["scenario"], topology=case["topology"], gamma=gamma):
                plan = self.plan(rows, case["topology"], "--gamma", gamma, "--d-model", d, *FREE, heads=48)
                ratio = self.judged(plan, rows, 48, gamma, d)["max_over_mean"] / case["greedy_max_over_mean"]
                worst = max(worst, ratio)
                self.assertLessEqual(ratio, 1.0002)
        print(f"largest load over mean, worst ratio to the reference: {worst:.6f}")

    def test_random_lengths_on_many_topologies(self):
        topologies = ["g1n1", "g1n7", "g2n3", "g3n2", "g5n2", "g6n1", "g12n1", "g16n2", "g1n4+g4n1", "g4n1+g1n4",
                      "g1n2+g2n1+g4n1", "g1n3+g3n1+g5n1", "g2n4+g8n1", "g1n16+g2n4+g4n2"]
        for seed in range(60):
            rng = random.Random(seed)
            topology, heads = topologies[seed % len(topologies)], rng.choice([1, 2, 5, 12, 24, 48])
            gamma, d = rng.choice([0, 0.5, 1, 1.25]), rng.choice([1, 64, 3072])
            most, longest = rng.choice([0, 1, 3, 20]), rng.choice([1, 10, 1000, 30000])
            rows = [[rng.randint(0, longest) for _ in range(rng.randint(0, most))] for _ in range(ranks_of(topology))]
            with self.subTest(seed=seed, topology=topology, heads=heads):
                plan = self.plan(rows, topology, "--gamma", gamma, "--d-model", d, heads=heads)
                found = self.judged(plan, rows, heads, gamma, d)
                self.agrees(plan, found, rows, d)
                self.assertGreaterEqual(plan["lower_bound_gap"], 0)
                self.assertGreater(plan["plan_seconds"], 0)

    def test_figures_on_other_machines_and_speeds(self):
        for seed, topology in enumerate(["elastic", "elastic2", "g1n6", "g2n3", "g3n2", "g6n1", "g1n4+g2n1"]):
            for name, (numbers, flags) in MACHINES.items():
                rng = random.Random(f"{seed} {name}")
                rows = [[rng.choice([100, 2000, 30000]) for _ in range(rng.randint(0, 5))] for _ in range(6)]
                speeds = rng.choice([None, [1, 1, 2, 0.5, 1, 3]])
                more = ["--rank-speeds", ",".join(map(str, speeds))] if speeds else []
                with self.subTest(seed=seed, topology=topology, machine=name, speeds=speeds):
                    plan = self.plan(rows, topology, *flags, *more)
                    found = self.judged(plan, rows, speeds=speeds, **numbers)
                    self.agrees(plan, found, rows, width=numbers.get("width", 2))
                    stay = [{"home": r, "length": n, "chunks": [{"rank": r, "tokens": n, "heads": 24}]}
                            for r, row in enumerate(rows) for n in row]
                    before = plan_eval.evaluate(stay, 6, speeds=speeds, **numbers)["step_seconds"]
                    self.assertAlmostEqual(plan["step_seconds_before"], before, delta=1e-9 * before)
                    for bound in ("lower_bound", "elastic_lower_bound"):
                        if plan[bound]:  # a gap is to the largest load
                            load = max(w / v for w, v in zip(plan["work_by_rank"], speeds or [1] * 6))
                            self.assertAlmostEqual(plan[bound + "_gap"], load / plan[bound] - 1, delta=1e-9)

    def test_elastic_is_the_default_and_takes_any_number_of_ranks(self):
        for rows in ([[30000, 5]], [[30000], [], [700, 800]], [[9000, 2000, 50]] + [[]] * 12):
            text = json.dumps({"lengths_by_rank": rows})
            done = self.start("plan", "--lengths", "-", "--json", "-", stdin=text)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            plan = json.loads(done.stdout)
            self.assertEqual((plan["topology"], plan["ranks"]), ("elastic", len(rows)))
            self.judged(plan, rows)
            for most in (1, 2, 5):
                plan = self.plan(rows, f"elastic{most}")
                self.judged(plan, rows)
                self.assertLessEqual(max(len(s["chunks"]) for s in plan["sequences"]), most)

    def test_machine_of_a_file_and_options_that_override_it(self):
        rows = [[30000, 2000], [700], []]
        given = {"ranks_per_node": 2, "flops": 1e13, "bandwidth_within": 2e9, "bandwidth_between": "infinity",
                 "latency": 1e-4, "layers": 7, "bytes_per_element": 4, "speeds": [1, 2, 0.5]}
        machine = write(self.folder, "machine.json", given)
        plan = self.plan(rows, "g1n3", "--machine", machine)
        self.assertEqual(plan["machine"], given)
        found = self.judged(plan, rows, node=2, flops=1e13, intra=2e9, inter=float("inf"), latency=1e-4, layers=7,
                            width=4, speeds=[1, 2, 0.5])
        self.agrees(plan, found, rows, width=4)
        again = self.plan(rows, "g1n3", "--machine", write(self.folder, "again.json", plan["machine"]))
        self.assertEqual(again["seconds_by_rank"], plan["seconds_by_rank"])

        flags = {"--ranks-per-node": 3, "--flops": 2e13, "--bandwidth-within": 3e9, "--bandwidth-between": 4e9,
                 "--latency": 0.5, "--layers": 8, "--bytes-per-element": 2}
        overridden = self.plan(rows, "g1n3", "--machine", machine, "--rank-speeds", "3,2,1",
                               *(part for flag in flags.items() for part in flag))
        self.assertEqual(list(overridden["machine"].values()), [*flags.values(), [3, 2, 1]])
        partly = self.plan(rows, "g1n3", "--machine", write(self.folder, "part.json", {"layers": 3}))
        self.assertEqual((partly["machine"]["layers"], partly["machine"]["ranks_per_node"]), (3, 8))
        done = self.start("plan", "--lengths", self.good, "--topology", "g4n1", "--machine", "-", "--json", "-",
                          stdin='{"bandwidth_within": "inf"}')
        self.assertEqual(json.loads(done.stdout)["machine"]["bandwidth_within"], "infinity")

    def test_caps_hold(self):
        rows = [[3000, 2000, 500, 500], [1000], [], [200]]
        for topology in ("elastic", "g2n2", "g4n1"):
            plan = self.plan(rows, topology, "--max-tokens-per-rank", 4000, "--max-attention-tokens-per-rank", 4100)
            self.judged(plan, rows)
            self.assertLessEqual(max(plan["tokens_by_rank"]), 4000)
            self.assertLessEqual(max(plan["attention_tokens_by_rank"]), 4100)

    def test_search_budget(self):
        rows = [[3000, 2000, 500, 500], [1000], [], [200]]
        for budget in (0, 1, 1000):
            plans = [self.plan(rows, "elastic", "--plan-budget", budget) for _ in range(2)]
            self.judged(plans[0], rows)
            self.assertEqual(plans[0]["plan_hash"], plans[1]["plan_hash"])

    def test_nothing_to_plan(self):
        for rows in ([[]], [[0]], [[0, 0]]):
            plan = self.plan(rows, "g1n1")
            self.assertEqual(plan["max_over_mean"], 1)
            self.assertTrue(all(not s["chunks"] for s in plan["sequences"]))

    def test_costs_of_the_caller(self):
        costs = write(self.folder, "costs.json", {"costs_by_rank": [[1, 1, 1, 4], [], [], []]})
        plan = self.plan([[100, 200, 300, 400], [], [], []], "g1n4", "--costs", costs, *FREE)
        self.assertEqual(plan["work_by_rank_before"], [7, 0, 0, 0])
        self.assertEqual(sorted(plan["work_by_rank"]), [1, 1, 1, 4])

    def test_json_into_a_file(self):
        path = os.path.join(self.folder, "plan.json")
        done = self.start("plan", "--lengths", self.good, "--topology", "g4n1", "--json", path)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        with open(path) as file:
            self.assertEqual(len(json.load(file)["sequences"]), 4)

    def test_table(self):
        done = self.start("plan", "--lengths", self.good, "--topology", " g1n2 + g2n1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for part in ("4 sequences, 1000 tokens", "g1n2+g2n1", "max/mean", "4.0000", "1.2000", "70.0 %", "1 bag of 2",
                     "400 TFLOP/s", "45 GB/s between nodes", "above the bound for g1n2+g2n1"):
            self.assertIn(part, done.stdout)

    def test_one_of_anything_is_no_plural(self):
        done = self.start("plan", "--lengths", "-", "--heads", "1", "--layers", "1", stdin='{"lengths_by_rank": [[1]]}')
        self.assertTrue(done.stdout.startswith("1 sequence, 1 token, 1 head on 1 rank as elastic\n"), done.stdout)
        self.assertIn("model    1 layer, 2 bytes an element\n", done.stdout)

    def test_table_and_json_say_the_same(self):
        arguments = ["plan", "--lengths", self.good, "--topology", "elastic", "--ranks-per-node", "1",
                     "--bandwidth-within", "inf", "--rank-speeds", "1,1,2,1"]
        done = self.start(*arguments)
        plan = json.loads(self.start(*arguments, "--json", "-").stdout)
        rows = {line[:38].strip(): line[38:].split() for line in done.stdout.splitlines()}
        self.assertEqual(rows["predicted step"], [f"{1e3 * plan['step_seconds_before']:.4g}", "ms",
                                                  f"{1e3 * plan['step_seconds']:.4g}", "ms"])
        self.assertIn(f"above the ideal of {1e3 * plan['ideal_seconds']:.4g} ms", rows)
        self.assertEqual(rows["work over speed: max/mean"],
                         [f"{plan['max_over_mean_before']:.4f}", f"{plan['max_over_mean']:.4f}"])
        self.assertEqual(rows["tokens moved"][0], str(plan["moved_tokens"]))
        self.assertEqual(rows["to another node"][0], str(plan["crossed_tokens"]))
        self.assertEqual(rows["Ulysses: q, k, v, o that travel"][0], f"{plan['ulysses_tokens'] / 10:.1f}")
        self.assertEqual(rows["above the bound for any bags"][0], f"{100 * plan['elastic_lower_bound_gap']:.3f}")
        degrees = [len(s["chunks"]) for s in plan["sequences"]]
        for degree in set(degrees):
            tokens = sum(s["length"] for s in plan["sequences"] if len(s["chunks"]) == degree)
            self.assertEqual(rows[f"bags of {degree}: sequences, tokens"][:2], [f"{degrees.count(degree)},", str(tokens)])
        self.assertIn("unlimited B/s within", done.stdout)

    def test_help_and_version(self):
        for arguments, part in ((["--help"], "plan"), (["plan", "--help"], "--lengths"), (["--version"], "knapformer ")):
            done = self.start(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(part, done.stdout)


class BadInput(PlanCommand):
    def test_files(self):
        for path, part in (("missing.json", "No such file"), (self.folder, "Is a directory"), ("", "--lengths is empty")):
            self.assertIn(part, self.complaint("plan", "--lengths", path, "--topology", "g1n1"))

    def test_what_never_ends(self):
        pipe = os.path.join(self.folder, "pipe")
        os.mkfifo(pipe)
        for path in (pipe, "/dev/zero"):
            self.assertIn("not a regular file", self.complaint("plan", "--lengths", path, "--topology", "g1n1"))

    def test_contents(self):
        rows = "expected a whole number from 0 to"
        cases = [(b"", "not valid JSON"), (b"{", "not valid JSON"), (b"\x00\xff\xfe", "not valid JSON"),
                 (b'{"lengths_by_rank": [[1]]} x', "not valid JSON"),
                 (b'{"lengths_by_rank": [[1]]}\0 x', "zero byte"), (b'{"lengths_by_rank": [[1]', "not valid JSON"),
                 (b"[" * 100000, "not valid JSON"), (b'{"lengths_by_rank": [[1e400]]}', "not valid JSON"),
                 (b'{"lengths_by_rank": [["\xff"]]}', "not valid JSON"), (b"[[1]]", "expected {"),
                 (b"null", "expected {"), (b"{}", "expected {"), (b'{"lengths": [[1]]}', "expected {"),
                 (b'{"lengths_by_rank": {"0": [1]}}', "expected {"), (b'{"lengths_by_rank": 5}', "expected {"),
                 (b'{"lengths_by_rank": [5]}', "lengths_by_rank[0] is 5"), (b'{"lengths_by_rank": []}', "0 ranks"),
                 (b'{"lengths_by_rank": [[], [1]]}', "2 ranks")]
        cases += [(b'{"lengths_by_rank": [[7, %s]]}' % bad, f"lengths_by_rank[0][1] is {shown}; {rows}")
                  for bad, shown in ((b"-3", "-3"), (b"1.5", "1.5"), (b"2.0", "2.0"), (b"1e30", "1e+30"),
                                     (b"99999999999999999999", "1e+20"), (b"-99999999999999999999", "-1e+20"),
                                     (b"9223372036854775808", "9223372036854775808"), (b"1099511627777", "1099511627777"),
                                     (b'"4"', '"4"'), (b"true", "true"), (b"null", "null"), (b"[1]", "a list"),
                                     (b"{}", "an object"), (b"[" * 200000 + b"]" * 200000, "a list"),
                                     (b'"line\\nbreak"', '"line\\nbreak"'))]
        for content, part in cases:
            path = write(self.folder, "bad.json", content)
            with self.subTest(content=content[:60]):
                self.assertIn(part, self.complaint("plan", "--lengths", path, "--topology", "g1n1", "--json", "-"))

    def test_topologies(self):
        for topology, part in (("g4n8x", "g4n8x"), ("g0n4", "degree is zero"), ("g4n0", "count is zero"),
                               ("", "--topology is empty"), (" ", "missing"), ("g1n2+", "missing"), ("g1n2+g1n2", "twice"), ("elasticx", "missing"),
                               ("elastic0", "zero; expected elastic, elastic<k> for bags of at most k ranks, or terms g<degree>"),
                               ("elastic4x", "follows"),
                               ("g99999999999999999999n1", "above"), ("g4\nn8\nx", "follows"),
                               ("g1n3", "4 ranks, but topology g1n3 is for 3"), ("g1n8", "is for 8")):
            line = self.complaint("plan", "--lengths", self.good, "--topology", topology, "--json", "-")
            self.assertIn(part, line)

    def test_options(self):
        good = ["plan", "--lengths", self.good, "--topology", "g4n1"]
        for more in (["--heads", "0"], ["--heads", "-3"], ["--heads", "2.5"], ["--heads", "many"], ["--heads", "1e30"],
                     ["--heads", "99999999999999999999"], ["--gamma", "-1"], ["--gamma", "nan"], ["--gamma", "inf"],
                     ["--gamma", "1e999"], ["--gamma", "x"], ["--gamma", ""], ["--json", ""], ["--d-model", "0"], ["--d-model", "-5"],
                     ["--d-model", "99999999999"], ["--bogus"], ["extra"], ["info"], ["--json"], ["--heads", "1", "--heads", "2"]):
            with self.subTest(more=more):
                self.complaint(*good, *more)
        for arguments in ([], ["plan"], ["bogus"], ["--bogus"], ["plan", "--topology", "g1n1"]):
            with self.subTest(arguments=arguments):
                self.complaint(*arguments)

    def test_costs(self):
        good = ["plan", "--lengths", self.good, "--topology", "g4n1", "--json", "-", "--costs"]
        for content, part in (({"costs_by_rank": [[1, 2, 3], [], [], []]}, "one cost for every length"),
                              ({"costs_by_rank": [[1, 2, 3], [4], [], []]}, "one cost for every length"),
                              ({"costs_by_rank": [[1, 2, 3, 4]]}, "one cost for every length"),
                              ({"costs_by_rank": [[1, 2, 3, -4], [], [], []]}, "costs_by_rank[0][3] is -4"),
                              ({"costs_by_rank": [[1, 2, 3, 4.5], [], [], []]}, "costs_by_rank[0][3] is 4.5"),
                              ({"lengths_by_rank": [[1, 2, 3, 4], [], [], []]}, "expected {")):
            self.assertIn(part, self.complaint(*good, write(self.folder, "costs.json", content)))
        self.assertIn("No such file", self.complaint(*good, "missing.json"))
        for more in (["--lengths", "-", "--costs", "-"], ["--lengths", "-", "--machine", "-"],
                     ["--lengths", self.good, "--costs", "-", "--machine", "-"]):
            self.assertIn("only one of", self.complaint("plan", *more))

    def test_machine_files(self):
        def bad(part, content, *more):
            path = write(self.folder, "machine.json", content)
            self.assertIn(part, self.complaint("plan", "--lengths", self.good, "--machine", path, *more))

        fields = "expected ranks_per_node, flops, bandwidth_within"
        bad('"ranks" is no field of a machine; ' + fields, {"flops": 1e15, "ranks": 4})
        bad('"Flops" is no field', {"Flops": 1e15})
        bad("expected an object", [1])
        bad("not valid JSON", b"{")
        for field in ("ranks_per_node", "layers", "bytes_per_element"):
            for value, shown in ((1.5, "1.5"), ("8", '"8"'), ([8], "a list"), (2**63, str(2**63)), (None, "null")):
                bad(f"{field} is {shown}; expected a whole number", {field: value})
        for field in ("flops", "bandwidth_within", "bandwidth_between", "latency"):
            for value, shown in (("fast", '"fast"'), ({}, "an object"), (True, "true")):
                bad(f"{field} is {shown}; expected a number", {field: value})
            bad("is -1; expected", {field: -1})
        bad("speeds is 2; expected a list", {"speeds": 2})
        bad('speeds[1] is "2"; expected a number', {"speeds": [1, "2"]})
        bad("the speed of rank 1 is 0;", {"speeds": [1, 0, 1, 1]})
        bad("2 speeds for 4 ranks; give one for each", {"speeds": [1, 2]})
        bad("the latency is inf;", {"latency": "infinity"})
        bad("bytes per element is 0", {"layers": 0}, "--layers", 1, "--bytes-per-element", 0)
        self.assertIn("No such file", self.complaint("plan", "--lengths", self.good, "--machine", "missing.json"))

    def test_machine_and_limit_options(self):
        for option, values in {"--ranks-per-node": ("0", "-1", "1.5", "x", ""), "--flops": ("0", "nan", "inf", "x", ""),
                               "--bandwidth-within": ("0", "-1", "nan", "x", ""),
                               "--bandwidth-between": ("0", "-inf", "nan", "x", ""),
                               "--latency": ("-1", "nan", "inf", ""), "--layers": ("0", "1.5", ""),
                               "--bytes-per-element": ("0", "65", ""),
                               "--rank-speeds": ("1,1,1", "1,1,1,1,1", "1,1,,1,1", "1,1,1,x", "1,1,1,1,", "1 1 1 1",
                                                 "1,1,1,0", "1,1,1,nan", ""),
                               "--max-tokens-per-rank": ("-1", "1.5", "x", ""),
                               "--max-attention-tokens-per-rank": ("-1", "x", ""), "--plan-budget": ("-1", "x", "")
                               }.items():
            for value in values:
                with self.subTest(option=option, value=value):
                    self.complaint("plan", "--lengths", self.good, option, value)

    def test_caps_that_cannot_be_met(self):
        for topology in ("elastic", "g1n4", "g4n1"):
            for option in ("--max-tokens-per-rank", "--max-attention-tokens-per-rank"):
                for cap in (0, 249):
                    line = self.complaint("plan", "--lengths", self.good, "--topology", topology, option, cap)
                    self.assertIn(str(cap), line)

    def test_more_work_than_can_be_added_up(self):
        path = write(self.folder, "huge.json", {"lengths_by_rank": [[2**40] * 2000]})
        line = self.complaint("plan", "--lengths", path, "--topology", "g1n1", "--heads", 65536, "--gamma", 1024)
        self.assertIn("more work in all", line)

    def test_output_that_cannot_be_written(self):
        good = ["plan", "--lengths", self.good, "--topology", "g4n1", "--json"]
        for path in (self.folder, os.path.join(self.folder, "missing", "plan.json"), "/dev/full"):
            with self.subTest(path=path):
                self.assertIn("cannot write", self.complaint(*good, path))
        with open("/dev/full", "w") as full:
            for arguments in (good + ["-"], good[:-1], ["--help"], ["--version"]):
                self.assertIn("No space left", self.complaint(*arguments, stdout=full))
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as closed:
            self.assertIn("Broken pipe", self.complaint(*good, "-", stdout=closed))


class Launched(PlanCommand):
    def test_several_processes_speak_with_one_voice(self):
        for arguments in (["plan", "--lengths", "missing.json", "--topology", "g1n1"],
                          ["plan", "--lengths", self.good, "--topology", "g1n3"],
                          ["plan", "--lengths", self.good, "--topology", "g4n1", "--bogus"], []):
            self.complaint(*arguments, ranks=4)

    def test_several_processes_print_one_plan(self):
        arguments = ["plan", "--lengths", self.good, "--topology", "g4n1", "--json", "-"]
        several, alone = (json.loads(self.start(*arguments, ranks=ranks).stdout) for ranks in (4, None))
        self.assertEqual(several["sequences"], alone["sequences"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    data = main(parser).data
    sys.path.insert(0, data)
    import plan_eval

    unittest.main(argv=sys.argv[:1])
